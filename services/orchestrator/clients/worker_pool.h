#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_WORKER_POOL_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_WORKER_POOL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/channel.h"
#include "kernelcast/v1/worker.pb.h"
#include "services/orchestrator/clients/address_watch.h"
#include "services/orchestrator/clients/peer_pool.h"
#include "services/orchestrator/core/ports.h"

namespace kernelcast::orchestrator {

struct WorkerPoolOptions {
  AddressWatchOptions discovery;
  ChannelOptions channel;
  PeerPoolOptions peers;
  // Timeout of a call whose worker neither answers nor dies.
  absl::Duration compile_timeout = absl::Minutes(2);
  absl::Duration measure_timeout = absl::Minutes(10);
  // Maximum failed calls for a candidate, and maximum workers lost while handling it. The second
  // limit is higher because workers are also lost for reasons of their own.
  int max_attempts = 4;
  int max_losses = 10;
  // Device model for requests for the target cuda that name none, as workers describe it or metrics
  // label it ("h100"). Empty: the most common one.
  std::string gpu_model;
};

struct WorkerView {
  std::string address;
  bool healthy = false;
  std::string unhealthy_reason;
  // Ejected, or on probation, because its calls failed.
  bool ejected = false;
  v1::WorkerDescription description;
};

// The orchestrator's workers, as a PeerPool whose requests compile and measure. A request goes to
// the worker with the largest share of free credits among those that serve the target and have the
// device model. A failed one goes to workers on which it has not failed yet, if there are any.
//
// A worker compiles for the device models that it measures on. A worker that measures on none
// compiles for all models of its architecture.
//
// Thread-safe.
class WorkerPool final : public Workers {
 public:
  // `on_change` is called on a thread of the pool when capacity appears or disappears.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<WorkerPool>> Create(
      WorkerPoolOptions options, std::function<void()> on_change);
  // Cancels running calls. Their callbacks get CANCELLED before the destructor returns.
  ~WorkerPool() override;

  void Compile(const std::string& request_id, std::shared_ptr<const Problem> problem,
               Candidate candidate, const std::string& device_model, CompileDone done) override;
  void CompileReference(std::shared_ptr<const Problem> problem, const std::string& target,
                        const std::string& device_model, CompileDone done) override;
  void Measure(const std::string& request_id, std::shared_ptr<const Problem> problem,
               Candidate candidate, const std::string& device_model, MeasureSpec spec, bool profile,
               MeasureDone done) override;
  void Cancel(const std::vector<std::string>& request_ids) override;
  Capacity CapacityFor(const std::string& target, const std::string& device_model) const override;
  std::string DeviceModelFor(const std::string& target, const std::string& wanted) const override;
  std::vector<Device> Devices() const override;
  // The device as workers last described it. Only its model if none did.
  DeviceInfo DeviceFor(const std::string& target, const std::string& device_model) const;

  std::vector<WorkerView> View() const;
  PeerCounts Counts() const;
  // Number of requests that wait for a worker.
  size_t QueueDepth() const;

 private:
  class Impl;
  explicit WorkerPool(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_WORKER_POOL_H_
