#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_FORECASTER_CALLS_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_FORECASTER_CALLS_H_

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "common/convert/batch_protocols.h"
#include "common/domain/anchor.h"
#include "kernelcast/v1/forecaster.grpc.pb.h"
#include "services/orchestrator/clients/label_delivery.h"
#include "services/orchestrator/clients/peer.h"
#include "services/orchestrator/clients/stub_peer.h"
#include "services/orchestrator/core/ports.h"

namespace kernelcast::orchestrator {

// Indices in Peer::in_flight.
enum ForecasterLane { kForecastLane, kLabelLane };

class ForecasterPeer final
    : public StubPeer<v1::Forecaster, v1::ForecasterDescription, ForecastBatches>,
      public LabelReceiver {
 public:
  ForecasterPeer(std::string peer_address, const std::shared_ptr<grpc::Channel>& channel)
      : StubPeer(std::move(peer_address), channel, [](auto* async, auto* context, auto* reactor) {
          async->ForecastStream(context, reactor);
        }) {}

  const std::string& receiver_address() const override { return address; }
};

struct ForecastJob final : PeerJob {
  ForecastJob() { lane = kForecastLane; }
  void Send(Peer& peer, std::stop_token stop, Peer::Done done) override;
  void Finish(const absl::Status& status) override;
  // Forecasts need no credit.
  bool WaitsLike(const PeerJob&) const override { return true; }
  void ForEachCandidate(const std::function<void(const Candidate&)>& visit) const override;

  std::string key;              // chooses the forecaster
  v1::ForecastRequest request;  // without the candidate and the anchor
  Candidate candidate;
  // Null: none.
  std::shared_ptr<const AnchorKernel> anchor;
  bool sends_anchor = false;  // the forecaster uses it
  v1::ForecastReply reply;
  Forecasters::ForecastDone done;
};

// Sends labels to one forecaster.
struct ObserveJob final : PeerJob {
  ObserveJob() { lane = kLabelLane; }
  void Send(Peer& peer, std::stop_token stop, Peer::Done done) override;
  void Finish(const absl::Status& status) override { done(status); }
  bool WaitsLike(const PeerJob&) const override { return false; }
  void ForEachCandidate(const std::function<void(const Candidate&)>& visit) const override {
    for (const auto& label : labels) visit(label->candidate);
  }

  LabelDelivery::Labels labels;
  std::function<void(const absl::Status&)> done;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_FORECASTER_CALLS_H_
