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
      unserved_(registry->Gauge(
          "kernelcast_orchestrator_shards_unserved",
          "Shards that nobody holds, or that this orchestrator holds without serving them.")),
      replicas_(registry->Gauge("kernelcast_orchestrator_replicas",
                                "Live orchestrators of the log, without those that are leaving.")),
      renewed_(registry->Gauge("kernelcast_orchestrator_leases_renewed_timestamp_seconds",
                               "Time of the last lease renewal, since the epoch.")),
      taken_(registry->Counter("kernelcast_orchestrator_shards_taken_total",
                               "Shards that this orchestrator has taken.")),
      lost_(registry->Counter(
          "kernelcast_orchestrator_shards_lost_total",
          "Shards taken by another orchestrator while this one still held them.")),
      failed_(registry->Counter("kernelcast_orchestrator_shards_failed_total",
                                "Shards that could not be opened, or whose engine failed.")),
      renewals_ok_(Renewals(registry, "ok")),
      renewals_failed_(Renewals(registry, "failed")),
      forwarded_(registry->Counter("kernelcast_orchestrator_forwarded_calls_total",
                                   "Calls forwarded to the orchestrator that holds their shard.")) {
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
