#include "services/orchestrator/rpc/replica_metrics.h"

namespace kernelcast::orchestrator {
namespace {

prometheus::Counter& Renewals(MetricsRegistry* registry, const std::string& result) {
  return registry->Counter("kernelcast_orchestrator_lease_renewals_total",
                           "Attempts to renew the leases on shards.", {{"result", result}});
}

}  // namespace

ReplicaMetrics::ReplicaMetrics(MetricsRegistry* registry)
    : held_(registry->Gauge("kernelcast_orchestrator_shards_held",
                            "Shards of the log that this orchestrator holds.")),
      unserved_(registry->Gauge("kernelcast_orchestrator_shards_unserved",
                                "Shards that nobody holds, or this one without serving them.")),
      replicas_(registry->Gauge("kernelcast_orchestrator_replicas",
                                "Orchestrators of the log that are alive and not leaving.")),
      renewed_(registry->Gauge("kernelcast_orchestrator_leases_renewed_timestamp_seconds",
                               "When the leases were renewed last, since the epoch.")),
      taken_(registry->Counter("kernelcast_orchestrator_shards_taken_total",
                               "Shards that it has taken, from nobody or from one that is gone.")),
      lost_(registry->Counter("kernelcast_orchestrator_shards_lost_total",
                              "Shards that another took while it still believed to hold them.")),
      failed_(registry->Counter("kernelcast_orchestrator_shards_failed_total",
                                "Shards that could not be opened, or whose engine failed.")),
      renewals_ok_(Renewals(registry, "ok")),
      renewals_failed_(Renewals(registry, "failed")),
      forwarded_(registry->Counter("kernelcast_orchestrator_forwarded_calls_total",
                                   "Calls passed on to the orchestrator that holds their shard.")) {
}

void ReplicaMetrics::Show(const ShardFigures& figures) {
  held_.Set(figures.held);
  unserved_.Set(figures.unserved);
  replicas_.Set(figures.replicas);
  renewed_.Set(static_cast<double>(figures.renewed_wall_ns) / 1e9);
  taken_.Increment(static_cast<double>(figures.taken - shown_.taken));
  lost_.Increment(static_cast<double>(figures.lost - shown_.lost));
  failed_.Increment(static_cast<double>(figures.failed - shown_.failed));
  renewals_ok_.Increment(static_cast<double>(figures.renewals - shown_.renewals));
  renewals_failed_.Increment(static_cast<double>(figures.failed_renewals - shown_.failed_renewals));
  shown_ = figures;
}

}  // namespace kernelcast::orchestrator
