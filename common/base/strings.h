#ifndef KERNELCAST_COMMON_BASE_STRINGS_H_
#define KERNELCAST_COMMON_BASE_STRINGS_H_

#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"

namespace kernelcast {

// Converts to the view type that Abseil's functions take.
inline absl::string_view AbslView(std::string_view text) { return {text.data(), text.size()}; }

// Return the text without ASCII white space at both ends, or only at the end.
inline std::string_view Trim(std::string_view text) {
  const absl::string_view trimmed = absl::StripAsciiWhitespace(AbslView(text));
  return {trimmed.data(), trimmed.size()};
}
inline std::string_view TrimEnd(std::string_view text) {
  return text.substr(0, absl::StripTrailingAsciiWhitespace(AbslView(text)).size());
}

// Returns whether the text is empty or only white space.
inline bool IsBlank(std::string_view text) { return Trim(text).empty(); }

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_STRINGS_H_
