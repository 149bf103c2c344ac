#ifndef KERNELCAST_TESTS_FAKES_CUDA_FAKE_KERNELS_H_
#define KERNELCAST_TESTS_FAKES_CUDA_FAKE_KERNELS_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fakes/cuda/fake_cuda.h"

namespace kernelcast::testing {

// The format of a FakeCuda cubin:
//
//   fake cubin
//   kernel NAME affine scale=2 add=1 ns=100000
//   kernel NAME judge
//   end
//
// "affine" has the parameters (const float* x, float* y, long long n): y = scale * x + add. All
// options except scale and add default to 0:
//   double=1         y holds doubles, like an oracle's
//   ns, jitter       time of a call on the device, and its relative variation between calls
//   place_ns         extra time by the output's address; hang_load=1: loading never ends
//   ns_new           time of a call whose inputs differ from the last ones at their address
//   once_ns, once    extra time of one such call, the first of all processes: creates the file
//                    /dev/shm/kernelcast-once-NUMBER, with `once` as the number
//   host_ns          time on the host only, at each call
//   stall_ns, stall_every  the same, at every stall_every-th call
//   leaves_ns        device time after the call's last event, before the next fill
//   extra_parameter  bytes of one more parameter
//   narrow=1         n has 4 bytes
// Effects from call number `from` on (counted from 0 at one n):
//   wrong=1          all values are wrong
//   noise            relative error of every other value
//   drift            relative error of every value, times a number below 32 that the process has
//   nan=1            yields NaN
//   skip=1           writes nothing
//   stale=1          writes its first results at that address
//   beyond=1, before=1  writes one extra value after or before
//   write_input=1    writes to x
//   steal=1          copies from the same offset in the arena that was mapped after y's
//   spoil=1          writes there
//   fault            the CUresult that kills the context, reported when waiting
//   launch_error     the CUresult of the launch
//   hang=1, exit=1   the process never returns from it; exits in it
//   reads_shared=1, adds_shared=1  the maximum of each value and the shared memory word; the sum
//                    with 0 times that
// Regardless of `from`:
//   fault_at_n, hang_at_n  like fault with an illegal address, and like hang, at that n
//   wants_fill       wrong in this many first calls, over all n, that find memory not filled
//
// "judge" is the judge's own kernel of that name. PTX is also accepted, for one kernel of two
// 64-bit parameters that does nothing.
std::string FakeCubin(const std::vector<std::string>& kernels);
// The cubins of worker::JudgeModules(), in order.
std::vector<std::string> FakeJudgeCubins();

struct FakeKernel {
  std::string name;
  std::string function;
  std::map<std::string, double, std::less<>> options;
  std::vector<size_t> parameter_bytes;
  // State between calls, like variables of a module.
  std::map<int64_t, int> calls;
  std::map<CUdeviceptr, std::vector<std::byte>> seen;
  std::map<CUdeviceptr, std::vector<std::byte>> written;
  uint64_t jitter_state = 1;
  int all_calls = 0;

  double Option(std::string_view option, double otherwise = 0) const;
  // Returns the launch's result; `lost` receives the context's error.
  CUresult Run(FakeCuda& cuda, void** parameters, CUresult& lost);
};

// Empty if the text was not made by FakeCubin.
std::optional<std::vector<std::unique_ptr<FakeKernel>>> ParseFakeCubin(std::string_view text);

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_FAKES_CUDA_FAKE_KERNELS_H_
