#ifndef KERNELCAST_COMMON_DOMAIN_LESSON_H_
#define KERNELCAST_COMMON_DOMAIN_LESSON_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

#include "absl/status/status.h"

namespace kernelcast {

// The effect of one kind of change on kernels. orchestrator.proto defines the fields.
struct Lesson {
  std::string family;
  std::string target;
  std::string device_model;
  std::string bottleneck;
  std::string aspect;
  std::string from;
  std::string to;
  uint32_t trials = 0;
  uint32_t held = 0;
  double mean_log2_gain = 0;
  double stddev_log2_gain = 0;
  uint32_t searches = 0;
  std::string text;
  friend bool operator==(const Lesson&, const Lesson&) = default;
};

inline constexpr size_t kMaxLessons = 4096;
inline constexpr size_t kMaxLessonNameBytes = 128;
inline constexpr size_t kMaxLessonTextBytes = 1000;
inline constexpr double kMaxLessonGain = 15;  // in log2, of the mean and of the deviation
inline constexpr uint32_t kMaxLessonTrials = 1'000'000'000;

// The subject of the lesson: all fields before `trials`.
using LessonKey = std::tuple<std::string_view, std::string_view, std::string_view, std::string_view,
                             std::string_view, std::string_view, std::string_view>;
LessonKey KeyOf(const Lesson& lesson);

// INVALID_ARGUMENT: "FIELD: VALUE is not ...". Names and texts are UTF-8 without control
// characters, within the limits above.
[[nodiscard]] absl::Status ValidateLesson(const Lesson& lesson);

// Adds the pairs of `more`, which must have the same key and come from other searches.
void Pool(const Lesson& more, Lesson& lesson);

// The gain of a change in log2, with its standard error.
struct GainEstimate {
  double mean = 0;
  double error = 0;
  double degrees_of_freedom = 1;

  // 95% interval of the mean.
  double low() const;
  double high() const;
  // Probability that the gain has the sign of the mean.
  double SignProbability() const;
  // The gain to expect: the mean, shrunk towards 0 by its error. 0 if the sign is not certain
  // enough.
  double Expected() const;
};

// Probability of the sign from which a lesson is used.
inline constexpr double kCertainSign = 0.8;

// The mean of a lesson, for kernels on this device model. The error has three parts: the deviation
// over the pairs, to which a pair with an average deviation is added; a part that only more
// searches make smaller; and one for another device model. If the change had the sign of the mean
// in at most half of the pairs, the mean is 0.
GainEstimate EstimateOf(const Lesson& lesson, std::string_view device_model);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_LESSON_H_
