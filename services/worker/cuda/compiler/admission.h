#ifndef KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_CUDA_FLAGS_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_CUDA_FLAGS_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kernelcast::worker {

// Human-readable list of the flags that a device-CUDA candidate may request: "-maxrregcount=N"
// stands for a number, "-DNAME=VALUE" for a macro. All are flags of NVRTC that change the code,
// never which files are read or written.
std::span<const std::string_view> AllowedCudaFlags();

// Returns one sentence that says what is wrong with the flags, or nullopt.
std::optional<std::string> CheckCudaFlags(const std::vector<std::string>& flags);

// Checks the PTX made from a device source, including inline assembly, for directives that open a
// file. Returns one sentence that says what is wrong, or nullopt.
std::optional<std::string> CheckPtx(std::string_view ptx);

// Directives that read files and that CUDA sources do not need. For CheckNoDirective.
inline constexpr std::string_view kForbiddenDirectives[] = {"embed", "import", "include_next"};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_CUDA_FLAGS_H_
