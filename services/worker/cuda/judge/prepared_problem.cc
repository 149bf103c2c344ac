#include "services/worker/cuda/judge/prepared_problem.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "services/worker/core/draw_plan.h"
#include "services/worker/core/launch_plan.h"
#include "services/worker/core/random.h"
#include "services/worker/core/tensor.h"
#include "services/worker/core/verification.h"

namespace kernelcast::worker {
namespace {

using cuda_runner::Argument;
using cuda_runner::PoisonRecord;
using cuda_runner::Program;
using cuda_runner::ProgramLaunch;
using cuda_runner::RunRecord;

// Arenas begin at a random multiple of kTensorAlignment below this. Larger offsets vary anyway.
constexpr uint64_t kPaddingRange = uint64_t{1} << 20;
constexpr int64_t kReferenceLoadLimitNs = 30'000'000'000;
constexpr int kReferenceCalls = 3;
constexpr const char* kOracleText = "the problem's oracle";

// `late` is the status code for a timeout.
absl::Status AnswerStatus(const CudaApi& api, const CudaRunner::Answer& answer,
                          const CancelToken& cancel, const std::string& what,
                          absl::StatusCode late = absl::StatusCode::kUnavailable) {
  if (answer.ok()) {
    return absl::OkStatus();
  }
  if (answer.end == CudaRunner::End::kStopped) {
    return cancel.Check();
  }
  const std::string text = absl::StrCat(what, ": ", CudaRunner::FailureText(answer));
  if (answer.end == CudaRunner::End::kGone || answer.end == CudaRunner::End::kForged) {
    return absl::UnavailableError(text);
  }
  if (answer.end == CudaRunner::End::kTimeout) {
    return absl::Status(late, text);
  }
  if (answer.reply.failure == cuda_runner::Failure::kDriver) {
    const absl::Status status =
        CudaStatus(api, static_cast<CUresult>(answer.reply.cuda_error), what);
    return absl::Status(absl::IsAborted(status) || absl::IsInvalidArgument(status)
                            ? absl::StatusCode::kFailedPrecondition
                            : status.code(),
                        status.message());
  }
  return absl::FailedPreconditionError(text);
}

}  // namespace

std::vector<std::string> CudaProgram::KernelNames() const {
  std::vector<std::string> names;
  for (const Launch& launch : launches) {
    if (std::find(names.begin(), names.end(), launch.kernel) == names.end()) {
      names.push_back(launch.kernel);
    }
  }
  return names;
}

CudaVerdict JudgeComparison(const CudaExpected& expected, const TensorComparison& comparison,
                            bool poisoned) {
  CudaVerdict verdict;
  if (IsFloat(expected.dtype)) {
    const double error = std::sqrt(comparison.error_squares);
    verdict.normwise_error = expected.norm > 0 ? error / expected.norm : error;
  }
  if (comparison.mismatches == 0) {
    verdict.cause = WrongResult::Cause::kNormwise;
    verdict.ok = !(IsFloat(expected.dtype) && expected.tolerance.normwise > 0 &&
                   expected.rms > expected.tolerance.atol &&
                   verdict.normwise_error > expected.tolerance.normwise);
    return verdict;
  }
  verdict.ok = false;
  if (poisoned && comparison.unwritten == comparison.mismatches) {
    verdict.cause = WrongResult::Cause::kNotWritten;
  } else if (comparison.non_finite == comparison.mismatches) {
    verdict.cause = WrongResult::Cause::kNonFinite;
  }
  return verdict;
}

absl::StatusOr<std::unique_ptr<CudaPreparedProblem>> CudaPreparedProblem::Make(
    const Problem& problem, const CudaProgram& oracle, CudaProgram reference,
    const MeasureOptions& options, CudaDevice& device, JudgeKernels& kernels, CudaRunner& runner,
    const SecretKey& key, const CancelToken& cancel) {
  std::unique_ptr<CudaPreparedProblem> prepared(
      new CudaPreparedProblem(problem, options, device, kernels, key));
  prepared->reference_ = std::move(reference);
  int64_t last_ns = Clock::Real().MonotonicNs();
  const auto lap = [&last_ns](int64_t& time_ns) {
    const int64_t now_ns = Clock::Real().MonotonicNs();
    time_ns = now_ns - std::exchange(last_ns, now_ns);
  };
  KC_RETURN_IF_ERROR(prepared->Arrange());
  lap(prepared->times_.arrange_ns);
  KC_RETURN_IF_ERROR(prepared->FillInputs(cancel));
  lap(prepared->times_.inputs_ns);
  KC_RETURN_IF_ERROR(prepared->PlanReference());
  KC_RETURN_IF_ERROR(prepared->MapArenas(runner, cancel));
  KC_RETURN_IF_ERROR(prepared->RunOracle(oracle, runner, cancel));
  lap(prepared->times_.oracle_ns);
  KC_RETURN_IF_ERROR(prepared->PlaceReference(runner, cancel));
  KC_RETURN_IF_ERROR(prepared->RunReference(runner, cancel));
  KC_ASSIGN_OR_RETURN(prepared->base_fingerprint_, prepared->InputsFingerprint());
  lap(prepared->times_.reference_ns);
  return prepared;
}

absl::StatusOr<std::unique_ptr<CudaPreparedProblem>> CudaPreparedProblem::MakeTask(
    std::shared_ptr<const PythonTaskPrograms> task, const MeasureOptions& options,
    CudaDevice& device, JudgeKernels& kernels, const CudaRunnerOptions& python, CudaRunner& runner,
    const SecretKey& key, const CancelToken& cancel) {
  std::unique_ptr<CudaPreparedProblem> prepared(
      new CudaPreparedProblem(task->problem(), options, device, kernels, key));
  prepared->task_ = std::move(task);
  prepared->reference_.object = prepared->task_->Reference({}).content;
  KC_RETURN_IF_ERROR(prepared->Arrange());
  {
    KC_ASSIGN_OR_RETURN(const auto drawn,
                        CudaTaskInputs::Start(*prepared->task_, device, python, cancel));
    KC_RETURN_IF_ERROR(prepared->FillTaskInputs(*drawn, cancel));
  }
  KC_RETURN_IF_ERROR(prepared->PlanReference());
  {
    CudaProgram oracle;
    oracle.object = prepared->task_->Oracle({}).content;
    KC_ASSIGN_OR_RETURN(const auto process, CudaRunner::Start(python, cancel));
    KC_RETURN_IF_ERROR(prepared->MapArena(*process, kInputs, cancel));
    KC_RETURN_IF_ERROR(prepared->RunOracle(oracle, *process, cancel));
  }
  KC_RETURN_IF_ERROR(prepared->Attach(runner, cancel));
  KC_RETURN_IF_ERROR(prepared->RunReference(runner, cancel));
  KC_ASSIGN_OR_RETURN(prepared->base_fingerprint_, prepared->InputsFingerprint());
  return prepared;
}

absl::Status CudaPreparedProblem::PlanReference() {
  for (const auto& [outputs, to] : {std::pair{kOutputs, &reference_programs_},
                                    std::pair{kReferenceOutputs, &reference_programs_apart_}}) {
    auto programs = MakePrograms(reference_, outputs);
    if (!programs.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the problem's reference: ", programs.status().message()));
    }
    *to = *std::move(programs);
    to->programs.emplace_back();
  }
  return absl::OkStatus();
}

absl::Status CudaPreparedProblem::Arrange() {
  uint64_t inputs_end = 0;
  const auto add_case = [&](const AxisValues& axes, std::string distribution,
                            uint64_t& outputs_end) -> absl::StatusOr<size_t> {
    Case added;
    added.axes = axes;
    added.distribution = std::move(distribution);
    KC_ASSIGN_OR_RETURN(const auto inputs, Layouts(problem_.inputs, axes));
    for (const TensorLayout& layout : inputs) {
      added.inputs.push_back({inputs_end, static_cast<uint64_t>(layout.bytes())});
      inputs_end = AlignTensor(inputs_end + static_cast<uint64_t>(layout.bytes()));
    }
    KC_ASSIGN_OR_RETURN(const auto outputs, Layouts(problem_.outputs, axes));
    for (const TensorLayout& layout : outputs) {
      outputs_end += kGuardBytes;
      added.outputs.push_back({outputs_end, static_cast<uint64_t>(layout.bytes())});
      outputs_end = AlignTensor(outputs_end + static_cast<uint64_t>(layout.bytes())) + kGuardBytes;
    }
    cases_.push_back(std::move(added));
    return cases_.size() - 1;
  };

  for (CaseSpec& spec : CorrectnessCases(problem_, target(), options_, shapes_random_)) {
    CheckCase check;
    KC_ASSIGN_OR_RETURN(check.index, add_case(spec.axes, spec.distribution(), outputs_bytes_));
    check_cases_.push_back(std::move(check));
    check_specs_.push_back(std::move(spec));
  }
  for (const AxisValues& axes : target().bench_shapes) {
    BenchShape shape;
    shape.axes = axes;
    if (problem_.bytes) {
      KC_ASSIGN_OR_RETURN(shape.bytes, problem_.bytes->Evaluate(ToVariables(axes)));
    }
    if (problem_.flops) {
      KC_ASSIGN_OR_RETURN(shape.flops, problem_.flops->Evaluate(ToVariables(axes)));
    }
    // Memory per set: inputs of two banks in addition to the arena's, and expected outputs of all
    // banks.
    int64_t set_bytes = 0;
    KC_ASSIGN_OR_RETURN(const auto inputs, Layouts(problem_.inputs, axes));
    for (const TensorLayout& layout : inputs) {
      set_bytes += 3 * layout.bytes();
    }
    KC_ASSIGN_OR_RETURN(const auto outputs, Layouts(problem_.outputs, axes));
    for (const TensorLayout& layout : outputs) {
      const int64_t expected = IsFloat(layout.dtype) ? layout.elements() * 8 : layout.bytes();
      set_bytes += 2 * layout.bytes() + static_cast<int64_t>(kBanks) * expected;
    }
    const int64_t affordable = options_.input_sets_bytes / std::max<int64_t>(1, set_bytes) /
                               std::ssize(target().bench_shapes);
    // One request times all sets and one empty call.
    const int64_t poisons_a_set = 2 * std::ssize(problem_.outputs) + 1;
    const int64_t most = std::min<int64_t>({options_.input_sets, cuda_runner::kMaxSamples - 1,
                                            int64_t{cuda_runner::kMaxPoisons} / poisons_a_set});
    if (most < 1) {
      return absl::FailedPreconditionError(absl::StrCat("the problem has ", problem_.outputs.size(),
                                                        " outputs, too many for a runner"));
    }
    const int64_t sets = std::clamp<int64_t>(affordable, 1, most);
    for (int64_t i = 0; i < sets; ++i) {
      KC_ASSIGN_OR_RETURN(const size_t index, add_case(axes, "declared", outputs_bytes_));
      shape.slots.push_back(index);
    }
    shape.sets.resize(static_cast<size_t>(sets));
    bench_shapes_.push_back(std::move(shape));
  }
  // One extra program does nothing, to measure the overhead of a call.
  if (cases_.size() >= cuda_runner::kMaxPrograms || check_cases_.size() > cuda_runner::kMaxRuns) {
    return absl::FailedPreconditionError(
        absl::StrCat("the problem has ", cases_.size(), " cases, of ", check_cases_.size(),
                     " that are checked; a runner takes ", cuda_runner::kMaxPrograms - 1, ", of ",
                     cuda_runner::kMaxRuns));
  }
  inputs_bytes_ = inputs_end;
  KC_RETURN_IF_ERROR(CheckMemory());
  KC_ASSIGN_OR_RETURN(inputs_, MakeArena(inputs_bytes_));
  KC_ASSIGN_OR_RETURN(outputs_, MakeArena(outputs_bytes_));
  KC_ASSIGN_OR_RETURN(reference_outputs_, MakeArena(outputs_bytes_));
  KC_ASSIGN_OR_RETURN(scratch_, MakeArena(scratch_bytes_));
  return ArrangeBanks();
}

absl::Status CudaPreparedProblem::CheckMemory() const {
  // In floating point, because the sum of legal sizes may overflow.
  double bytes = 0;
  const auto add = [&](const Case& at, double inputs, double expected) {
    for (const Place& input : at.inputs) {
      bytes += inputs * static_cast<double>(input.bytes);
    }
    for (size_t i = 0; i < at.outputs.size(); ++i) {
      const DataType dtype = problem_.outputs[i].dtype;
      const auto of_output = static_cast<double>(at.outputs[i].bytes);
      // The outputs of both sides, and the expected ones.
      const double widened = IsFloat(dtype) ? 8.0 / static_cast<double>(SizeBytes(dtype)) : 1;
      bytes += (2 + expected * widened) * of_output;
    }
  };
  for (const CheckCase& check : check_cases_) {
    add(cases_[check.index], 1, 1);
  }
  for (const BenchShape& shape : bench_shapes_) {
    for (const size_t slot : shape.slots) {
      add(cases_[slot], 3, kBanks);
    }
  }
  KC_ASSIGN_OR_RETURN(const DeviceMemory memory, device_.Memory());
  const std::string text = absl::StrFormat(
      "the problem's inputs, outputs and expected outputs need %.0f bytes of device memory", bytes);
  if (bytes > static_cast<double>(memory.total_bytes)) {
    return absl::FailedPreconditionError(
        absl::StrCat(text, "; the device has ", memory.total_bytes));
  }
  if (bytes > static_cast<double>(memory.free_bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat(text, "; of the device's ", memory.total_bytes,
                                                     ", ", memory.free_bytes, " are free"));
  }
  return absl::OkStatus();
}

absl::StatusOr<SharedArena> CudaPreparedProblem::MakeArena(uint64_t bytes) {
  KC_ASSIGN_OR_RETURN(
      SharedArena arena,
      SharedArena::Create(
          device_, bytes,
          kTensorAlignment * placement_random_.Below(kPaddingRange / kTensorAlignment)));
  // It may be memory that held results recently.
  KC_RETURN_IF_ERROR(
      device_.Check(device_.api().MemsetD8Async(arena.address() - arena.padding(), 0xff,
                                                arena.mapped_bytes(), device_.stream()),
                    "clearing memory"));
  return arena;
}

absl::Status CudaPreparedProblem::Relocate() {
  const auto move = [&](SharedArena& arena, uint64_t bytes, bool keep_content) -> absl::Status {
    // Allocate before freeing the old arena, or the driver would return the same memory.
    absl::StatusOr<SharedArena> moved = MakeArena(bytes);
    if (absl::IsResourceExhausted(moved.status())) {
      return absl::OkStatus();
    }
    KC_RETURN_IF_ERROR(moved.status());
    if (keep_content && bytes > 0) {
      KC_RETURN_IF_ERROR(device_.Check(
          device_.api().MemcpyDtoDAsync(moved->address(), arena.address(), bytes, device_.stream()),
          "moving inputs"));
    }
    KC_RETURN_IF_ERROR(device_.Synchronize());
    arena = *std::move(moved);
    return absl::OkStatus();
  };
  KC_RETURN_IF_ERROR(move(inputs_, inputs_bytes_, true));
  KC_RETURN_IF_ERROR(move(outputs_, outputs_bytes_, false));
  KC_RETURN_IF_ERROR(move(reference_outputs_, outputs_bytes_, false));
  return move(scratch_, scratch_bytes_, false);
}

uint64_t CudaPreparedProblem::bytes() const {
  uint64_t bytes = banks_.bytes();
  for (const SharedArena* arena :
       {&inputs_, &outputs_, &reference_outputs_, &scratch_, &expected_}) {
    bytes += arena->mapped_bytes();
  }
  return bytes;
}

absl::Status CudaPreparedProblem::ArrangeBanks() {
  uint64_t end = 0;
  const auto each = [&](const std::function<void(Set&, uint64_t bytes)>& place) {
    for (BenchShape& shape : bench_shapes_) {
      for (size_t slot = 0; slot < shape.slots.size(); ++slot) {
        for (const Bank bank : {kBase, kOther}) {
          for (const Place& input : cases_[shape.slots[slot]].inputs) {
            place(shape.sets[slot][bank], input.bytes);
            end = AlignTensor(end + input.bytes);
          }
        }
      }
    }
  };
  each([](Set&, uint64_t) {});
  KC_ASSIGN_OR_RETURN(banks_, DeviceBuffer::Allocate(device_, end));
  end = 0;
  each([&](Set& set, uint64_t) { set.inputs.push_back(banks_.address() + end); });
  return absl::OkStatus();
}

absl::Status CudaPreparedProblem::DrawInput(size_t input, const CaseSpec& spec, uint64_t seed,
                                            CUdeviceptr to) {
  const TensorSpec& tensor = problem_.inputs[input];
  KC_ASSIGN_OR_RETURN(const auto layouts, Layouts({tensor}, spec.axes));
  KC_ASSIGN_OR_RETURN(const std::optional<DrawPlan> plan, PlanDraw(tensor, layouts[0], spec));
  if (plan) {
    return kernels_.Draw(tensor.dtype, *plan, seed, to, layouts[0].elements());
  }
  Random random(seed);
  std::string data(static_cast<size_t>(layouts[0].bytes()), '\0');
  KC_RETURN_IF_ERROR(
      FillInput(tensor, layouts[0], spec, random, std::as_writable_bytes(std::span(data))));
  KC_RETURN_IF_ERROR(
      device_.Check(device_.api().MemcpyHtoDAsync(to, data.data(), data.size(), device_.stream()),
                    "copying inputs"));
  return device_.Synchronize();
}

absl::Status CudaPreparedProblem::FillInputs(const CancelToken& cancel) {
  for (size_t i = 0; i < check_cases_.size(); ++i) {
    KC_RETURN_IF_ERROR(cancel.Check());
    const Case& at = cases_[check_cases_[i].index];
    for (size_t t = 0; t < at.inputs.size(); ++t) {
      KC_RETURN_IF_ERROR(DrawInput(t, check_specs_[i], values_random_.Next(),
                                   inputs_.address() + at.inputs[t].offset));
    }
  }
  for (BenchShape& shape : bench_shapes_) {
    const CaseSpec spec{.axes = shape.axes};
    for (std::array<Set, kBanks>& sets : shape.sets) {
      KC_RETURN_IF_ERROR(cancel.Check());
      for (size_t t = 0; t < problem_.inputs.size(); ++t) {
        KC_RETURN_IF_ERROR(DrawInput(t, spec, values_random_.Next(), sets[kBase].inputs[t]));
        KC_RETURN_IF_ERROR(DrawInput(t, spec, values_random_.Next(), sets[kOther].inputs[t]));
        sets[kAltered].seeds.push_back(values_random_.Next());
      }
    }
  }
  return device_.Synchronize();
}

absl::Status CudaPreparedProblem::FillTaskInputs(CudaTaskInputs& drawn, const CancelToken& cancel) {
  const size_t tensors = problem_.inputs.size();
  for (const CheckCase& check : check_cases_) {
    KC_RETURN_IF_ERROR(drawn.Draw(values_random_.Next(), cancel));
    for (size_t t = 0; t < tensors; ++t) {
      KC_RETURN_IF_ERROR(drawn.CopyTo(t, inputs_.address() + cases_[check.index].inputs[t].offset));
    }
  }
  for (BenchShape& shape : bench_shapes_) {
    for (std::array<Set, kBanks>& sets : shape.sets) {
      for (const Bank bank : {kBase, kOther}) {
        KC_RETURN_IF_ERROR(drawn.Draw(values_random_.Next(), cancel));
        for (size_t t = 0; t < tensors; ++t) {
          KC_RETURN_IF_ERROR(drawn.CopyTo(t, sets[bank].inputs[t]));
        }
      }
      for (size_t t = 0; t < tensors; ++t) sets[kAltered].seeds.push_back(values_random_.Next());
    }
  }
  return device_.Synchronize();
}

absl::StatusOr<std::vector<CudaExpected>> CudaPreparedProblem::PlaceExpected(
    const AxisValues& axes, std::vector<Place>& places, uint64_t& end) const {
  KC_ASSIGN_OR_RETURN(const auto layouts, Layouts(problem_.outputs, axes));
  std::vector<CudaExpected> all;
  for (size_t i = 0; i < layouts.size(); ++i) {
    CudaExpected expected;
    expected.dtype = layouts[i].dtype;
    KC_ASSIGN_OR_RETURN(expected.tolerance, ToleranceAt(problem_.outputs[i], axes));
    expected.count = layouts[i].elements();
    const auto bytes =
        static_cast<uint64_t>(IsFloat(expected.dtype) ? expected.count * 8 : layouts[i].bytes());
    places.push_back({end, bytes});
    end = AlignTensor(end + bytes);
    all.push_back(expected);
  }
  return all;
}

// The oracle may hang or crash a context like any other program. It therefore runs in the runner,
// before any candidate, and its outputs are unmapped before a candidate runs.
absl::Status CudaPreparedProblem::RunOracle(const CudaProgram& oracle, CudaRunner& runner,
                                            const CancelToken& cancel) {
  const CudaApi& api = device_.api();
  uint64_t end = 0;
  // By bank; the check cases are in the first one.
  std::array<std::vector<OracleCall>, kBanks> calls;
  const auto add = [&](size_t bank, const Case& at,
                       std::vector<CudaExpected>& expected) -> absl::Status {
    OracleCall& call = calls[bank].emplace_back(OracleCall{&at, &expected, {}});
    KC_ASSIGN_OR_RETURN(expected, PlaceExpected(at.axes, call.places, end));
    return absl::OkStatus();
  };
  for (CheckCase& check : check_cases_) {
    KC_RETURN_IF_ERROR(add(kBase, cases_[check.index], check.expected));
  }
  for (size_t bank = 0; bank < kBanks; ++bank) {
    for (BenchShape& shape : bench_shapes_) {
      for (size_t slot = 0; slot < shape.slots.size(); ++slot) {
        KC_RETURN_IF_ERROR(add(bank, cases_[shape.slots[slot]], shape.sets[slot][bank].expected));
      }
    }
  }
  KC_ASSIGN_OR_RETURN(expected_, SharedArena::Create(device_, end));
  // Elements that the oracle does not write stay NaN, which is detected below.
  KC_RETURN_IF_ERROR(device_.Check(
      api.MemsetD8Async(expected_.address(), 0xff, expected_.bytes(), device_.stream()),
      "filling outputs"));
  KC_RETURN_IF_ERROR(
      AnswerStatus(api, runner.Map(kExpected, expected_.fd(), expected_.bytes(), true, cancel),
                   cancel, "mapping memory"));
  if (oracle.host_launched()) {
    KC_RETURN_IF_ERROR(LoadTaskProgram(runner, oracle.object, "oracle", cancel));
  } else {
    KC_ASSIGN_OR_RETURN(const CudaRunner::Answer loaded,
                        runner.Load(cuda_runner::kCandidate, oracle.cubin, oracle.KernelNames(),
                                    kReferenceLoadLimitNs, cancel));
    KC_RETURN_IF_ERROR(AnswerStatus(api, loaded, cancel, kOracleText));
  }

  std::vector<Program> programs;
  uint64_t workspace_bytes = 0;
  for (const std::vector<OracleCall>& of_bank : calls) {
    for (const OracleCall& call : of_bank) {
      if (oracle.host_launched()) {
        KC_ASSIGN_OR_RETURN(programs.emplace_back(),
                            MakeCall(*call.at, kExpected, call.places, /*wide=*/true));
        continue;
      }
      auto program = MakeProgram(problem_, oracle, *call.at, kExpected, call.places);
      if (!program.ok()) {
        return absl::FailedPreconditionError(
            absl::StrCat(kOracleText, ": ", program.status().message()));
      }
      programs.push_back(std::move(program->program));
      workspace_bytes = std::max(workspace_bytes, program->workspace_bytes);
    }
  }
  KC_RETURN_IF_ERROR(ReserveScratch(workspace_bytes, runner, cancel));

  for (size_t bank = 0, first = 0; bank < kBanks; first += calls[bank].size(), ++bank) {
    for (const BenchShape& shape : bench_shapes_) {
      KC_RETURN_IF_ERROR(PutBank(shape, static_cast<Bank>(bank)));
    }
    KC_RETURN_IF_ERROR(device_.Synchronize());
    // A runner takes a limited number of programs, so set those of each bank separately.
    KC_ASSIGN_OR_RETURN(const CudaRunner::Answer taken,
                        runner.SetPrograms(cuda_runner::kCandidate,
                                           std::span(programs).subspan(first, calls[bank].size()),
                                           kReferenceLoadLimitNs, cancel));
    KC_RETURN_IF_ERROR(AnswerStatus(api, taken, cancel, kOracleText));
    for (size_t i = 0; i < calls[bank].size(); ++i) {
      const RunRecord record{cuda_runner::kCandidate, static_cast<uint32_t>(i)};
      KC_RETURN_IF_ERROR(
          AnswerStatus(api, runner.Run({&record, 1}, options_.problem_call_limit_ns, cancel),
                       cancel, OracleText(calls[bank][i]), absl::StatusCode::kFailedPrecondition));
    }
    KC_RETURN_IF_ERROR(DescribeExpected(calls[bank]));
  }
  for (const BenchShape& shape : bench_shapes_) {
    KC_RETURN_IF_ERROR(PutBank(shape, kBase));
  }
  KC_RETURN_IF_ERROR(device_.Synchronize());
  KC_RETURN_IF_ERROR(
      AnswerStatus(api, runner.Unload(cuda_runner::kCandidate, cancel), cancel, "unloading"));
  return AnswerStatus(api, runner.Unmap(kExpected, cancel), cancel, "unmapping memory");
}

std::string CudaPreparedProblem::OracleText(const OracleCall& call) {
  return absl::StrCat(kOracleText, " (", ShapeText(call.at->axes), ", ", call.at->distribution,
                      ")");
}

absl::Status CudaPreparedProblem::DescribeExpected(std::span<const OracleCall> calls) {
  // Process all calls together: separate allocations and synchronisations would dominate the time.
  const size_t outputs = problem_.outputs.size();
  std::vector<ExpectedStatistics> found(calls.size() * outputs);
  const size_t bytes = found.size() * sizeof(ExpectedStatistics);
  KC_ASSIGN_OR_RETURN(const DeviceBuffer statistics, DeviceBuffer::Allocate(device_, bytes));
  for (size_t c = 0; c < calls.size(); ++c) {
    for (size_t i = 0; i < outputs; ++i) {
      CudaExpected& output = (*calls[c].expected)[i];
      output.values = expected_.address() + calls[c].places[i].offset;
      if (!IsFloat(output.dtype)) continue;
      KC_RETURN_IF_ERROR(
          kernels_.Describe(output.dtype, output.values, output.count,
                            statistics.address() + (c * outputs + i) * sizeof(ExpectedStatistics)));
    }
  }
  KC_RETURN_IF_ERROR(device_.Check(
      device_.api().MemcpyDtoHAsync(found.data(), statistics.address(), bytes, device_.stream()),
      "reading statistics"));
  KC_RETURN_IF_ERROR(device_.Synchronize());
  for (size_t c = 0; c < calls.size(); ++c) {
    for (size_t i = 0; i < outputs; ++i) {
      CudaExpected& output = (*calls[c].expected)[i];
      if (!IsFloat(output.dtype)) {
        output.absolute = output.tolerance.atol;
        continue;
      }
      const ExpectedStatistics& of = found[c * outputs + i];
      if (of.nan > 0) {
        return absl::FailedPreconditionError(
            absl::StrCat(OracleText(calls[c]), " yields ", of.nan, " NaN in output ",
                         problem_.outputs[i].name, ", which no candidate can match"));
      }
      output.norm = std::sqrt(of.squares);
      output.rms = of.finite > 0 ? output.norm / std::sqrt(static_cast<double>(of.finite)) : 0;
      output.absolute = output.tolerance.atol * std::max(1.0, output.rms);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Program> CudaPreparedProblem::MakeCall(const Case& at, Arena outputs_arena,
                                                      const std::vector<Place>& outputs,
                                                      bool wide) const {
  Program call;
  KC_ASSIGN_OR_RETURN(const auto inputs, Layouts(problem_.inputs, at.axes));
  for (size_t i = 0; i < inputs.size(); ++i) {
    KC_ASSIGN_OR_RETURN(call.inputs.emplace_back(),
                        TensorRecordOf(inputs[i], kInputs, at.inputs[i].offset));
  }
  KC_ASSIGN_OR_RETURN(auto layouts, Layouts(problem_.outputs, at.axes));
  for (size_t i = 0; i < layouts.size(); ++i) {
    if (wide && IsFloat(layouts[i].dtype)) layouts[i].dtype = DataType::kFloat64;
    KC_ASSIGN_OR_RETURN(call.outputs.emplace_back(),
                        TensorRecordOf(layouts[i], outputs_arena, outputs[i].offset));
  }
  return call;
}

absl::StatusOr<CudaPreparedProblem::Programs> CudaPreparedProblem::MakeCalls(Arena outputs) const {
  Programs made;
  for (const Case& at : cases_) {
    KC_ASSIGN_OR_RETURN(made.programs.emplace_back(), MakeCall(at, outputs, at.outputs, false));
    made.workspace_bytes.push_back(0);
  }
  return made;
}

absl::StatusOr<CudaPreparedProblem::PlannedProgram> CudaPreparedProblem::MakeProgram(
    const Problem& problem, const CudaProgram& program, const Case& at, Arena outputs_arena,
    const std::vector<Place>& outputs) {
  const std::vector<std::string> names = program.KernelNames();
  KC_ASSIGN_OR_RETURN(
      const LaunchPlan plan,
      PlanLaunches(problem, program.launches, program.workspace_bytes, program.tunables, at.axes));
  PlannedProgram made;
  for (const PlannedLaunch& launch : plan.launches) {
    ProgramLaunch& call = made.program.launches.emplace_back();
    call.kernel =
        static_cast<uint32_t>(std::find(names.begin(), names.end(), launch.kernel) - names.begin());
    std::copy(std::begin(launch.grid), std::end(launch.grid), call.grid);
    std::copy(std::begin(launch.block), std::end(launch.block), call.block);
    if (launch.cluster[0] * launch.cluster[1] * launch.cluster[2] > 1) {
      std::copy(std::begin(launch.cluster), std::end(launch.cluster), call.cluster);
    }
    call.shared_memory_bytes = launch.shared_memory_bytes;
    for (const KernelArgument& argument : launch.arguments) {
      Argument& passed = call.arguments.emplace_back();
      passed.bytes = static_cast<uint32_t>(argument.bytes);
      switch (argument.kind) {
        case KernelArgument::Kind::kTensor: {
          const auto tensor = static_cast<size_t>(argument.tensor);
          const bool is_input = tensor < at.inputs.size();
          passed.arena = is_input ? kInputs : outputs_arena;
          passed.value =
              is_input ? at.inputs[tensor].offset : outputs[tensor - at.inputs.size()].offset;
          break;
        }
        case KernelArgument::Kind::kWorkspace:
          passed.arena = kScratch;
          passed.value = static_cast<uint64_t>(argument.offset);
          break;
        case KernelArgument::Kind::kScalar:
          std::memcpy(&passed.value, argument.bits.data(), argument.bytes);
          break;
      }
    }
  }
  made.workspace_bytes = AlignTensor(static_cast<uint64_t>(plan.workspace_bytes));
  return made;
}

absl::StatusOr<CudaPreparedProblem::Programs> CudaPreparedProblem::MakePrograms(
    const CudaProgram& program, Arena outputs) const {
  if (program.host_launched()) {
    return MakeCalls(outputs);
  }
  Programs made;
  for (const Case& at : cases_) {
    KC_ASSIGN_OR_RETURN(PlannedProgram planned,
                        MakeProgram(problem_, program, at, outputs, at.outputs));
    made.programs.push_back(std::move(planned.program));
    made.workspace_bytes.push_back(planned.workspace_bytes);
    made.max_workspace_bytes = std::max(made.max_workspace_bytes, planned.workspace_bytes);
  }
  return made;
}

absl::Status CudaPreparedProblem::Attach(CudaRunner& runner, const CancelToken& cancel) {
  KC_RETURN_IF_ERROR(MapArenas(runner, cancel));
  return PlaceReference(runner, cancel);
}

absl::Status CudaPreparedProblem::PlaceReference(CudaRunner& runner, const CancelToken& cancel) {
  KC_RETURN_IF_ERROR(ReserveScratch(reference_programs_.max_workspace_bytes, runner, cancel));
  return LoadReference(runner, kReferenceOutputs, cancel);
}

absl::Status CudaPreparedProblem::MapArena(CudaRunner& runner, Arena number,
                                           const CancelToken& cancel) {
  const SharedArena& arena = number == kInputs             ? inputs_
                             : number == kOutputs          ? outputs_
                             : number == kReferenceOutputs ? reference_outputs_
                                                           : scratch_;
  return AnswerStatus(device_.api(),
                      runner.Map(number, arena.fd(), arena.mapped_bytes(), number != kInputs,
                                 cancel, static_cast<uint32_t>(arena.padding())),
                      cancel, "mapping memory");
}

absl::Status CudaPreparedProblem::MapArenas(CudaRunner& runner, const CancelToken& cancel) {
  for (const Arena number : {kInputs, kOutputs, kReferenceOutputs, kScratch}) {
    // Host code sees only what it works on.
    if (reference_.host_launched() && (number == kOutputs || number == kScratch)) continue;
    KC_RETURN_IF_ERROR(MapArena(runner, number, cancel));
  }
  return absl::OkStatus();
}

absl::Status CudaPreparedProblem::AttachObject(CudaRunner& runner, const CancelToken& cancel) {
  KC_RETURN_IF_ERROR(MapArena(runner, kInputs, cancel));
  return MapArena(runner, kOutputs, cancel);
}

absl::StatusOr<uint64_t> CudaPreparedProblem::InputsFingerprint() {
  // Kept: a candidate may leave no memory for another.
  if (fingerprint_.address() == 0) {
    KC_ASSIGN_OR_RETURN(fingerprint_, DeviceBuffer::Allocate(device_, sizeof(uint64_t)));
  }
  const CudaApi& api = device_.api();
  KC_RETURN_IF_ERROR(device_.Check(
      api.MemsetD8Async(fingerprint_.address(), 0, sizeof(uint64_t), device_.stream()),
      "clearing a sum"));
  KC_RETURN_IF_ERROR(kernels_.Fingerprint(inputs_.address(),
                                          static_cast<int64_t>(inputs_bytes_ / 8),
                                          fingerprint_seed_, fingerprint_.address()));
  uint64_t fingerprint = 0;
  KC_RETURN_IF_ERROR(device_.Check(api.MemcpyDtoHAsync(&fingerprint, fingerprint_.address(),
                                                       sizeof(fingerprint), device_.stream()),
                                   "reading a sum"));
  KC_RETURN_IF_ERROR(device_.Synchronize());
  return fingerprint;
}

absl::Status CudaPreparedProblem::LoadReference(CudaRunner& runner, Arena outputs,
                                                const CancelToken& cancel) {
  const CudaApi& api = device_.api();
  if (outputs == kReferenceOutputs) {
    reference_outputs_hold_results_ = true;
  } else if (std::exchange(reference_outputs_hold_results_, false)) {
    KC_RETURN_IF_ERROR(
        device_.Check(api.MemsetD8Async(reference_outputs_.address(), 0xff,
                                        reference_outputs_.bytes(), device_.stream()),
                      "overwriting outputs"));
    KC_RETURN_IF_ERROR(device_.Synchronize());
  }
  if (reference_.host_launched()) {
    // No candidate runs in its process, so that it is loaded once.
    if (runner.load_answer()) return absl::OkStatus();
    KC_RETURN_IF_ERROR(LoadTaskProgram(runner, reference_.object, "reference", cancel));
  } else {
    KC_ASSIGN_OR_RETURN(const CudaRunner::Answer loaded,
                        runner.Load(cuda_runner::kReference, reference_.cubin,
                                    reference_.KernelNames(), kReferenceLoadLimitNs, cancel));
    KC_RETURN_IF_ERROR(AnswerStatus(api, loaded, cancel, "loading the problem's reference"));
  }
  KC_ASSIGN_OR_RETURN(const CudaRunner::Answer taken,
                      runner.SetPrograms(cuda_runner::kReference,
                                         outputs == kOutputs ? reference_programs_.programs
                                                             : reference_programs_apart_.programs,
                                         kReferenceLoadLimitNs, cancel));
  return AnswerStatus(api, taken, cancel, "the problem's reference");
}

absl::Status CudaPreparedProblem::Detach(CudaRunner& runner, const CancelToken& cancel) {
  const CudaApi& api = device_.api();
  for (const uint32_t slot : {cuda_runner::kCandidate, cuda_runner::kReference}) {
    KC_RETURN_IF_ERROR(AnswerStatus(api, runner.Unload(slot, cancel), cancel, "unloading"));
  }
  for (const Arena arena : {kInputs, kOutputs, kReferenceOutputs, kScratch}) {
    KC_RETURN_IF_ERROR(AnswerStatus(api, runner.Unmap(arena, cancel), cancel, "unmapping"));
  }
  return absl::OkStatus();
}

absl::Status CudaPreparedProblem::ReserveScratch(uint64_t bytes, CudaRunner& runner,
                                                 const CancelToken& cancel) {
  if (bytes <= scratch_.bytes()) {
    scratch_bytes_ = std::max(scratch_bytes_, bytes);
    return absl::OkStatus();
  }
  KC_ASSIGN_OR_RETURN(SharedArena larger, MakeArena(bytes));
  KC_RETURN_IF_ERROR(AnswerStatus(device_.api(), runner.Unmap(kScratch, cancel), cancel,
                                  "unmapping the workspace"));
  const auto map = [&](const SharedArena& arena) {
    return AnswerStatus(device_.api(),
                        runner.Map(kScratch, arena.fd(), arena.mapped_bytes(), true, cancel,
                                   static_cast<uint32_t>(arena.padding())),
                        cancel, "mapping the workspace");
  };
  absl::Status mapped = map(larger);
  if (mapped.ok()) {
    scratch_ = std::move(larger);
    scratch_bytes_ = bytes;
    return absl::OkStatus();
  }
  if (absl::IsResourceExhausted(mapped)) {
    if (const absl::Status back = map(scratch_); !back.ok()) {
      return absl::UnavailableError(back.message());
    }
  }
  return mapped;
}

absl::Status CudaPreparedProblem::FillWorkspace(uint64_t bytes, uint32_t pattern) {
  if (bytes == 0) {
    return absl::OkStatus();
  }
  return device_.Check(device_.api().MemsetD32Async(scratch_.address(), pattern,
                                                    std::min<uint64_t>(bytes, scratch_.bytes()) / 4,
                                                    device_.stream()),
                       "filling the workspace");
}

absl::Status CudaPreparedProblem::ClearOutputs() {
  for (const SharedArena* arena : {&outputs_, &scratch_}) {
    KC_RETURN_IF_ERROR(device_.Check(
        device_.api().MemsetD8Async(arena->address(), 0xff, arena->bytes(), device_.stream()),
        "clearing memory"));
  }
  return device_.Synchronize();
}

absl::Status CudaPreparedProblem::ResetGuards(const Case& at) {
  for (const Place& place : at.outputs) {
    for (const CUdeviceptr guard : GuardAddresses(place)) {
      KC_RETURN_IF_ERROR(device_.Check(
          device_.api().MemsetD32Async(guard, kGuardPattern, kGuardBytes / 4, device_.stream()),
          "writing guards"));
    }
  }
  return absl::OkStatus();
}

absl::Status CudaPreparedProblem::FillOutputs(Arena outputs, const Case& at, uint32_t pattern) {
  for (const Place& place : at.outputs) {
    // Rounds up into the guard's place: an output may end within a word.
    const uint64_t words = (place.bytes + 3) / 4;
    KC_RETURN_IF_ERROR(device_.Check(device_.api().MemsetD32Async(OutputAddress(outputs, place),
                                                                  pattern, words, device_.stream()),
                                     "filling outputs"));
  }
  return absl::OkStatus();
}

absl::Status CudaPreparedProblem::PutBank(const BenchShape& shape, Bank bank) {
  for (size_t slot = 0; slot < shape.slots.size(); ++slot) {
    const Case& at = cases_[shape.slots[slot]];
    const std::array<Set, kBanks>& sets = shape.sets[slot];
    for (size_t i = 0; i < at.inputs.size(); ++i) {
      const CUdeviceptr to = inputs_.address() + at.inputs[i].offset;
      const CUdeviceptr from = sets[bank == kOther ? kOther : kBase].inputs[i];
      KC_RETURN_IF_ERROR(device_.Check(
          device_.api().MemcpyDtoDAsync(to, from, at.inputs[i].bytes, device_.stream()),
          "copying inputs"));
      if (bank == kAltered) {
        const DataType dtype = problem_.inputs[i].dtype;
        KC_RETURN_IF_ERROR(
            kernels_.Alter(dtype, sets[kAltered].seeds[i], sets[kOther].inputs[i], to,
                           static_cast<int64_t>(at.inputs[i].bytes) / SizeBytes(dtype)));
      }
    }
  }
  return absl::OkStatus();
}

void CudaPreparedProblem::AddPoisons(Arena outputs, size_t index, uint32_t pattern,
                                     std::vector<PoisonRecord>& poisons) const {
  for (const Place& place : cases_[index].outputs) {
    poisons.push_back({outputs, pattern, place.offset, (place.bytes + 3) / 4 * 4});
  }
}

uint64_t CudaPreparedProblem::AddWorkspacePoison(uint64_t workspace_bytes, uint32_t pattern,
                                                 SecretRandom& random,
                                                 std::vector<PoisonRecord>& poisons) {
  const uint64_t bytes = std::min(workspace_bytes, kMaxPoisonedBytes);
  if (bytes > 0) {
    const uint64_t places = (workspace_bytes - bytes) / kTensorAlignment + 1;
    poisons.push_back({kScratch, pattern, random.Below(places) * kTensorAlignment, bytes});
  }
  return bytes;
}

CUdeviceptr CudaPreparedProblem::OutputAddress(Arena outputs, const Place& place) const {
  return (outputs == kOutputs ? outputs_ : reference_outputs_).address() + place.offset;
}

std::array<CUdeviceptr, 2> CudaPreparedProblem::GuardAddresses(const Place& place) const {
  const CUdeviceptr at = OutputAddress(kOutputs, place);
  return {at - kGuardBytes, at + (place.bytes + 3) / 4 * 4};
}

int64_t CudaPreparedProblem::CallLimitNs(int64_t reference_ns) const {
  const double limit = options_.call_limit_factor * static_cast<double>(reference_ns);
  const auto within =
      static_cast<int64_t>(std::clamp(limit, static_cast<double>(options_.min_call_limit_ns),
                                      static_cast<double>(options_.max_call_limit_ns)));
  return std::max(within, kLeastLimitFactor * reference_ns);
}

absl::Status CudaPreparedProblem::RunReference(CudaRunner& runner, const CancelToken& cancel) {
  const CudaApi& api = device_.api();
  KC_ASSIGN_OR_RETURN(const DeviceBuffer result,
                      DeviceBuffer::Allocate(device_, sizeof(TensorComparison)));
  const auto run = [&](size_t index, const std::vector<CudaExpected>& expected) -> absl::Status {
    Case& at = cases_[index];
    const std::string what =
        absl::StrCat("the problem's reference (", ShapeText(at.axes), ", ", at.distribution, ")");
    KC_RETURN_IF_ERROR(FillOutputs(kReferenceOutputs, at, 0x7ff17ff1));
    KC_RETURN_IF_ERROR(device_.Synchronize());
    const RunRecord record{cuda_runner::kReference, static_cast<uint32_t>(index)};
    at.reference_ns = INT64_MAX;
    for (int i = 0; i < kReferenceCalls; ++i) {
      const CudaRunner::Answer answer =
          runner.Run({&record, 1}, options_.problem_call_limit_ns, cancel);
      KC_RETURN_IF_ERROR(
          AnswerStatus(api, answer, cancel, what, absl::StatusCode::kFailedPrecondition));
      at.reference_ns = std::min(at.reference_ns, answer.reply.wall_ns);
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      KC_RETURN_IF_ERROR(kernels_.Compare({.dtype = expected[i].dtype,
                                           .got = OutputAddress(kReferenceOutputs, at.outputs[i]),
                                           .expected = expected[i].values,
                                           .count = expected[i].count,
                                           .absolute = expected[i].absolute,
                                           .rtol = expected[i].tolerance.rtol,
                                           .poison = 0x7ff17ff1,
                                           .result = result.address()}));
      TensorComparison found;
      KC_RETURN_IF_ERROR(device_.Check(
          api.MemcpyDtoHAsync(&found, result.address(), sizeof(found), device_.stream()),
          "reading a comparison"));
      KC_RETURN_IF_ERROR(device_.Synchronize());
      const CudaVerdict verdict = JudgeComparison(expected[i], found, true);
      if (!verdict.ok) {
        return absl::FailedPreconditionError(absl::StrCat(
            what, " disagrees with the oracle in output ", problem_.outputs[i].name, ": ",
            found.mismatches, " of ", expected[i].count, " values, the first at ", found.first,
            ", ", found.unwritten, " not written; normwise error ", verdict.normwise_error));
      }
    }
    return absl::OkStatus();
  };
  for (const CheckCase& check : check_cases_) {
    KC_RETURN_IF_ERROR(run(check.index, check.expected));
  }
  for (BenchShape& shape : bench_shapes_) {
    for (size_t slot = 0; slot < shape.slots.size(); ++slot) {
      KC_RETURN_IF_ERROR(run(shape.slots[slot], shape.sets[slot][kBase].expected));
    }
    shape.reference_ns = cases_[shape.slots[0]].reference_ns;
  }
  return absl::OkStatus();
}

}  // namespace kernelcast::worker
