#include "common/prompt/text_lines.h"

#include <algorithm>

namespace kernelcast {
namespace {

std::string_view WithoutTrailingSpace(std::string_view line) {
  const size_t last = line.find_last_not_of(" \t\r\n");
  return line.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

}  // namespace

std::vector<std::string_view> TextLines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(WithoutTrailingSpace(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<int> LineNumbers::Of(const std::vector<std::string_view>& lines) {
  std::vector<int> numbers;
  numbers.reserve(lines.size());
  for (const std::string_view line : lines) {
    numbers.push_back(numbers_.try_emplace(line, static_cast<int>(numbers_.size())).first->second);
  }
  return numbers;
}

}  // namespace kernelcast
