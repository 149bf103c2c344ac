#include "common/domain/text.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>

#include "common/base/utf8.h"

namespace kernelcast {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsAlpha(char c) { return IsLower(c) || (c >= 'A' && c <= 'Z'); }

// Number of characters to insert, delete, replace or swap with a neighbour.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> distance(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        distance[i][j] = i + j;
        continue;
      }
      distance[i][j] = std::min({distance[i - 1][j] + 1, distance[i][j - 1] + 1,
                                 distance[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        distance[i][j] = std::min(distance[i][j], distance[i - 2][j - 2] + 1);
      }
    }
  }
  return distance[a.size()][b.size()];
}

}  // namespace

std::string Quoted(std::string_view text, size_t max_bytes) {
  const std::string_view head = TruncateUtf8(text, max_bytes);
  std::string clean = SanitizeUtf8(head);
  for (char& c : clean) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return "'" + clean + (head.size() < text.size() ? "...'" : "'");
}

std::string CommaList(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) {
    if (!list.empty()) list += ", ";
    list += word;
  }
  return list;
}

std::string WordList(const std::vector<std::string>& words, std::string_view last) {
  if (words.size() < 2) return CommaList(words);
  return absl::StrCat(CommaList({words.begin(), words.end() - 1}), " ", std::string(last), " ",
                      words.back());
}

std::string NumberText(double value, int digits) {
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), "%.*g", digits, value);
  return buffer;
}

std::string NearestWord(std::string_view word, const std::vector<std::string>& known) {
  if (word.size() > 64) return "";
  std::string nearest;
  size_t nearest_distance = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const bool shortened = word.size() >= 3 && candidate.starts_with(word);
    const size_t distance = shortened ? 1 : EditDistance(word, candidate);
    if (distance < nearest_distance) {
      nearest_distance = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

bool IsIdentifier(std::string_view text) {
  if (text.empty() || IsDigit(text[0])) return false;
  return std::ranges::all_of(text, [](char c) { return IsAlpha(c) || IsDigit(c) || c == '_'; });
}

bool IsLowerName(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char c) { return IsLower(c) || IsDigit(c) || c == '_'; });
}

bool IsDecimalInteger(std::string_view text) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.empty() || (digits[0] == '0' && text != "0")) return false;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool IsToken(std::string_view text) {
  if (text.empty() || !(IsAlpha(text[0]) || IsDigit(text[0]))) return false;
  return std::ranges::all_of(text, [](char c) {
    return IsAlpha(c) || IsDigit(c) || c == '_' || c == '.' || c == ':' || c == '-';
  });
}

bool IsFlagShaped(std::string_view text) {
  return text.size() >= 2 && text[0] == '-' &&
         std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7f; });
}

bool IsSourceText(std::string_view text) {
  return text.find('\0') == std::string_view::npos && IsValidUtf8(text);
}

}  // namespace kernelcast
