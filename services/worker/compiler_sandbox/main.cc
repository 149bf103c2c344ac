// kernelcast-compiler-sandbox: runs a compiler, assembler or linker on untrusted input. The worker
// starts it for each step; it is not meant to be started by hand.
//
//   kernelcast-compiler-sandbox UID FOLDER READ_ONLY_PATH... -- PROGRAM ARGUMENT...
//   kernelcast-compiler-sandbox UID FOLDER READ_ONLY_PATH... --report
//
// PROGRAM sees only FOLDER, which is writable, and the paths. It has no network and no privileges.
// --report prints the protections that this machine does not permit, one per line.
//
// If descriptor 4 is open, it gets one byte when PROGRAM is about to be run and another if it
// cannot be run (status_wire.h). PROGRAM does not inherit it.

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "services/worker/compiler_sandbox/filter.h"
#include "services/worker/compiler_sandbox/status_wire.h"
#include "services/worker/sandbox/file_view.h"
#include "services/worker/sandbox/landlock.h"
#include "services/worker/sandbox/privileges.h"

namespace kernelcast::worker {
namespace {

constexpr int kUsage = 2;
// The shell's exit code for a program that cannot be run.
constexpr int kCannotRun = 126;
constexpr const char* kNullDevice = "/dev/null";

struct Arguments {
  uint32_t uid = 0;
  std::string folder;
  std::vector<std::string> read_only;
  char** program = nullptr;  // nullptr: report
};

bool Parse(int argc, char** argv, Arguments& arguments) {
  if (argc < 4) return false;
  arguments.uid = static_cast<uint32_t>(strtoul(argv[1], nullptr, 10));
  arguments.folder = argv[2];
  for (int i = 3; i < argc; ++i) {
    if (std::strcmp(argv[i], "--report") == 0) return true;
    if (std::strcmp(argv[i], "--") == 0) {
      arguments.program = argv + i + 1;
      return i + 1 < argc;
    }
    arguments.read_only.emplace_back(argv[i]);
  }
  return false;
}

// The folder belongs to the user that compilers run as. A process that stays root loses the
// capability to access it, so it takes ownership.
void TakeOver(const std::string& folder) {
  std::vector<std::string> paths = {folder};
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    paths.push_back(entry.path().string());
  }
  for (const std::string& path : paths) {
    if (lchown(path.c_str(), geteuid(), getegid()) != 0) perror(path.c_str());
  }
}

// Returns false if the process must not continue.
bool Enter(const Arguments& arguments, std::vector<const char*>& missing) {
  const std::vector<std::string> writable = {arguments.folder, kNullDevice};
  sandbox::FileView view = sandbox::ShowOnly(arguments.read_only, writable);
  if (!sandbox::LeaveRoot(arguments.uid)) {
    missing.push_back("unprivileged_user");
    TakeOver(arguments.folder);
  }
  // On machines that restrict root's capabilities, only other users may create namespaces.
  if (view == sandbox::FileView::kUnchanged) {
    view = sandbox::ShowOnly(arguments.read_only, writable);
  }
  if (view == sandbox::FileView::kBroken) return false;
  if (view == sandbox::FileView::kRestricted) {
    if (chdir(arguments.folder.c_str()) != 0) return false;
  } else {
    missing.push_back("namespaces");
  }
  if (!sandbox::DropCapabilities() || !sandbox::GiveUpNewPrivileges()) {
    missing.push_back("no_new_privileges");
  }
  // Use the working directory: the path of the folder may lead through folders of root.
  const std::vector<std::string> here = {".", kNullDevice};
  if (!sandbox::DenyNetworkAndFilesExcept(arguments.read_only, here)) {
    missing.push_back("landlock");
  }
  if (!sandbox::Limit(RLIMIT_CORE, 0)) missing.push_back("resource_limits");
  if (!LoadCompilerFilter()) missing.push_back("seccomp");
  return true;
}

// Says how far this process got. Without a reader there is nothing to say.
void Tell(char state) {
  if (write(sandbox_status::kFd, &state, 1) != 1) return;
}

int Run(int argc, char** argv) {
  fcntl(sandbox_status::kFd, F_SETFD, FD_CLOEXEC);
  Arguments arguments;
  if (!Parse(argc, argv, arguments)) {
    fprintf(stderr, "kernelcast-compiler-sandbox is started by the worker only\n");
    return kUsage;
  }
  std::vector<const char*> missing;
  if (!Enter(arguments, missing)) {
    fprintf(stderr, "cannot enter the compiler's sandbox: %s\n", std::strerror(errno));
    return kCannotRun;
  }
  if (arguments.program == nullptr) {
    for (const char* name : missing) printf("%s\n", name);
    return 0;
  }
  Tell(sandbox_status::kRunning);
  execv(arguments.program[0], arguments.program);
  Tell(sandbox_status::kNotRun);
  fprintf(stderr, "cannot run %s: %s\n", arguments.program[0], std::strerror(errno));
  return kCannotRun;
}

}  // namespace
}  // namespace kernelcast::worker

int main(int argc, char** argv) { return kernelcast::worker::Run(argc, argv); }
