#ifndef KERNELCAST_SERVICES_WORKER_CPU_SOURCE_SCAN_H_
#define KERNELCAST_SERVICES_WORKER_CPU_SOURCE_SCAN_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kernelcast::worker {

// What a source may not say, checked before and after the compiler has read it, because its
// messages and its output would otherwise carry files of the host to whoever sent the source. Each
// function returns what is wrong, in one sentence, or nothing.

// Compiler flags that a candidate may ask for.
std::span<const std::string_view> AllowedCpuFlags();
std::optional<std::string> CheckFlags(const std::vector<std::string>& flags);

// Every #include must name its file literally, relative and without "..". Also looks into strings
// and comments: it would rather refuse an odd source than miss a directive.
std::optional<std::string> CheckIncludeDirectives(std::string_view source);

// `depfile` is what -MD wrote: every file but `source_name` must lie under one of `directories`.
std::optional<std::string> CheckDependencies(std::string_view depfile, std::string_view source_name,
                                             const std::vector<std::string>& directories);

// Assembler directives, which inline assembly can smuggle in, that read files, build other
// directives, or make code run while the object is being loaded.
std::optional<std::string> CheckAssembly(std::string_view assembly);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CPU_SOURCE_SCAN_H_
