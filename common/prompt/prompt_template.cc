#include "common/prompt/prompt_template.h"

#include <algorithm>
#include <cassert>

#include "absl/strings/str_cat.h"
#include "common/domain/text.h"

namespace kernelcast {

absl::StatusOr<PromptTemplate> PromptTemplate::Parse(std::string_view text,
                                                     std::span<const std::string_view> known) {
  const auto error = [text](size_t position, const std::string& what) {
    const auto line =
        1 + std::count(text.begin(), text.begin() + static_cast<long>(position), '\n');
    return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", what));
  };
  if (!IsSourceText(text)) return error(0, "the text is not UTF-8, or holds a NUL");
  PromptTemplate result;
  result.text_ = text;
  size_t position = 0;
  for (;;) {
    const size_t open = text.find("{{", position);
    const size_t stray = text.find("}}", position);
    if (stray < open) return error(stray, "'}}' closes nothing");
    result.literals_.emplace_back(text.substr(position, open - position));
    if (open == std::string_view::npos) return result;
    const size_t close = text.find("}}", open);
    const std::string_view name =
        close == std::string_view::npos ? "" : text.substr(open + 2, close - open - 2);
    if (close == std::string_view::npos || name.find('\n') != std::string_view::npos) {
      return error(open, "'{{' is not closed on its line");
    }
    if (std::ranges::find(known, name) == known.end()) {
      return error(open, absl::StrCat(Quoted(name), " is not one of ",
                                      CommaList({known.begin(), known.end()})));
    }
    result.names_.emplace_back(name);
    position = close + 2;
  }
}

std::string PromptTemplate::Render(const Values& values) const {
  std::string text = literals_.front();
  for (size_t i = 0; i < names_.size(); ++i) {
    const auto value = values.find(names_[i]);
    assert(value != values.end());
    if (value != values.end()) text += value->second;
    text += literals_[i + 1];
  }
  return text;
}

}  // namespace kernelcast
