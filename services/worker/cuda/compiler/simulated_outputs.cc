#include "services/worker/cuda/compiler/simulated_outputs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "services/worker/core/draw_plan.h"
#include "services/worker/core/random.h"

namespace kernelcast::worker {
namespace {

// The same for every candidate: verdicts must be reproducible.
constexpr uint64_t kInputSeed = 1;
constexpr uint64_t kPoisonSeed = 2;
// The limit for all tensors of a case together.
constexpr int64_t kMostElements = 1 << 19;
// A larger workspace is zero at first.
constexpr int64_t kMostPoisonedBytes = 4 << 20;
// An output is wrong if it disagrees with tolerances this many times as wide.
constexpr double kMargin = 2;
// The share of integer outputs that may differ where they depend on real inputs, because a GPU
// rounds differently.
constexpr double kChangedShare = 0.05;

std::span<std::byte> Bytes(std::string& text) {
  return std::as_writable_bytes(std::span(text.data(), text.size()));
}
std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

absl::StatusOr<std::vector<std::string>> DrawInputs(const Problem& problem, const CaseSpec& spec) {
  KC_ASSIGN_OR_RETURN(const std::vector<TensorLayout> layouts, Layouts(problem.inputs, spec.axes));
  KC_ASSIGN_OR_RETURN(const std::vector<TensorLayout> outputs, Layouts(problem.outputs, spec.axes));
  int64_t elements = 0;
  for (const auto* all : {&layouts, &outputs}) {
    for (const TensorLayout& layout : *all) elements += layout.elements();
  }
  if (elements > kMostElements)
    return absl::ResourceExhaustedError("tensors larger than the limit");
  Random random(kInputSeed);
  std::vector<std::string> inputs;
  for (size_t k = 0; k < layouts.size(); ++k) {
    std::string& input = inputs.emplace_back(static_cast<size_t>(layouts[k].bytes()), '\0');
    KC_ASSIGN_OR_RETURN(const auto plan, PlanDraw(problem.inputs[k], layouts[k], spec));
    if (plan) {
      DrawByCounter(layouts[k].dtype, *plan, random.Next(), Bytes(input));
    } else {
      KC_RETURN_IF_ERROR(FillInput(problem.inputs[k], layouts[k], spec, random, Bytes(input)));
    }
  }
  return inputs;
}

// Returns null if no call with these sizes is known.
const PythonTask::Call* FindCall(const Problem& problem, const AxisValues& axes) {
  if (!problem.task || problem.task->calls == nullptr) return nullptr;
  for (const PythonTask::Call& call : *problem.task->calls) {
    if (call.axes == axes) return &call;
  }
  return nullptr;
}

// Takes the values of a call of a task's reference.
absl::Status TakeCall(const Problem& problem, const PythonTask::Call& call, SimulatedCase& at) {
  at.inputs = call.inputs;
  Problem as_declared = problem;
  for (size_t k = 0; k < as_declared.outputs.size(); ++k) {
    as_declared.outputs[k].tolerance = call.tolerances[k];
  }
  return SetExpected(as_declared, call.outputs, at);
}

Tolerance Widened(Tolerance tolerance, DataType dtype) {
  tolerance.atol *= kMargin;
  tolerance.rtol = kMargin * tolerance.rtol + 2 * UnitRoundoff(dtype);
  if (tolerance.normwise > 0) {
    tolerance.normwise = kMargin * tolerance.normwise + 2 * UnitRoundoff(dtype);
  }
  tolerance.max_error *= kMargin;
  return tolerance;
}

}  // namespace

std::vector<SimulatedCase> SimulatedCases(const Problem& problem, const ProblemTarget& target) {
  std::vector<SimulatedCase> cases;
  const std::vector<AxisValues> shapes = ShapesToCheck(problem, target);
  const bool has_oracle = target.oracle.has_value() && !problem.task;
  const auto add = [&](const AxisValues& shape, std::optional<Adversarial> adversarial) {
    SimulatedCase& added = cases.emplace_back();
    added.spec.axes = shape;
    added.spec.adversarial = adversarial;
    added.text = ShapeText(shape);
    for (const TensorSpec& output : problem.outputs) added.outputs.push_back(output.name);
    added.has_real_inputs =
        std::any_of(problem.inputs.begin(), problem.inputs.end(),
                    [](const TensorSpec& input) { return IsFloat(input.dtype); });
    if (!has_oracle) {
      const PythonTask::Call* const call = FindCall(problem, shape);
      if (call == nullptr) {
        added.not_compared = problem.task ? "the values of the reference's calls are not known"
                                          : "the problem has no oracle in CUDA";
        return;
      }
      const absl::Status taken = TakeCall(problem, *call, added);
      if (!taken.ok()) added.not_compared = std::string(taken.message());
      return;
    }
    if (adversarial) absl::StrAppend(&added.text, " (", added.spec.distribution(), ")");
    absl::StatusOr<std::vector<std::string>> inputs = DrawInputs(problem, added.spec);
    if (inputs.ok()) {
      added.inputs = *std::move(inputs);
    } else {
      added.not_compared = std::string(inputs.status().message());
    }
  };
  for (size_t s = 0; s < shapes.size(); ++s) {
    add(shapes[s], std::nullopt);
    if (s != shapes.size() / 2 || !has_oracle) continue;
    for (const Adversarial kind : {Adversarial::kLarge, Adversarial::kZeros, Adversarial::kExtreme,
                                   Adversarial::kEqualRows}) {
      const bool listed =
          std::any_of(problem.inputs.begin(), problem.inputs.end(), [&](const TensorSpec& input) {
            return std::find(input.adversarial.begin(), input.adversarial.end(), kind) !=
                   input.adversarial.end();
          });
      if (listed) add(shapes[s], kind);
    }
  }
  return cases;
}

absl::StatusOr<SimulationPlan> PlanOracle(const Problem& problem, const KernelProgram& oracle,
                                          const SimulatedCase& at) {
  KC_ASSIGN_OR_RETURN(
      SimulationPlan plan,
      PlanSimulation(problem, oracle.launches, oracle.workspace_bytes, {}, at.spec.axes, Cubin()));
  for (size_t k = 0; k < problem.inputs.size(); ++k) plan.buffers[k].content = at.inputs[k];
  for (size_t k = 0; k < problem.outputs.size(); ++k) {
    virtual_gpu::BufferSpec& buffer = plan.buffers[problem.inputs.size() + k];
    const DataType dtype = problem.outputs[k].dtype;
    if (IsFloat(dtype)) {
      buffer.bytes = buffer.bytes / SizeBytes(dtype) * static_cast<int64_t>(sizeof(double));
      buffer.type = virtual_gpu::ElementType::kFloat64;
    }
    // Elements that are not written stay NaN.
    buffer.content.assign(static_cast<size_t>(buffer.bytes), '\xff');
  }
  return plan;
}

absl::Status SetExpected(const Problem& problem, std::span<const std::string> outputs,
                         SimulatedCase& at) {
  KC_ASSIGN_OR_RETURN(const std::vector<TensorLayout> layouts,
                      Layouts(problem.outputs, at.spec.axes));
  for (size_t k = 0; k < layouts.size(); ++k) {
    KC_ASSIGN_OR_RETURN(const Tolerance tolerance, ToleranceAt(problem.outputs[k], at.spec.axes));
    const ExpectedTensor& expected =
        at.expected.emplace_back(layouts[k], tolerance, Bytes(outputs[k]));
    if (expected.has_nan()) at.not_compared = "the oracle's outputs contain NaN";
    std::string& poison = at.poison.emplace_back(static_cast<size_t>(layouts[k].bytes()), '\0');
    FillPoison(PoisonKind::kNonFinite, kPoisonSeed, expected, Bytes(poison));
  }
  return absl::OkStatus();
}

void SetContents(const SimulatedCase& at, SimulationPlan& plan) {
  for (size_t k = 0; k < at.inputs.size(); ++k) plan.buffers[k].content = at.inputs[k];
  for (size_t k = 0; k < at.poison.size(); ++k) {
    plan.buffers[at.inputs.size() + k].content = at.poison[k];
  }
  if (at.poison.empty()) return;
  // The workspace is not zero, either.
  for (size_t k = at.inputs.size() + at.poison.size(); k < plan.buffers.size(); ++k) {
    virtual_gpu::BufferSpec& workspace = plan.buffers[k];
    if (workspace.bytes > kMostPoisonedBytes) continue;
    for (int64_t i = 0; i < workspace.bytes; ++i) workspace.content += i % 2 == 0 ? '\xf1' : '\x7f';
  }
}

SimulatedComparison CompareSimulated(const SimulatedCase& at,
                                     std::span<const std::string> outputs) {
  SimulatedComparison comparison;
  for (size_t k = 0; k < at.expected.size(); ++k) {
    const ExpectedTensor& expected = at.expected[k];
    const std::span<const std::byte> got = Bytes(outputs[k]);
    const Poison poison = {PoisonKind::kNonFinite, kPoisonSeed};
    TensorVerdict verdict = CompareTensor(expected, got, poison);
    if (verdict.ok) continue;
    const std::string& name = at.outputs[k];
    const bool missing = verdict.cause == WrongResult::Cause::kNotWritten;
    const auto elements = static_cast<double>(expected.elements());
    bool far = missing;
    if (!far && expected.is_float()) {
      const std::vector<double> real(expected.real().begin(), expected.real().end());
      const ExpectedTensor wide(expected.layout(),
                                Widened(expected.tolerance(), expected.layout().dtype),
                                std::as_bytes(std::span(real)));
      verdict = CompareTensor(wide, got, poison);
      far = !verdict.ok;
    } else if (!far) {
      far =
          !at.has_real_inputs || static_cast<double>(verdict.mismatches) > kChangedShare * elements;
    }
    if (!far) {
      comparison.unknown = absl::StrCat("output ", name, " disagrees by little at ", at.text);
      continue;
    }
    SimulatedMismatch& mismatch = comparison.mismatches.emplace_back();
    mismatch.output = k;
    mismatch.finding.kind = missing ? FindingKind::kNotWritten : FindingKind::kWrongValue;
    mismatch.finding.count = std::max<int64_t>(1, static_cast<int64_t>(verdict.mismatches));
    std::string& detail = mismatch.finding.detail;
    detail = absl::StrCat("at ", at.text, ": ");
    if (verdict.mismatches == 0) {
      absl::StrAppend(&detail, "the error of ", name, " is ",
                      RoundForReport(verdict.normwise_error), " of its norm");
    } else if (missing) {
      absl::StrAppend(&detail, name, "[", verdict.index, "] is not written");
    } else {
      RoundForReport(verdict.got, verdict.expected);
      absl::StrAppend(&detail, name, "[", verdict.index, "] is ", verdict.got, ", expected ",
                      verdict.expected);
    }
    if (verdict.mismatches > 0) {
      absl::StrAppend(&detail, "; ", verdict.mismatches, " of ", expected.elements(),
                      " elements disagree");
    }
  }
  return comparison;
}

}  // namespace kernelcast::worker
