#include "services/forecaster/pool/pool_backend.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/forecaster/core/forecast_pool.h"

namespace kernelcast::forecaster {
namespace {

constexpr std::string_view kVersion = "pool/1";
constexpr PoolResult kResults[] = {PoolResult::kSettled,    PoolResult::kPooled,
                                   PoolResult::kDeclined,   PoolResult::kUnanswered,
                                   PoolResult::kCostlyOnly, PoolResult::kNeither};

std::string_view Name(PoolResult result) {
  switch (result) {
    case PoolResult::kSettled: return "settled";
    case PoolResult::kPooled: return "pooled";
    case PoolResult::kDeclined: return "declined";
    case PoolResult::kUnanswered: return "unanswered";
    case PoolResult::kCostlyOnly: return "costly_only";
    case PoolResult::kNeither: return "neither";
  }
  return "neither";
}

ForecastComponent ComponentOf(const kernelcast::Forecast& forecast, double weight) {
  return {forecast.backend, forecast.backend_version, weight, forecast.bin_probabilities,
          forecast.failure_probability};
}

}  // namespace

PoolMetrics::PoolMetrics(MetricsRegistry& registry) : registry_(registry) {
  for (const PoolResult result : kResults) {
    results_[result] = &registry.Counter("kernelcast_forecaster_pool_questions_total",
                                         "Questions to the pool, by result",
                                         {{"result", std::string(Name(result))}});
  }
}

void PoolMetrics::Settled(PoolResult result) { results_.at(result)->Increment(); }

void PoolMetrics::Weight(const std::string& target, const std::string& device_model,
                         double costly) {
  const std::string kind = target == kCpuTargetName ? "cpu" : "gpu";
  const auto known = weights_.find({kind, device_model});
  if (known != weights_.end()) return known->second->Set(costly);
  if (weights_.size() >= kMaxWeights) return;
  prometheus::Gauge& gauge = registry_.Gauge("kernelcast_forecaster_pool_llm_weight",
                                             "Weight of the model's forecast in the pool",
                                             {{"target", kind}, {"gpu_model", device_model}});
  gauge.Set(costly);
  weights_[{kind, device_model}] = &gauge;
}

PoolBackend::PoolBackend(PoolOptions options, Backend* cheap, Backend* costly, PoolMetrics* metrics,
                         const Clock& clock)
    : options_(options),
      cheap_(*cheap),
      costly_(*costly),
      metrics_(metrics),
      clock_(clock),
      weights_(options.weights) {}

void PoolBackend::Settled(PoolResult result) const {
  if (metrics_ != nullptr) metrics_->Settled(result);
}

bool PoolBackend::IsOpen(const ForecastInput& input, const kernelcast::Forecast& cheap) const {
  // Nothing is known about the candidate, however narrow the prior is.
  if (cheap.basis == ForecastBasis::kPriorOnly) return true;
  double best = 1;
  {
    std::lock_guard lock(mutex_);
    const auto known = best_speedup_.find(
        {input.candidate.problem_id, input.candidate.target, input.device_model});
    if (known != best_speedup_.end()) best = std::max(best, known->second);
  }
  const double threshold = best * (1 + options_.margin) / input.baseline_speedup;
  const absl::StatusOr<double> win = WinProbability(cheap, threshold);
  if (!win.ok()) return true;
  if (*win < options_.ask_above || *win > options_.ask_below) return false;
  // Certainty about the last bin does not help if the incumbent is in the last bin too.
  if (threshold > input.bin_scheme->edges().back()) return true;
  const double likeliest =
      *std::max_element(cheap.bin_probabilities.begin(), cheap.bin_probabilities.end());
  return likeliest <= options_.sure_above;
}

kernelcast::Forecast PoolBackend::Alone(kernelcast::Forecast cheap) const {
  cheap.components = {ComponentOf(cheap, 1)};
  cheap.backend_version = absl::StrCat(std::string(kVersion), "+", cheap.backend_version);
  cheap.backend = kName;
  cheap.model = ModelAnswer{ModelOutcome::kNotAsked};
  return cheap;
}

ForecastResult PoolBackend::Combine(const std::string& target, const std::string& device_model,
                                    kernelcast::Forecast cheap, ForecastResult costly) const {
  if (const auto* abstention = std::get_if<Abstention>(&costly)) {
    const bool declined = abstention->cause == Abstention::Cause::kModelDeferred;
    Settled(declined ? PoolResult::kDeclined : PoolResult::kUnanswered);
    kernelcast::Forecast alone = Alone(std::move(cheap));
    if (abstention->model) alone.model = abstention->model;
    alone.rationale = absl::StrCat(declined ? "The model declined: " : "No answer of the model: ",
                                   abstention->reason);
    return alone;
  }
  const auto& asked = std::get<kernelcast::Forecast>(costly);
  double weight = 0;
  {
    std::lock_guard lock(mutex_);
    weight = weights_.Second(target, device_model);
  }
  absl::StatusOr<kernelcast::Forecast> pooled =
      LinearPool(std::vector<WeightedForecast>{{&asked, weight}, {&cheap, 1 - weight}});
  if (!pooled.ok()) {
    Settled(PoolResult::kUnanswered);
    kernelcast::Forecast alone = Alone(std::move(cheap));
    alone.model = ModelAnswer{ModelOutcome::kUnreadable, "not_poolable",
                              std::string(pooled.status().message()), asked.token_usage};
    return alone;
  }
  Settled(PoolResult::kPooled);
  pooled->components = {ComponentOf(cheap, 1 - weight), ComponentOf(asked, weight)};
  pooled->backend = kName;
  pooled->backend_version =
      absl::StrCat(std::string(kVersion), "+", cheap.backend_version, "+", asked.backend_version);
  pooled->calibrator_version = cheap.calibrator_version;
  pooled->labels_seen = cheap.labels_seen;
  return *std::move(pooled);
}

void PoolBackend::Forecast(ForecastInput input, const ForecastCall& call, Done done) {
  // Both backends get the same input; the cheap one often answers before this returns.
  auto shared = std::make_shared<ForecastInput>(input);
  cheap_.Forecast(
      std::move(input), call,
      [this, shared, call, done = std::move(done)](ForecastResult result) mutable {
        auto* cheap = std::get_if<kernelcast::Forecast>(&result);
        if (cheap != nullptr && !IsOpen(*shared, *cheap)) {
          Settled(PoolResult::kSettled);
          return done(Alone(std::move(*cheap)));
        }
        ForecastCall patient = call;
        if (call.deadline_ns != std::numeric_limits<int64_t>::max()) {
          const auto left = static_cast<double>(call.deadline_ns - clock_.MonotonicNs());
          patient.deadline_ns -= static_cast<int64_t>(std::max(0.0, left * options_.reserve_share));
        }
        const std::string target = shared->candidate.target;
        const std::string device_model = shared->device_model;
        if (cheap == nullptr) {
          return costly_.Forecast(std::move(*shared), patient,
                                  [this, done = std::move(done)](ForecastResult asked) {
                                    Settled(std::holds_alternative<kernelcast::Forecast>(asked)
                                                ? PoolResult::kCostlyOnly
                                                : PoolResult::kNeither);
                                    done(std::move(asked));
                                  });
        }
        costly_.Forecast(std::move(*shared), patient,
                         [this, target, device_model, cheap_forecast = std::move(*cheap),
                          done = std::move(done)](ForecastResult asked) {
                           done(Combine(target, device_model, cheap_forecast, std::move(asked)));
                         });
      });
}

void PoolBackend::Observe(std::vector<ObservedLabel> labels) {
  std::lock_guard lock(mutex_);
  for (const ObservedLabel& observed : labels) {
    const Label& label = observed.label;
    const std::string& target = label.candidate.target;
    if (const auto* speedup = std::get_if<Ratio>(&label.truth)) {
      double& best = best_speedup_[{label.candidate.problem_id, target, label.device_model}];
      best = std::max(best, speedup->value);
    }
    const auto reference = observed.problem->reference_ids.find(target);
    const std::string reference_id =
        reference == observed.problem->reference_ids.end() ? "" : reference->second;
    if (weights_.Learn(label, std::string(cheap_.name()), std::string(costly_.name()),
                       reference_id) &&
        metrics_ != nullptr) {
      metrics_->Weight(target, label.device_model, weights_.Second(target, label.device_model));
    }
  }
}

BackendDescription PoolBackend::Describe() const {
  BackendDescription description = costly_.Describe();
  const BackendDescription cheap = cheap_.Describe();
  description.name = kName;
  description.version =
      absl::StrCat(std::string(kVersion), "+", cheap.version, "+", description.version);
  // The pool can forecast without the costly backend.
  description.ready = cheap.ready;
  description.labels = cheap.labels;
  return description;
}

}  // namespace kernelcast::forecaster
