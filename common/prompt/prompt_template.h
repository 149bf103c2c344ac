#ifndef KERNELCAST_COMMON_PROMPT_PROMPT_TEMPLATE_H_
#define KERNELCAST_COMMON_PROMPT_PROMPT_TEMPLATE_H_

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kernelcast {

// A text with placeholders of the form {{name}}. Immutable and thread-safe.
class PromptTemplate {
 public:
  using Values = std::map<std::string, std::string, std::less<>>;

  // INVALID_ARGUMENT, as "line 3: ...": a name that is not in `known`, an unclosed placeholder,
  // "}}" without a placeholder, or invalid UTF-8.
  [[nodiscard]] static absl::StatusOr<PromptTemplate> Parse(
      std::string_view text, std::span<const std::string_view> known);

  // Values are inserted unchanged; placeholders in them are not expanded. Every name must have a
  // value.
  std::string Render(const Values& values) const;

  const std::string& text() const { return text_; }
  // In the order of the text, with repetitions.
  const std::vector<std::string>& names() const { return names_; }
  // The text after the last placeholder.
  const std::string& tail() const { return literals_.back(); }

 private:
  std::string text_;
  // literals_[i] precedes names_[i]. There is one more literal than names.
  std::vector<std::string> literals_;
  std::vector<std::string> names_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_PROMPT_PROMPT_TEMPLATE_H_
