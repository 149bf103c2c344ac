#ifndef KERNELCAST_COMMON_BASE_UTF8_H_
#define KERNELCAST_COMMON_BASE_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace kernelcast {

// UTF-8 as RFC 3629 has it: shortest form, no surrogates, at most U+10FFFF. NUL is valid. The same
// set as protobuf accepts in a `string` field, where anything else fails the whole call.
bool IsValidUtf8(std::string_view text);

// The text with each maximal invalid part replaced by U+FFFD. May be longer than `text`.
std::string SanitizeUtf8(std::string_view text);

// The longest prefix of at most `max_bytes` that does not cut a character. Bytes that are not UTF-8
// count as characters of their own.
std::string_view TruncateUtf8(std::string_view text, size_t max_bytes);

// The longest suffix of at most `max_bytes` that does not start inside a character.
std::string_view TruncateUtf8Front(std::string_view text, size_t max_bytes);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_UTF8_H_
