#ifndef KERNELCAST_SERVICES_GATEWAY_CORE_TASK_H_
#define KERNELCAST_SERVICES_GATEWAY_CORE_TASK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/candidate.h"
#include "common/domain/measurement.h"
#include "common/domain/problem.h"

namespace kernelcast::gateway {

// A submission of a client.
struct Submission {
  // Chosen by the dialect, so that a repeated request has the id of the first.
  std::string task_id;
  std::string dialect;
  std::string owner;  // HttpRequest::caller
  std::string name;   // of what is served
  // Has its id, so that its source is hashed only once.
  Candidate candidate;
  std::string device_model;
  // The problem, if it is not in the catalogue.
  std::vector<ProblemFile> problem_files;
  // The outputs are checked, and nothing is timed.
  bool checks_only = false;
  // Data that the dialect needs for its answers.
  nlohmann::json note;
};

// The state of a submission's candidate. At most one of the first two is set. Neither: there is no
// verdict, and `no_verdict` says why.
struct Verdict {
  std::optional<Measurement> measurement;
  std::optional<CompileError> compile_error;
  std::string no_verdict;
  std::string feedback;  // for the author of the candidate
  std::string device_model;
  int64_t accepted_ns = 0;  // wall clock time; `settled_ns` too
  int64_t settled_ns = 0;

  bool settled() const { return measurement.has_value() || compile_error.has_value(); }
  // Whether the candidate is right, timed or not.
  bool passed() const {
    return ok() != nullptr ||
           (measurement.has_value() && std::holds_alternative<Passed>(measurement->outcome));
  }
  // The label `outcome` of metrics and logs.
  std::string_view outcome() const {
    return compile_error ? "compile_error"
           : measurement ? OutcomeName(measurement->outcome)
                         : std::string_view("no_verdict");
  }
  // Null: the candidate was not measured successfully.
  const MeasuredOk* ok() const {
    return measurement.has_value() ? std::get_if<MeasuredOk>(&measurement->outcome) : nullptr;
  }
};

// A task as of now.
struct Task {
  std::shared_ptr<const Submission> submission;
  int64_t created_ns = 0;                  // wall clock time
  std::shared_ptr<const Verdict> verdict;  // null: pending
  std::string request_id;                  // of the latest evaluation
};

// Asks for verdicts. Implementations are thread-safe.
class Evaluator {
 public:
  using Done = std::function<void(Verdict)>;

  virtual ~Evaluator() = default;
  // Measures or checks the candidate. The same request id has the same verdict, however often it is
  // asked for. Calls `done` once, on any thread, but not before this returns.
  virtual void Evaluate(const std::string& request_id, std::shared_ptr<const Submission> submission,
                        Done done) = 0;
  // Whether the evaluator can be reached.
  virtual bool healthy() const = 0;
};

struct StoredTask {
  Submission submission;
  int64_t created_ns = 0;
};

// Keeps submissions, without verdicts, while the gateway restarts. Implementations are thread-safe.
class TaskArchive {
 public:
  virtual ~TaskArchive() = default;
  // Adds a task unless its id is known. Drops the oldest tasks to make room.
  [[nodiscard]] virtual absl::Status Put(const Submission& submission, int64_t created_ns) = 0;
  // NOT_FOUND: not in the archive.
  [[nodiscard]] virtual absl::StatusOr<StoredTask> Find(const std::string& task_id) = 0;
  // Tasks of an owner, latest first. `name` empty: of all names.
  [[nodiscard]] virtual absl::StatusOr<std::vector<std::string>> List(const std::string& dialect,
                                                                      const std::string& owner,
                                                                      const std::string& name,
                                                                      size_t limit,
                                                                      size_t offset) = 0;
  // Tasks that were ever put, including those that have been dropped.
  [[nodiscard]] virtual absl::StatusOr<uint64_t> Count(const std::string& dialect,
                                                       const std::string& name) = 0;
};

}  // namespace kernelcast::gateway

#endif  // KERNELCAST_SERVICES_GATEWAY_CORE_TASK_H_
