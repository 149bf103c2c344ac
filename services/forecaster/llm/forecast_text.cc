#include "services/forecaster/llm/forecast_text.h"

#include "absl/strings/str_cat.h"
#include "common/domain/text.h"

namespace kernelcast::forecaster {

std::string AnchorText(const AnchorKernel& anchor, bool with_source) {
  std::string text = absl::StrCat(
      "The baseline is the kernel to beat, another candidate, which was measured to be ",
      NumberText(anchor.speedup.value, 4), " times as fast as the reference.");
  for (const AnchorKernel::ShapeTime& time : anchor.times) {
    std::vector<std::string> values;
    for (const auto& [axis, value] : time.shape) values.push_back(absl::StrCat(axis, "=", value));
    absl::StrAppend(&text, " It takes ", NumberText(time.median_ns / 1000, 4), " us at ",
                    InlineList(values, ", "), ".");
  }
  if (with_source) absl::StrAppend(&text, "\n\n", CandidateText(anchor.candidate));
  if (!text.ends_with('\n')) text += '\n';
  return text;
}

std::string BaselineText(const ForecastInput& input) {
  if (input.anchor != nullptr) return AnchorText(*input.anchor, /*with_source=*/true);
  const auto reference = input.problem->reference_ids.find(input.candidate.target);
  const bool is_reference =
      input.baseline_candidate_id.empty() || (reference != input.problem->reference_ids.end() &&
                                              reference->second == input.baseline_candidate_id);
  if (is_reference && input.baseline_speedup == 1) return "The baseline is the reference.\n";
  return absl::StrCat("The baseline is another candidate, which was measured to be ",
                      NumberText(input.baseline_speedup, 4), " times as fast as the reference.\n");
}

std::string FeedbackText(const std::vector<FeedbackEntry>& entries) {
  if (entries.empty()) return "None yet.\n";
  std::string text;
  for (const FeedbackEntry& entry : entries) {
    if (entry.speedup.has_value()) {
      absl::StrAppend(&text, "- S = ", NumberText(entry.speedup->value, 4));
    } else {
      absl::StrAppend(&text, "- failed: ", Inline(entry.failure));
    }
    if (!entry.origin.empty()) absl::StrAppend(&text, "; ", Inline(entry.origin));
    if (!entry.tunables.empty()) absl::StrAppend(&text, "; ", TunableText(entry.tunables));
    if (!entry.flags.empty()) absl::StrAppend(&text, "; flags ", InlineList(entry.flags, " "));
    text += '\n';
  }
  return text;
}

}  // namespace kernelcast::forecaster
