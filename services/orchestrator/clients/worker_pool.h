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
#include "services/orchestrator/clients/call_record.h"
#include "services/orchestrator/core/ports.h"

namespace kernelcast::orchestrator {

struct WorkerPoolOptions {
  // As AddressWatchOptions.addresses.
  AddressWatchOptions discovery;
  ChannelOptions channel;
  // How often each worker is asked to describe itself. One that says nothing for longer than
  // `silence_limit` is gone, and what it held is taken to others.
  absl::Duration describe_interval = absl::Seconds(2);
  absl::Duration describe_timeout = absl::Seconds(2);
  absl::Duration silence_limit = absl::Seconds(15);
  // A call whose worker neither answers nor dies is given up after this long.
  absl::Duration compile_timeout = absl::Minutes(2);
  absl::Duration measure_timeout = absl::Minutes(10);
  // How many calls may fail on workers before a candidate is given up, and how many workers it may
  // take down with it. These may be more: workers are lost for reasons of their own.
  int max_attempts = 4;
  int max_losses = 10;
  CallRecord::Options outliers;
  // The GPU that the target cuda is measured on, as workers describe it or as metrics call it
  // ("h100"); empty: that of the first worker that measures.
  std::string gpu_model;
};

struct WorkerView {
  std::string address;
  bool healthy = false;
  std::string unhealthy_reason;
  // Left out for a while, or on probation, because its calls failed.
  bool ejected = false;
  v1::WorkerDescription description;
  // Requests of this pool's that it has now.
  uint32_t compiles = 0;
  uint32_t measures = 0;
};

// Since the pool was made.
struct WorkerPoolCounts {
  uint64_t ejections = 0;
  // Calls that were made again, by why.
  uint64_t repeated_lost = 0;         // the connection broke, or the worker fell silent
  uint64_t repeated_failed = 0;       // any other error that says nothing of the candidate
  uint64_t repeated_handed_back = 0;  // the worker drains
  uint64_t repeated_refused = 0;      // it had no credit left
};

// The workers that the orchestrator knows. Requests wait in one queue a kind until a worker that
// serves the target, and has the GPU that the target stands for, has a free credit: the one with
// the largest share of its credits free. A worker that goes away while it holds requests has them
// taken to others, at first to such as have not failed them yet.
//
// A worker whose calls fail out of proportion, though it describes itself, is left out for a
// growing while, and comes back when one call to it has succeeded. So are never more than half.
//
// Thread-safe.
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
  WorkerPoolCounts Counts() const;
  // Requests that wait for a worker.
  size_t QueueDepth() const;

 private:
  class Impl;
  explicit WorkerPool(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_WORKER_POOL_H_
