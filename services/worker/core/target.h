#ifndef KERNELCAST_SERVICES_WORKER_CORE_TARGET_H_
#define KERNELCAST_SERVICES_WORKER_CORE_TARGET_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/candidate.h"
#include "common/domain/facts.h"
#include "common/domain/measurement.h"
#include "common/domain/problem.h"
#include "services/worker/core/cancel.h"

namespace kernelcast::worker {

struct TargetInfo {
  std::string target;
  bool can_compile = false;
  bool can_measure = false;
  DeviceInfo device;
  std::string architecture;
  std::string toolchain;
  std::string fact_schema;
  std::vector<std::string> allowed_flags;
  bool hardware_counters = false;
  std::string unavailable_reason;
  std::vector<std::string> missing_protections;
};

struct CompileSuccess {
  CompileFacts facts;
  Artifact artifact;
  std::string log;
  // Of device CUDA, for as long as the target works on it: what facts of launches are read from.
  std::string ptx = {};
};

struct CompileResult {
  std::variant<CompileSuccess, CompileError> result;
  bool cached = false;
  int64_t compile_ns = 0;
};

// What a profiler saw of a candidate.
struct Profile {
  // Of the bench shapes in their order, or empty.
  std::vector<ShapeProfile> shapes;
  // Why counters, or all of it, are missing; or "".
  std::string unavailable_reason;
  int64_t device_time_ns = 0;
};

// What candidates run on. The calls block: they run on threads that the worker owns, and return
// soon after the token is stopped, with its status. Thread-safe.
class Target {
 public:
  virtual ~Target() = default;

  virtual TargetInfo Describe() const = 0;

  // Deterministic; identical calls at one time compile once. A source that does not compile is a
  // result, and so are launches that have no plan at some shape of the problem. INVALID_ARGUMENT: a
  // candidate of a kind that the target does not take.
  [[nodiscard]] virtual absl::StatusOr<CompileResult> Compile(const Problem& problem,
                                                              const Candidate& candidate,
                                                              const CancelToken& cancel) = 0;

  // The same for the problem's own reference. NOT_FOUND: the problem has none for this target.
  [[nodiscard]] virtual absl::StatusOr<CompileResult> CompileReference(
      const Problem& problem, const CancelToken& cancel) = 0;

  // The artefact to measure: `sent`, with its content from the cache where it has none.
  // INVALID_ARGUMENT: not made from this candidate. FAILED_PRECONDITION: made for another
  // architecture, or neither sent nor cached.
  [[nodiscard]] virtual absl::StatusOr<Artifact> Resolve(const Candidate& candidate,
                                                         const Artifact& sent) = 0;

  // Verifies and times. Waits for the timing lease. FAILED_PRECONDITION: the problem itself is at
  // fault, its oracle or reference does not compile, run or agree. UNAVAILABLE: the machine could
  // not start a process.
  [[nodiscard]] virtual absl::StatusOr<Measurement> Measure(const Problem& problem,
                                                            const Candidate& candidate,
                                                            const Artifact& artifact,
                                                            MeasureLevel level,
                                                            const CancelToken& cancel) = 0;

  // Profiles what Measure has found to be ok. Waits for the timing lease. Whatever keeps the
  // profiler from its work is in the result; errors are those of Measure, and UNIMPLEMENTED where
  // the target has no profiler, as it is unless overridden.
  [[nodiscard]] virtual absl::StatusOr<Profile> ProfileCandidate(const Problem& problem,
                                                                 const Candidate& candidate,
                                                                 const Artifact& artifact,
                                                                 const CancelToken& cancel);
};

// Puts the profile into the measurement, if that is an ok one. An error is why there is none.
void AddProfile(absl::StatusOr<Profile> profile, Measurement& measurement);

// The record of a judgement that began at `start_ns` of the machine's monotonic clock and ends now.
Measurement RecordOf(const TargetInfo& target, const std::string& worker_id,
                     std::string_view protocol_version, const Candidate& candidate,
                     const Artifact& artifact, MeasureLevel level, int64_t start_ns,
                     MeasureOutcome outcome);

// Whether an artefact that was sent is one of `target`, made from what has the id `artifact_id`.
// Errors as of Target::Resolve.
[[nodiscard]] absl::Status CheckSent(const TargetInfo& target, const std::string& artifact_id,
                                     const Artifact& sent);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_TARGET_H_
