#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_FORECASTER_POOL_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_FORECASTER_POOL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/domain/measurement.h"
#include "common/rpc/channel.h"
#include "kernelcast/v1/kernel.pb.h"
#include "services/orchestrator/clients/address_watch.h"
#include "services/orchestrator/clients/label_delivery.h"
#include "services/orchestrator/clients/peer_pool.h"
#include "services/orchestrator/core/ports.h"

namespace kernelcast::orchestrator {

struct ForecasterPoolOptions {
  AddressWatchOptions discovery;
  ChannelOptions channel;
  PeerPoolOptions peers = {.silence_limit = absl::Seconds(10)};
  LabelDeliveryOptions labels;
  // Timeout of one attempt.
  absl::Duration forecast_timeout = absl::Seconds(10);
  absl::Duration observe_timeout = absl::Seconds(30);
  // Description of a target's device model, sent with forecast requests. May be empty.
  std::function<DeviceInfo(const std::string& target, const std::string& device_model)> device_for;
  // Maximum attempts for a forecast. The candidate is then measured without one. Every forecaster
  // is tried at least once, even if there are more.
  int max_attempts = 3;
};

struct ForecasterView {
  std::string address;
  bool healthy = false;
  std::string unhealthy_reason;
  bool draining = false;
  std::string name;
  // Labels that it has, and labels that it has not acknowledged yet.
  uint64_t labels = 0;
  uint64_t pending_labels = 0;
  // Ejected, or on probation, because its calls failed.
  bool ejected = false;
  // It has far fewer labels than others, and is used only if there is no other.
  bool behind = false;
  // Model use of its default backend, if that asks models.
  std::optional<v1::ModelUse> model_use;
};

// Rendezvous hashing: a key belongs to the peer with the highest weight. Every process computes the
// same weights, and adding or removing a peer moves no keys between the other peers.
uint64_t RendezvousWeight(std::string_view key, std::string_view peer);

// The orchestrator's forecasters, as a PeerPool whose requests are forecasts. Each learns on its
// own, so labels go to all of them: Observe is done when every known forecaster has acknowledged.
// Until then labels stay pending in the log. An unavailable or slow forecaster delays only its own
// labels.
//
// The forecasts of a search come from one forecaster, chosen by rendezvous hash, so that its model
// of that search is warm and all forecasts are based on one order of labels. The next one is used
// while that one is unavailable, drains, is ejected, or knows far less than others. Forecasts
// outside searches are spread by candidate.
//
// Thread-safe.
class ForecasterPool final : public Forecasters {
 public:
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ForecasterPool>> Create(
      ForecasterPoolOptions options);
  // Cancels running calls. Their callbacks get CANCELLED before the destructor returns.
  ~ForecasterPool() override;

  void Forecast(std::shared_ptr<const Problem> problem, ForecastQuery query,
                ForecastDone done) override;
  void ForecastAll(std::shared_ptr<const Problem> problem, std::vector<ForecastQuery> queries,
                   ForecastAllDone done) override;
  // Fails only when the pool stops.
  void Observe(std::shared_ptr<const Problem> problem, std::vector<Label> labels,
               ObserveDone done) override;

  std::vector<ForecasterView> View() const;
  PeerCounts Counts() const;

 private:
  class Impl;
  explicit ForecasterPool(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_FORECASTER_POOL_H_
