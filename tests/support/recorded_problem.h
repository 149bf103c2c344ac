#ifndef KERNELCAST_TESTS_SUPPORT_RECORDED_PROBLEM_H_
#define KERNELCAST_TESTS_SUPPORT_RECORDED_PROBLEM_H_

#include <string>
#include <vector>

#include "common/domain/problem.h"

namespace kernelcast::testing {

// A problem of `blocks` x `unrolls` points whose speedups are a smooth function of the tunables,
// with a record of every point for a worker that replays. Nothing of it compiles: its measurements
// are made up, so that tests of routing, recovery and rate need no compiler and no quiet machine.
struct RecordedProblem {
  std::vector<ProblemFile> files;
  Problem problem;
  std::vector<Candidate> candidates;
  double best_speedup = 0;
};

// `source_bytes`: at least so long is each candidate's source.
RecordedProblem MakeRecordedProblem(int blocks, int unrolls, const std::string& target = "cpu",
                                    int source_bytes = 0);

// Speedup of one of its candidates.
double RecordedSpeedup(const Candidate& candidate);

// Writes the records as JSON lines of ExportRecord.
void WriteRecords(const RecordedProblem& recorded, const std::string& path);

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_SUPPORT_RECORDED_PROBLEM_H_
