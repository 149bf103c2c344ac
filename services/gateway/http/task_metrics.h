#ifndef KERNELCAST_SERVICES_GATEWAY_HTTP_TASK_METRICS_H_
#define KERNELCAST_SERVICES_GATEWAY_HTTP_TASK_METRICS_H_

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/metrics/metrics.h"
#include "services/gateway/core/task_desk.h"

namespace kernelcast::gateway {

// Exports kernelcast_gateway_tasks_total, _tasks_joined_total, _tasks_pending and
// _repeated_calls_total. Thread-safe.
class TaskMetrics final : public TaskObserver {
 public:
  // `metrics` must outlive this object.
  TaskMetrics(MetricsRegistry* metrics, const std::vector<std::string>& dialects);

  void OnStarted(const Submission& submission, size_t pending) override;
  void OnJoined(const Submission& submission) override;
  void OnFinished(const Submission& submission, const Verdict& verdict, size_t pending) override;
  // A call to the orchestrator is made again.
  void OnRepeat() { repeated_->Increment(); }

 private:
  // Constant after construction.
  std::map<std::pair<std::string, std::string>, prometheus::Counter*> tasks_;  // dialect, outcome
  std::map<std::string, prometheus::Counter*> joined_;                         // by dialect
  prometheus::Gauge* pending_ = nullptr;
  prometheus::Counter* repeated_ = nullptr;
};

}  // namespace kernelcast::gateway

#endif  // KERNELCAST_SERVICES_GATEWAY_HTTP_TASK_METRICS_H_
