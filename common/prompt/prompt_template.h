#ifndef KERNELCAST_COMMON_PROMPT_PROMPT_TEMPLATE_H_
#define KERNELCAST_COMMON_PROMPT_PROMPT_TEMPLATE_H_

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kernelcast {

// Text with placeholders of the form {{name}}. Immutable; thread-safe.
class PromptTemplate {
 public:
  using Values = std::map<std::string, std::string, std::less<>>;

  // INVALID_ARGUMENT, as "line 3: ...": a name that is not among `known`, a placeholder that does
  // not close, "}}" without one, text that is not UTF-8.
  [[nodiscard]] static absl::StatusOr<PromptTemplate> Parse(
      std::string_view text, std::span<const std::string_view> known);

  // Values go in as they are and are not looked into for placeholders. Every name must have one.
  std::string Render(const Values& values) const;

  const std::string& text() const { return text_; }
  // In the order of the text, with repetitions.
  const std::vector<std::string>& names() const { return names_; }
  // What follows the last placeholder.
  const std::string& tail() const { return literals_.back(); }

 private:
  std::string text_;
  // literals_[i] stands before names_[i]; there is one more of them.
  std::vector<std::string> literals_;
  std::vector<std::string> names_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_PROMPT_PROMPT_TEMPLATE_H_
