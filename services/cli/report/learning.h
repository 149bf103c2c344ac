#ifndef KERNELCAST_SERVICES_CLI_REPORT_LEARNING_H_
#define KERNELCAST_SERVICES_CLI_REPORT_LEARNING_H_

#include <cstdint>
#include <map>
#include <string>

#include "services/cli/report/model.h"

namespace kernelcast::cli {

// How often forecasts named the bin of the measured speedup.
struct HitRate {
  uint64_t forecasts = 0;
  uint64_t exact = 0;
  uint64_t within_one = 0;  // includes exact
};

// The effect of learning during a search: the hit rate before and after kLearningLabels labels.
struct Learning {
  HitRate before;
  HitRate after;
};
inline constexpr uint64_t kLearningLabels = 20;

// Counts the hits of candidates that were measured as correct, in the order in which they were
// settled. A forecast without a number of labels counts by the measurements before it. Not
// thread-safe.
class LearningCounter {
 public:
  void Add(const ReportCandidate& candidate);
  const Learning& learning() const { return learning_; }

 private:
  Learning learning_;
  uint64_t labels_ = 0;                     // measured with a verdict
  std::map<std::string, double> speedups_;  // by candidate id
};

Learning LearningOf(const ReportInput& input);

// "forecasts in the measured bin: 35% (75% within one bin) of 20 before 20 labels, ...". Empty
// without a forecast to count.
std::string LearningText(const Learning& learning);

// The section of the page: hit rates, and the lessons from earlier searches. Empty if there is
// nothing to say.
std::string LearningHtml(const ReportInput& input);

// "Started with 12 lessons from earlier searches." Empty without lessons.
std::string LessonsText(const v1::Search& search);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_LEARNING_H_
