#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_FORECASTER_CLIENT_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_FORECASTER_CLIENT_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/domain/measurement.h"
#include "common/rpc/channel.h"
#include "services/orchestrator/core/ports.h"

namespace kernelcast::orchestrator {

struct ForecasterClientOptions {
  std::string address;
  ChannelOptions channel;
  // Of one attempt.
  absl::Duration forecast_timeout = absl::Seconds(10);
  absl::Duration observe_timeout = absl::Seconds(30);
  // The device that candidates of a target run on, which forecasts are told. May be empty.
  std::function<DeviceInfo(const std::string& target)> device_for;
  // Attempts before a forecast is given up: the candidate is then measured without one.
  int max_attempts = 3;
};

struct ForecasterView {
  std::string address;
  bool healthy = false;
  std::string unhealthy_reason;
};

// The forecaster, with problems put where they are missing and transient failures tried again.
// Thread-safe.
class ForecasterClient final : public Forecasters {
 public:
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ForecasterClient>> Create(
      ForecasterClientOptions options);
  // Cancels what is under way; its callbacks get CANCELLED before the destructor returns.
  ~ForecasterClient() override;

  void Forecast(std::shared_ptr<const Problem> problem, const ForecastQuery& query,
                ForecastDone done) override;
  void ForecastAll(std::shared_ptr<const Problem> problem, std::vector<ForecastQuery> queries,
                   ForecastAllDone done) override;
  void Observe(std::shared_ptr<const Problem> problem, std::vector<LabelRecord> labels,
               ObserveDone done) override;

  // As the last call saw it.
  ForecasterView View() const;

 private:
  class Impl;
  explicit ForecasterClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_FORECASTER_CLIENT_H_
