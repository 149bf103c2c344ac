#include "common/llm/json_text.h"

#include <cctype>
#include <charconv>

#include "common/base/bounded_json.h"
#include "common/base/utf8.h"

namespace kernelcast::llm {
namespace {

// The code unit of "\uXXXX" at `position`, or -1.
int CodeUnit(std::string_view text, size_t position) {
  if (text.size() - position < 6 || text[position] != '\\' || text[position + 1] != 'u') return -1;
  int unit = 0;
  const char* const first = text.data() + position + 2;
  const auto [end, error] = std::from_chars(first, first + 4, unit, 16);
  return error == std::errc() && end == first + 4 && unit >= 0 ? unit : -1;
}

bool IsHigh(int unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool IsLow(int unit) { return unit >= 0xDC00 && unit < 0xE000; }

std::string MendSurrogates(std::string_view text) {
  std::string mended;
  mended.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    if (text[i] != '\\') {
      mended.push_back(text[i++]);
      continue;
    }
    const int unit = CodeUnit(text, i);
    size_t length = unit >= 0 ? 6 : 2;
    if (IsHigh(unit) && IsLow(i + 6 < text.size() ? CodeUnit(text, i + 6) : -1)) {
      length = 12;
    } else if (IsHigh(unit) || IsLow(unit)) {
      mended.append("\\ufffd");
      i += 6;
      continue;
    }
    mended.append(text.substr(i, length));
    i += length;
  }
  return mended;
}

}  // namespace

nlohmann::json ParseJson(std::string_view text) {
  nlohmann::json parsed = ParseBoundedJson(text);
  if (!parsed.is_discarded()) return parsed;
  return ParseBoundedJson(MendJson(text));
}

std::string MendJson(std::string_view text) { return MendSurrogates(SanitizeUtf8(text)); }

std::string OneLine(std::string_view text, size_t max_bytes) {
  std::string line = SanitizeUtf8(TruncateUtf8(text, max_bytes));
  for (char& c : line) {
    if (std::iscntrl(static_cast<unsigned char>(c)) != 0) c = ' ';
  }
  return std::string(TruncateUtf8(line, max_bytes));
}

}  // namespace kernelcast::llm
