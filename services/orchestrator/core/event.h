#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_EVENT_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_EVENT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/domain/candidate.h"
#include "common/domain/decision.h"
#include "common/domain/facts.h"
#include "common/domain/forecast.h"
#include "common/domain/lesson.h"
#include "common/domain/measurement.h"
#include "common/domain/problem.h"

namespace kernelcast::orchestrator {

// Events of the log. An event is visible outside only after it is written. The state is the result
// of applying the events in order (state.h). event.proto and orchestrator.proto define the fields.

enum class EvaluateMode { kRoute, kMeasure, kFinal, kForecast, kCheck, kProfile };

enum class GeneratorKind { kTemplate, kExternal, kLlm };

// Zero: no limit of this kind.
struct Budget {
  uint64_t max_candidates = 0;
  uint64_t max_measurements = 0;
  int64_t max_device_time_ns = 0;
  int64_t max_wall_time_ns = 0;
  friend bool operator==(const Budget&, const Budget&) = default;
};

// Limits on requests to a language model that writes kernels. Zero: no limit of this kind.
struct GeneratorLimits {
  uint64_t max_requests = 0;  // unanswered ones are not counted
  uint64_t max_tokens = 0;
  // Maximum number of concurrent requests. 0: kDefaultGenerationsInFlight.
  uint32_t max_in_flight = 0;
  friend bool operator==(const GeneratorLimits&, const GeneratorLimits&) = default;
};
inline constexpr uint32_t kDefaultGenerationsInFlight = 4;
inline constexpr uint32_t kMaxGenerationsInFlight = 256;

// At which held-out bench shapes the finalists of a search are measured (gate.h).
enum class GateMode {
  kDeclared,  // those of the problem
  kDrawn,     // those of the problem, otherwise drawn ones
  kOff,
};

struct SearchSpec {
  std::string problem_id;
  std::string target;
  GeneratorKind generator = GeneratorKind::kTemplate;
  GeneratorLimits generator_limits;
  Budget budget;
  std::string policy;
  std::map<std::string, double> policy_parameters;
  std::string strategy = {};
  std::map<std::string, double> strategy_parameters = {};
  uint64_t seed = 0;
  uint32_t max_in_flight = 0;
  bool measure_everything = false;
  uint64_t max_forecast_tokens = 0;
  // For a search in the log, at most one.
  std::vector<std::string> device_models = {};
  GateMode gate = GateMode::kDeclared;
  // A critic names the next step before each request for a kernel. kLlm alone.
  bool critic = false;
  bool time_in_full = false;
  std::vector<Lesson> lessons = {};
  friend bool operator==(const SearchSpec&, const SearchSpec&) = default;
};

struct Rejection {
  enum class Cause { kCompileError, kDuplicate, kBudget, kUnavailable, kCancelled };
  Cause cause = Cause::kUnavailable;
  CompileError compile_error;  // kCompileError
  // The request id of the duplicate, the limit that was reached, or what was unavailable.
  std::string detail;
};

struct ProblemPut {
  std::vector<ProblemFile> files;
  // Null: read from the log, and not parsed yet.
  std::shared_ptr<const Problem> parsed = nullptr;
};

struct ReferenceDescribed {
  std::string problem_id;
  std::string target;
  CompileFacts facts;
  std::string toolchain;
  std::string device_model;
};

struct SearchCreated {
  std::string search_id;
  SearchSpec spec;
  std::string device_model;
};

// The device model of a search or an evaluation that was accepted without one. Exactly one of
// search_id and request_id is set.
struct DeviceChosen {
  std::string search_id;
  std::string request_id;
  std::string device_model;
};

struct EvaluationAccepted {
  std::string request_id;
  std::string search_id;
  EvaluateMode mode = EvaluateMode::kRoute;
  Candidate candidate;
  bool generated = false;
  std::string wanted_device_model;
  std::string device_model;
};

struct EvaluationCompiled {
  std::string request_id;
  std::variant<CompileFacts, CompileError> result;
  Artifact artifact;  // without content
};

struct EvaluationForecast {
  std::string request_id;
  std::variant<Forecast, Abstention> result;
};

struct EvaluationDecided {
  std::string request_id;
  Decision decision;
};

// As in Measurement.
struct DeviceTime {
  int64_t device_time_ns = 0;
  int64_t preparation_time_ns = 0;  // included in device_time_ns

  DeviceTime& operator+=(const DeviceTime& other) {
    device_time_ns += other.device_time_ns;
    preparation_time_ns += other.preparation_time_ns;
    return *this;
  }
  friend bool operator==(const DeviceTime&, const DeviceTime&) = default;
};

// A measurement was unstable, and the candidate is measured again.
struct MeasurementRepeated {
  std::string request_id;
  DeviceTime time = {};
};

// Settled on the forecast in the evaluation's EvaluationForecast.
struct Pruned {};

struct EvaluationSettled {
  std::string request_id;
  std::variant<Measurement, Pruned, Rejection> result;
  bool reused = false;
};

// A language model is asked for a kernel derived from the parent.
struct GenerationRequested {
  std::string search_id;
  uint64_t number = 0;  // counts the search's requests, from 1
  std::string parent_candidate_id;
};

enum class GenerationOutcome {
  kWritten,     // its EvaluationAccepted follows
  kDuplicate,   // differs from an earlier kernel of the search only in comments and layout
  kUnusable,    // an answer without a kernel
  kUnanswered,  // no answer
};
inline constexpr GenerationOutcome kGenerationOutcomes[] = {
    GenerationOutcome::kWritten, GenerationOutcome::kDuplicate, GenerationOutcome::kUnusable,
    GenerationOutcome::kUnanswered};
// "written", "duplicate", "unusable", "unanswered".
std::string_view Name(GenerationOutcome outcome);

struct GenerationUsage {
  uint64_t input_tokens = 0;  // including cached tokens
  uint64_t cached_input_tokens = 0;
  uint64_t output_tokens = 0;
  // The endpoint reported no token counts; they are estimated from bytes.
  bool estimated = false;
  double cost = 0;
};

// A critic answered, or did not, before the kernel of this number is written.
struct GenerationAdvised {
  std::string search_id;
  uint64_t number = 0;
  std::string advice = {};  // empty: none
  std::string detail = {};  // why there is none
  std::string prompt_version = {};
  std::string model = {};
  std::string endpoint = {};
  GenerationUsage usage = {};
  int64_t latency_ns = 0;
};

struct GenerationSettled {
  std::string search_id;
  uint64_t number = 0;
  GenerationOutcome outcome = GenerationOutcome::kUnanswered;
  // The request id of the evaluation (kWritten), the id of the other candidate (kDuplicate), or a
  // text that says what was wrong.
  std::string detail;
  std::string parent_candidate_id;
  std::string prompt_version;
  std::string model;
  std::string endpoint;
  GenerationUsage usage;
  int64_t latency_ns = 0;
  std::string fault = {};                 // kUnusable: the kind, such as "no_code"
  std::vector<std::string> repairs = {};  // what had to be mended to read the answer
};

// The pruned candidates of a search were forecast again, to measure the best of them.
struct PrunedRanked {
  std::string search_id;
  // SearchCounts of the search when the ranking began.
  uint64_t measurements = 0;
  uint64_t pruned = 0;
  // The largest number of labels that a forecast includes.
  uint64_t labels_seen = 0;
  // The candidate to evaluate next. Empty: none is worth a measurement.
  std::string candidate_id;
};

struct LabelsObserved {
  std::vector<std::string> request_ids;
};

// SearchFinishing::reason if a caller stopped the search.
inline constexpr std::string_view kStoppedReason = "stopped";

// Occurs once per search, and once more if a caller stops a search that is already finishing.
struct SearchFinishing {
  std::string search_id;
  std::string reason;
};

struct SearchClosed {
  std::string search_id;
  std::string confirmed_request_id;
  bool failed = false;
  std::string reason;
};

using EventBody =
    std::variant<ProblemPut, ReferenceDescribed, SearchCreated, EvaluationAccepted,
                 EvaluationCompiled, EvaluationForecast, EvaluationDecided, EvaluationSettled,
                 GenerationRequested, GenerationSettled, LabelsObserved, SearchFinishing,
                 SearchClosed, DeviceChosen, MeasurementRepeated, PrunedRanked, GenerationAdvised>;

struct Event {
  int64_t time_ns = 0;  // since the Unix epoch
  EventBody body;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_EVENT_H_
