#ifndef KERNELCAST_COMMON_LLM_JSON_TEXT_H_
#define KERNELCAST_COMMON_LLM_JSON_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kernelcast::llm {

// Parses what an endpoint sent, mending what endpoints are known to get wrong inside strings: bytes
// that are not UTF-8 and escapes of half a surrogate pair become U+FFFD. A discarded value where
// that is not enough. Never throws.
nlohmann::json ParseJson(std::string_view text);

// The text with these faults mended, which is then JSON or not.
std::string MendJson(std::string_view text);

// The string at `key` of an object, or "" where there is none.
std::string StringAt(const nlohmann::json& object, const char* key);

// The text as one line of at most `max_bytes` of UTF-8.
std::string OneLine(std::string_view text, size_t max_bytes);

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_JSON_TEXT_H_
