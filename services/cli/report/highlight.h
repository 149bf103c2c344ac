#ifndef KERNELCAST_SERVICES_CLI_REPORT_HIGHLIGHT_H_
#define KERNELCAST_SERVICES_CLI_REPORT_HIGHLIGHT_H_

#include <string>
#include <string_view>
#include <vector>

namespace kernelcast::cli {

// Escapes text for HTML: valid UTF-8, markup characters as entities. Control characters become
// visible pictures and direction overrides a visible code, so that the reader sees exactly what is
// compiled. Safe in element content and in quoted attributes.
std::string Html(std::string_view untrusted);

// Renders a C++ or CUDA source as HTML, one string per line, without newlines. Tokens are spans of
// the classes c (comment), s (string), n (number), k (keyword), t (type), p (preprocessor) and f
// (called function). Accepts any bytes; an unterminated token ends with the text.
std::vector<std::string> HighlightSource(std::string_view source);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_HIGHLIGHT_H_
