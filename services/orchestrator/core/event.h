#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_EVENT_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_EVENT_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/domain/candidate.h"
#include "common/domain/decision.h"
#include "common/domain/facts.h"
#include "common/domain/forecast.h"
#include "common/domain/measurement.h"
#include "common/domain/problem.h"

namespace kernelcast::orchestrator {

// What the log holds. Nobody outside is told of an event before it is written; the state is the
// fold of the events (state.h). Field meanings as in event.proto and orchestrator.proto.

enum class EvaluateMode { kRoute, kMeasure, kFinal, kForecast };

enum class GeneratorKind { kTemplate, kExternal, kLlm };

// Zero: no limit of this kind.
struct Budget {
  uint64_t max_candidates = 0;
  uint64_t max_measurements = 0;
  int64_t max_device_time_ns = 0;
  int64_t max_wall_time_ns = 0;
  friend bool operator==(const Budget&, const Budget&) = default;
};

// What a search may ask of a language model that writes kernels. Zero: no limit of this kind.
struct GeneratorLimits {
  uint64_t max_requests = 0;  // those that nobody answered not counted
  uint64_t max_tokens = 0;
  // Requests under way at once; 0: kDefaultGenerationsInFlight.
  uint32_t max_in_flight = 0;
  friend bool operator==(const GeneratorLimits&, const GeneratorLimits&) = default;
};
inline constexpr uint32_t kDefaultGenerationsInFlight = 4;
inline constexpr uint32_t kMaxGenerationsInFlight = 256;

struct SearchSpec {
  std::string problem_id;
  std::string target;
  GeneratorKind generator = GeneratorKind::kTemplate;
  GeneratorLimits generator_limits;
  Budget budget;
  std::string policy;
  std::map<std::string, double> policy_parameters;
  uint64_t seed = 0;
  uint32_t max_in_flight = 0;
  bool measure_everything = false;
  uint64_t max_forecast_tokens = 0;
  friend bool operator==(const SearchSpec&, const SearchSpec&) = default;
};

struct Rejection {
  enum class Cause { kCompileError, kDuplicate, kBudget, kUnavailable, kCancelled };
  Cause cause = Cause::kUnavailable;
  CompileError compile_error;  // kCompileError
  // The request id of the duplicate, the limit reached, or what was unavailable.
  std::string detail;
};

struct ProblemPut {
  std::vector<ProblemFile> files;
};

struct ReferenceDescribed {
  std::string problem_id;
  std::string target;
  CompileFacts facts;
  std::string toolchain;
};

struct SearchCreated {
  std::string search_id;
  SearchSpec spec;
};

struct EvaluationAccepted {
  std::string request_id;
  std::string search_id;
  EvaluateMode mode = EvaluateMode::kRoute;
  Candidate candidate;
  bool generated = false;
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

// Settled on the forecast of the evaluation's EvaluationForecast.
struct Pruned {};

struct EvaluationSettled {
  std::string request_id;
  std::variant<Measurement, Pruned, Rejection> result;
  bool reused = false;
};

// A model is asked for a kernel that is to be made from this one.
struct GenerationRequested {
  std::string search_id;
  uint64_t number = 0;  // in the search, from 1
  std::string parent_candidate_id;
};

enum class GenerationOutcome {
  kWritten,     // its EvaluationAccepted follows
  kDuplicate,   // but for comments and layout a kernel that the search has had
  kUnusable,    // an answer without a kernel
  kUnanswered,  // no answer
};
inline constexpr GenerationOutcome kGenerationOutcomes[] = {
    GenerationOutcome::kWritten, GenerationOutcome::kDuplicate, GenerationOutcome::kUnusable,
    GenerationOutcome::kUnanswered};
// "written", "duplicate", "unusable", "unanswered".
std::string_view Name(GenerationOutcome outcome);

struct GenerationUsage {
  uint64_t input_tokens = 0;  // cached ones included
  uint64_t cached_input_tokens = 0;
  uint64_t output_tokens = 0;
  // The endpoint told no figures: the tokens are guessed from bytes.
  bool estimated = false;
  double cost = 0;
};

struct GenerationSettled {
  std::string search_id;
  uint64_t number = 0;
  GenerationOutcome outcome = GenerationOutcome::kUnanswered;
  // The evaluation's request id (kWritten), the other candidate's id (kDuplicate), or in words what
  // was wrong.
  std::string detail;
  std::string parent_candidate_id;
  std::string prompt_version;
  std::string model;
  std::string endpoint;
  GenerationUsage usage;
  int64_t latency_ns = 0;
};

struct LabelsObserved {
  std::vector<std::string> request_ids;
};

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

using EventBody = std::variant<ProblemPut, ReferenceDescribed, SearchCreated, EvaluationAccepted,
                               EvaluationCompiled, EvaluationForecast, EvaluationDecided,
                               EvaluationSettled, GenerationRequested, GenerationSettled,
                               LabelsObserved, SearchFinishing, SearchClosed>;

struct Event {
  int64_t time_ns = 0;  // since the Unix epoch
  EventBody body;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_EVENT_H_
