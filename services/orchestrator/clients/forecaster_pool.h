#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_FORECASTER_POOL_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_FORECASTER_POOL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/domain/measurement.h"
#include "common/rpc/channel.h"
#include "services/orchestrator/clients/address_watch.h"
#include "services/orchestrator/core/ports.h"

namespace kernelcast::orchestrator {

struct ForecasterPoolOptions {
  // As AddressWatchOptions.addresses.
  AddressWatchOptions discovery;
  ChannelOptions channel;
  absl::Duration describe_interval = absl::Seconds(2);
  absl::Duration describe_timeout = absl::Seconds(2);
  // One that says nothing for so long has its calls ended.
  absl::Duration silence_limit = absl::Seconds(10);
  // Of one attempt.
  absl::Duration forecast_timeout = absl::Seconds(10);
  absl::Duration observe_timeout = absl::Seconds(30);
  // Between two attempts to give labels to a forecaster that does not take them.
  absl::Duration observe_pause = absl::Seconds(1);
  // The device that candidates of a target run on, which forecasts are told. May be empty.
  std::function<DeviceInfo(const std::string& target)> device_for;
  // Attempts before a forecast is given up: the candidate is then measured without one. Every
  // forecaster is asked once, however many there are.
  int max_attempts = 3;
  // One of several forecasters that is away misses labels beyond so many, rather than have them
  // kept for ever.
  size_t max_pending_labels = 50'000;
  // How long labels wait for a forecaster that has left its name to come back under another
  // address.
  absl::Duration orphan_patience = absl::Minutes(10);
};

struct ForecasterView {
  std::string address;
  bool healthy = false;
  std::string unhealthy_reason;
  bool draining = false;
  std::string name;
  // That it has, and that it has yet to acknowledge.
  uint64_t labels = 0;
  uint64_t pending_labels = 0;
  // It knows much less than others, and is asked for forecasts only where there is no other.
  bool behind = false;
};

// How much a key likes a peer: the peer that it likes most is the same wherever that is asked, and
// one peer's coming or going moves no key between others.
uint64_t RendezvousWeight(std::string_view key, std::string_view peer);

// The forecasters. Each learns by itself, so labels go to all of them: Observe is done when every
// forecaster that is known has acknowledged, so that labels stay pending in the log until then. One
// that is away or slow holds up its own labels and nobody else's.
//
// A search's forecasts come from one forecaster, by rendezvous hash, whose model of that search is
// then warm and whose forecasts follow from one order of labels; from the next one while that is
// away, drains, or knows much less than others. What belongs to no search is spread by candidate.
//
// Thread-safe.
class ForecasterPool final : public Forecasters {
 public:
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ForecasterPool>> Create(
      ForecasterPoolOptions options);
  // Cancels what is under way; its callbacks get CANCELLED before the destructor returns.
  ~ForecasterPool() override;

  void Forecast(std::shared_ptr<const Problem> problem, const ForecastQuery& query,
                ForecastDone done) override;
  void ForecastAll(std::shared_ptr<const Problem> problem, std::vector<ForecastQuery> queries,
                   ForecastAllDone done) override;
  // An error only where the pool stops.
  void Observe(std::shared_ptr<const Problem> problem, std::vector<LabelRecord> labels,
               ObserveDone done) override;

  std::vector<ForecasterView> View() const;

 private:
  class Impl;
  explicit ForecasterPool(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_FORECASTER_POOL_H_
