#include "services/forecaster/core/calibrated_backend.h"

#include <string>

#include "common/base/log.h"

namespace kernelcast::forecaster {
namespace {

// Backends are named "NAME" or "NAME:MODEL".
bool IsOf(std::string_view backend, std::string_view name) {
  return backend.substr(0, backend.find(':')) == name;
}

}  // namespace

void CalibratedBackend::Forecast(ForecastInput input, const ForecastCall& call, Done done) {
  const std::string scope = ScopeName(input.candidate.target, input.device_model);
  inner_.Forecast(std::move(input), call,
                  [this, scope, done = std::move(done)](ForecastResult result) {
                    if (auto* forecast = std::get_if<kernelcast::Forecast>(&result)) {
                      std::lock_guard lock(mutex_);
                      calibrator_.Apply(scope, *forecast);
                    }
                    done(std::move(result));
                  });
}

void CalibratedBackend::Observe(std::vector<ObservedLabel> labels) {
  for (const ObservedLabel& observed : labels) Learn(observed);
  inner_.Observe(std::move(labels));
}

void CalibratedBackend::Learn(const ObservedLabel& observed) {
  const Label& label = observed.label;
  const auto* speedup = std::get_if<Ratio>(&label.truth);
  if (speedup == nullptr || !label.forecast.has_value()) return;
  const std::string& target = label.candidate.target;
  // Labels are relative to the reference; forecasts with another baseline cannot be compared.
  const std::string& baseline = label.forecast->baseline_candidate_id;
  const auto reference = observed.problem->reference_ids.find(target);
  if (!baseline.empty() &&
      (reference == observed.problem->reference_ids.end() || reference->second != baseline)) {
    return;
  }
  const auto scheme = BinScheme::Find(label.forecast->bin_scheme_id);
  if (!scheme.ok()) return;
  const auto bin = (*scheme)->Label(speedup->value);
  if (!bin.ok()) return;

  std::optional<kernelcast::Forecast> own;
  if (IsOf(label.forecast->backend, name())) {
    own = *label.forecast;
  } else {
    for (const ForecastComponent& component : label.forecast->components) {
      if (!IsOf(component.backend, name())) continue;
      own.emplace();
      own->bin_scheme_id = label.forecast->bin_scheme_id;
      own->bin_probabilities = component.bin_probabilities;
    }
  }
  if (!own.has_value()) return;
  uint64_t alarms = 0;
  {
    std::lock_guard lock(mutex_);
    alarms = calibrator_.alarms();
    calibrator_.Learn(ScopeName(target, label.device_model), *own, *bin, 1 / label.propensity);
    alarms = calibrator_.alarms() - alarms;
  }
  if (alarms > 0 && !observed.replayed) {
    Log(LogLevel::kWarning, "forecast probabilities have drifted; calibration restarts",
        {{"backend", std::string(name())},
         {"target", target},
         {"device_model", label.device_model}});
    if (on_alarm_) on_alarm_();
  }
}

uint64_t CalibratedBackend::alarms() const {
  std::lock_guard lock(mutex_);
  return calibrator_.alarms();
}

uint64_t CalibratedBackend::records() const {
  std::lock_guard lock(mutex_);
  return calibrator_.records();
}

}  // namespace kernelcast::forecaster
