#ifndef KERNELCAST_COMMON_DOMAIN_MEASUREMENT_H_
#define KERNELCAST_COMMON_DOMAIN_MEASUREMENT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/domain/problem.h"

namespace kernelcast {

// Domain twins of the messages in kernel.proto, which defines the fields.

enum class MeasureLevel { kScreen, kFinal, kCheck };
// How precisely to measure. A level alone is enough for most callers.
struct MeasureSpec {
  MeasureSpec(MeasureLevel wanted, double stop = 0)  // NOLINT(google-explicit-constructor)
      : level(wanted), stop_below(stop) {}

  // The value below which timing ends early, for a problem with this number of bench shapes. 0: it
  // does not end early. Another shape may make up for a slow one, and final figures must be
  // precise.
  double StopBelow(size_t shapes) const {
    return level == MeasureLevel::kScreen && shapes == 1 ? stop_below : 0;
  }

  MeasureLevel level;
  double stop_below;  // MeasureRequest.stop_below
  friend bool operator==(const MeasureSpec&, const MeasureSpec&) = default;
};

enum class Comparison { kFaster, kSlower, kSame, kAmbiguous };

// Whether two processes gave the same bytes for the same inputs.
enum class Determinism { kUnknown, kBitwise, kVaries };

// A reason to doubt a measured speedup. About the task, not the candidate.
enum class MeasurementNote { kInputsNeverChange, kFewInputValues, kInputsOnlyScaled };
inline constexpr MeasurementNote kMeasurementNotes[] = {MeasurementNote::kInputsNeverChange,
                                                        MeasurementNote::kFewInputValues,
                                                        MeasurementNote::kInputsOnlyScaled};
std::string_view Name(MeasurementNote note);  // "inputs_never_change"
// For readers of results: "this task's inputs never change: answers can be remembered".
std::string_view NoteText(MeasurementNote note);

struct Ratio {
  double value = 0;
  double low = 0;
  double high = 0;
  double confidence = 0;
  double within_deviation = 0;
  double between_deviation = 0;
};

struct DeviceInfo {
  std::string model;
  std::string uuid;
  std::string driver_version;
  std::string runtime_version;
  uint32_t compute_units = 0;
  uint64_t memory_bytes = 0;
};

enum class PeakSource { kAttributes, kTable, kMeasured };

// Peak rate of a device.
struct DevicePeak {
  std::string name;
  double per_second = 0;
  PeakSource source = PeakSource::kMeasured;
  std::string detail = {};
  int64_t working_set_bytes = 0;
};

std::string_view Name(PeakSource source);  // "attributes"

struct Roofline {
  enum class Bound { kMemory, kCompute };
  double time_ns = 0;
  Bound bound = Bound::kMemory;
  std::string peak;
  double ratio = 0;
  double score = 0;
};

struct TimeStatistics {
  double median_ns = 0;
  double min_ns = 0;
  double quartile1_ns = 0;
  double quartile3_ns = 0;
  double cold_median_ns = 0;
  uint64_t samples = 0;
};

struct KernelActivity {
  std::string name;
  double launches = 0;
  double median_ns = 0;
  uint32_t registers = 0;
  uint32_t static_shared_bytes = 0;
  uint32_t dynamic_shared_bytes = 0;
};

struct StallReason {
  std::string reason;
  double share = 0;
};

struct ShapeProfile {
  std::vector<KernelActivity> kernels;
  double warm_event_ns = 0;
  double warm_activity_ns = 0;
  std::map<std::string, double> counters;
  std::vector<StallReason> stall_reasons;
  std::vector<std::string> missing_counters;
};

// Calls of Python candidates on GPUs as the host makes them one by one, with what that costs it.
// The other figures of the shape are then those of CUDA graphs of the calls.
struct EagerTiming {
  TimeStatistics candidate;
  TimeStatistics reference;
  Ratio speedup;
  // Why there are no graphs, so that the other figures are these too; else "".
  std::string no_graph_reason;
};

struct ShapeTiming {
  AxisValues shape;
  TimeStatistics candidate;
  TimeStatistics reference;
  Ratio speedup;
  uint32_t blocks = 0;
  uint32_t discarded_blocks = 0;
  std::string stop_reason;
  double bytes = 0;
  double flops = 0;
  double implausible_below_ns = 0;
  double call_overhead_ns = 0;
  std::optional<ShapeProfile> profile;
  std::optional<Roofline> roofline;
  std::optional<EagerTiming> eager;  // Python candidates on GPUs only
  double weight = 0;                 // 0 in records without weights: all are equal
};

// `stop_reason` of a timing that ended because of MeasureSpec::stop_below.
inline constexpr std::string_view kStoppedBehind = "behind";

struct Environment {
  double clock_start_hz = 0;
  double clock_min_hz = 0;
  std::vector<std::string> throttle_reasons;
  double temperature_celsius = 0;
  double power_watts = 0;
  std::string counters_unavailable_reason;
};

// The reference of a PyTorch task under torch.compile, where the task asks for it.
struct CompiledBaseline {
  Ratio speedup;                           // of the candidate over it
  std::vector<TimeStatistics> references;  // its calls, by bench shape
  bool eager = false;                      // it or the candidate has no CUDA graph
  std::string unavailable_reason;          // why there are no figures, or ""
};

struct MeasuredOk {
  Ratio speedup;
  Comparison comparison = Comparison::kAmbiguous;
  std::vector<ShapeTiming> shapes;
  Environment environment;
  uint32_t runners = 0;
  uint32_t correctness_cases = 0;
  std::vector<double> runner_speedups;
  std::string rule = {};
  Determinism determinism = Determinism::kUnknown;
  std::optional<CompiledBaseline> compiled = {};
  std::vector<MeasurementNote> notes = {};
};

// The weight of each shape. They sum to 1.
std::vector<double> ShapeWeights(const MeasuredOk& ok);

// The outputs are right, and nothing was timed (MeasureLevel::kCheck).
struct Passed {
  uint32_t correctness_cases = 0;
  std::string rule = {};
  std::vector<MeasurementNote> notes = {};
};

struct WrongResult {
  enum class Cause {
    kValue,
    kNonFinite,
    kNormwise,
    kNotWritten,
    kEntryStatus,
    kTimedOutput,
    kForm,
    kShape,
    kDtype,
  };
  Cause cause = Cause::kValue;
  AxisValues shape;
  std::string distribution;
  std::string output;
  uint64_t mismatches = 0;
  uint64_t elements = 0;
  uint64_t index = 0;
  double got = 0;
  double expected = 0;
  double normwise_error = 0;
  int32_t entry_status = 0;
  std::string rule = {};
  std::string detail = {};
};

struct Crash {
  enum class Cause { kSignal, kExit, kMemoryLimit, kOutputLimit, kLoad, kDeviceError };
  Cause cause = Cause::kSignal;
  int32_t signal = 0;
  int32_t exit_code = 0;
  std::string output_tail;
  AxisValues shape = {};
  std::string distribution = {};
  std::string stage = {};
};

struct Timeout {
  int64_t limit_ns = 0;
  std::string stage;
  AxisValues shape = {};
  std::string distribution = {};
};

struct Exploit {
  enum class Kind {
    kForbiddenSystemCall,
    kMutatedInput,
    kCachedOutput,
    kSkippedWork,
    kImplausiblyFast,
    kWriteOutOfBounds,
    kBackgroundWork,
    kForgedResult,
  };
  Kind kind = Kind::kForbiddenSystemCall;
  std::string evidence;
  AxisValues shape = {};
  std::string distribution = {};
};

struct EnvironmentUnstable {
  std::string reason;
  uint32_t discarded_blocks = 0;
  uint32_t blocks = 0;
  Ratio speedup;
};

using MeasureOutcome =
    std::variant<MeasuredOk, WrongResult, Crash, Timeout, Exploit, EnvironmentUnstable, Passed>;

struct Measurement {
  std::string candidate_id;
  std::string problem_id;
  std::string target;
  MeasureLevel level = MeasureLevel::kScreen;
  std::string worker_id;
  DeviceInfo device;
  int64_t measured_at_ns = 0;  // since the Unix epoch
  int64_t device_time_ns = 0;
  int64_t preparation_time_ns = 0;  // included in device_time_ns
  std::string toolchain;
  std::string architecture;
  std::string protocol_version;
  MeasureOutcome outcome;
};

// "ok", "wrong_result", "crash", "timeout", "exploit", "environment_unstable", "passed". Used in
// metric labels and JSON.
std::string_view OutcomeName(const MeasureOutcome& outcome);

// The measured speedup, or nullptr if the outcome is not ok.
const Ratio* MeasuredSpeedup(const Measurement& measurement);

// Whether the candidate is faster than the reference under torch.compile, in a sentence without its
// full stop.
std::string CompiledBaselineText(const CompiledBaseline& compiled);

// Whether timing ended early because of MeasureSpec::stop_below.
bool StoppedBehind(const Measurement& measurement);

enum class CompileStage { kAdmission, kCompiler, kLinker, kLimit };

struct CompileError {
  CompileStage stage = CompileStage::kCompiler;
  std::string log;
};

enum class ArtifactFormat { kSharedObject, kCubin, kPythonSource };

struct Artifact {
  std::string artifact_id;
  ArtifactFormat format = ArtifactFormat::kSharedObject;
  std::string architecture;
  std::string toolchain;
  std::string content;
};

// A short text for the author of a candidate, human or model: what was wrong, or where the time
// went.
std::string MeasurementFeedback(const Measurement& measurement);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_MEASUREMENT_H_
