#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_RPC_PEER_METRICS_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_RPC_PEER_METRICS_H_

#include <cstdint>
#include <map>
#include <string>

#include "common/metrics/metrics.h"

namespace kernelcast::orchestrator {

// The peers of one kind, as reported in metrics.
struct PeerFigures {
  uint64_t ready = 0;
  uint64_t away = 0;
  uint64_t ejected = 0;
  // Since the process started.
  uint64_t ejections = 0;
  std::map<std::string, uint64_t> repeated_calls;  // by reason
};

// The series of one kind of peers. All exist from the start. Not thread-safe.
class PeerMetrics {
 public:
  struct Series {
    const char* by_state;
    const char* by_state_help;
    const char* ejections;
    const char* ejections_help;
    const char* repeated_calls;
    const char* repeated_calls_help;
  };
  static const Series kWorkers;
  static const Series kForecasters;

  PeerMetrics(MetricsRegistry* registry, const Series& series);
  void Show(const PeerFigures& figures);

 private:
  prometheus::Gauge& ready_;
  prometheus::Gauge& away_;
  prometheus::Gauge& ejected_;
  prometheus::Counter& ejections_;
  std::map<std::string, prometheus::Counter*, std::less<>> repeated_calls_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_RPC_PEER_METRICS_H_
