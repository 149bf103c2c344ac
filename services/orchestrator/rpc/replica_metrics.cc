#include "services/orchestrator/rpc/replica_metrics.h"

namespace kernelcast::orchestrator {

ReplicaMetrics::ReplicaMetrics(MetricsRegistry* registry)
    : held_(registry->Gauge("kernelcast_orchestrator_shards_held",
                            "Shards of the log that this orchestrator holds.")),
      taken_(registry->Counter("kernelcast_orchestrator_shards_taken_total",
                               "Shards that it has taken, from nobody or from one that is gone.")),
      lost_(registry->Counter("kernelcast_orchestrator_shards_lost_total",
                              "Shards that another took while it still believed to hold them.")),
      forwarded_(registry->Counter("kernelcast_orchestrator_forwarded_calls_total",
                                   "Calls passed on to the orchestrator that holds their shard.")) {
}

void ReplicaMetrics::Show(const ShardFigures& figures) {
  held_.Set(figures.held);
  taken_.Increment(static_cast<double>(figures.taken - shown_.taken));
  lost_.Increment(static_cast<double>(figures.lost - shown_.lost));
  shown_ = figures;
}

}  // namespace kernelcast::orchestrator
