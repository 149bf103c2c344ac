#include "services/worker/cuda/runner/profiler.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/worker/cuda/runner/profile_report.h"

namespace kernelcast::worker::cuda_runner {
namespace {

class Absent final : public Profiler {
 public:
  explicit Absent(absl::Status why) : why_(std::move(why)) {}
  absl::StatusOr<std::vector<KernelRun>> Trace(const Work&) override { return why_; }
  absl::Status Try(CUdevice, CUcontext) override { return why_; }
  absl::StatusOr<CounterValues> Count(CUdevice, CUcontext, const std::vector<std::string>&, size_t,
                                      const Work&, const Work&) override {
    return why_;
  }

 private:
  const absl::Status why_;
};

}  // namespace

std::vector<std::string> CounterMetricNames() {
  std::vector<std::string> metrics;
  metrics.reserve(kCounterMetrics.size() + kStallReasons.size() + 1);
  for (const CounterMetric& counter : kCounterMetrics) metrics.emplace_back(counter.metric);
  for (const char* reason : kStallReasons) {
    metrics.push_back(
        absl::StrCat("smsp__average_warps_issue_stalled_", reason, "_per_issue_active.ratio"));
  }
  metrics.emplace_back("smsp__average_warps_active_per_issue_active.ratio");
  return metrics;
}

std::unique_ptr<Profiler> NoProfiler(absl::Status why) {
  return std::make_unique<Absent>(std::move(why));
}

#if defined(KERNELCAST_HAS_CUPTI_HEADERS)

std::unique_ptr<Profiler> OpenProfiler(const std::string& path) {
  auto api = LoadCuptiApi(path);
  return api.ok() ? MakeCuptiProfiler(*std::move(api)) : NoProfiler(api.status());
}

#else

std::unique_ptr<Profiler> OpenProfiler(const std::string&) {
  return NoProfiler(absl::UnimplementedError("built without the headers of CUPTI"));
}

#endif

}  // namespace kernelcast::worker::cuda_runner
