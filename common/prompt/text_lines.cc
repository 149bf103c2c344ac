#include "common/prompt/text_lines.h"

#include <algorithm>

#include "common/base/strings.h"

namespace kernelcast {

std::vector<std::string_view> TextLines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(TrimEnd(text.substr(0, end)));
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
