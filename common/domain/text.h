#ifndef KERNELCAST_COMMON_DOMAIN_TEXT_H_
#define KERNELCAST_COMMON_DOMAIN_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kernelcast {

// Text helpers for messages, and the character classes of names.

// The text in single quotes, for one line of a message: cut after `max_bytes`, with control
// characters and invalid UTF-8 replaced.
std::string Quoted(std::string_view text, size_t max_bytes = 60);

// "a, b, c".
std::string CommaList(const std::vector<std::string>& words);
// "a, b and c" with `last` "and".
std::string WordList(const std::vector<std::string>& words, std::string_view last);

// At most `digits` significant digits, without trailing zeros: "0.7071", "1e-06".
std::string NumberText(double value, int digits = 6);

// The known word nearest to `word`, or empty if none is near enough to be a likely typo.
std::string NearestWord(std::string_view word, const std::vector<std::string>& known);

bool IsIdentifier(std::string_view text);      // [A-Za-z_][A-Za-z0-9_]*
bool IsLowerName(std::string_view text);       // [a-z0-9_]+
bool IsDecimalInteger(std::string_view text);  // 0 or -?[1-9][0-9]*, within 64 bits
// [A-Za-z0-9_.:-]+ with a letter or digit first.
bool IsToken(std::string_view text);
// A single compiler argument: '-' and printable ASCII without spaces.
bool IsFlagShaped(std::string_view text);
// Valid UTF-8 without NUL.
bool IsSourceText(std::string_view text);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_TEXT_H_
