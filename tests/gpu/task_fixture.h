#ifndef KERNELCAST_TESTS_GPU_TASK_FIXTURE_H_
#define KERNELCAST_TESTS_GPU_TASK_FIXTURE_H_

#include <catch2/catch.hpp>
#include <cstdio>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "tests/gpu/gpu_fixture.h"

namespace kernelcast::testing {

// Why Python tasks cannot be judged on a GPU of this machine, if so.
std::optional<std::string> NoTasks();

#define KERNELCAST_NEEDS_TASKS()                                      \
  if (const auto reason = ::kernelcast::testing::NoTasks(); reason) { \
    std::printf("skipped: %s\n", reason->c_str());                    \
    SUCCEED("skipped: " << *reason);                                  \
    return;                                                           \
  }

// A KernelBench task.
Problem MakeTask(const std::string& source);

// Judges candidates of a task on a GPU.
class TaskFixture {
 public:
  explicit TaskFixture(Problem problem);

  GpuFixture& gpu() { return gpu_; }
  // Judges candidates of another task in the same worker.
  void Take(Problem problem) { gpu_.set_problem(std::move(problem)); }
  Candidate MakeCandidate(const std::string& source) const;
  Measurement Measure(const std::string& source, MeasureLevel level = MeasureLevel::kScreen);
  // Measures, prints what it gave, and checks that it is one of `outcomes`.
  Measurement CheckOutcome(const std::string& name, const std::string& source,
                           const std::set<std::string>& outcomes);
  // Measures one whose Triton kernels do not compile, prints the error, and returns it.
  std::string CheckCompileError(const std::string& name, const std::string& source);

 private:
  GpuFixture gpu_;
};

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_GPU_TASK_FIXTURE_H_
