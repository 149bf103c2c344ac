#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_WORKER_CALLS_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_WORKER_CALLS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "common/convert/batch_protocols.h"
#include "kernelcast/v1/worker.grpc.pb.h"
#include "services/orchestrator/clients/peer.h"
#include "services/orchestrator/clients/stub_peer.h"
#include "services/orchestrator/core/ports.h"

namespace kernelcast::orchestrator {

// Indices in Peer::in_flight.
enum WorkerLane { kCompileLane, kMeasureLane };

class WorkerPeer final : public StubPeer<v1::Worker, v1::WorkerDescription, CompileBatches> {
 public:
  WorkerPeer(std::string peer_address, const std::shared_ptr<grpc::Channel>& channel)
      : StubPeer(std::move(peer_address), channel, [](auto* async, auto* context, auto* reactor) {
          async->CompileStream(context, reactor);
        }) {}

  // Work that other orchestrators had there when its description was kept, by lane. Protected by
  // the pool's lock.
  uint32_t others_in_flight[2] = {};
};

// A request to a worker.
struct WorkerJob : PeerJob {
  bool WaitsLike(const PeerJob& other) const override;
  // Sets the device that the request is for. Empty: the worker chooses.
  virtual void NameDevice(const std::string& model) = 0;
  void ForEachCandidate(const std::function<void(const Candidate&)>& visit) const override {
    if (candidate) visit(*candidate);
  }

  // Constant once the pool has the job.
  std::optional<Candidate> candidate;  // empty: the problem's reference
  std::string target;
  std::string device_model;
};

struct CompileJob final : WorkerJob {
  CompileJob() { lane = kCompileLane; }
  void Send(Peer& peer, std::stop_token stop, Peer::Done done) override;
  void Finish(const absl::Status& status) override;
  void NameDevice(const std::string& model) override { request.set_device_model(model); }

  v1::CompileRequest request;  // without the candidate
  CompileResult result;
  Workers::CompileDone done;

 private:
  absl::Status Read(const WorkerPeer& worker, const v1::CompileReply& reply);
};

struct MeasureJob final : WorkerJob {
  MeasureJob() { lane = kMeasureLane; }
  void Send(Peer& peer, std::stop_token stop, Peer::Done done) override;
  void Finish(const absl::Status& status) override;
  void NameDevice(const std::string& model) override { request.set_device_model(model); }

  v1::MeasureRequest request;  // with the ids of the candidate alone
  MeasureResult result;
  Workers::MeasureDone done;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_WORKER_CALLS_H_
