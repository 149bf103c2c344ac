#ifndef KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_CUDA_FLAGS_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_CUDA_FLAGS_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kernelcast::worker {

// The flags that a device-CUDA candidate may ask for, for people: "-maxrregcount=N" stands for a
// number, "-DNAME=VALUE" for a macro. All are NVRTC's and change the code, never what is read or
// written.
std::span<const std::string_view> AllowedCudaFlags();

// What is wrong with them, in one sentence, or nothing.
std::optional<std::string> CheckCudaFlags(const std::vector<std::string>& flags);

// What a source of device code says in PTX, whether it was written as assembly or not: no directive
// that opens a file. What is wrong, in one sentence, or nothing.
std::optional<std::string> CheckPtx(std::string_view ptx);

// Ways to read files that CUDA sources have no use for, for CheckNoDirective.
inline constexpr std::string_view kForbiddenDirectives[] = {"embed", "import", "include_next"};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_CUDA_FLAGS_H_
