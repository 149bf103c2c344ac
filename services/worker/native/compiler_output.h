#ifndef KERNELCAST_SERVICES_WORKER_NATIVE_COMPILER_OUTPUT_H_
#define KERNELCAST_SERVICES_WORKER_NATIVE_COMPILER_OUTPUT_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kernelcast::worker {

// Checks what a host-code candidate made the system compiler read, in addition to the source checks
// of core/source_scan.h. Returns one sentence that says what is wrong, or nullopt. Call it before
// showing any compiler output to anyone.

// `depfile` is the output of -MD: every file except `source_name` must lie under one of
// `directories`.
std::optional<std::string> CheckDependencies(std::string_view depfile, std::string_view source_name,
                                             const std::vector<std::string>& directories);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_NATIVE_COMPILER_OUTPUT_H_
