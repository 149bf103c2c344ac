#include "services/gateway/http/task_metrics.h"

namespace kernelcast::gateway {
namespace {

constexpr const char* kOutcomes[] = {"ok",      "passed",  "wrong_result",  "crash",
                                     "timeout", "exploit", "compile_error", "no_verdict"};

}  // namespace

TaskMetrics::TaskMetrics(MetricsRegistry* metrics, const std::vector<std::string>& dialects) {
  for (const std::string& dialect : dialects) {
    for (const char* outcome : kOutcomes) {
      tasks_[{dialect, outcome}] =
          &metrics->Counter("kernelcast_gateway_tasks_total", "Tasks that have ended, by outcome.",
                            {{"dialect", dialect}, {"outcome", outcome}});
    }
    joined_[dialect] =
        &metrics->Counter("kernelcast_gateway_tasks_joined_total",
                          "Submissions that joined an earlier one.", {{"dialect", dialect}});
  }
  pending_ = &metrics->Gauge("kernelcast_gateway_tasks_pending", "Tasks that have not ended.");
  repeated_ = &metrics->Counter("kernelcast_gateway_repeated_calls_total",
                                "Calls to the orchestrator that were made again.");
}

void TaskMetrics::OnStarted(const Submission&, size_t pending) {
  pending_->Set(static_cast<double>(pending));
}

void TaskMetrics::OnJoined(const Submission& submission) {
  if (const auto found = joined_.find(submission.dialect); found != joined_.end()) {
    found->second->Increment();
  }
}

void TaskMetrics::OnFinished(const Submission& submission, const Verdict& verdict, size_t pending) {
  pending_->Set(static_cast<double>(pending));
  if (const auto found = tasks_.find({submission.dialect, std::string(verdict.outcome())});
      found != tasks_.end()) {
    found->second->Increment();
  }
}

}  // namespace kernelcast::gateway
