#ifndef KERNELCAST_SERVICES_WORKER_CORE_TARGET_H_
#define KERNELCAST_SERVICES_WORKER_CORE_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <optional>
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

// A device of a target. It measures one candidate at a time.
struct TargetDevice {
  DeviceInfo info;
  std::string architecture;
  bool can_measure = true;
  std::string unavailable_reason = {};
  std::vector<DevicePeak> peaks = {};
};

struct TargetInfo {
  std::string target;
  bool can_compile = false;
  bool can_measure = false;
  // Info of the first device.
  DeviceInfo device;
  std::string architecture;
  // Empty if nothing is measured. The number and models of the devices never change.
  std::vector<TargetDevice> devices = {};
  std::string toolchain;
  std::vector<std::string> allowed_flags;
  bool hardware_counters = false;
  std::string unavailable_reason;
  std::vector<std::string> missing_protections;
  std::vector<DevicePeak> peaks = {};
  // Kinds of candidates that it compiles or measures.
  std::vector<CandidateKind> candidate_kinds = {};
  // Abilities that it lacks because tools are missing, for people.
  std::vector<std::string> missing_tools = {};
};

struct CompileSuccess {
  CompileFacts facts;
  Artifact artifact;
  std::string log;
  // Device kinds only, and only inside the target: the PTX that Triton made, or the declarations of
  // the kernels in that of NVRTC, which stays in the compiler's process.
  std::string ptx = {};
};

struct CompileResult {
  std::variant<CompileSuccess, CompileError> result;
  bool cached = false;
  int64_t compile_ns = 0;
};

// The result of a candidate that does not compile.
CompileResult RefusedCompile(CompileStage stage, std::string log);

// Profiler results of a candidate.
struct Profile {
  // One per bench shape, in their order, or empty.
  std::vector<ShapeProfile> shapes;
  // Why counters or the whole profile are missing, or "".
  std::string unavailable_reason;
  int64_t device_time_ns = 0;
};

// The source to compile, and the device.
struct CompileRequest {
  const Problem& problem;
  const Candidate* candidate = nullptr;  // null: the problem's own reference
  // "": that of the first device. A target that only compiles takes any.
  std::string device_model = {};
  // Only the artefact is needed. Leaves out facts that take longer than compiling: what Python
  // candidates launch.
  bool artifact_only = false;
};

// The candidate to measure or profile, and the device.
struct MeasureRequest {
  const Problem& problem;
  const Candidate& candidate;
  const Artifact& artifact;  // of the candidate, with its content
  MeasureSpec spec = MeasureLevel::kScreen;
  size_t device = 0;  // index in TargetInfo::devices
};

// Constraints on the device of a candidate. An empty field matches any device.
struct DeviceWish {
  std::string model = {};
  std::string architecture = {};
};

// A kind of device on which candidates run. Calls block, so the worker runs them on its own
// threads. They return soon after the token is stopped, with its status. Thread-safe.
class Target {
 public:
  virtual ~Target() = default;

  virtual TargetInfo Describe() const = 0;

  // Deterministic. Identical concurrent calls compile once. A source that does not compile is a
  // result; so are launches that have no plan at some shape of the problem. INVALID_ARGUMENT: the
  // target does not take this kind of candidate. NOT_FOUND: the problem has no reference for this
  // target. FAILED_PRECONDITION: the target has no device of this model.
  [[nodiscard]] virtual absl::StatusOr<CompileResult> Compile(const CompileRequest& request,
                                                              const CancelToken& cancel) = 0;

  // Returns the artefact to measure: `sent`, with its content from the cache if it has none.
  // INVALID_ARGUMENT: not made from this candidate. FAILED_PRECONDITION: made for another
  // architecture, or neither sent nor cached.
  [[nodiscard]] virtual absl::StatusOr<Artifact> Resolve(const Candidate& candidate,
                                                         const Artifact& sent) = 0;

  // Verifies and times a candidate. Waits for the timing lease. Candidates on different devices may
  // be measured concurrently. FAILED_PRECONDITION: the problem itself is at fault: its oracle or
  // reference does not compile, run or agree. UNAVAILABLE: the machine could not start a process,
  // or, with the device's can_measure false, the device has failed.
  [[nodiscard]] virtual absl::StatusOr<Measurement> Measure(const MeasureRequest& request,
                                                            const CancelToken& cancel) = 0;

  // Profiles a candidate that Measure has found to be ok. Waits for the timing lease. A reason that
  // prevents profiling is part of the result. Errors are those of Measure, and UNIMPLEMENTED if the
  // target has no profiler, which is the default.
  [[nodiscard]] virtual absl::StatusOr<Profile> ProfileCandidate(const MeasureRequest& request,
                                                                 const CancelToken& cancel);

  // Compiles in advance what measuring candidates of a problem needs besides the candidates. The
  // default does nothing.
  virtual void Announce(const Problem& problem, const CancelToken& cancel);

  // Tells that a candidate waits for its measurement, so that the target can load it meanwhile.
  // Returns the device that it is loaded for, one that fits `wish`; measuring it on another device
  // loads it anew. Does not block. The default does nothing.
  virtual std::optional<size_t> Expect(const Problem& problem, const Candidate& candidate,
                                       MeasureLevel level, const DeviceWish& wish = {});

  // Retries a failed device. Returns whether it measures again.
  virtual bool Revive(size_t device);
};

// Returns the devices of a target. A target that does not list them has one.
std::vector<TargetDevice> DevicesOf(const TargetInfo& info);

// FAILED_PRECONDITION: the target has no device of this model. An empty model matches any.
[[nodiscard]] absl::Status CheckModel(const TargetInfo& target, const std::string& device_model);

// Adds the profile to the measurement if the measurement is ok. An error becomes the reason why
// there is no profile.
void AddProfile(absl::StatusOr<Profile> profile, Measurement& measurement);

// Who measures, and how.
struct Measurer {
  const TargetInfo& target;
  const std::string& worker_id;
  std::string_view protocol_version;
};
// Makes the record of a judgement that began at `start_ns` of the monotonic clock and ends now.
Measurement RecordOf(const Measurer& measurer, const MeasureRequest& request, int64_t start_ns,
                     MeasureOutcome outcome);

// Checks that an artefact that was sent belongs to `target` and has the id `artifact_id`. Errors
// are those of Target::Resolve.
[[nodiscard]] absl::Status CheckSent(const TargetInfo& target, const std::string& artifact_id,
                                     const Artifact& sent);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_TARGET_H_
