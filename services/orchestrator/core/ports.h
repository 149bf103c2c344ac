#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_PORTS_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_PORTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/candidate.h"
#include "common/domain/decision.h"
#include "common/domain/facts.h"
#include "common/domain/forecast.h"
#include "common/domain/measurement.h"
#include "common/domain/problem.h"
#include "services/orchestrator/core/attempt.h"
#include "services/orchestrator/core/event.h"

namespace kernelcast::orchestrator {

// What the engine asks of the outside world. Every call returns at once; `done` is called exactly
// once, from any thread, possibly before the call returns. Implementations put problems where they
// are missing, retry and re-dispatch; an error that reaches `done` is final for this attempt.

struct CompiledCandidate {
  CompileFacts facts;
  Artifact artifact;  // content only where the artefact must travel
};
using CompileResult = std::variant<CompiledCandidate, CompileError>;

// The worker may find that the candidate no longer compiles (another toolchain): a fact, not an
// error.
using MeasureResult = std::variant<Measurement, CompileError>;

class Workers {
 public:
  virtual ~Workers() = default;

  using CompileDone = std::function<void(absl::StatusOr<CompileResult>)>;
  using MeasureDone = std::function<void(absl::StatusOr<MeasureResult>)>;

  // The problem is shared: a re-dispatch after the engine forgot it still needs it.
  virtual void Compile(std::shared_ptr<const Problem> problem, const Candidate& candidate,
                       CompileDone done) = 0;
  virtual void CompileReference(std::shared_ptr<const Problem> problem, const std::string& target,
                                CompileDone done) = 0;
  virtual void Measure(std::shared_ptr<const Problem> problem, const Candidate& candidate,
                       MeasureLevel level, MeasureDone done) = 0;

  struct Capacity {
    uint32_t compile_credits = 0;
    uint32_t measure_slots = 0;
  };
  // What healthy workers of the target take at once; zeros while there are none. Cheap.
  virtual Capacity CapacityFor(const std::string& target) const = 0;
};

struct LabelRecord {
  std::string label_id;
  Candidate candidate;
  CompileFacts facts;
  CompileFacts reference_facts;
  // A speedup, or the failure's outcome ("wrong_result", "crash", ...).
  std::variant<Ratio, std::string> truth;
  double propensity = 1;
  DecisionReason reason = DecisionReason::kRequested;
  std::optional<Forecast> forecast;
};

struct ForecastQuery {
  Candidate candidate;
  CompileFacts facts;
  CompileFacts reference_facts;
  // The search that it is for, and the tokens that may be spent on its forecasts; 0: any number.
  std::string search_id;
  uint64_t max_search_tokens = 0;
  // It was forecast before, and costs nothing to be forecast again with what was learnt since.
  bool again = false;
};
using ForecastResult = std::variant<Forecast, Abstention>;

class Forecasters {
 public:
  virtual ~Forecasters() = default;

  using ForecastDone = std::function<void(absl::StatusOr<ForecastResult>)>;
  using ForecastAllDone = std::function<void(absl::StatusOr<std::vector<ForecastResult>>)>;
  using ObserveDone = std::function<void(absl::Status)>;

  virtual void Forecast(std::shared_ptr<const Problem> problem, const ForecastQuery& query,
                        ForecastDone done) = 0;
  // Results in the order of the queries.
  virtual void ForecastAll(std::shared_ptr<const Problem> problem,
                           std::vector<ForecastQuery> queries, ForecastAllDone done) = 0;
  virtual void Observe(std::shared_ptr<const Problem> problem, std::vector<LabelRecord> labels,
                       ObserveDone done) = 0;
};

// What is told to whoever writes a kernel.
struct GenerationQuery {
  std::shared_ptr<const Problem> problem;
  std::string target;
  CompileFacts reference_facts;  // an empty schema where they are not known
  // What is to be improved; nothing: the reference.
  std::optional<Attempt> parent;
  // The fastest so far, where it is not the parent.
  std::optional<Attempt> best;
  // Those that came to nothing, the most telling first.
  std::vector<Attempt> setbacks;
  // What was wrong with the latest answers that no kernel could be read from.
  std::vector<std::string> unusable_answers;
  // On the monotonic clock.
  int64_t deadline_ns = 0;
  // Asked to stop when the kernel is not wanted any more.
  std::stop_token stop;
};

struct GenerationReply {
  // What no kernel came of.
  struct Unusable {
    std::string reason;
  };
  struct Unanswered {
    std::string reason;
  };

  // The candidate has a kind, a source and what belongs to them.
  std::variant<Candidate, Unusable, Unanswered> result;
  std::string prompt_version;
  std::string model;
  std::string endpoint;
  GenerationUsage usage;
  int64_t latency_ns = 0;
};

// Writes kernels that nobody has thought of yet.
class KernelWriter {
 public:
  virtual ~KernelWriter() = default;

  using WriteDone = std::function<void(GenerationReply)>;
  virtual void Write(GenerationQuery query, WriteDone done) = 0;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_PORTS_H_
