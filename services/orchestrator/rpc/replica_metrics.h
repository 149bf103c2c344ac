#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_RPC_REPLICA_METRICS_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_RPC_REPLICA_METRICS_H_

#include <cstdint>

#include "common/metrics/metrics.h"
#include "services/orchestrator/replicas/shard_listener.h"

namespace kernelcast::orchestrator {

// Metrics of several orchestrators on one log. All zero for a single one.
class ReplicaMetrics {
 public:
  explicit ReplicaMetrics(MetricsRegistry* registry);

  // Must be called by one thread at a time.
  void Show(const ShardFigures& figures);
  // Thread-safe.
  void CountForwarded() { forwarded_.Increment(); }

 private:
  prometheus::Gauge& held_;
  prometheus::Gauge& unserved_;
  prometheus::Gauge& replicas_;
  prometheus::Gauge& renewed_;
  prometheus::Counter& taken_;
  prometheus::Counter& lost_;
  prometheus::Counter& failed_;
  prometheus::Counter& renewals_ok_;
  prometheus::Counter& renewals_failed_;
  prometheus::Counter& forwarded_;
  ShardFigures shown_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_RPC_REPLICA_METRICS_H_
