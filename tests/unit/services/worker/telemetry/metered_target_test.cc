#include "services/worker/telemetry/metered_target.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>

namespace kernelcast::worker {
namespace {

using Catch::Matchers::Contains;

// Compiles the reference only, and measures on device 1 only.
class PickyTarget final : public Target {
 public:
  TargetInfo Describe() const override { return {}; }
  absl::StatusOr<CompileResult> Compile(const CompileRequest& request,
                                        const CancelToken& cancel) override {
    if (!cancel.Check().ok()) return cancel.Check();
    CompileResult result;
    if (request.candidate != nullptr) result.result = CompileError();
    return result;
  }
  absl::StatusOr<Artifact> Resolve(const Candidate&, const Artifact&) override {
    return Artifact();
  }
  absl::StatusOr<Measurement> Measure(const MeasureRequest& request, const CancelToken&) override {
    if (request.device != 1) return absl::UnavailableError("failed");
    Measurement measurement;
    measurement.outcome = WrongResult();
    return measurement;
  }
};

TEST_CASE("Compiles and measurements are counted by result and device", "[worker][metrics]") {
  TargetDevice device;
  device.info.model = "NVIDIA H200";
  MetricsRegistry registry;
  WorkerMetrics metrics(registry, {{"cuda", {device, device}}}, 8, 4);
  MeteredTarget target(std::make_unique<PickyTarget>(), "cuda", metrics);

  const Problem problem;
  const Candidate candidate;
  const Artifact artifact;
  CancelToken stopped;
  stopped.Cancel();
  CHECK(target.Compile({problem}, CancelToken()).ok());
  CHECK(target.Compile({problem, &candidate}, CancelToken()).ok());
  CHECK(absl::IsCancelled(target.Compile({problem}, stopped).status()));
  MeasureRequest request{problem, candidate, artifact};
  CHECK(absl::IsUnavailable(target.Measure(request, CancelToken()).status()));
  request.device = 1;
  CHECK(target.Measure(request, CancelToken()).ok());

  const std::string text = registry.Text();
  for (const char* line : {
           "kernelcast_worker_compiles_total{gpu_model=\"h200\",result=\"success\"} 1",
           "kernelcast_worker_compiles_total{gpu_model=\"h200\",result=\"rejected\"} 1",
           "kernelcast_worker_compiles_total{gpu_model=\"h200\",result=\"stopped\"} 1",
           "kernelcast_worker_compile_duration_seconds_count{gpu_model=\"h200\"} 3",
           "kernelcast_worker_measurements_total{gpu=\"0\",gpu_model=\"h200\",result=\"error\"} 1",
           "kernelcast_worker_measurements_total{gpu=\"1\",gpu_model=\"h200\","
           "result=\"wrong_result\"} 1",
           "kernelcast_worker_measure_duration_seconds_count{gpu_model=\"h200\"} 2",
       }) {
    CHECK_THAT(text, Contains(line));
  }
}

}  // namespace
}  // namespace kernelcast::worker
