#ifndef KERNELCAST_COMMON_LLM_JSON_TEXT_H_
#define KERNELCAST_COMMON_LLM_JSON_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kernelcast::llm {

// Parses JSON from an endpoint. Repairs two common faults in strings: invalid UTF-8 and escapes of
// half a surrogate pair become U+FFFD. Returns a discarded value if the text is still not JSON, or
// is nested deeper than kMaxJsonDepth. Never throws.
nlohmann::json ParseJson(std::string_view text);

// Repairs these faults. The result may still not be JSON.
std::string MendJson(std::string_view text);

// The text as one line of at most `max_bytes` of UTF-8.
std::string OneLine(std::string_view text, size_t max_bytes);

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_JSON_TEXT_H_
