#include "services/worker/core/baseline_target.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/domain/python_task.h"

namespace kernelcast::worker {
namespace {

constexpr size_t kMaxBaselines = 256;
constexpr size_t kReasonBytes = 1024;

// Whether all figures are those of CUDA graphs, or of a target that has none.
bool HasGraphs(const MeasuredOk& ok) {
  return std::ranges::all_of(ok.shapes, [](const ShapeTiming& shape) {
    return !shape.eager || shape.eager->no_graph_reason.empty();
  });
}

// a / b. The errors of both are independent.
Ratio Quotient(const Ratio& a, const Ratio& b) {
  if (!(a.low > 0 && b.low > 0)) return {};
  const auto distance = [](double above, double below) { return std::log(above / below); };
  Ratio ratio = a;
  ratio.value = a.value / b.value;
  ratio.low =
      ratio.value * std::exp(-std::hypot(distance(a.value, a.low), distance(b.high, b.value)));
  ratio.high =
      ratio.value * std::exp(std::hypot(distance(a.high, a.value), distance(b.value, b.low)));
  ratio.confidence = std::min(a.confidence, b.confidence);
  ratio.within_deviation = std::hypot(a.within_deviation, b.within_deviation);
  ratio.between_deviation = std::hypot(a.between_deviation, b.between_deviation);
  return ratio;
}

// Weighted geometric mean. What makes one shape slow makes all slow, so that errors add up.
Ratio Mean(const MeasuredOk& ok, const Ratio& (*figure)(const ShapeTiming&)) {
  const std::vector<double> weights = ShapeWeights(ok);
  Ratio mean{.value = 0, .low = 0, .high = 0, .confidence = 1};
  for (size_t i = 0; i < ok.shapes.size(); ++i) {
    const Ratio& ratio = figure(ok.shapes[i]);
    if (!(ratio.low > 0)) return {};
    mean.value += weights[i] * std::log(ratio.value);
    mean.low += weights[i] * std::log(ratio.low);
    mean.high += weights[i] * std::log(ratio.high);
    mean.confidence = std::min(mean.confidence, ratio.confidence);
  }
  for (double* const value : {&mean.value, &mean.low, &mean.high}) *value = std::exp(*value);
  return mean;
}

const Ratio& EagerSpeedup(const ShapeTiming& shape) {
  return shape.eager ? shape.eager->speedup : shape.speedup;
}

// Verdicts stay. An unstable environment may calm down.
bool IsLasting(const Measurement& measurement) {
  return !std::holds_alternative<EnvironmentUnstable>(measurement.outcome);
}

CompiledBaseline Unavailable(std::string reason) {
  CompiledBaseline none;
  none.unavailable_reason = std::string(TruncateUtf8(reason, kReasonBytes));
  return none;
}

}  // namespace

CompiledBaseline CompareWithBaseline(const MeasuredOk& candidate, const Measurement& baseline) {
  const auto* const compiled = std::get_if<MeasuredOk>(&baseline.outcome);
  if (compiled == nullptr) return Unavailable(MeasurementFeedback(baseline));
  CompiledBaseline made;
  made.eager = !HasGraphs(candidate) || !HasGraphs(*compiled);
  made.speedup = made.eager ? Quotient(Mean(candidate, EagerSpeedup), Mean(*compiled, EagerSpeedup))
                            : Quotient(candidate.speedup, compiled->speedup);
  for (const ShapeTiming& shape : compiled->shapes) {
    made.references.push_back(made.eager && shape.eager ? shape.eager->candidate : shape.candidate);
  }
  if (!(made.speedup.value > 0)) return Unavailable("the figures have no intervals");
  return made;
}

std::shared_ptr<BaselineTarget::Baseline> BaselineTarget::Find(const MeasureRequest& request) {
  const std::lock_guard lock(mutex_);
  if (baselines_.size() >= kMaxBaselines) baselines_.clear();
  auto& found = baselines_[Key{request.problem.problem_id, request.device, request.spec.level}];
  if (found == nullptr) found = std::make_shared<Baseline>();
  return found;
}

absl::StatusOr<Measurement> BaselineTarget::Measure(const MeasureRequest& request,
                                                    const CancelToken& cancel) {
  auto measured = inner().Measure(request, cancel);
  auto* const ok = measured.ok() ? std::get_if<MeasuredOk>(&measured->outcome) : nullptr;
  if (ok == nullptr || !request.problem.task || !request.problem.task->compiled_baseline) {
    return measured;
  }
  const std::shared_ptr<Baseline> baseline = Find(request);
  const std::lock_guard lock(baseline->mutex);
  if (baseline->measurement == nullptr) {
    KC_ASSIGN_OR_RETURN(Candidate compiled, ReferenceCandidate(request.problem, measured->target));
    compiled.flags.emplace_back(kTorchCompileFlag);
    Artifact artifact = request.artifact;
    artifact.content = compiled.source;
    auto made = inner().Measure(
        {request.problem, compiled, artifact, request.spec.level, request.device}, cancel);
    KC_RETURN_IF_ERROR(cancel.Check());
    if (!made.ok()) {
      ok->compiled = Unavailable(std::string(made.status().message()));
      return measured;
    }
    measured->device_time_ns += made->device_time_ns;
    measured->preparation_time_ns += made->device_time_ns;
    auto kept = std::make_unique<const Measurement>(*std::move(made));
    ok->compiled = CompareWithBaseline(*ok, *kept);
    if (IsLasting(*kept)) baseline->measurement = std::move(kept);
    return measured;
  }
  ok->compiled = CompareWithBaseline(*ok, *baseline->measurement);
  return measured;
}

}  // namespace kernelcast::worker
