#ifndef KERNELCAST_SERVICES_WORKER_CORE_SOURCE_SCAN_H_
#define KERNELCAST_SERVICES_WORKER_CORE_SOURCE_SCAN_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kernelcast::worker {

// What a C++ or CUDA source may not say, checked before a compiler reads it, because the compiler's
// messages and output would otherwise carry files of the host to whoever sent the source. Looks
// into strings and comments too: it would rather refuse an odd source than miss a directive. The
// checks return what is wrong, in one sentence, or nothing.

// Every #include must name its file literally, relative and without "..", and so must every #line
// and line marker that names one. `allowed` completes "only ... are allowed".
std::optional<std::string> CheckIncludeDirectives(std::string_view source,
                                                  std::string_view allowed);

// None of the directives, e.g. "embed".
std::optional<std::string> CheckNoDirective(std::string_view source,
                                            std::span<const std::string_view> forbidden);

struct IncludedFile {
  std::string name;
  bool quoted = false;  // "name" rather than <name>
  friend bool operator==(const IncludedFile&, const IncludedFile&) = default;
};

// Those that the source names literally, in their order, whatever conditions stand around them.
std::vector<IncludedFile> IncludedFiles(std::string_view source);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_SOURCE_SCAN_H_
