#include "common/base/utf8.h"

#include <cstdint>
#include <cstring>

namespace kernelcast {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Character {
  size_t bytes = 0;
  bool valid = false;
};

bool IsContinuation(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

// The first character of a non-empty text. An invalid one spans the longest prefix that could begin
// a valid character, at least one byte (the Unicode standard's "maximal subpart").
Character First(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) {
    return {1, true};
  }
  size_t length = 0;
  uint8_t second_low = 0x80;
  uint8_t second_high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) second_low = 0xA0;   // overlong forms
    if (lead == 0xED) second_high = 0x9F;  // surrogates
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) second_low = 0x90;
    if (lead == 0xF4) second_high = 0x8F;  // above U+10FFFF
  } else {
    return {1, false};
  }
  if (text.size() < 2 || byte(1) < second_low || byte(1) > second_high) {
    return {1, false};
  }
  for (size_t i = 2; i < length; ++i) {
    if (i >= text.size() || !IsContinuation(text[i])) {
      return {i, false};
    }
  }
  return {length, true};
}

// Length of the leading run of ASCII, in whole 8-byte words. A fast path, because sources are
// almost all ASCII.
size_t AsciiPrefix(std::string_view text) {
  size_t length = 0;
  for (uint64_t word = 0; length + sizeof word <= text.size(); length += sizeof word) {
    std::memcpy(&word, text.data() + length, sizeof word);
    if ((word & 0x8080'8080'8080'8080) != 0) break;
  }
  return length;
}

}  // namespace

bool IsValidUtf8(std::string_view text) {
  while (!text.empty()) {
    text.remove_prefix(AsciiPrefix(text));
    if (text.empty()) break;
    const Character first = First(text);
    if (!first.valid) {
      return false;
    }
    text.remove_prefix(first.bytes);
  }
  return true;
}

std::string SanitizeUtf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Character first = First(text);
    result += first.valid ? text.substr(0, first.bytes) : kReplacement;
    text.remove_prefix(first.bytes);
  }
  return result;
}

std::string_view TruncateUtf8(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) {
    return text;
  }
  // A character that crosses the cut starts at most three bytes before it.
  for (size_t back = 1; back <= 3 && back <= max_bytes; ++back) {
    const size_t start = max_bytes - back;
    const Character character = First(text.substr(start));
    if (character.valid && start + character.bytes > max_bytes) {
      return text.substr(0, start);
    }
  }
  return text.substr(0, max_bytes);
}

std::string_view TruncateUtf8Front(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) {
    return text;
  }
  size_t start = text.size() - max_bytes;
  for (size_t back = 1; back <= 3 && back <= start; ++back) {
    const Character character = First(text.substr(start - back));
    if (character.valid && character.bytes > back) {
      start += character.bytes - back;
      break;
    }
  }
  return text.substr(start);
}

std::string_view WithoutByteOrderMark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

void DropByteOrderMark(std::string& text) {
  text.erase(0, text.size() - WithoutByteOrderMark(text).size());
}

}  // namespace kernelcast
