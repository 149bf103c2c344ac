#ifndef KERNELCAST_COMMON_BASE_UTF8_H_
#define KERNELCAST_COMMON_BASE_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace kernelcast {

// Returns whether the text is UTF-8 as defined by RFC 3629: shortest form, no surrogates, at most
// U+10FFFF. NUL is valid. Protobuf accepts the same set in a `string` field; other bytes fail the
// whole call.
bool IsValidUtf8(std::string_view text);

// The text without the byte order mark that some editors write at its start.
std::string_view WithoutByteOrderMark(std::string_view text);
// Removes it.
void DropByteOrderMark(std::string& text);

// Replaces each maximal invalid part with U+FFFD. The result may be longer than `text`.
std::string SanitizeUtf8(std::string_view text);

// The longest prefix of at most `max_bytes` that does not split a character. Each invalid byte
// counts as a character.
std::string_view TruncateUtf8(std::string_view text, size_t max_bytes);

// The longest suffix of at most `max_bytes` that does not start inside a character.
std::string_view TruncateUtf8Front(std::string_view text, size_t max_bytes);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_UTF8_H_
