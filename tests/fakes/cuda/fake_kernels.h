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

// What FakeCuda takes for a cubin:
//
//   fake cubin
//   kernel NAME affine scale=2 add=1 ns=100000
//   kernel NAME judge
//   end
//
// "affine" has the parameters (const float* x, float* y, long long n): y = scale * x + add. Of its
// options all but scale and add are 0 unless told:
//   double=1         y holds doubles, as an oracle's does
//   ns, jitter       time of a call on the device, and by what share of it calls differ
//   ns_new           time of a call whose inputs are not those that were last at their place
//   host_ns          what passes on the host, and not on the device, at each call
//   stall_ns, stall_every  the same, at every so many-th call
//   leaves_ns        what passes on the device after the call's last event, before the next fill
//   extra_parameter  bytes of one parameter more
//   narrow=1         n has 4 bytes
// and what it does from call number `from` on (at one n, from 0):
//   wrong=1          all values are
//   noise            relative error of every other value
//   nan=1            yields NaN
//   skip=1           writes nothing
//   stale=1          writes what it wrote there at first
//   beyond=1, before=1  writes one value more
//   write_input=1    writes to x
//   steal=1          copies what is as far into the arena that was mapped after y's
//   spoil=1          writes there
//   fault            the CUresult that kills the context, seen when it is waited for
//   launch_error     the CUresult of the launch
//   hang=1, exit=1   the process never returns from it; ends in it
//
// "judge" is the judge's own kernel of that name. PTX will do as well, for one kernel of two 64-bit
// parameters that does nothing.
std::string FakeCubin(const std::vector<std::string>& kernels);
std::string FakeJudgeCubin();

struct FakeKernel {
  std::string name;
  std::string function;
  std::map<std::string, double, std::less<>> options;
  std::vector<size_t> parameter_bytes;
  // What stays between calls, as variables of a module do.
  std::map<int64_t, int> calls;
  std::map<CUdeviceptr, std::vector<std::byte>> seen;
  std::map<CUdeviceptr, std::vector<std::byte>> written;
  uint64_t jitter_state = 1;

  double Option(std::string_view option, double otherwise = 0) const;
  // What the launch returns; `lost` is what has become of the context.
  CUresult Run(FakeCuda& cuda, void** parameters, CUresult& lost);
};

// Nothing: not what FakeCubin makes.
std::optional<std::vector<std::unique_ptr<FakeKernel>>> ParseFakeCubin(std::string_view text);

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_FAKES_CUDA_FAKE_KERNELS_H_
