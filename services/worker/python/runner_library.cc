// The native part of runner.py, which calls these functions through ctypes, in this order:
//
//   kernelcast_fork        in the zygote, for each process
//   kernelcast_map         what the judge has passed
//   kernelcast_hide_files  while the process has one thread
//   kernelcast_tensor      for each tensor
//   kernelcast_restrict    before any code of a task or a candidate
//   kernelcast_serve       does not return

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "services/worker/python/copy_process.h"
#include "services/worker/runner/control.h"
#include "services/worker/runner/fault_reporters.h"
#include "services/worker/runner/serve.h"
#include "services/worker/sandbox/file_view.h"
#include "services/worker/sandbox/interpreter_filter.h"
#include "services/worker/sandbox/landlock.h"
#include "services/worker/sandbox/privileges.h"

namespace kernelcast::worker::runner {
namespace {

using sandbox::FileView;

constexpr rlim_t kMaxFiles = 64;

struct State {
  Blocks blocks;
  const Case* cases = nullptr;
  std::vector<std::string> shown;
  uint32_t protections = 0;
  int memory_fd = -1;  // of /proc, which is hidden later
};

State& ThisProcess() {
  static State state;
  return state;
}

void HideFiles(State& state) {
  StartBlock* const start = state.blocks.start;
  FileView view = sandbox::ShowOnly(state.shown, {});
  if (sandbox::LeaveRoot(state.blocks.control->run_as_uid)) {
    state.protections |= kUnprivilegedUser;
  }
  // On machines that restrict root's capabilities, only other users may create namespaces.
  if (view == FileView::kUnchanged) view = sandbox::ShowOnly(state.shown, {});
  if (view == FileView::kBroken) GiveUp(start, kSandboxFailed, "cannot hide files");
  if (sandbox::DropCapabilities() && view == FileView::kRestricted) {
    state.protections |= kNamespaces;
  }
  const pid_t parent = getppid();
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent && parent != 0) {
    state.protections |= kParentDeathSignal;
  }
  if (sandbox::GiveUpNewPrivileges()) state.protections |= kNoNewPrivileges;
}

// Beyond what the libraries already take, because their address space differs between versions.
rlim_t AddressSpaceLimit(int memory_fd, uint64_t more_bytes) {
  char text[32] = {};
  if (more_bytes == 0 || pread(memory_fd, text, sizeof(text) - 1, 0) <= 0) return RLIM_INFINITY;
  return strtoull(text, nullptr, 10) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + more_bytes;
}

bool LimitResources(const ControlBlock& block, rlim_t address_space) {
  const rlim_t cpu = block.max_cpu_seconds > 0 ? block.max_cpu_seconds : RLIM_INFINITY;
  bool limits = sandbox::Limit(RLIMIT_CORE, 0);
  limits = sandbox::Limit(RLIMIT_FSIZE, 0) && limits;
  limits = sandbox::Limit(RLIMIT_NPROC, 0) && limits;
  limits = sandbox::Limit(RLIMIT_NOFILE, kMaxFiles) && limits;
  limits = sandbox::Limit(RLIMIT_CPU, cpu) && limits;
  return sandbox::Limit(RLIMIT_AS, address_space) && limits;
}

// A random multiple of 16 below 64 KiB.
size_t RandomShift() {
  uint16_t random = 0;
  if (getrandom(&random, sizeof(random), 0) != sizeof(random)) return 0;
  return random & ~size_t{15};
}

using PythonCall = int32_t (*)(uint32_t index);

int32_t CallPython(const Case&, uint32_t index, const void* call) {
  return (*static_cast<const PythonCall*>(call))(index);
}

}  // namespace
}  // namespace kernelcast::worker::runner

extern "C" {

namespace kernelcast_runner = kernelcast::worker::runner;

[[gnu::visibility("default")]] int64_t kernelcast_fork() {
  return kernelcast::worker::CopyProcess();
}

[[gnu::visibility("default")]] void kernelcast_map() {
  kernelcast_runner::KeepFreedMemory();
  // As in kernelcast_serve, for what is allocated from now on. Never freed.
  sbrk(static_cast<intptr_t>(kernelcast_runner::RandomShift()));
  auto& state = kernelcast_runner::ThisProcess();
  state.blocks = kernelcast_runner::MapBlocks();
  state.blocks.start->state.store(kernelcast_runner::kLoading);
  state.cases = kernelcast_runner::BuildCases(state.blocks);
  state.memory_fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
}

// `paths`: what the process may still read.
[[gnu::visibility("default")]] void kernelcast_hide_files(const char* const* paths, int count) {
  auto& state = kernelcast_runner::ThisProcess();
  state.shown.assign(paths, paths + count);
  kernelcast_runner::HideFiles(state);
}

[[gnu::visibility("default")]] uint32_t kernelcast_case_count() {
  return kernelcast_runner::ThisProcess().blocks.control->case_count;
}

[[gnu::visibility("default")]] const kernelcast_runner::Case* kernelcast_case(uint32_t index) {
  return &kernelcast_runner::ThisProcess().cases[index];
}

// From now on a failure is the program's.
[[gnu::visibility("default")]] void kernelcast_restrict() {
  using namespace kernelcast::worker;  // NOLINT(google-build-using-namespace)
  auto& state = runner::ThisProcess();
  const rlim_t address_space =
      runner::AddressSpaceLimit(state.memory_fd, state.blocks.control->max_address_space_bytes);
  if (sandbox::DenyNetworkAndFilesExcept(state.shown, {})) {
    state.protections |= runner::kLandlock;
  }
  close_range(STDERR_FILENO + 1, ~0u, 0);
  if (runner::LimitResources(*state.blocks.control, address_space)) {
    state.protections |= runner::kResourceLimits;
  }
  runner::InstallFaultReporters(state.blocks.control);
  sandbox::SystemCallFilter filter(SCMP_ACT_ERRNO(EPERM));
  sandbox::AllowInterpreter(filter);
  if (filter.Load()) state.protections |= runner::kSeccomp;
  state.blocks.start->protections.store(state.protections);
  state.blocks.start->state.store(runner::kConstructing);
  // Its descriptor is closed, so no code in this process can change it any more.
  munmap(state.blocks.start, sizeof(runner::StartBlock));
  state.blocks.start = nullptr;
}

[[gnu::visibility("default")]] void kernelcast_serve(kernelcast_runner::PythonCall call) {
  const auto& state = kernelcast_runner::ThisProcess();
  // Copies of a process have the same addresses, and how fast code is can depend on them.
  auto* const shift =
      static_cast<volatile char*>(__builtin_alloca(kernelcast_runner::RandomShift() + 1));
  *shift = 0;
  kernelcast_runner::Serve(state.blocks.control, state.cases, kernelcast_runner::CallPython, &call);
}

}  // extern "C"
