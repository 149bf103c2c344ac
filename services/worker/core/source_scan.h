#ifndef KERNELCAST_SERVICES_WORKER_CORE_SOURCE_SCAN_H_
#define KERNELCAST_SERVICES_WORKER_CORE_SOURCE_SCAN_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kernelcast::worker {

// Checks of what a C++ or CUDA source must not contain. They run before the compiler and reject a
// source that includes files of the host. Macros can hide an include from these checks; the
// compiler's sandbox blocks those. Strings and comments are checked too, so an unusual source may
// be rejected but no directive is missed. Each check returns one sentence that says what is wrong,
// or nullopt.

// Every #include, #line, line marker and __has_include must name its file literally, with a
// relative path without "..". No pragma may open a file. `allowed` completes the message "only ...
// are allowed".
std::optional<std::string> CheckIncludeDirectives(std::string_view source,
                                                  std::string_view allowed);

// Rejects each of these directives, e.g. "embed".
std::optional<std::string> CheckNoDirective(std::string_view source,
                                            std::span<const std::string_view> forbidden);

struct IncludedFile {
  std::string name;
  bool quoted = false;  // "name" rather than <name>
  friend bool operator==(const IncludedFile&, const IncludedFile&) = default;
};

// Returns the files that the source names literally, in their order, including those in disabled
// conditional sections.
std::vector<IncludedFile> IncludedFiles(std::string_view source);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_SOURCE_SCAN_H_
