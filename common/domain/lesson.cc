#include "common/domain/lesson.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/utf8.h"
#include "common/domain/student_t.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

// All in log2. Deviation of a typical change over the pairs of a search, and over searches: effects
// differ between problems by more than the pairs of one of them show.
constexpr double kTypicalDeviation = 0.25;
constexpr double kSearchDeviation = 0.15;
constexpr double kDeviceDeviation = 0.3;
// Deviation of the gains of all changes.
constexpr double kGainDeviation = 0.5;

bool IsPlainText(std::string_view text) {
  return IsValidUtf8(text) && std::ranges::none_of(text, [](char c) {
           return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
         });
}

absl::Status CheckText(const char* field, const std::string& text, size_t least, size_t most) {
  if (text.size() >= least && text.size() <= most && IsPlainText(text)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", Quoted(text), " is not text of ",
                                                 least, " to ", most,
                                                 " bytes in UTF-8 without control characters"));
}

absl::Status CheckCount(const char* field, uint32_t value, uint32_t least, uint32_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", value, " is not a number from ", least, " to ", most));
}

absl::Status CheckGain(const char* field, double value, double least) {
  if (value >= least && value <= kMaxLessonGain) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", value, " is not a number from ", least, " to ", kMaxLessonGain));
}

double Squared(double value) { return value * value; }

// Number of pairs with a gain.
double Gains(const Lesson& lesson) {
  return lesson.mean_log2_gain < 0 ? lesson.trials - lesson.held : lesson.held;
}

}  // namespace

LessonKey KeyOf(const Lesson& lesson) {
  return {lesson.family, lesson.target, lesson.device_model, lesson.bottleneck, lesson.aspect,
          lesson.from,   lesson.to};
}

absl::Status ValidateLesson(const Lesson& lesson) {
  for (const absl::Status& status :
       {CheckText("family", lesson.family, 1, kMaxLessonNameBytes),
        CheckText("target", lesson.target, 1, kMaxLessonNameBytes),
        CheckText("device_model", lesson.device_model, 0, kMaxLessonNameBytes),
        CheckText("bottleneck", lesson.bottleneck, 0, kMaxLessonNameBytes),
        CheckText("aspect", lesson.aspect, 1, kMaxLessonNameBytes),
        CheckText("from", lesson.from, 1, kMaxLessonNameBytes),
        CheckText("to", lesson.to, 1, kMaxLessonNameBytes),
        CheckText("text", lesson.text, 0, kMaxLessonTextBytes),
        CheckCount("trials", lesson.trials, 1, kMaxLessonTrials),
        CheckCount("held", lesson.held, 0, lesson.trials),
        CheckCount("searches", lesson.searches, 1, lesson.trials),
        CheckGain("mean_log2_gain", lesson.mean_log2_gain, -kMaxLessonGain),
        CheckGain("stddev_log2_gain", lesson.stddev_log2_gain, 0)}) {
    if (!status.ok()) return status;
  }
  if (lesson.from != lesson.to) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("to: ", Quoted(lesson.to), " is the same as from"));
}

void Pool(const Lesson& more, Lesson& lesson) {
  const double a = lesson.trials, b = more.trials;
  const double gains = (Gains(lesson) + Gains(more)) / (a + b);
  const double mean = (a * lesson.mean_log2_gain + b * more.mean_log2_gain) / (a + b);
  const double squares = (a - 1) * Squared(lesson.stddev_log2_gain) +
                         (b - 1) * Squared(more.stddev_log2_gain) +
                         a * b / (a + b) * Squared(lesson.mean_log2_gain - more.mean_log2_gain);
  lesson.mean_log2_gain = mean;
  lesson.stddev_log2_gain = std::min(std::sqrt(squares / (a + b - 1)), kMaxLessonGain);
  lesson.trials = static_cast<uint32_t>(std::min<double>(a + b, kMaxLessonTrials));
  lesson.held = static_cast<uint32_t>(std::lround((mean < 0 ? 1 - gains : gains) * lesson.trials));
  lesson.searches = std::min(lesson.searches + more.searches, lesson.trials);
  if (lesson.text.empty()) lesson.text = more.text;
}

double GainEstimate::low() const {
  return mean - StudentTQuantile(0.975, degrees_of_freedom) * error;
}

double GainEstimate::high() const {
  return mean + StudentTQuantile(0.975, degrees_of_freedom) * error;
}

double GainEstimate::SignProbability() const {
  return 1 - StudentTUpperTail(std::abs(mean) / error, degrees_of_freedom);
}

double GainEstimate::Expected() const {
  if (SignProbability() < kCertainSign) return 0;
  return mean * Squared(kGainDeviation) / (Squared(kGainDeviation) + Squared(error));
}

GainEstimate EstimateOf(const Lesson& lesson, std::string_view device_model) {
  const double n = lesson.trials;
  const double variance =
      ((n - 1) * Squared(lesson.stddev_log2_gain) + Squared(kTypicalDeviation)) / n;
  GainEstimate estimate;
  estimate.mean = 2.0 * lesson.held > n ? lesson.mean_log2_gain : 0;
  estimate.error = std::sqrt(variance / n + Squared(kSearchDeviation) / lesson.searches +
                             (lesson.device_model == device_model ? 0 : Squared(kDeviceDeviation)));
  estimate.degrees_of_freedom = n;
  return estimate;
}

}  // namespace kernelcast
