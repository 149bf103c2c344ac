#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/worker/native/compiler_step.h"
#include "services/worker/native/shared_object.h"
#include "services/worker/native/toolchain.h"
#include "services/worker/sandbox/privileges.h"
#include "tests/support/services.h"

namespace kernelcast::worker::compiler_sandbox_test {
namespace {

using testing::TemporaryFolder;

constexpr uint32_t kNobody = 65534;

CompilerSandbox MakeSandbox() {
  const auto toolchain = Toolchain::Probe("g++");
  REQUIRE(toolchain.ok());
  CompilerSandbox sandbox;
  sandbox.program = KERNELCAST_BIN_DIR "/kernelcast-compiler-sandbox";
  sandbox.uid = kNobody;
  sandbox.read_only = toolchain->read_only;
  sandbox.read_only.emplace_back("/bin/sh");
  return sandbox;
}

// Runs `run` in a child as root or as another user. Returns the child's exit code.
int InChild(bool as_root, const std::function<int()>& run) {
  const pid_t child = fork();
  if (child == 0) _exit(!as_root && !sandbox::LeaveRoot(kNobody) ? 99 : run());
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

// The actions that succeeded for a shell in the sandbox.
enum Could : int { kRead = 1, kWrite = 2, kRun = 4, kSeeProcesses = 8, kFailed = 64 };

int TryEverything(const CompilerSandbox& sandbox, const std::string& parent,
                  const std::string& secret) {
  const auto folder = WorkFolder::Make(parent, sandbox.uid);
  if (!folder.ok()) return kFailed;
  const std::string script = absl::StrCat(
      "read -r line < ", secret, " && echo READ $line\n", "echo x > ", secret,
      ".new && echo WRITE\n", "echo '#!/bin/sh' > ran; echo x > made\n",
      "/usr/bin/env && echo RUN\n", "read -r line < /proc/self/status && echo PROCESSES\n",
      "ln -s ", secret, " link; cp ", secret, " copy; :\n");
  const auto step =
      RunCompilerStep(sandbox, {"/bin/sh", "-c", script}, CompilerEnvironment(folder->path()),
                      folder->path(), {}, CancelToken());
  if (!step.ok() || !step->ok || !folder->Read("made")) return kFailed;
  int could = 0;
  if (step->log.find("READ") != std::string::npos || folder->Read("copy")) could |= kRead;
  if (step->log.find("WRITE") != std::string::npos ||
      access((secret + ".new").c_str(), F_OK) == 0) {
    could |= kWrite;
  }
  if (step->log.find("RUN") != std::string::npos) could |= kRun;
  if (step->log.find("PROCESSES") != std::string::npos) could |= kSeeProcesses;
  return could;
}

TEST_CASE("A compiler reads the toolchain, writes its folder and reaches nothing else") {
  const bool as_root = GENERATE(false, true);
  if (as_root && geteuid() != 0) return;
  const CompilerSandbox sandbox = MakeSandbox();
  const TemporaryFolder folder("sandbox");
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  const std::string secret = folder.File("secret");
  std::ofstream(secret) << "42\n";
  chmod(secret.c_str(), 0666);
  CHECK(InChild(as_root, [&] { return TryEverything(sandbox, folder.path().string(), secret); }) ==
        0);
}

// On Ubuntu 24.04 nothing but libm.so, a script of the linker, names files under the link /lib.
TEST_CASE("A compiler reads libraries by the names of its folders, links included") {
  const TemporaryFolder folder("linked");
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  std::filesystem::create_directory(folder.File("real"));
  std::filesystem::create_directory_symlink("real", folder.File("link"));
  std::ofstream(folder.File("real/library")) << "42\n";
  const std::string compiler = folder.File("compiler");
  std::ofstream(compiler)
      << "#!/bin/sh\nif [ \"$1\" = -print-search-dirs ]; then echo 'libraries: ="
      << folder.File("link") << "/'; exit; fi\nexec g++ \"$@\"\n";
  chmod(compiler.c_str(), 0755);
  const auto toolchain = Toolchain::Probe(compiler);
  INFO(toolchain.status().ToString());
  REQUIRE(toolchain.ok());
  CompilerSandbox sandbox = MakeSandbox();
  sandbox.read_only.insert(sandbox.read_only.end(), toolchain->read_only.begin(),
                           toolchain->read_only.end());
  const auto work = WorkFolder::Make(folder.path().string(), sandbox.uid);
  REQUIRE(work.ok());
  for (const char* name : {"real", "link"}) {
    const std::string script =
        absl::StrCat("read -r line < ", folder.File(name), "/library && echo READ $line");
    const auto step =
        RunCompilerStep(sandbox, {"/bin/sh", "-c", script}, CompilerEnvironment(work->path()),
                        work->path(), {}, CancelToken());
    REQUIRE(step.ok());
    INFO(step->log);
    CHECK(step->log.find("READ 42") != std::string::npos);
  }
}

// Where namespaces are denied, as in most containers, the path of the folder may lead through a
// folder that only root can read, such as /root.
TEST_CASE("A compiler makes temporary files without the path of its folder") {
  const TemporaryFolder folder("sandbox");
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  const CompilerSandbox sandbox = MakeSandbox();
  const auto work = WorkFolder::Make(folder.path().string(), sandbox.uid);
  REQUIRE(work.ok());
  const auto step =
      RunCompilerStep(sandbox, {"/bin/sh", "-c", "echo $TMPDIR; echo x > $TMPDIR/made"},
                      CompilerEnvironment(work->path()), work->path(), {}, CancelToken());
  REQUIRE(step.ok());
  CHECK(step->log == ".\n");
  CHECK(work->Read("made") == "x\n");
}

TEST_CASE("The compiler sandbox reports what a machine does not permit") {
  const TemporaryFolder folder("sandbox");
  const auto missing = MissingProtections(MakeSandbox(), folder.path().string());
  INFO(missing.status().ToString());
  REQUIRE(missing.ok());
  for (const std::string& name : *missing) {
    CHECK((name == "namespaces" || name == "landlock" || name == "seccomp" ||
           name == "unprivileged_user"));
  }
  CompilerSandbox nowhere = MakeSandbox();
  nowhere.program = "/nonexistent";
  CHECK(absl::IsUnavailable(MissingProtections(nowhere, folder.path().string()).status()));
}

TEST_CASE("Compiler outputs are read only from regular files, and links are not followed") {
  const TemporaryFolder folder("sandbox");
  const std::string secret = folder.File("secret");
  std::ofstream(secret) << "42\n";
  const auto work = WorkFolder::Make(folder.path().string(), 0);
  REQUIRE(work.ok());
  REQUIRE(work->Write("plain", "text").ok());
  CHECK(work->Read("plain") == "text");
  std::filesystem::create_symlink(secret, work->path() + "/link");
  CHECK_FALSE(work->Read("link"));
  REQUIRE(mkfifo((work->path() + "/pipe").c_str(), 0600) == 0);
  CHECK_FALSE(work->Read("pipe"));
  CHECK_FALSE(work->Read("."));
}

// The object that g++ compiles from a source with extra flags.
std::string Made(const std::string& source, const std::vector<std::string>& flags) {
  const TemporaryFolder folder("sandbox");
  const CompilerSandbox sandbox = MakeSandbox();
  const auto work = WorkFolder::Make(folder.path().string(), sandbox.uid);
  REQUIRE(work.ok());
  REQUIRE(work->Write("kernel.cc", source).ok());
  std::vector<std::string> arguments = {Toolchain::Probe("g++")->compiler, "-O2", "-fPIC"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  arguments.insert(arguments.end(), {"kernel.cc", "-o", "kernel.out"});
  const auto step = RunCompilerStep(sandbox, arguments, CompilerEnvironment(work->path()),
                                    work->path(), {}, CancelToken());
  REQUIRE(step.ok());
  INFO(step->log);
  REQUIRE(step->ok);
  return work->Read("kernel.out").value_or("");
}

constexpr const char* kPlain =
    "extern \"C\" int kernelcast_run() { return 0; }\nstatic int many[1000];\n"
    "int* Many() { return many; }\n";

TEST_CASE("Objects hold only sections that compilers produce") {
  const std::string plain = Made(kPlain, {"-c"});
  REQUIRE(ReadRelocatable(plain).ok());
  CHECK_FALSE(ReadRelocatable(plain)->needs_cxx_library);
  const std::string allocates = Made("int* New() { return new int(1); }\n", {"-c"});
  REQUIRE(ReadRelocatable(allocates).ok());
  CHECK(ReadRelocatable(allocates)->needs_cxx_library);
  CHECK_FALSE(ReadRelocatable(plain.substr(0, plain.size() / 2)).ok());
  CHECK_FALSE(ReadRelocatable("").ok());
  CHECK_FALSE(ReadRelocatable(Made(kPlain, {"-c", "-flto"})).ok());
  for (const char* section : {".mine", ".gnu.lto_main", ".text.x,\\\"awx\\\",@progbits#",
                              ".data.x,\\\"ax\\\",@progbits#"}) {
    INFO(section);
    CHECK_FALSE(
        ReadRelocatable(
            Made(absl::StrCat("__attribute__((section(\"", section, "\"))) int x = 1;\n"), {"-c"}))
            .ok());
  }
}

TEST_CASE("An object with writable code or an executable stack is not loaded") {
  const auto object = PrepareObject(Made(kPlain, {"-shared"}));
  INFO(object.status().ToString());
  REQUIRE(object.ok());
  CHECK(object->memory_bytes > 4000);
  CHECK_FALSE(PrepareObject(Made(kPlain, {"-shared", "-Wl,-z,execstack"})).ok());
  const std::string writable_code =
      "__attribute__((section(\".mine,\\\"awx\\\",@progbits#\"))) int changes = 1;\n";
  CHECK_FALSE(PrepareObject(Made(writable_code + kPlain, {"-shared"})).ok());
  CHECK_FALSE(PrepareObject(Made(kPlain, {"-shared", "-Wl,-rpath,/tmp"})).ok());
}

}  // namespace
}  // namespace kernelcast::worker::compiler_sandbox_test
