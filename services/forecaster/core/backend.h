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
#include "common/domain/anchor.h"
#include "common/domain/bins.h"
#include "common/domain/candidate.h"
#include "common/domain/device_model.h"
#include "common/domain/facts.h"
#include "common/domain/forecast.h"
#include "common/domain/measurement.h"
#include "services/forecaster/core/label.h"
#include "services/forecaster/core/predictive.h"
#include "services/forecaster/core/problem_context.h"

namespace kernelcast::forecaster {

// Validated input of a forecast.
struct ForecastInput {
  std::string request_id;
  // Shared, because the service's cache may drop the problem while a backend still uses it.
  std::shared_ptr<const ProblemContext> problem;
  Candidate candidate;
  // An empty schema means no facts.
  CompileFacts facts;
  CompileFacts reference_facts;
  const BinScheme* bin_scheme = &BinScheme::Default();
  std::string baseline_candidate_id;
  // Measured speedup of the baseline over the reference. 1 if the baseline is the reference.
  double baseline_speedup = 1;
  // The kernel that models compare the candidate with. Null: the baseline. Set only if the baseline
  // is the reference. Shared by the questions of a batch.
  std::shared_ptr<const AnchorKernel> anchor;
  // As the caller described it. May be empty.
  DeviceInfo device;
  // The device model that the forecast is for. Never empty.
  std::string device_model = std::string(kUnknownDeviceModel);
};

using ForecastResult = std::variant<Forecast, Abstention>;

// Limits and context of one call.
struct ForecastCall {
  // On the monotonic clock. Later results are useless.
  int64_t deadline_ns = std::numeric_limits<int64_t>::max();
  // Stop is requested when the caller is gone. Register a std::stop_callback to end work in
  // progress.
  std::stop_token cancelled;
  // The search that the call is for, and the maximum tokens to spend on it in the backend's
  // lifetime. 0: no limit.
  std::string search_id = {};
  uint64_t max_search_tokens = 0;
  // Backends that cost tokens repeat their last answer about this candidate, or abstain.
  bool again = false;
  // With `again`: they never ask, also if their last answer cannot decide whether the candidate
  // beats the anchor.
  bool remembered_only = false;
  // A backend that can answer without a model waits for the model only while its answer is worth
  // the time.
  bool impatient = false;
  // Trace context of the call. Invalid: none.
  TraceContext trace = {};
};

struct TargetLabels {
  std::string target;
  std::string device_model;
  std::string problem_id;
  uint64_t labels = 0;
  uint64_t failures = 0;
};

// Templates of a prompt, for training models on it.
struct PromptDescription {
  std::string version;
  std::string hash;
  std::string system_template;
  std::string user_template;
  std::string answer_schema;  // JSON
};

// A prompt as sent to a model.
struct RenderedPrompt {
  std::string version;
  std::string system;
  std::string user;
};

struct BackendDescription {
  std::string name;
  std::string version;
  bool ready = true;
  std::vector<TargetLabels> labels;
  std::vector<PromptDescription> prompts;
  // Empty: the backend asks no models and ignores anchors.
  std::optional<ModelUse> model_use;
};

// The prediction for a label's candidate from before the label was known.
struct StoredPrediction {
  std::string label_id;
  // Version of the backend that made it. Other backends cannot use it.
  std::string backend_version;
  StudentT log2_speedup;
};

// A label on disk and the problem of its candidate.
struct ObservedLabel {
  // Shared, as in ForecastInput.
  std::shared_ptr<const ProblemContext> problem;
  // Position in storage order, from 1, ascending.
  uint64_t sequence = 0;
  Label label;
  // Read back at start: nobody has asked for this problem yet.
  bool replayed = false;
  // The stored prediction of a replayed label, if any.
  std::optional<StoredPrediction> prediction;
};

// Makes forecasts. Thread-safe. No method blocks on the network, the disk or training.
class Backend {
 public:
  using Done = std::function<void(ForecastResult)>;

  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;

  // Calls `done` exactly once, from any thread, possibly before returning. Errors of models and
  // endpoints are reported as an Abstention. Not called after the backend's destruction has begun.
  virtual void Forecast(ForecastInput input, const ForecastCall& call, Done done) = 0;

  // Announces that forecasts for this problem's candidates will follow.
  virtual void Prepare(const std::shared_ptr<const ProblemContext>& problem) { (void)problem; }

  // Learns from labels asynchronously. Called once per label, in the order of `sequence`, including
  // all stored labels at start.
  virtual void Observe(std::vector<ObservedLabel> labels) = 0;

  virtual BackendDescription Describe() const = 0;

  // The prompt that Forecast would send now, for people to read. UNIMPLEMENTED: the backend sends
  // none. RESOURCE_EXHAUSTED: the prompt is too long.
  [[nodiscard]] virtual absl::StatusOr<RenderedPrompt> ShowPrompt(
      const ForecastInput& input) const {
    (void)input;
    return absl::UnimplementedError(
        absl::StrCat("the backend '", std::string(name()), "' sends no prompt"));
  }
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_BACKEND_H_
