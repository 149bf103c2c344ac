#ifndef KERNELCAST_SERVICES_FORECASTER_CORE_BACKEND_H_
#define KERNELCAST_SERVICES_FORECASTER_CORE_BACKEND_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/trace_context.h"
#include "common/domain/bins.h"
#include "common/domain/candidate.h"
#include "common/domain/facts.h"
#include "common/domain/forecast.h"
#include "common/domain/measurement.h"
#include "services/forecaster/core/label.h"
#include "services/forecaster/core/predictive.h"
#include "services/forecaster/core/problem_context.h"

namespace kernelcast::forecaster {

// What is to be forecast. Everything is validated.
struct ForecastInput {
  std::string request_id;
  // Shared: the problem may be dropped from the service's cache while a backend still works on it.
  std::shared_ptr<const ProblemContext> problem;
  Candidate candidate;
  // An empty schema means that there are none.
  CompileFacts facts;
  CompileFacts reference_facts;
  const BinScheme* bin_scheme = &BinScheme::Default();
  std::string baseline_candidate_id;
  // Measured speedup of the baseline over the reference; 1 for the reference itself.
  double baseline_speedup = 1;
  DeviceInfo device;
};

using ForecastResult = std::variant<Forecast, Abstention>;

// What binds one call.
struct ForecastCall {
  // On the monotonic clock; a result after it is of no use.
  int64_t deadline_ns = std::numeric_limits<int64_t>::max();
  // Asked to stop when the caller has gone; register a std::stop_callback to end work in flight.
  std::stop_token cancelled;
  // The search that asks, and the tokens that may be spent on it while the backend lives; 0: any
  // number.
  std::string search_id = {};
  uint64_t max_search_tokens = 0;
  // What costs tokens says again what it said last of this candidate, or abstains.
  bool again = false;
  // Where the call belongs, for calls that are made for it; not valid: nowhere.
  TraceContext trace = {};
};

struct TargetLabels {
  std::string target;
  std::string problem_id;
  uint64_t labels = 0;
  uint64_t failures = 0;
};

// A prompt's templates, for those who train a model on it.
struct PromptDescription {
  std::string version;
  std::string hash;
  std::string system_template;
  std::string user_template;
  std::string answer_schema;  // JSON
};

// What a model is asked.
struct RenderedPrompt {
  std::string version;
  std::string system;
  std::string user;
};

struct BackendDescription {
  std::string name;
  std::string version;
  bool ready = true;
  std::string not_ready_reason;
  std::vector<TargetLabels> labels;
  std::vector<PromptDescription> prompts;
};

// What a backend would have said of a label's candidate before the label was known.
struct StoredPrediction {
  std::string label_id;
  // Of the backend that made it; of no use to another one.
  std::string backend_version;
  StudentT log2_speedup;
};

// A label that is on disk, with the problem that its candidate is for.
struct ObservedLabel {
  // Shared, as in ForecastInput.
  std::shared_ptr<const ProblemContext> problem;
  // Position in the order in which labels were stored, from 1; ascending.
  uint64_t sequence = 0;
  Label label;
  // Read back at start: nobody has asked for this problem yet.
  bool replayed = false;
  // What was kept for a replayed label, if anything.
  std::optional<StoredPrediction> prediction;
};

// Something that forecasts. Thread-safe; no method blocks on the network, the disk or a model being
// trained.
class Backend {
 public:
  using Done = std::function<void(ForecastResult)>;

  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;

  // Calls `done` exactly once, from any thread, perhaps before returning. What goes wrong upstream
  // is an Abstention. Not called after the backend's destruction has begun.
  virtual void Forecast(ForecastInput input, const ForecastCall& call, Done done) = 0;

  // Forecasts of this problem's candidates will be asked for: a chance to get ready.
  virtual void Prepare(const std::shared_ptr<const ProblemContext>& problem) { (void)problem; }

  // Learns, later than it returns. Called with each label once, in the order of `sequence`; also at
  // start with all that were stored.
  virtual void Observe(std::vector<ObservedLabel> labels) = 0;

  virtual BackendDescription Describe() const = 0;

  // The prompt that Forecast would send now, for people to read. UNIMPLEMENTED: the backend sends
  // none. RESOURCE_EXHAUSTED: it would be too long.
  [[nodiscard]] virtual absl::StatusOr<RenderedPrompt> ShowPrompt(
      const ForecastInput& input) const {
    (void)input;
    return absl::UnimplementedError(
        absl::StrCat("the backend '", std::string(name()), "' sends no prompt"));
  }
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_BACKEND_H_
