#ifndef KERNELCAST_TESTS_SUPPORT_TASK_EXAMPLES_H_
#define KERNELCAST_TESTS_SUPPORT_TASK_EXAMPLES_H_

#include <memory>
#include <string>
#include <vector>

#include "common/domain/problem.h"

namespace kernelcast::testing {

// A Python candidate of a PyTorch task.
struct TaskExample {
  std::string task;  // for messages, "kernelbench/gated_silu"
  std::string name;  // "in_place"; those that are wrong start with "wrong"
  std::string source;
  std::shared_ptr<const Problem> problem;  // shared by the examples of a task
};

// The candidates of examples/tasks, of all formats; sorted by task and name. Throws
// std::runtime_error if one cannot be read.
std::vector<TaskExample> ReadTaskExamples();

// Variants of the tasks of tests/integration/worker/recorded at sizes that take a GPU 20 us and
// more: block sizes, warps, and PyTorch's own operations. All are right. Throws as above.
std::vector<TaskExample> MakeTaskVariants();

// The candidate as the worker takes it.
Candidate CandidateOf(const TaskExample& example);

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_SUPPORT_TASK_EXAMPLES_H_
