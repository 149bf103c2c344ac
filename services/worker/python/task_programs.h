#ifndef KERNELCAST_SERVICES_WORKER_PYTHON_TASK_PROGRAMS_H_
#define KERNELCAST_SERVICES_WORKER_PYTHON_TASK_PROGRAMS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/candidate.h"
#include "common/domain/measurement.h"
#include "common/domain/problem.h"
#include "services/worker/core/inputs.h"
#include "services/worker/core/tensor.h"
#include "services/worker/python/task_launches.h"

namespace kernelcast::worker {

// Starting takes this long at most, because the interpreter imports PyTorch.
inline constexpr int64_t kPythonStartLimitNs = 60'000'000'000;
// TOOK_OUTPUT_MEMORY in runner.py.
inline constexpr int kTookOutputMemoryExitCode = 113;
// NOT_COMPILED in runner.py. A candidate that exits with one of these by itself is not ok either.
inline constexpr int kNotCompiledExitCode = 115;
// The cause of a wrong result by the exit codes WRONG_FORM, WRONG_SHAPE and WRONG_DTYPE in
// runner.py; nullopt for others.
std::optional<WrongResult::Cause> WrongFormOf(int exit_code);
// ILLEGAL_ADDRESS in cuda_runner.py.
inline constexpr int kIllegalAddressExitCode = 116;

// Seeds of PyTorch and NumPy are less than this.
inline constexpr uint64_t kTaskSeeds = uint64_t{1} << 32;
// Bits of a draw of inputs about its case; the same as in task_draws.py.
enum DrawFlag : int64_t { kNeverChanges = 1, kFewValues = 2, kOnlyScaled = 4 };
// What the flags of all timed cases imply for results.
std::vector<MeasurementNote> NotesOf(int64_t flags);
// Limit of what a task says about itself.
inline constexpr int64_t kDescriptionBytes = 1 << 20;
// Limits of a case.
inline constexpr size_t kMaxTaskTensors = 128;
inline constexpr size_t kMaxTaskDimensions = 8;

// FAILED_PRECONDITION: "the task " and what is wrong with it.
absl::Status UnsupportedTask(const std::string& what);

// The type of a tensor of PyTorch, by its name without "torch.". Its bool is stored as bytes that
// are 0 or 1. INVALID_ARGUMENT: the type is not supported.
[[nodiscard]] absl::StatusOr<DataType> ParseTorchType(const std::string& name);

// A program for runner.py; PythonTaskPrograms describes the content.
struct PythonProgram {
  std::string content;
};

// A Python task whose cases are known, and the programs that its processes run. The content of a
// program is JSON for runner.py: `role`, `format`, `task` (the source), `details` (PythonTask),
// `candidate` (a source), `cases` (the descriptions) and `calls` (the case of each entry of the
// process's case table).
class PythonTaskPrograms {
 public:
  // The candidate's source in a program; "" if it runs none.
  static std::string CandidateSourceOf(const std::string& program);
  // The program that says what the task's cases are. It writes at most kDescriptionBytes, ended by
  // NUL. `held_out_seed`: of the cases that the task does not list.
  static PythonProgram DescribeProgram(const Problem& problem, uint64_t held_out_seed);
  // `text` is what that program wrote, which may be anything. FAILED_PRECONDITION: the task has
  // inputs or outputs that are not supported.
  [[nodiscard]] static absl::StatusOr<PythonTaskPrograms> Read(const Problem& problem,
                                                               const std::string& text);

  // The problem with its inputs and outputs, which have the shapes of the first case.
  const Problem& problem() const { return problem_; }
  // What launches of device code may name.
  const TaskLaunches& launches() const { return launches_; }
  // The parameters and buffers of the reference, with places in `weights_bytes` bytes.
  const std::vector<TaskWeight>& weights() const { return weights_; }
  uint64_t weights_bytes() const { return weights_bytes_; }
  const std::vector<TaskCase>& cases() const { return cases_; }
  // Size of the inputs and outputs of the largest case.
  uint64_t MostCallBytes() const;
  // The case with these axes. There must be one.
  size_t IndexOf(const AxisValues& axes) const;

  // The correctness cases of one sitting: each that the task checks, held-out ones, and each that
  // is timed, repeated with new seeds until there are `least`.
  std::vector<CaseSpec> CorrectnessCases(int least) const;

  // Programs whose case table has the cases of `calls`.
  using Calls = std::vector<size_t>;
  // The program of a candidate. The reference itself can be judged too, also under torch.compile
  // (kTorchCompileFlag).
  PythonProgram ProgramFor(const kernelcast::Candidate& candidate, const Calls& calls) const;
  PythonProgram Reference(const Calls& calls) const { return Make("reference", "", calls); }
  PythonProgram CompiledReference(const Calls& calls) const { return Make("compiled", "", calls); }
  PythonProgram Candidate(const std::string& source, const Calls& calls) const {
    return Make("candidate", source, calls);
  }
  // The reference, with floating-point outputs in double precision, where the case table does not
  // say that.
  PythonProgram Oracle(const Calls& calls) const { return Make("oracle", "", calls); }
  // For a table with all cases in order.
  PythonProgram Inputs() const { return Make("inputs", "", AllCalls()); }
  PythonProgram Checker() const { return Make("check", "", AllCalls()); }
  // Writes the weights to its only output, which has weights_bytes() bytes.
  PythonProgram Weights() const;

 private:
  PythonTaskPrograms() = default;
  PythonProgram Make(const char* role, const std::string& candidate, const Calls& calls) const;
  Calls AllCalls() const;
  absl::Status AddCase(const std::string& description);
  absl::Status AddWeight(const std::string& description);
  // Returns null where the description has no calls with values, or other values than it says.
  std::shared_ptr<const std::vector<PythonTask::Call>> ReadCalls(const std::string& text) const;

  Problem problem_;
  std::vector<TaskCase> cases_;
  std::vector<TaskWeight> weights_;
  uint64_t weights_bytes_ = 0;
  TaskLaunches launches_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_PYTHON_TASK_PROGRAMS_H_
