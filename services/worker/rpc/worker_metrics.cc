#include "services/worker/rpc/worker_metrics.h"

#include <variant>

namespace kernelcast::worker {
namespace {

constexpr std::string_view kMeasureResults[] = {"ok",      "wrong_result", "crash",
                                                "timeout", "exploit",      "environment_unstable",
                                                "stopped", "error"};
constexpr std::string_view kCompileResults[] = {"success", "cached", "rejected", "stopped",
                                                "error"};

bool Stopped(const absl::Status& status) {
  return absl::IsCancelled(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

WorkerMetrics::WorkerMetrics(MetricsRegistry& registry, const std::vector<std::string>& targets,
                             uint32_t compile_credits, uint32_t measure_credits) {
  const std::vector<double> bounds = MetricsRegistry::DurationBounds();
  for (const std::string& target : targets) {
    PerTarget& metrics = targets_[target];
    const Labels labels = {{"target", target}};
    for (const std::string_view result : kMeasureResults) {
      metrics.measurements[std::string(result)] = &registry.Counter(
          "kernelcast_worker_measurements_total", "Candidates measured, by outcome",
          {{"target", target}, {"result", std::string(result)}});
    }
    for (const std::string_view result : kCompileResults) {
      metrics.compiles[std::string(result)] =
          &registry.Counter("kernelcast_worker_compiles_total", "Candidates compiled, by result",
                            {{"target", target}, {"result", std::string(result)}});
    }
    metrics.measure_seconds = &registry.Histogram(
        "kernelcast_worker_measure_duration_seconds",
        "Time to verify and time a candidate, with the wait for the lease", bounds, labels);
    metrics.measure_wait_seconds =
        &registry.Histogram("kernelcast_worker_measure_queue_wait_seconds",
                            "Time that a candidate waited to be measured", bounds, labels);
    metrics.compile_seconds = &registry.Histogram("kernelcast_worker_compile_duration_seconds",
                                                  "Time to compile a candidate", bounds, labels);
    metrics.compile_wait_seconds =
        &registry.Histogram("kernelcast_worker_compile_queue_wait_seconds",
                            "Time that a candidate waited to be compiled", bounds, labels);
  }
  const auto slots = [&registry](const char* kind) -> prometheus::Gauge& {
    return registry.Gauge("kernelcast_worker_slots", "Requests taken at once", {{"kind", kind}});
  };
  const auto in_use = [&registry](const char* kind) {
    return &registry.Gauge("kernelcast_worker_slots_in_use", "Requests running or queued",
                           {{"kind", kind}});
  };
  slots("compile").Set(compile_credits);
  slots("measure").Set(measure_credits);
  compiles_in_flight_ = in_use("compile");
  measures_in_flight_ = in_use("measure");
}

WorkerMetrics::PerTarget* WorkerMetrics::Find(const std::string& target) {
  const auto found = targets_.find(target);
  return found == targets_.end() ? nullptr : &found->second;
}

void WorkerMetrics::Compiled(const std::string& target, const absl::StatusOr<CompileResult>& result,
                             double seconds) {
  PerTarget* const metrics = Find(target);
  if (metrics == nullptr) {
    return;
  }
  std::string_view name = "error";
  if (result.ok()) {
    name = std::holds_alternative<CompileError>(result->result) ? "rejected"
           : result->cached                                     ? "cached"
                                                                : "success";
  } else if (Stopped(result.status())) {
    name = "stopped";
  }
  metrics->compiles.find(name)->second->Increment();
  metrics->compile_seconds->Observe(seconds);
}

void WorkerMetrics::Measured(const std::string& target,
                             const absl::StatusOr<Measurement>& measurement, double seconds) {
  PerTarget* const metrics = Find(target);
  if (metrics == nullptr) {
    return;
  }
  const std::string_view name = measurement.ok()                ? OutcomeName(measurement->outcome)
                                : Stopped(measurement.status()) ? "stopped"
                                                                : "error";
  metrics->measurements.find(name)->second->Increment();
  metrics->measure_seconds->Observe(seconds);
}

void WorkerMetrics::CompileWaited(const std::string& target, double seconds) {
  if (PerTarget* const metrics = Find(target)) {
    metrics->compile_wait_seconds->Observe(seconds);
  }
}

void WorkerMetrics::MeasureWaited(const std::string& target, double seconds) {
  if (PerTarget* const metrics = Find(target)) {
    metrics->measure_wait_seconds->Observe(seconds);
  }
}

}  // namespace kernelcast::worker
