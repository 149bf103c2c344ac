#include "services/orchestrator/rpc/peer_metrics.h"

namespace kernelcast::orchestrator {
namespace {

constexpr const char* kRepeatReasons[] = {"lost", "failed", "handed_back", "refused"};

}  // namespace

const PeerMetrics::Series PeerMetrics::kWorkers = {
    "kernelcast_orchestrator_workers",
    "Configured or discovered workers, by state.",
    "kernelcast_orchestrator_worker_ejections_total",
    "Ejections of a worker because its calls failed.",
    "kernelcast_orchestrator_worker_calls_repeated_total",
    "Repeated calls to workers, by reason.",
};
const PeerMetrics::Series PeerMetrics::kForecasters = {
    "kernelcast_orchestrator_forecasters",
    "Configured or discovered forecasters, by state.",
    "kernelcast_orchestrator_forecaster_ejections_total",
    "Ejections of a forecaster because its calls failed.",
    "kernelcast_orchestrator_forecaster_calls_repeated_total",
    "Repeated calls for forecasts, by reason.",
};

PeerMetrics::PeerMetrics(MetricsRegistry* registry, const Series& series)
    : ready_(registry->Gauge(series.by_state, series.by_state_help, {{"state", "ready"}})),
      away_(registry->Gauge(series.by_state, series.by_state_help, {{"state", "away"}})),
      ejected_(registry->Gauge(series.by_state, series.by_state_help, {{"state", "ejected"}})),
      ejections_(registry->Counter(series.ejections, series.ejections_help)) {
  for (const char* reason : kRepeatReasons) {
    repeated_calls_[reason] =
        &registry->Counter(series.repeated_calls, series.repeated_calls_help, {{"reason", reason}});
  }
}

void PeerMetrics::Show(const PeerFigures& figures) {
  ready_.Set(static_cast<double>(figures.ready));
  away_.Set(static_cast<double>(figures.away));
  ejected_.Set(static_cast<double>(figures.ejected));
  ejections_.Increment(static_cast<double>(figures.ejections) - ejections_.Value());
  for (const auto& [reason, times] : figures.repeated_calls) {
    prometheus::Counter& counter = *repeated_calls_.at(reason);
    counter.Increment(static_cast<double>(times) - counter.Value());
  }
}

}  // namespace kernelcast::orchestrator
