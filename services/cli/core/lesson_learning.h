#ifndef KERNELCAST_SERVICES_CLI_CORE_LESSON_LEARNING_H_
#define KERNELCAST_SERVICES_CLI_CORE_LESSON_LEARNING_H_

#include <string>
#include <vector>

#include "common/domain/candidate.h"
#include "common/domain/facts.h"
#include "common/domain/lesson.h"
#include "common/domain/measurement.h"

namespace kernelcast::cli {

// A kernel of a search that was measured to be correct. Its source is not needed.
struct MeasuredKernel {
  Candidate candidate;
  CompileFacts facts;
  Ratio speedup;
};

// The candidates that a search measured at the bench shapes of its problem.
struct SearchOutcome {
  std::string family;
  std::string target;
  std::string device_model;
  std::vector<MeasuredKernel> kernels;  // each candidate once
  // The reference, from which a model derives its first kernels. Empty id: unknown.
  std::string reference_id;
  CompileFacts reference_facts;
};

// The lessons of pairs of kernels that differ by one change, ordered by key:
//
// - points of one template that differ in one parameter: aspect "parameter NAME"
// - the best points of two templates: aspect "template"
// - other kernels and those that they were derived from, if one trait (TraitsOf) differs: aspect is
//   its name
//
// `from` is the smaller of the two values, by number if both are integers. The bottleneck is that
// of the kernel with this value. Pairs are weighted by the precision of their measurements. Changes
// that do not fit in a Lesson are left out.
std::vector<Lesson> LearnLessons(const SearchOutcome& search);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_LESSON_LEARNING_H_
