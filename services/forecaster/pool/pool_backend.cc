#include "services/forecaster/pool/pool_backend.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/forecaster/core/forecast_pool.h"

namespace kernelcast::forecaster {
namespace {

constexpr std::string_view kVersion = "pool/2";
constexpr PoolResult kResults[] = {
    PoolResult::kSettled, PoolResult::kPooled,     PoolResult::kDeclined,   PoolResult::kUnanswered,
    PoolResult::kLate,    PoolResult::kNotWorthIt, PoolResult::kCostlyOnly, PoolResult::kNeither};
constexpr size_t kMaxAnswers = 4096;
constexpr size_t kMaxOwing = 1024;
// Even a caller that does not wait gets an answer that is at hand, such as a cached one. Little
// compared with a measurement.
constexpr int64_t kLeastPatienceNs = 20'000'000;

std::string_view Name(PoolResult result) {
  switch (result) {
    case PoolResult::kSettled: return "settled";
    case PoolResult::kPooled: return "pooled";
    case PoolResult::kDeclined: return "declined";
    case PoolResult::kUnanswered: return "unanswered";
    case PoolResult::kLate: return "late";
    case PoolResult::kNotWorthIt: return "not_worth_it";
    case PoolResult::kCostlyOnly: return "costly_only";
    case PoolResult::kNeither: return "neither";
  }
  return "neither";
}

ForecastComponent ComponentOf(const kernelcast::Forecast& forecast, double weight) {
  return {forecast.backend, forecast.backend_version, weight, forecast.bin_probabilities,
          forecast.failure_probability};
}

double EntropyNats(const kernelcast::Forecast& forecast) {
  double entropy = 0;
  for (const double p : forecast.bin_probabilities) {
    if (p > 0) entropy -= p * std::log(p);
  }
  return entropy;
}

std::string KeyOf(const ForecastInput& input) {
  return absl::StrCat(input.candidate.candidate_id, " ", input.device_model);
}
std::string KeyOf(const Label& label) {
  return absl::StrCat(label.candidate.candidate_id, " ", label.device_model);
}

TokenUsage UsageOf(const ForecastResult& answer) {
  const std::optional<ModelAnswer>& model = std::visit(
      [](const auto& result) -> const auto& { return result.model; }, answer);
  return model ? model->token_usage : TokenUsage();
}

}  // namespace

struct PoolBackend::Question {
  std::string key;
  std::string target;
  std::string device_model;
  std::string search_id;
  kernelcast::Forecast cheap;
  int64_t sent_ns = 0;
  std::stop_source stop;

  std::mutex mutex;
  // Guarded by mutex. Null: nobody waits.
  Done done;
  // While somebody waits, and leaves: stops the question. Not to be destroyed under the mutex,
  // because that waits for a callback in progress.
  std::unique_ptr<std::stop_callback<std::function<void()>>> on_leave;

  // The caller's callback, at most once.
  Done TakeDone() {
    std::unique_ptr<std::stop_callback<std::function<void()>>> left;
    const std::lock_guard lock(mutex);
    left = std::move(on_leave);
    return std::exchange(done, nullptr);
  }
};

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
      weights_(options.weights),
      value_(options.value),
      answers_(kMaxAnswers, std::numeric_limits<size_t>::max()) {
  link_->pool = this;
}

PoolBackend::~PoolBackend() {
  const std::lock_guard lock(link_->mutex);
  link_->pool = nullptr;
}

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

kernelcast::Forecast PoolBackend::Without(kernelcast::Forecast cheap, ModelOutcome why,
                                          const std::string& search_id) {
  Settled(why == ModelOutcome::kLate ? PoolResult::kLate : PoolResult::kNotWorthIt);
  kernelcast::Forecast alone = Alone(std::move(cheap));
  alone.model = ModelAnswer{why};
  const std::lock_guard lock(mutex_);
  if (const auto owed = owed_.find(search_id); owed != owed_.end()) {
    alone.model->token_usage = owed->second;
    alone.token_usage += owed->second;
    owed_.erase(owed);
  }
  return alone;
}

void PoolBackend::Take(const Question& question, const ForecastResult& answer, bool awaited) {
  const auto* forecast = std::get_if<kernelcast::Forecast>(&answer);
  const TokenUsage usage = UsageOf(answer);
  if (forecast != nullptr) {
    answers_.Put(question.key, std::make_shared<const ForecastComponent>(ComponentOf(*forecast, 0)),
                 0);
  }
  const std::lock_guard lock(mutex_);
  open_.erase(question.key);
  value_.Ended(forecast != nullptr, question.sent_ns, clock_.MonotonicNs(), usage.cost_dollars);
  if (!awaited && !question.search_id.empty() && owed_.size() < kMaxOwing) {
    owed_[question.search_id] += usage;
  }
}

void PoolBackend::Send(const std::shared_ptr<Question>& question, ForecastInput input,
                       ForecastCall call) {
  call.again = false;
  call.cancelled = question->stop.get_token();
  costly_.Forecast(std::move(input), call, [question, link = link_](ForecastResult answer) mutable {
    PoolBackend* pool = nullptr;
    Done done;
    {
      const std::lock_guard lock(link->mutex);
      pool = link->pool;
      if (pool == nullptr) return;
      done = question->TakeDone();
      pool->Take(*question, answer, done != nullptr);
    }
    // A caller that waits keeps the pool alive.
    if (done == nullptr) return;
    done(pool->Combine(question->target, question->device_model, question->cheap,
                       std::move(answer)));
  });
}

void PoolBackend::AskImpatiently(ForecastInput input, const ForecastCall& call,
                                 kernelcast::Forecast cheap, Done done) {
  const int64_t now_ns = clock_.MonotonicNs();
  const double entropy = EntropyNats(cheap);
  auto question = std::make_shared<Question>();
  question->key = KeyOf(input);
  question->target = input.candidate.target;
  question->device_model = input.device_model;
  question->search_id = call.search_id;
  question->sent_ns = now_ns;
  int64_t patience_ns = 0;
  bool asks = false;
  {
    const std::lock_guard lock(mutex_);
    asks = !open_.contains(question->key) && value_.IsWorthAsking(entropy, now_ns);
    if (asks) {
      patience_ns = std::max(value_.PatienceNs(entropy, now_ns), kLeastPatienceNs);
      value_.Sent(now_ns);
      open_.insert(question->key);
    }
  }
  if (!asks) return done(Without(std::move(cheap), ModelOutcome::kNotWorthIt, call.search_id));
  if (call.deadline_ns != std::numeric_limits<int64_t>::max()) {
    patience_ns = std::clamp<int64_t>((call.deadline_ns - now_ns) / 2, 0, patience_ns);
  }
  question->cheap = std::move(cheap);
  question->done = std::move(done);
  question->on_leave = std::make_unique<std::stop_callback<std::function<void()>>>(
      call.cancelled, [stop = question->stop]() mutable { stop.request_stop(); });
  Send(question, std::move(input), call);
  timer_.Submit(patience_ns, [this, question] {
    if (const Done waiting = question->TakeDone()) {
      waiting(Without(question->cheap, ModelOutcome::kLate, question->search_id));
    }
  });
}

void PoolBackend::AskForSearch(ForecastInput input, const ForecastCall& call,
                               kernelcast::Forecast cheap, Done done) {
  auto copy = std::make_shared<ForecastInput>(input);
  ForecastCall remembered = call;
  remembered.again = true;
  remembered.remembered_only = true;
  costly_.Forecast(std::move(input), remembered,
                   [this, copy, call, cheap = std::move(cheap),
                    done = std::move(done)](ForecastResult asked) mutable {
                     const auto* abstention = std::get_if<Abstention>(&asked);
                     const bool has_none = abstention != nullptr && abstention->model &&
                                           abstention->model->outcome == ModelOutcome::kNotAsked;
                     if (has_none) {
                       return AskImpatiently(std::move(*copy), call, std::move(cheap),
                                             std::move(done));
                     }
                     done(Combine(copy->candidate.target, copy->device_model, std::move(cheap),
                                  std::move(asked)));
                   });
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
        if (cheap != nullptr && !call.search_id.empty() && (call.again || call.impatient)) {
          return AskForSearch(std::move(*shared), call, std::move(*cheap), std::move(done));
        }
        if (cheap != nullptr && call.impatient) {
          return AskImpatiently(std::move(*shared), call, std::move(*cheap), std::move(done));
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

std::optional<double> PoolBackend::Learn(const Label& label, const std::string& reference_id) {
  const std::string first(cheap_.name());
  const std::string second(costly_.name());
  if (const auto gain = weights_.Learn(label, first, second, reference_id)) return gain;
  const std::shared_ptr<const ForecastComponent> late = answers_.Find(KeyOf(label));
  return late != nullptr ? weights_.Learn(label, first, *late, reference_id) : std::nullopt;
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
    if (!observed.replayed) value_.Labelled(clock_.MonotonicNs());
    const std::optional<double> gain = Learn(label, reference_id);
    if (!gain) continue;
    value_.Scored(*gain);
    if (metrics_ != nullptr) {
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
