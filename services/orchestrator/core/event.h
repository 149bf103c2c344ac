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

// What the log holds. An event is written before it is acted on; the state is the fold of the
// events (state.h). Field meanings as in event.proto and orchestrator.proto.

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

struct SearchSpec {
  std::string problem_id;
  std::string target;
  GeneratorKind generator = GeneratorKind::kTemplate;
  Budget budget;
  std::string policy;
  std::map<std::string, double> policy_parameters;
  uint64_t seed = 0;
  uint32_t max_in_flight = 0;
  bool measure_everything = false;
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
                               EvaluationSettled, LabelsObserved, SearchFinishing, SearchClosed>;

struct Event {
  int64_t time_ns = 0;  // since the Unix epoch
  EventBody body;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_EVENT_H_
