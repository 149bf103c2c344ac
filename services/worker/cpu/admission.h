#ifndef KERNELCAST_SERVICES_WORKER_CPU_ADMISSION_H_
#define KERNELCAST_SERVICES_WORKER_CPU_ADMISSION_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kernelcast::worker {

// Compiler flags that a candidate for the cpu target may request.
std::span<const std::string_view> AllowedCpuFlags();
// Returns one sentence that says what is wrong with `flags`, or nullopt.
std::optional<std::string> CheckFlags(const std::vector<std::string>& flags);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CPU_ADMISSION_H_
