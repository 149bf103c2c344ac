#include "services/cli/report/learning.h"

#include <cstdlib>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/domain/bins.h"
#include "services/cli/core/text.h"
#include "services/cli/report/analysis.h"
#include "services/cli/report/html_parts.h"

namespace kernelcast::cli {
namespace {

std::string HitShare(uint64_t part, const HitRate& rate) {
  return rate.forecasts == 0
             ? "–"
             : FormatShare(static_cast<double>(part) / static_cast<double>(rate.forecasts));
}

std::string HitText(const HitRate& rate) {
  return absl::StrCat(HitShare(rate.exact, rate), " (", HitShare(rate.within_one, rate),
                      " within one bin) of ", FormatCount(rate.forecasts));
}

std::string HitRow(const std::string& name, const HitRate& rate) {
  return absl::StrCat("<tr><td>", name, "</td><td class=n>", FormatCount(rate.forecasts),
                      "</td><td class=n>", HitShare(rate.exact, rate), "</td><td class=n>",
                      HitShare(rate.within_one, rate), "</td></tr>");
}

}  // namespace

void LearningCounter::Add(const ReportCandidate& candidate) {
  if (candidate.reused || !candidate.measurement) return;
  const Ratio* const speedup = SpeedupOf(candidate);
  if (speedup != nullptr && candidate.forecast) {
    const Forecast& forecast = *candidate.forecast;
    const std::optional<double> relative = SpeedupOverBaseline(forecast, speedup->value, speedups_);
    const absl::StatusOr<const BinScheme*> scheme = BinScheme::Find(forecast.bin_scheme_id);
    if (relative && scheme.ok()) {
      if (const absl::StatusOr<int> bin = (*scheme)->Label(*relative); bin.ok()) {
        const int distance = std::abs(*bin - forecast.predicted_bin);
        const bool early = forecast.labels_seen.value_or(labels_) < kLearningLabels;
        HitRate& rate = early ? learning_.before : learning_.after;
        ++rate.forecasts;
        rate.exact += distance == 0 ? 1 : 0;
        rate.within_one += distance <= 1 ? 1 : 0;
      }
    }
  }
  if (FateOf(candidate) == Fate::kUnstable) return;
  ++labels_;
  if (speedup != nullptr) {
    speedups_.emplace(candidate.candidate.candidate_id, speedup->value);
  }
}

Learning LearningOf(const ReportInput& input) {
  LearningCounter counter;
  for (const ReportCandidate& candidate : input.candidates) counter.Add(candidate);
  return counter.learning();
}

std::string LearningText(const Learning& learning) {
  std::string text;
  if (learning.before.forecasts > 0) {
    absl::StrAppend(&text, HitText(learning.before), " before ", kLearningLabels, " labels");
  }
  if (learning.after.forecasts > 0) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", HitText(learning.after), " after ",
                    text.empty() ? absl::StrCat(kLearningLabels, " labels") : "them");
  }
  return text.empty() ? "" : absl::StrCat("forecasts in the measured bin: ", text);
}

std::string LessonsText(const v1::Search& search) {
  const int lessons = search.spec().lessons_size();
  if (lessons == 0) return "";
  return absl::StrCat("Started with ", FormatCount(static_cast<uint64_t>(lessons)),
                      lessons == 1 ? " lesson" : " lessons", " from earlier searches.");
}

std::string LearningHtml(const ReportInput& input) {
  const Learning learning = LearningOf(input);
  std::string body;
  if (input.search) {
    if (const std::string lessons = LessonsText(*input.search); !lessons.empty()) {
      absl::StrAppend(&body, "<p class=note>", Html(lessons), "</p>");
    }
  }
  if (learning.before.forecasts + learning.after.forecasts > 0) {
    absl::StrAppend(&body,
                    "<div class=scroll><table class=plain><thead><tr><th>forecasts made<th "
                    "class=n>forecasts<th class=n>in the measured bin<th class=n>within one "
                    "bin</tr></thead><tbody>",
                    HitRow(absl::StrCat("before ", kLearningLabels, " labels"), learning.before),
                    HitRow(absl::StrCat("after ", kLearningLabels, " labels"), learning.after),
                    "</tbody></table></div>");
  }
  if (body.empty()) return "";
  return Section("learnt", "What was learnt",
                 "The bin that each forecast names against the measured one, for candidates that "
                 "were measured to be correct. A label is a measurement that the forecaster had "
                 "learnt from.",
                 body);
}

}  // namespace kernelcast::cli
