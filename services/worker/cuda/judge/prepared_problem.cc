#include "services/worker/cuda/judge/prepared_problem.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/domain/python_task.h"
#include "services/worker/core/draw_plan.h"
#include "services/worker/core/problem_faults.h"
#include "services/worker/core/random.h"
#include "services/worker/core/tensor.h"

namespace kernelcast::worker {
namespace {

using cuda_runner::PoisonRecord;
using cuda_runner::RunRecord;

constexpr int64_t kReferenceLoadLimitNs = 30'000'000'000;
constexpr int kReferenceCalls = 3;

}  // namespace

absl::StatusOr<std::unique_ptr<CudaPreparedProblem>> CudaPreparedProblem::Make(
    const Problem& problem, const CudaProgram& oracle, CudaProgram reference,
    const Setting& setting, CudaRunner& runner, const CancelToken& cancel) {
  std::unique_ptr<CudaPreparedProblem> prepared(new CudaPreparedProblem(problem, setting));
  prepared->reference_ = std::move(reference);
  int64_t last_ns = Clock::Real().MonotonicNs();
  const auto lap = [&last_ns](int64_t& time_ns) {
    const int64_t now_ns = Clock::Real().MonotonicNs();
    time_ns = now_ns - std::exchange(last_ns, now_ns);
  };
  KC_RETURN_IF_ERROR(prepared->Arrange());
  lap(prepared->times_.arrange_ns);
  KC_RETURN_IF_ERROR(prepared->FillInputs(nullptr, cancel));
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
    std::shared_ptr<const PythonTaskPrograms> task, const Setting& setting,
    const CudaRunnerOptions& python, CudaRunner& runner, const CancelToken& cancel) {
  std::unique_ptr<CudaPreparedProblem> prepared(new CudaPreparedProblem(task->problem(), setting));
  prepared->task_ = std::move(task);
  prepared->reference_.object = prepared->task_->Reference({}).content;
  KC_RETURN_IF_ERROR(prepared->Arrange());
  // The contexts of several processes are made at the same time.
  KC_ASSIGN_OR_RETURN(auto oracle_process, CudaRunner::Begin(python));
  {
    KC_ASSIGN_OR_RETURN(const auto drawn,
                        CudaTaskInputs::Start(*prepared->task_, setting.device, python, cancel));
    KC_RETURN_IF_ERROR(prepared->FillInputs(drawn.get(), cancel));
  }
  if (HasChecker(prepared->problem_.task->format)) {
    KC_ASSIGN_OR_RETURN(prepared->checker_,
                        CudaTaskChecker::Start(*prepared->task_, setting.device, python, cancel));
  }
  KC_RETURN_IF_ERROR(prepared->PlanReference());
  {
    CudaProgram oracle;
    oracle.object = prepared->task_->Oracle({}).content;
    const std::unique_ptr<CudaRunner> process = std::move(oracle_process);
    KC_RETURN_IF_ERROR(process->AwaitStart(cancel));
    KC_RETURN_IF_ERROR(prepared->memory_.Map(*process, kInputs, cancel));
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
  KC_ASSIGN_OR_RETURN(const DeviceMemory device, device_.Memory());
  KC_ASSIGN_OR_RETURN(CudaCasePlan plan, PlanCudaCases(problem_, task_.get(), options_,
                                                       device.total_bytes, shapes_random_));
  const double bytes = plan.MemoryBytes(problem_);
  draws_altered_ = plan.draws_altered;
  plan_ = std::move(plan);
  const std::string text = absl::StrFormat(
      "the problem's inputs, outputs and expected outputs need %.0f bytes of device memory", bytes);
  if (bytes > static_cast<double>(device.total_bytes)) {
    return absl::FailedPreconditionError(
        absl::StrCat(text, "; the device has ", device.total_bytes));
  }
  if (bytes > static_cast<double>(device.free_bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat(text, "; of the device's ", device.total_bytes,
                                                     ", ", device.free_bytes, " are free"));
  }
  KC_RETURN_IF_ERROR(memory_.Allocate(plan_.inputs_bytes, plan_.outputs_bytes));
  return ArrangeBanks();
}

uint64_t CudaPreparedProblem::bytes() const {
  return memory_.bytes() + banks_.bytes() + expected_.mapped_bytes() +
         (has_checker() ? checker_->bytes() : 0);
}

absl::StatusOr<std::optional<std::string>> CudaPreparedProblem::AskChecker(
    Arena outputs, size_t index, const CancelToken& cancel) {
  const Case& at = plan_.cases[index];
  std::vector<CUdeviceptr> tensors;
  for (const Place& input : at.inputs) tensors.push_back(memory_.inputs() + input.offset);
  for (const Place& output : at.outputs) {
    tensors.push_back(memory_.OutputAddress(outputs, output));
  }
  return checker_->Check(at.task_case, tensors, cancel);
}

absl::Status CudaPreparedProblem::ArrangeBanks() {
  sets_.resize(plan_.cases.size());
  uint64_t end = 0;
  const auto each = [&](const std::function<void(Set&, uint64_t bytes)>& place) {
    for (const BenchShape& shape : plan_.bench_shapes) {
      for (const size_t index : shape.slots) {
        for (const Bank bank : {kBase, kOther, kAltered}) {
          if (bank == kAltered && !draws_altered_) continue;
          for (const Place& input : plan_.cases[index].inputs) {
            place(sets_[index][bank], input.bytes);
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
  KC_RETURN_IF_ERROR(device_.Write(to, data.data(), data.size(), "copying inputs"));
  return device_.Synchronize();
}

absl::Status CudaPreparedProblem::FillInputs(CudaTaskInputs* drawn, const CancelToken& cancel) {
  const auto draw = [&](size_t index, Bank bank) -> absl::Status {
    KC_RETURN_IF_ERROR(cancel.Check());
    const Case& at = plan_.cases[index];
    Set& set = sets_[index][bank];
    std::vector<CUdeviceptr> to = set.inputs;
    for (size_t t = 0; !at.timed && t < at.inputs.size(); ++t) {
      to.push_back(memory_.inputs() + at.inputs[t].offset);
    }
    if (drawn != nullptr) {
      if (bank == kAltered && !draws_altered_) return absl::OkStatus();
      KC_RETURN_IF_ERROR(drawn->Draw(at.task_case, values_random_.Next(), cancel));
      for (size_t t = 0; t < to.size(); ++t) KC_RETURN_IF_ERROR(drawn->CopyTo(t, to[t]));
      if (at.timed) draw_flags_ |= drawn->flags();
      return absl::OkStatus();
    }
    CaseSpec spec = at.spec;
    spec.factor = InputFactor(problem_, values_random_);
    for (size_t t = 0; t < to.size(); ++t) {
      KC_RETURN_IF_ERROR(DrawInput(t, spec, values_random_.Next(), to[t]));
    }
    for (size_t t = 0; bank == kAltered && t < at.inputs.size(); ++t) {
      set.seeds.push_back(values_random_.Next());
    }
    return absl::OkStatus();
  };
  KC_RETURN_IF_ERROR(plan_.ForEachDraw(draw));
  return device_.Synchronize();
}

absl::StatusOr<CudaPreparedProblem::Programs> CudaPreparedProblem::MakeCalls(Arena outputs) const {
  Programs made;
  for (const Case& at : plan_.cases) {
    KC_ASSIGN_OR_RETURN(made.programs.emplace_back(), PlanCall(at, {outputs, at.outputs}, false));
    made.workspace_bytes.push_back(0);
  }
  return made;
}

absl::StatusOr<CudaPreparedProblem::Programs> CudaPreparedProblem::MakePrograms(
    const CudaProgram& program, Arena outputs) const {
  if (program.host_launched()) {
    return MakeCalls(outputs);
  }
  Programs made;
  for (const Case& at : plan_.cases) {
    KC_ASSIGN_OR_RETURN(PlannedProgram planned,
                        task_ != nullptr
                            ? PlanTaskProgram(*task_, program, at, {outputs, at.outputs})
                            : PlanProgram(problem_, program, at, {outputs, at.outputs}));
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
  KC_RETURN_IF_ERROR(
      memory_.ReserveScratch(reference_programs_.max_workspace_bytes, runner, cancel));
  return LoadReference(runner, kReferenceOutputs, cancel);
}

absl::Status CudaPreparedProblem::MapArenas(CudaRunner& runner, const CancelToken& cancel) {
  for (const Arena number : {kInputs, kOutputs, kReferenceOutputs, kScratch}) {
    // Host code sees only what it works on.
    if (reference_.host_launched() && (number == kOutputs || number == kScratch)) continue;
    KC_RETURN_IF_ERROR(memory_.Map(runner, number, cancel));
  }
  return absl::OkStatus();
}

absl::Status CudaPreparedProblem::AttachObject(CudaRunner& runner, const CancelToken& cancel) {
  KC_RETURN_IF_ERROR(memory_.Map(runner, kInputs, cancel));
  return memory_.Map(runner, kOutputs, cancel);
}

absl::Status CudaPreparedProblem::AttachDeviceCode(CudaRunner& runner,
                                                   const CudaRunnerOptions& python,
                                                   const CancelToken& cancel) {
  KC_RETURN_IF_ERROR(PlaceWeights(python, cancel));
  KC_RETURN_IF_ERROR(AttachObject(runner, cancel));
  KC_RETURN_IF_ERROR(memory_.Map(runner, kScratch, cancel));
  return memory_.has_weights() ? memory_.Map(runner, kWeights, cancel) : absl::OkStatus();
}

absl::Status CudaPreparedProblem::PlaceWeights(const CudaRunnerOptions& python,
                                               const CancelToken& cancel) {
  if (task_->weights().empty() || memory_.has_weights()) return absl::OkStatus();
  return memory_.AddWeights(task_->weights_bytes(), [&](const SharedArena& arena) {
    return WriteTaskWeights(*task_, arena, python, cancel);
  });
}

absl::StatusOr<uint64_t> CudaPreparedProblem::InputsFingerprint() {
  const MemoryFingerprint::Region inputs{memory_.inputs(), plan_.inputs_bytes / 8};
  return fingerprint_.Of({&inputs, 1});
}

absl::StatusOr<uint64_t> CudaPreparedProblem::OutputsFingerprint(Arena outputs, const Case& at) {
  std::vector<MemoryFingerprint::Region> regions;
  for (const Place& place : at.outputs) {
    regions.push_back({memory_.OutputAddress(outputs, place), (place.bytes + 7) / 8});
  }
  return fingerprint_.Of(regions);
}

absl::Status CudaPreparedProblem::LoadReference(CudaRunner& runner, Arena outputs,
                                                const CancelToken& cancel) {
  const CudaApi& api = device_.api();
  if (outputs == kReferenceOutputs) {
    reference_outputs_hold_results_ = true;
  } else if (std::exchange(reference_outputs_hold_results_, false)) {
    KC_RETURN_IF_ERROR(memory_.ClearReferenceOutputs());
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

absl::Status CudaPreparedProblem::PutBank(const BenchShape& shape, Bank bank) {
  const bool alters = bank == kAltered && !draws_altered_;
  for (const size_t index : shape.slots) {
    const Case& at = plan_.cases[index];
    const std::array<Set, CasePlan::kBanks>& sets = sets_[index];
    for (size_t i = 0; i < at.inputs.size(); ++i) {
      const CUdeviceptr to = memory_.inputs() + at.inputs[i].offset;
      const CUdeviceptr from = sets[alters ? kBase : bank].inputs[i];
      KC_RETURN_IF_ERROR(device_.Copy(to, from, at.inputs[i].bytes, "copying inputs"));
      if (alters && CanAlter(problem_) && ElementsAreIndependent(problem_.inputs[i])) {
        const DataType dtype = problem_.inputs[i].dtype;
        KC_RETURN_IF_ERROR(
            kernels_.Alter(dtype, sets[kAltered].seeds[i], sets[kOther].inputs[i], to,
                           static_cast<int64_t>(at.inputs[i].bytes) / SizeBytes(dtype)));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CudaPreparedProblem::PutValues(const CheckCase& check) {
  if (check.bank == kBase) return absl::OkStatus();
  return PutBank(plan_.bench_shapes[*check.shape], check.bank);
}

absl::Status CudaPreparedProblem::PutBackValues(const CheckCase& check) {
  if (check.bank == kBase) return absl::OkStatus();
  return PutBank(plan_.bench_shapes[*check.shape], kBase);
}

void CudaPreparedProblem::AddPoisons(Arena outputs, size_t index, uint32_t pattern,
                                     std::vector<PoisonRecord>& poisons) const {
  for (const Place& place : plan_.cases[index].outputs) {
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

// Host code that ends its process is a fault of the task. Device code has none, so that another
// cause ended the runner.
absl::Status CudaPreparedProblem::CallStatus(const CudaRunner& runner,
                                             const CudaRunner::Answer& answer,
                                             const std::string& what,
                                             const CancelToken& cancel) const {
  if (task_ != nullptr && answer.end == CudaRunner::End::kGone) {
    return TaskStatus(runner, answer, what, cancel);
  }
  return AnswerStatus(device_.api(), answer, cancel, what, absl::StatusCode::kFailedPrecondition);
}

absl::Status CudaPreparedProblem::RunReference(CudaRunner& runner, const CancelToken& cancel) {
  KC_ASSIGN_OR_RETURN(const DeviceBuffer result,
                      DeviceBuffer::Allocate(device_, sizeof(TensorComparison)));
  const auto run = [&](size_t index, Bank bank) -> absl::Status {
    Case& at = plan_.cases[index];
    std::vector<CudaExpected>& expected = sets_[index][bank].expected;
    const std::string shape = ShapeText(at.spec.axes);
    const std::string where =
        absl::StrCat(shape, shape.empty() ? "" : ", ", at.spec.distribution());
    const std::string what = absl::StrCat("the problem's reference (", where, ")");
    KC_RETURN_IF_ERROR(memory_.FillOutputs(kReferenceOutputs, at, 0x7ff17ff1));
    KC_RETURN_IF_ERROR(device_.Synchronize());
    const RunRecord record{cuda_runner::kReference, static_cast<uint32_t>(index)};
    at.reference_ns = INT64_MAX;
    KC_RETURN_IF_ERROR(CheckPace());
    for (int i = 0; i < kReferenceCalls; ++i) {
      const CudaRunner::Answer answer =
          runner.Run({&record, 1}, options_.problem_call_limit_ns, cancel);
      KC_RETURN_IF_ERROR(CallStatus(runner, answer, what, cancel));
      at.reference_ns = std::min(at.reference_ns, answer.reply.wall_ns);
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      KC_RETURN_IF_ERROR(
          kernels_.Compare({.dtype = expected[i].dtype,
                            .kept = expected[i].kept,
                            .got = memory_.OutputAddress(kReferenceOutputs, at.outputs[i]),
                            .expected = expected[i].values,
                            .count = expected[i].count,
                            .rule = expected[i].Rule(),
                            .poison = 0x7ff17ff1,
                            .result = result.address()}));
      TensorComparison found;
      KC_RETURN_IF_ERROR(
          device_.Read(&found, result.address(), sizeof(found), "reading a comparison"));
      const TensorVerdict verdict = JudgeComparison(expected[i], found, true);
      if (at.spec.adversarial && ExceedsOnlyNormwise(verdict)) {
        expected[i].tolerance.normwise = 0;
      } else if (!verdict.ok) {
        return ReferenceDisagrees(
            problem_, OutputName(i, at.spec.axes), where,
            absl::StrCat(found.mismatches, " of ", expected[i].count, " values, the first at ",
                         found.first, ", ", found.unwritten, " not written; normwise error ",
                         verdict.normwise_error));
      }
      if (Unexplained(found.variation, expected[i].dtype, expected[i].noise,
                      VariationRule::kFollow)) {
        expected[i].noise.reset();
      }
    }
    if (has_checker()) {
      KC_ASSIGN_OR_RETURN(const auto reason, AskChecker(kReferenceOutputs, index, cancel));
      if (reason) return ReferenceRefused(where, *reason);
    }
    return absl::OkStatus();
  };
  for (const CheckCase& check : plan_.check_cases) {
    KC_RETURN_IF_ERROR(PutValues(check));
    KC_RETURN_IF_ERROR(run(check.index, check.bank));
    KC_RETURN_IF_ERROR(PutBackValues(check));
  }
  for (BenchShape& shape : plan_.bench_shapes) {
    for (const size_t index : shape.slots) {
      KC_RETURN_IF_ERROR(run(index, kBase));
      const std::vector<CudaExpected>& base = expected(index, kBase);
      for (size_t i = 0; i < base.size(); ++i) {
        if (base[i].noise) continue;
        for (Set& set : sets_[index]) set.expected[i].noise.reset();
      }
    }
    shape.reference_ns = plan_.cases[shape.slots[0]].reference_ns;
  }
  return absl::OkStatus();
}

}  // namespace kernelcast::worker
