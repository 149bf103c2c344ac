#include "services/worker/virtual_gpu/parse/syntax.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "common/base/strings.h"
#include "services/worker/virtual_gpu/text.h"

namespace kernelcast::worker::virtual_gpu {

std::optional<int64_t> Integer(std::string_view text) {
  text = Trim(text);
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    base = 16;
    text.remove_prefix(2);
  }
  if (!text.empty() && text.back() == 'U') text.remove_suffix(1);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
    return std::nullopt;
  }
  return static_cast<int64_t>(negative ? 0 - value : value);
}

std::optional<uint64_t> RealBits(std::string_view text) {
  bool negative = false;
  if (!text.empty() && text[0] == '-') {
    negative = true;
    text.remove_prefix(1);
  }
  if (text.size() < 3 || text[0] != '0') return std::nullopt;
  const char form = static_cast<char>(std::tolower(static_cast<unsigned char>(text[1])));
  const size_t digits = form == 'f' ? 8 : form == 'd' ? 16 : 0;
  if (digits == 0 || text.size() != 2 + digits) return std::nullopt;
  uint64_t bits = 0;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return negative ? bits ^ (uint64_t{1} << (digits * 4 - 1)) : bits;
}

std::vector<std::string_view> SplitOperands(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '{' || c == '[' || c == '(') ++depth;
    if (c == '}' || c == ']' || c == ')') --depth;
    if (c == ',' && depth == 0) {
      parts.push_back(Trim(text.substr(start, i - start)));
      start = i + 1;
    }
  }
  const std::string_view last = Trim(text.substr(std::min(start, text.size())));
  if (!last.empty()) parts.push_back(last);
  return parts;
}

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  size_t i = 0;
  while (i < text.size()) {
    while (i < text.size() && IsSpace(text[i])) ++i;
    const size_t start = i;
    while (i < text.size() && !IsSpace(text[i])) ++i;
    if (i > start) words.push_back(text.substr(start, i - start));
  }
  return words;
}

int64_t TypeBytes(std::string_view type) {
  if (type.size() < 3 || type[0] != '.') return 0;
  const std::string_view bits = type.substr(2);
  if (bits == "8") return 1;
  if (bits == "16") return 2;
  if (bits == "32" || bits == "16x2") return 4;
  if (bits == "64") return 8;
  if (bits == "128") return 16;
  return 0;
}

std::optional<Variable> ParseVariable(std::string_view text) {
  Variable variable;
  std::string_view initial;
  if (const size_t equals = text.find('='); equals != std::string_view::npos) {
    initial = Trim(text.substr(equals + 1));
    text = Trim(text.substr(0, equals));
  }
  std::string_view declarator;
  const std::vector<std::string_view> words = Words(text);
  bool is_float = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == ".extern") {
      variable.external = true;
    } else if (word == ".global" || word == ".const" || word == ".shared" || word == ".local" ||
               word == ".param") {
      variable.space = word.substr(1);
    } else if (word == ".align" && i + 1 < words.size()) {
      variable.align = std::clamp<int64_t>(Integer(words[++i]).value_or(1), 1, 1024);
    } else if (const int64_t bytes = TypeBytes(word); bytes > 0) {
      variable.element_bytes = bytes;
      is_float = word[1] == 'f';
    } else if (word[0] != '.') {
      declarator = text.substr(static_cast<size_t>(word.data() - text.data()));
      break;
    }
  }
  if (declarator.empty() || variable.element_bytes == 0) return std::nullopt;
  size_t end = 0;
  while (end < declarator.size() && IsName(declarator[end])) ++end;
  variable.name = declarator.substr(0, end);
  int64_t count = 1;
  std::string_view rest = Trim(declarator.substr(end));
  while (!rest.empty() && rest[0] == '[') {
    const size_t close = rest.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    const std::string_view inside = Trim(rest.substr(1, close - 1));
    if (inside.empty()) {
      variable.unsized = true;
      count = 0;
    } else {
      const int64_t extent = Integer(inside).value_or(-1);
      if (extent < 0 || extent > (int64_t{1} << 30)) return std::nullopt;
      if (count > 0 && extent > (int64_t{1} << 30) / count) return std::nullopt;
      count *= extent;
    }
    rest = Trim(rest.substr(close + 1));
  }
  variable.bytes = count * variable.element_bytes;
  variable.align = std::max(variable.align, variable.element_bytes);
  if (!initial.empty()) {
    if (initial[0] == '{') {
      initial.remove_prefix(1);
      if (!initial.empty() && initial.back() == '}') initial.remove_suffix(1);
    }
    for (const std::string_view value : SplitOperands(initial)) {
      if (variable.initial.size() >= (size_t{1} << 20)) break;
      uint64_t bits = 0;
      if (const auto real = RealBits(value); is_float && real) {
        bits = *real;
      } else {
        bits = static_cast<uint64_t>(Integer(value).value_or(0));
      }
      for (int64_t i = 0; i < variable.element_bytes; ++i) {
        variable.initial += i < 8 ? static_cast<char>(bits >> (8 * i)) : '\0';
      }
    }
  }
  return variable;
}

}  // namespace kernelcast::worker::virtual_gpu
