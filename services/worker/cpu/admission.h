#ifndef KERNELCAST_SERVICES_WORKER_CPU_ADMISSION_H_
#define KERNELCAST_SERVICES_WORKER_CPU_ADMISSION_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kernelcast::worker {

// What a candidate for the cpu target may not ask of the compiler, besides what core/source_scan.h
// finds in its source. Each function returns what is wrong, in one sentence, or nothing.

// Compiler flags that a candidate may ask for.
std::span<const std::string_view> AllowedCpuFlags();
std::optional<std::string> CheckFlags(const std::vector<std::string>& flags);

// `depfile` is what -MD wrote: every file but `source_name` must lie under one of `directories`.
std::optional<std::string> CheckDependencies(std::string_view depfile, std::string_view source_name,
                                             const std::vector<std::string>& directories);

// Assembler directives, which inline assembly can smuggle in, that read files, build other
// directives, or make code run while the object is being loaded.
std::optional<std::string> CheckAssembly(std::string_view assembly);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CPU_ADMISSION_H_
