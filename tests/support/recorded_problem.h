#ifndef KERNELCAST_TESTS_SUPPORT_RECORDED_PROBLEM_H_
#define KERNELCAST_TESTS_SUPPORT_RECORDED_PROBLEM_H_

#include <functional>
#include <string>
#include <vector>

#include "common/domain/facts.h"
#include "common/domain/problem.h"

namespace kernelcast::testing {

// A problem of `blocks` x `unrolls` points whose speedups are a smooth function of the tunables,
// with a record of every point for a replaying worker. The measurements are synthetic and nothing
// compiles, so tests of routing, recovery and rate need no compiler and no quiet machine.
struct RecordedProblem {
  std::vector<ProblemFile> files;
  Problem problem;
  std::vector<Candidate> candidates;
  double best_speedup = 0;
};

// Each candidate's source has at least `source_bytes`.
RecordedProblem MakeRecordedProblem(int blocks, int unrolls, const std::string& target = "cpu",
                                    int source_bytes = 0);

// The speedup of one of its candidates.
double RecordedSpeedup(const Candidate& candidate);

// Record fields other than the speedup.
struct RecordOptions {
  std::function<double(const Candidate&)> speedup = RecordedSpeedup;
  // By default those of the smooth space, for a null candidate of its reference.
  std::function<CompileFacts(const Candidate*)> facts;
  std::string device_model;
};

// Writes the records as JSON lines of ExportRecord.
void WriteRecords(const RecordedProblem& recorded, const std::string& path,
                  const RecordOptions& options = {});

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_SUPPORT_RECORDED_PROBLEM_H_
