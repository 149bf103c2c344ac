// A compiler that does not work is not the source's fault: nothing it fails at is a result, and
// nothing stays in the cache.

#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/id.h"
#include "services/worker/artifacts/compile_cache.h"
#include "services/worker/cpu/compiler.h"
#include "tests/support/services.h"

namespace kernelcast::testing::broken_compiler_test {
namespace {

using worker::ArtifactCache;
using worker::CancelToken;
using worker::CompileCache;
using worker::CompileResult;
using worker::CompilerOptions;
using worker::CompileSuccess;
using worker::CpuCompiler;
using worker::Toolchain;

constexpr const char* kSource =
    "#include <kernelcast/candidate.h>\n"
    "extern \"C\" int32_t kernelcast_run(const DLTensor*, int32_t, const DLTensor*, int32_t, "
    "void*) { return 0; }\n";

struct Setup {
  Toolchain toolchain;
  CompilerOptions options;
};

class Fixture {
 public:
  Fixture() : folder_("broken-compiler") {
    std::filesystem::permissions(folder_.path(), std::filesystem::perms::all);
    auto artifacts = ArtifactCache::Open(folder_.File("artifacts"), 16 << 20);
    REQUIRE(artifacts.ok());
    cache_ = std::make_unique<CompileCache>(*std::move(artifacts));
    auto toolchain = Toolchain::Probe("g++");
    REQUIRE(toolchain.ok());
    working_.toolchain = *std::move(toolchain);
    working_.toolchain.read_only.emplace_back("/bin/sh");
    working_.options.work_directory = folder_.path().string();
    working_.options.include_directories = {KERNELCAST_SOURCE_DIR "/common/candidate_abi"};
    working_.options.sandbox.program = KERNELCAST_BIN_DIR "/kernelcast-compiler-sandbox";
    working_.options.sandbox.uid = 65534;
  }

  // A compiler that is this shell script. $REAL is g++.
  std::string Script(const std::string& body) {
    const std::string path = folder_.File(RandomId("g++-"));
    std::ofstream(path) << "#!/bin/sh\nREAL=" << working_.toolchain.compiler << "\n"
                        << body << "\n";
    chmod(path.c_str(), 0755);
    working_.toolchain.read_only.push_back(path);
    return path;
  }

  absl::StatusOr<CompileResult> Compile(const Setup& setup, const std::string& source = kSource) {
    const CpuCompiler compiler(setup.toolchain, setup.options);
    const CancelToken cancel;
    return cache_->GetOrCompile(compiler.ArtifactId(source, {}), cancel,
                                [&] { return compiler.Compile(source, {}, cancel); });
  }

  // Requires UNAVAILABLE with what `breaks` does, and a success afterwards from the same cache.
  void CheckUnavailable(const std::string& what, const std::function<void(Setup&)>& breaks) {
    INFO(what);
    Setup broken = working_;
    breaks(broken);
    const std::string source = absl::StrCat(kSource, "// ", RandomId("s_"));
    const auto result = Compile(broken, source);
    const std::string log = result.ok() && std::holds_alternative<CompileError>(result->result)
                                ? std::get<CompileError>(result->result).log
                                : result.status().ToString();
    INFO(log);
    CHECK(absl::IsUnavailable(result.status()));
    const auto later = Compile(working_, source);
    REQUIRE(later.ok());
    CHECK(std::holds_alternative<CompileSuccess>(later->result));
    CHECK_FALSE(later->cached);
  }

  Setup& working() { return working_; }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
  std::unique_ptr<CompileCache> cache_;
  Setup working_;
};

TEST_CASE("A sandbox that does not run the compiler makes compiling unavailable") {
  Fixture fixture;
  fixture.CheckUnavailable("no sandbox program", [](Setup& setup) {
    setup.options.sandbox.program = "/nonexistent/kernelcast-compiler-sandbox";
  });
  for (const char* body : {"exit 126", "exit 127", "exit 1", "kill -9 $$",
                           "echo kernel.cc:1:1: error: not a compiler; exit 1"}) {
    const std::string script = fixture.Script(body);
    fixture.CheckUnavailable(body, [&](Setup& setup) { setup.options.sandbox.program = script; });
  }
  fixture.CheckUnavailable("a compiler that is not there",
                           [](Setup& setup) { setup.toolchain.compiler = "/usr/bin/no-g++"; });
  fixture.CheckUnavailable("a compiler without a path",
                           [](Setup& setup) { setup.toolchain.compiler = "g++"; });
}

TEST_CASE("What a broken compiler prints is no verdict") {
  Fixture fixture;
  for (const char* body : {
           "kill -9 $$",
           "kill -11 $$",
           "echo 'g++: fatal error: Killed signal terminated program cc1plus' >&2; exit 1",
           "echo 'cc1plus: out of memory allocating 65536 bytes' >&2; exit 1",
           "echo 'kernel.cc:1:1: internal compiler error: Segmentation fault' >&2; exit 4",
           "echo 'g++: fatal error: cannot execute cc1plus' >&2; exit 1",
           "echo 'kernel.cc:9:1: fatal error: error closing kernel.s: No space left' >&2; exit 1",
           "echo 'kernel.cc:1:10: fatal error: cstdint: No such file or directory' >&2; exit 1",
           "exit 1",
       }) {
    const std::string script = fixture.Script(body);
    fixture.CheckUnavailable(body, [&](Setup& setup) { setup.toolchain.compiler = script; });
  }
}

TEST_CASE("Missing headers, assemblers and linkers of the toolchain are no verdict") {
  Fixture fixture;
  fixture.CheckUnavailable("no headers",
                           [](Setup& setup) { setup.options.include_directories = {}; });
  fixture.CheckUnavailable("no assembler",
                           [](Setup& setup) { setup.toolchain.assembler = "/usr/bin/no-as"; });
  const std::string full = fixture.Script("echo \"Fatal error: can't write\" >&2; exit 1");
  fixture.CheckUnavailable("an assembler that cannot write", [&](Setup& setup) {
    setup.toolchain.assembler = full;
    // The control assembles with the driver, so the driver has to fail too.
    setup.toolchain.compiler =
        fixture.Script("case \"$*\" in *-shared*) exit 1;; esac; exec $REAL \"$@\"");
    setup.toolchain.read_only = fixture.working().toolchain.read_only;
  });
  fixture.CheckUnavailable("a linker that is killed", [&](Setup& setup) {
    setup.toolchain.compiler = fixture.Script(
        "case \"$*\" in *-shared*) echo 'collect2: fatal error: ld terminated' >&2; exit 1;; esac\n"
        "exec $REAL \"$@\"");
    setup.toolchain.read_only = fixture.working().toolchain.read_only;
  });
}

TEST_CASE("A full disk is no verdict") {
  Fixture fixture;
  const std::string small = fixture.folder().File("small");
  std::filesystem::create_directory(small);
  if (mount("tmpfs", small.c_str(), "tmpfs", 0, "size=256k,mode=777") != 0) {
    WARN("cannot mount a small file system: nothing is tested");
    return;
  }
  struct Unmounted {
    const std::string& path;
    ~Unmounted() { umount2(path.c_str(), MNT_DETACH); }
  } const unmounted{small};
  // A source whose assembly is larger than the disk.
  fixture.working().options.work_directory = small;
  const auto full = fixture.Compile(fixture.working(), absl::StrCat(
                                                           kSource, "int many[20000] = {",
                                                           [] {
                                                             std::string numbers;
                                                             for (int i = 1; i <= 20000; ++i)
                                                               absl::StrAppend(&numbers, i, ",");
                                                             return numbers;
                                                           }(),
                                                           "};\n"));
  INFO(full.status().ToString());
  CHECK(absl::IsUnavailable(full.status()));
  const auto fits = fixture.Compile(fixture.working());
  REQUIRE(fits.ok());
  CHECK(std::holds_alternative<CompileSuccess>(fits->result));
}

TEST_CASE("A compiler that fails once compiles when it is run again") {
  Fixture fixture;
  Setup flaky = fixture.working();
  // The first run leaves a mark in the folder of the compilation.
  flaky.toolchain.compiler =
      fixture.Script("if [ ! -e tried ]; then echo > tried; kill -9 $$; fi; exec $REAL \"$@\"");
  flaky.toolchain.read_only = fixture.working().toolchain.read_only;
  const auto result = fixture.Compile(flaky);
  INFO(result.status().ToString());
  REQUIRE(result.ok());
  CHECK(std::holds_alternative<CompileSuccess>(result->result));
}

TEST_CASE("Faults of a source stay results that are cached") {
  Fixture fixture;
  for (const std::string& source :
       {std::string("#include <no_such_header.h>\n") + kSource,
        std::string(kSource) + "int f() { return undeclared; }\n",
        std::string(kSource) + "extern \"C\" int nowhere(); int f() { return nowhere(); }\n",
        std::string(kSource) + "asm(\"no_such_instruction %eax\");\n",
        std::string(kSource) + "template <int N> struct D { static const int v = D<N + 1>::v; };\n"
                               "int deep = D<0>::v;\n"}) {
    INFO(source);
    for (const bool cached : {false, true}) {
      const auto result = fixture.Compile(fixture.working(), source);
      INFO(result.status().ToString());
      REQUIRE(result.ok());
      CHECK(std::holds_alternative<CompileError>(result->result));
      CHECK(result->cached == cached);
    }
  }
}

TEST_CASE("The folder of compilations may be given by a relative path") {
  Fixture fixture;
  std::error_code error;
  fixture.working().options.work_directory =
      std::filesystem::relative(fixture.folder().path(), error).string();
  REQUIRE_FALSE(fixture.working().options.work_directory.starts_with('/'));
  const auto result = fixture.Compile(fixture.working());
  INFO(result.status().ToString());
  REQUIRE(result.ok());
  CHECK(std::holds_alternative<CompileSuccess>(result->result));
}

TEST_CASE("Compilers work with any mask of file modes") {
  Fixture fixture;
  for (const mode_t mask : {077, 027, 007, 0777}) {
    const mode_t before = umask(mask);
    const auto result = fixture.Compile(fixture.working(), absl::StrCat(kSource, "// ", mask));
    umask(before);
    INFO(result.status().ToString());
    REQUIRE(result.ok());
    CHECK(std::holds_alternative<CompileSuccess>(result->result));
  }
}

TEST_CASE("Without PATH the system's compiler is found and works") {
  const char* const path = getenv("PATH");
  const std::string saved = path != nullptr ? path : "";
  for (const bool empty : {false, true}) {
    empty ? setenv("PATH", "", 1) : unsetenv("PATH");
    const auto toolchain = Toolchain::Probe("g++");
    setenv("PATH", saved.c_str(), 1);
    INFO(toolchain.status().ToString());
    REQUIRE(toolchain.ok());
    CHECK(toolchain->compiler.starts_with('/'));
    CHECK(toolchain->assembler.starts_with('/'));
  }
  setenv("PATH", "/nonexistent", 1);
  CHECK(absl::IsNotFound(Toolchain::Probe("g++").status()));
  setenv("PATH", saved.c_str(), 1);
}

}  // namespace
}  // namespace kernelcast::testing::broken_compiler_test
