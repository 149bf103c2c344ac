#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_FORECASTER_CALLS_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_FORECASTER_CALLS_H_

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "common/convert/batch_protocols.h"
#include "common/domain/anchor.h"
#include "common/rpc/batch_caller.h"
#include "kernelcast/v1/forecaster.grpc.pb.h"
#include "services/orchestrator/clients/label_delivery.h"
#include "services/orchestrator/clients/peer.h"
#include "services/orchestrator/core/ports.h"

namespace kernelcast::orchestrator {

// Indices in Peer::in_flight.
enum ForecasterLane { kForecastLane, kLabelLane };

class ForecasterPeer final : public Peer, public LabelReceiver {
 public:
  ForecasterPeer(std::string address, const std::shared_ptr<grpc::Channel>& channel);

  void Describe(absl::Duration timeout, std::stop_token stop, Done done) override;
  void PutProblem(const Problem& problem, absl::Duration timeout, std::stop_token stop,
                  Done done) override;
  void CancelStreams() override { forecasts.CancelAll(); }
  void StopStreams() override { forecasts.Stop(); }
  const std::string& receiver_address() const override { return address; }

  const std::unique_ptr<v1::Forecaster::Stub> stub;
  BatchCaller<ForecastBatches> forecasts;
  v1::ForecasterDescription reported;  // written by Describe

  // The last description that was kept. Protected by the pool's lock.
  v1::ForecasterDescription description;
};

struct ForecastJob final : PeerJob {
  ForecastJob() { lane = kForecastLane; }
  void Send(Peer& peer, std::stop_token stop, Peer::Done done) override;
  void Finish(const absl::Status& status) override;
  // Forecasts need no credit.
  bool WaitsLike(const PeerJob&) const override { return true; }

  std::string key;  // chooses the forecaster
  v1::ForecastRequest request;
  // Sent only to forecasters that use it. Null: none.
  std::shared_ptr<const AnchorKernel> anchor;
  v1::ForecastReply reply;
  Forecasters::ForecastDone done;

 private:
  void SendInBatch(ForecasterPeer& forecaster, Peer::Done ended);
};

// Sends labels to one forecaster.
struct ObserveJob final : PeerJob {
  ObserveJob() { lane = kLabelLane; }
  void Send(Peer& peer, std::stop_token stop, Peer::Done done) override;
  void Finish(const absl::Status& status) override { done(status); }
  bool WaitsLike(const PeerJob&) const override { return false; }

  v1::ObserveRequest request;
  std::function<void(const absl::Status&)> done;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_FORECASTER_CALLS_H_
