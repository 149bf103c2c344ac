#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_WORKER_CALLS_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_WORKER_CALLS_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "common/convert/batch_protocols.h"
#include "common/rpc/batch_caller.h"
#include "kernelcast/v1/worker.grpc.pb.h"
#include "services/orchestrator/clients/peer.h"
#include "services/orchestrator/core/ports.h"

namespace kernelcast::orchestrator {

// Indices in Peer::in_flight.
enum WorkerLane { kCompileLane, kMeasureLane };

class WorkerPeer final : public Peer {
 public:
  WorkerPeer(std::string address, const std::shared_ptr<grpc::Channel>& channel);

  void Describe(absl::Duration timeout, std::stop_token stop, Done done) override;
  void PutProblem(const Problem& problem, absl::Duration timeout, std::stop_token stop,
                  Done done) override;
  void CancelStreams() override { compiles.CancelAll(); }
  void StopStreams() override { compiles.Stop(); }

  const std::unique_ptr<v1::Worker::Stub> stub;
  BatchCaller<CompileBatches> compiles;
  v1::WorkerDescription reported;  // written by Describe

  // Protected by the pool's lock.
  v1::WorkerDescription description;  // the last one that was kept
  // Work that other orchestrators had there at that time, by lane.
  uint32_t others_in_flight[2] = {};
};

// A request to a worker.
struct WorkerJob : PeerJob {
  bool WaitsLike(const PeerJob& other) const override;
  // Sets the device that the request is for. Empty: the worker chooses.
  virtual void NameDevice(const std::string& model) = 0;

  // Constant once the pool has the job.
  std::string target;
  std::string device_model;
};

struct CompileJob final : WorkerJob {
  CompileJob() { lane = kCompileLane; }
  void Send(Peer& peer, std::stop_token stop, Peer::Done done) override;
  void Finish(const absl::Status& status) override;
  void NameDevice(const std::string& model) override { request.set_device_model(model); }

  v1::CompileRequest request;
  CompileResult result;
  Workers::CompileDone done;

 private:
  void SendInBatch(WorkerPeer& worker, Peer::Done ended);
  absl::Status Read(const WorkerPeer& worker, const absl::Status& status, const std::string& id,
                    const v1::CompileReply& reply);
};

struct MeasureJob final : WorkerJob {
  MeasureJob() { lane = kMeasureLane; }
  void Send(Peer& peer, std::stop_token stop, Peer::Done done) override;
  void Finish(const absl::Status& status) override;
  void NameDevice(const std::string& model) override { request.set_device_model(model); }

  v1::MeasureRequest request;
  MeasureResult result;
  Workers::MeasureDone done;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_WORKER_CALLS_H_
