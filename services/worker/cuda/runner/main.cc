// kernelcast-cuda-runner: runs device code that nobody has vouched for, in a CUDA context of its
// own, and times it. Started by the worker; no code of a candidate runs on the host.

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "common/base/clock.h"
#include "services/worker/cuda/api/cuda_api.h"
#include "services/worker/cuda/runner/protocol.h"
#include "services/worker/cuda/runner/runner.h"

namespace kernelcast::worker::cuda_runner {
namespace {

int Main() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  const auto api = LoadCudaApi();
  if (!api.ok()) {
    std::fprintf(stderr, "kernelcast-cuda-runner: %s\n",
                 std::string(api.status().message()).c_str());
    return 1;
  }
  Runner runner(**api, Clock::Real());
  runner.Start();
  runner.Serve(kSocketFd);
  // The driver's own clean-up may wait for kernels that never end.
  _exit(0);
}

}  // namespace
}  // namespace kernelcast::worker::cuda_runner

int main() { return kernelcast::worker::cuda_runner::Main(); }
