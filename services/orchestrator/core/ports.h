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
#include "common/domain/anchor.h"
#include "common/domain/candidate.h"
#include "common/domain/decision.h"
#include "common/domain/facts.h"
#include "common/domain/forecast.h"
#include "common/domain/label.h"
#include "common/domain/lesson.h"
#include "common/domain/measurement.h"
#include "common/domain/problem.h"
#include "services/orchestrator/core/attempt.h"
#include "services/orchestrator/core/event.h"

namespace kernelcast::orchestrator {

// Interfaces from the engine to the outside. Every call returns at once. `done` is called exactly
// once, from any thread, possibly before the call returns. Implementations put missing problems,
// retry and re-dispatch; an error passed to `done` is final for this attempt.

struct CompiledCandidate {
  CompileFacts facts;
  Artifact artifact;  // content only if the artefact must be sent
};
using CompileResult = std::variant<CompiledCandidate, CompileError>;

// The worker may find that the candidate no longer compiles, with another toolchain. That is a
// result, not an error.
using MeasureResult = std::variant<Measurement, CompileError>;

class Workers {
 public:
  virtual ~Workers() = default;

  using CompileDone = std::function<void(absl::StatusOr<CompileResult>)>;
  using MeasureDone = std::function<void(absl::StatusOr<MeasureResult>)>;

  // Compile and measure for devices of this model. `problem` is shared because a re-dispatch may
  // need it after the engine has dropped it. `request_id` is the evaluation's, for Cancel.
  virtual void Compile(const std::string& request_id, std::shared_ptr<const Problem> problem,
                       Candidate candidate, const std::string& device_model, CompileDone done) = 0;
  virtual void CompileReference(std::shared_ptr<const Problem> problem, const std::string& target,
                                const std::string& device_model, CompileDone done) = 0;
  virtual void Measure(const std::string& request_id, std::shared_ptr<const Problem> problem,
                       Candidate candidate, const std::string& device_model, MeasureSpec spec,
                       bool profile, MeasureDone done) = 0;
  // Cancels these evaluations: drops queued work and cancels running work. Each `done` gets
  // CANCELLED, unless its result arrives first.
  virtual void Cancel(const std::vector<std::string>& request_ids) = 0;

  struct Capacity {
    uint32_t compile_credits = 0;
    uint32_t measure_slots = 0;
  };
  // Number of requests that healthy workers of the target accept at once for one device model. Zero
  // if there are none. Cheap.
  virtual Capacity CapacityFor(const std::string& target,
                               const std::string& device_model) const = 0;

  // Resolves `wanted`: a model as workers describe it or as metrics label it, or empty for any.
  // Returns a model that has, or has had since the process started, workers that measure on it.
  // Empty: none.
  virtual std::string DeviceModelFor(const std::string& target,
                                     const std::string& wanted) const = 0;
  struct Device {
    std::string target;
    std::string model;
    uint32_t measure_slots = 0;  // 0: its workers are away
  };
  // Devices seen since the process started, by target and model.
  virtual std::vector<Device> Devices() const = 0;
};

struct ForecastQuery {
  Candidate candidate;
  CompileFacts facts;
  CompileFacts reference_facts;
  // The search that the forecast is for, and the limit of tokens for its forecasts. 0: no limit.
  std::string search_id;
  uint64_t max_search_tokens = 0;
  // It was forecast before. The new forecast uses newer labels but must not cost tokens.
  bool again = false;
  std::string device_model = {};
  // The kernel that models compare it with. Null: the reference. Shared by many queries.
  std::shared_ptr<const AnchorKernel> anchor = nullptr;
  // A model's answer is awaited only while it is worth its time.
  bool impatient = false;
};
using ForecastResult = std::variant<Forecast, Abstention>;

class Forecasters {
 public:
  virtual ~Forecasters() = default;

  using ForecastDone = std::function<void(absl::StatusOr<ForecastResult>)>;
  using ForecastAllDone = std::function<void(absl::StatusOr<std::vector<ForecastResult>>)>;
  using ObserveDone = std::function<void(absl::Status)>;

  virtual void Forecast(std::shared_ptr<const Problem> problem, ForecastQuery query,
                        ForecastDone done) = 0;
  // Results are in the order of the queries.
  virtual void ForecastAll(std::shared_ptr<const Problem> problem,
                           std::vector<ForecastQuery> queries, ForecastAllDone done) = 0;
  virtual void Observe(std::shared_ptr<const Problem> problem, std::vector<Label> labels,
                       ObserveDone done) = 0;
};

// Input for writing one kernel.
struct GenerationQuery {
  std::shared_ptr<const Problem> problem;
  std::string target;
  std::string device_model;
  CompileFacts reference_facts;  // empty schema: unknown
  // The kernel to improve. Empty: the reference.
  std::optional<Attempt> parent;
  // The kernel that the parent was made from, if it was found to be correct.
  std::optional<Attempt> grandparent = std::nullopt;
  // The fastest kernel so far, if it is not the parent.
  std::optional<Attempt> best;
  // Failed attempts, most relevant first.
  std::vector<Attempt> setbacks;
  // Why the latest answers contained no readable kernel.
  std::vector<std::string> unusable_answers;
  // The next step that a critic proposed. Empty: none.
  std::string advice = {};
  // Lessons of earlier searches, most useful first.
  std::vector<Lesson> lessons = {};
  // Id of the request, stable across restarts.
  std::string request_id = {};
  // On the monotonic clock.
  int64_t deadline_ns = 0;
  // Stop is requested when the kernel is no longer wanted.
  std::stop_token stop;
};

struct GenerationReply {
  // An answer without a usable kernel.
  struct Unusable {
    std::string reason;
    std::string fault = {};  // the kind, such as "no_code"
  };
  struct Unanswered {
    std::string reason;
  };

  // The candidate has a kind, a source, and the fields that belong to them.
  std::variant<Candidate, Unusable, Unanswered> result;
  std::string prompt_version;
  std::string model;
  std::string endpoint;
  GenerationUsage usage;
  int64_t latency_ns = 0;
  std::vector<std::string> repairs = {};  // what had to be mended to read the answer
};

// A critic's answer.
struct AdviceReply {
  std::string advice = {};  // at most kMaxAdviceBytes of UTF-8; empty: none
  std::string detail = {};  // why there is none
  std::string prompt_version = {};
  std::string model = {};
  std::string endpoint = {};
  GenerationUsage usage = {};
  int64_t latency_ns = 0;
};
inline constexpr size_t kMaxAdviceBytes = 6 << 10;

// Writes new kernels.
class KernelWriter {
 public:
  virtual ~KernelWriter() = default;

  using WriteDone = std::function<void(GenerationReply)>;
  virtual void Write(GenerationQuery query, WriteDone done) = 0;

  using AdviseDone = std::function<void(AdviceReply)>;
  // Asks a critic for the next step. The query has no advice.
  virtual void Advise(GenerationQuery query, AdviseDone done) = 0;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_PORTS_H_
