#ifndef KERNELCAST_SERVICES_WORKER_NATIVE_COMPILER_OUTPUT_H_
#define KERNELCAST_SERVICES_WORKER_NATIVE_COMPILER_OUTPUT_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kernelcast::worker {

// What a candidate of host code may not make of the system compiler, besides what
// core/source_scan.h finds in its source. Each returns what is wrong, in one sentence, or nothing.
// To be asked before anything that the compiler said is shown to anyone.

// `depfile` is what -MD wrote: every file but `source_name` must lie under one of `directories`.
std::optional<std::string> CheckDependencies(std::string_view depfile, std::string_view source_name,
                                             const std::vector<std::string>& directories);

// Assembler directives, which inline assembly can smuggle in, that read files, build other
// directives, or make code run while the object is being loaded.
std::optional<std::string> CheckAssembly(std::string_view assembly);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_NATIVE_COMPILER_OUTPUT_H_
