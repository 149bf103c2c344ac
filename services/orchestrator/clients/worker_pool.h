#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_WORKER_POOL_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_WORKER_POOL_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/channel.h"
#include "kernelcast/v1/worker.pb.h"
#include "services/orchestrator/core/ports.h"

namespace kernelcast::orchestrator {

struct WorkerPoolOptions {
  std::vector<std::string> addresses;
  ChannelOptions channel;
  // How often each worker is asked to describe itself; silence for longer than `silence_limit`
  // means that it is gone.
  absl::Duration describe_interval = absl::Seconds(2);
  absl::Duration describe_timeout = absl::Seconds(2);
  // A call whose worker neither answers nor dies is given up after this long.
  absl::Duration compile_timeout = absl::Minutes(2);
  absl::Duration measure_timeout = absl::Minutes(10);
  // How many workers a candidate may take down with it before it is given up.
  int max_attempts = 4;
};

struct WorkerView {
  std::string address;
  bool healthy = false;
  std::string unhealthy_reason;
  v1::WorkerDescription description;
};

// The workers that the orchestrator knows. Requests wait in one queue a kind until a healthy worker
// that serves the target has a free credit; a worker that goes away while it holds one has it taken
// to another. Thread-safe.
class WorkerPool final : public Workers {
 public:
  // `on_change` is called, from a thread of the pool's, when capacity appears or goes.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<WorkerPool>> Create(
      WorkerPoolOptions options, std::function<void()> on_change);
  // Cancels what is under way; its callbacks get CANCELLED before the destructor returns.
  ~WorkerPool() override;

  void Compile(std::shared_ptr<const Problem> problem, const Candidate& candidate,
               CompileDone done) override;
  void CompileReference(std::shared_ptr<const Problem> problem, const std::string& target,
                        CompileDone done) override;
  void Measure(std::shared_ptr<const Problem> problem, const Candidate& candidate,
               MeasureLevel level, MeasureDone done) override;
  Capacity CapacityFor(const std::string& target) const override;
  // Device of the first healthy worker that measures on the target; empty while there is none.
  DeviceInfo DeviceFor(const std::string& target) const;

  std::vector<WorkerView> View() const;
  // Requests that wait for a worker.
  size_t QueueDepth() const;

 private:
  class Impl;
  explicit WorkerPool(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_WORKER_POOL_H_
