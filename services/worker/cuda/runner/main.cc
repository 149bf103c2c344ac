// kernelcast-cuda-runner: runs untrusted device code in a CUDA context of its own, and times it.
// Started by the worker. A candidate that is a shared object runs code on the host, and is the last
// one that its process serves.
//
//   kernelcast-cuda-runner --probe-sandbox UID   enters the sandbox for shared objects and prints
//                                                the protections that this machine does not permit
//   kernelcast-cuda-runner --profile=LIBRARY     profiles device code with the libcupti at this
//                                                path

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "services/worker/cuda/api/cuda_api.h"
#include "services/worker/cuda/runner/profiler.h"
#include "services/worker/cuda/runner/protocol.h"
#include "services/worker/cuda/runner/runner.h"
#include "services/worker/cuda/runner/sandbox.h"
#include "services/worker/sandbox/namespaces.h"

namespace kernelcast::worker::cuda_runner {
namespace {

int ProbeSandbox(const char* uid) {
  const bool own_namespaces = sandbox::LeaveNamespaces();
  for (const std::string& missing :
       EnterHostSandbox(static_cast<uint32_t>(std::strtoul(uid, nullptr, 10)), PrivateMemoryBytes(),
                        1 << 30, kSocketFd, own_namespaces)) {
    std::printf("%s\n", missing.c_str());
  }
  std::fflush(stdout);
  _exit(0);
}

int Main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--probe-sandbox") {
    return ProbeSandbox(argv[2]);
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  constexpr std::string_view kProfile = "--profile=";
  std::string profiling_library;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument(argv[i]);
    if (argument.substr(0, kProfile.size()) == kProfile) {
      profiling_library = argument.substr(kProfile.size());
    }
  }
  // Must precede the driver's threads. Counters need the machine's own capabilities.
  const bool own_namespaces = profiling_library.empty() && sandbox::LeaveNamespaces();
  const auto api = LoadCudaApi();
  if (!api.ok()) {
    std::fprintf(stderr, "kernelcast-cuda-runner: %s\n",
                 std::string(api.status().message()).c_str());
    return 1;
  }
  // Must precede the initialisation of the driver.
  std::unique_ptr<Profiler> profiler;
  if (!profiling_library.empty()) profiler = OpenProfiler(profiling_library);
  Runner runner(**api, Clock::Real());
  runner.set_profiler(profiler.get());
  runner.set_own_namespaces(own_namespaces);
  runner.Start();
  runner.Serve(kSocketFd);
  // Skip the driver's clean-up, which may wait for kernels that never end.
  _exit(0);
}

}  // namespace
}  // namespace kernelcast::worker::cuda_runner

int main(int argc, char** argv) { return kernelcast::worker::cuda_runner::Main(argc, argv); }
