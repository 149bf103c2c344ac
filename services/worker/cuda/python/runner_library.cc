// The native part of cuda_runner.py, which calls these functions through ctypes, in this order:
//
//   kernelcast_fork         in the parent of all runners, for each
//   kernelcast_leave_files  while the process has one thread
//   kernelcast_start        the driver's context
//   kernelcast_serve        does not return

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "services/worker/cuda/api/cuda_api.h"
#include "services/worker/cuda/python/sandbox.h"
#include "services/worker/cuda/runner/host_program.h"
#include "services/worker/cuda/runner/profiler.h"
#include "services/worker/cuda/runner/protocol.h"
#include "services/worker/cuda/runner/runner.h"
#include "services/worker/python/copy_process.h"
#include "services/worker/sandbox/file_view.h"

namespace kernelcast::worker::cuda_runner {
namespace {

// Functions of cuda_runner.py. They end the process if the program fails.
struct PythonFunctions {
  void (*load)(const char* content, int64_t bytes);
  int32_t (*call)(uint64_t id, const uint64_t* addresses, int32_t tensors, int32_t replay,
                  int32_t task_case);
  void (*deliver)();
};

class PythonProgram final : public HostProgram {
 public:
  PythonProgram(const PythonFunctions& functions, std::string content)
      : functions_(functions), content_(std::move(content)) {}

  void Construct() override {
    functions_.load(content_.data(), static_cast<int64_t>(content_.size()));
  }

  int32_t Call(const HostCall& call, void*) override { return Run(call, 0); }
  int32_t Replay(const HostCall& call) override { return Run(call, 1); }
  void Deliver() override { functions_.deliver(); }

 private:
  int32_t Run(const HostCall& call, int32_t replay) {
    addresses_.clear();
    for (const HostCall::Tensor& tensor : call.tensors()) {
      addresses_.push_back(reinterpret_cast<uint64_t>(tensor.tensor.data));
    }
    return functions_.call(call.id(), addresses_.data(), static_cast<int32_t>(addresses_.size()),
                           replay, static_cast<int32_t>(call.task_case()));
  }

  const PythonFunctions functions_;
  const std::string content_;
  std::vector<uint64_t> addresses_;
};

class PythonLoader final : public HostLoader {
 public:
  PythonLoader(const PythonFunctions& functions, PythonSandbox sandbox)
      : functions_(functions), sandbox_(std::move(sandbox)) {}

  std::unique_ptr<HostProgram> Load(int fd, const ObjectRecord&, std::string& error) override {
    struct stat file {};
    std::string content;
    if (fstat(fd, &file) == 0) content.resize(static_cast<size_t>(file.st_size));
    if (content.empty() ||
        pread(fd, content.data(), content.size(), 0) != static_cast<ssize_t>(content.size())) {
      error = "the program cannot be read";
      return nullptr;
    }
    return std::make_unique<PythonProgram>(functions_, std::move(content));
  }

  void EnterSandbox(const ObjectRecord& record, int64_t used_bytes) override {
    sandbox_.uid = record.uid;
    sandbox_.used_bytes = used_bytes;
    sandbox_.max_memory_bytes = static_cast<int64_t>(record.max_memory_bytes);
    EnterPythonSandbox(sandbox_);
  }

  void Seal() override { DenyPrograms(); }

 private:
  const PythonFunctions functions_;
  PythonSandbox sandbox_;
};

struct State {
  bool own_files = false;
  std::unique_ptr<Profiler> profiler;  // outlives the runner
  std::unique_ptr<Runner> runner;
};

State& ThisProcess() {
  static State state;
  return state;
}

}  // namespace
}  // namespace kernelcast::worker::cuda_runner

extern "C" {

namespace kernelcast_runner = kernelcast::worker::cuda_runner;

[[gnu::visibility("default")]] int64_t kernelcast_fork() {
  return kernelcast::worker::CopyProcess();
}

[[gnu::visibility("default")]] void kernelcast_leave_files() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  kernelcast_runner::ThisProcess().own_files = kernelcast::worker::sandbox::LeaveFiles();
}

// Returns the judge's stream, or 0 if there is no context: kernelcast_serve then says why.
// `profiler`: the path of libcupti, which then traces kernels; or "".
[[gnu::visibility("default")]] void* kernelcast_start(const char* profiler) {
  auto& state = kernelcast_runner::ThisProcess();
  // Must precede the initialisation of the driver.
  if (*profiler != '\0') state.profiler = kernelcast_runner::OpenProfiler(profiler);
  const auto api = kernelcast::worker::LoadCudaApi();
  if (!api.ok()) {
    std::fprintf(stderr, "%s\n", std::string(api.status().message()).c_str());
    _exit(1);
  }
  state.runner = std::make_unique<kernelcast_runner::Runner>(**api, kernelcast::Clock::Real());
  state.runner->set_profiler(state.profiler.get());
  if (!state.runner->Start()) return nullptr;
  // The library starts its threads now, before the sandbox denies them. Tracing reports errors.
  if (state.profiler != nullptr) (void)state.profiler->Trace([] { return true; });
  return state.runner->stream();
}

// `paths`: what the program may read.
[[gnu::visibility("default")]] void kernelcast_serve(
    const kernelcast_runner::PythonFunctions* functions, const char* const* paths, int count) {
  auto& state = kernelcast_runner::ThisProcess();
  kernelcast_runner::PythonSandbox sandbox;
  sandbox.read_only.assign(paths, paths + count);
  sandbox.own_files = state.own_files;
  sandbox.socket = kernelcast_runner::kSocketFd;
  kernelcast_runner::PythonLoader loader(*functions, std::move(sandbox));
  state.runner->set_host_loader(&loader);
  state.runner->Serve(kernelcast_runner::kSocketFd);
  // Skip the driver's clean-up, which may wait for kernels that never end.
  _exit(0);
}

// Deleter of tensors over the judge's memory, which it owns.
[[gnu::visibility("default")]] void kernelcast_release(void*) {}

}  // extern "C"
