#ifndef KERNELCAST_SERVICES_FORECASTER_CORE_CALIBRATED_BACKEND_H_
#define KERNELCAST_SERVICES_FORECASTER_CORE_CALIBRATED_BACKEND_H_

#include <cstdint>
#include <functional>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "services/forecaster/core/backend.h"
#include "services/forecaster/core/online_calibrator.h"

namespace kernelcast::forecaster {

// A backend with calibrated forecasts (OnlineCalibrator). It learns from labels whose forecast
// names the backend, or a pool that had the uncalibrated backend as a component. The stored labels,
// read again at start, give the same maps. Fitting takes about 1 ms for one label in eight.
// Thread-safe if the inner backend is.
class CalibratedBackend final : public Backend {
 public:
  // `inner` must outlive this object, which forwards everything to it. `on_alarm` (may be empty) is
  // called when a label shows that forecasts have drifted from their stated probabilities, but not
  // for labels replayed at start.
  explicit CalibratedBackend(Backend* inner, std::function<void()> on_alarm = {},
                             OnlineCalibratorOptions options = {})
      : inner_(*inner), on_alarm_(std::move(on_alarm)), calibrator_(options) {}

  std::string_view name() const override { return inner_.name(); }
  void Forecast(ForecastInput input, const ForecastCall& call, Done done) override;
  void Prepare(const std::shared_ptr<const ProblemContext>& problem) override {
    inner_.Prepare(problem);
  }
  void Observe(std::vector<ObservedLabel> labels) override;
  BackendDescription Describe() const override { return inner_.Describe(); }
  absl::StatusOr<RenderedPrompt> ShowPrompt(const ForecastInput& input) const override {
    return inner_.ShowPrompt(input);
  }

  uint64_t alarms() const;
  // Number of labels learnt from.
  uint64_t records() const;

 private:
  void Learn(const ObservedLabel& observed);

  Backend& inner_;
  const std::function<void()> on_alarm_;
  mutable std::mutex mutex_;
  OnlineCalibrator calibrator_;  // guarded by mutex_
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_CALIBRATED_BACKEND_H_
