#include "services/worker/cpu/prepared_problem.h"

#include <immintrin.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/domain/python_task.h"
#include "common/process/available_memory.h"
#include "services/worker/core/problem_faults.h"
#include "services/worker/core/random.h"
#include "services/worker/core/tensor.h"
#include "services/worker/core/verdict.h"
#include "services/worker/cpu/python_task_process.h"

namespace kernelcast::worker {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kGuardBytes = 1024;
constexpr auto kGuardPattern = static_cast<std::byte>(0xa7);
// The reference is timed this many times on a check case; the minimum counts.
constexpr int kReferenceCalls = 2;

// Evicts the data from all caches. Otherwise another core would have to fetch or invalidate the
// lines that this core has written or read recently, in every call.
void Flush(std::span<const std::byte> data) {
  for (size_t at = 0; at < data.size(); at += kAlignment) {
    _mm_clflush(data.data() + at);
  }
}

int64_t AlignUp(int64_t value) { return (value + kAlignment - 1) / kAlignment * kAlignment; }

// Places tensors one after the other, with room for guards around each.
class Arranger {
 public:
  explicit Arranger(int64_t start) : end_(start) {}

  runner::TensorRecord Place(const TensorLayout& layout, DataType dtype) {
    const runner::TensorRecord record = RecordAt(AlignUp(end_ + kGuardBytes), layout, dtype);
    end_ = static_cast<int64_t>(record.offset + record.bytes) + kGuardBytes;
    return record;
  }
  int64_t end() const { return end_; }

 private:
  int64_t end_;
};

DataType OracleType(DataType dtype) { return IsFloat(dtype) ? DataType::kFloat64 : dtype; }

// Status for a trusted process that did not finish a call.
absl::Status TrustedFailure(RunnerProcess& process, RunnerProcess::End end, const std::string& who,
                            const std::string& what, int64_t limit_ns, const CancelToken& cancel) {
  if (end == RunnerProcess::End::kStopped) {
    return cancel.Check();
  }
  KC_ASSIGN_OR_RETURN(const MeasureOutcome outcome, process.Failure(end, what, limit_ns));
  const auto* const crash = std::get_if<Crash>(&outcome);
  if (crash != nullptr && crash->signal == SIGKILL) {
    // None of the worker's limits sends it.
    return absl::ResourceExhaustedError(absl::StrCat("the system has killed the problem's ", who,
                                                     ", perhaps because the machine lacks memory (",
                                                     what, ")"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the problem's ", who, " failed (", what, "): ", OutcomeFeedback(outcome)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PreparedProblem>> PreparedProblem::Make(const Problem& problem,
                                                                       const Program& oracle,
                                                                       const Program& reference,
                                                                       const Setting& setting,
                                                                       const CancelToken& cancel) {
  std::unique_ptr<PreparedProblem> prepared(new PreparedProblem(problem, reference, setting));
  KC_RETURN_IF_ERROR(prepared->PlanCases());
  KC_RETURN_IF_ERROR(prepared->Prepare(oracle, cancel));
  return prepared;
}

absl::StatusOr<std::unique_ptr<PreparedProblem>> PreparedProblem::MakeTask(
    const PythonTaskPrograms& task, const Setting& setting, const CancelToken& cancel) {
  std::unique_ptr<PreparedProblem> prepared(
      new PreparedProblem(task.problem(), PythonProgram(), setting));
  prepared->task_ = std::make_unique<PythonTaskPrograms>(task);
  KC_RETURN_IF_ERROR(prepared->PlanCases());
  prepared->reference_program_ = prepared->TaskReference();
  KC_ASSIGN_OR_RETURN(prepared->task_inputs_,
                      PythonInputs::Start(task, setting.runner, setting.placement, cancel));
  if (HasChecker(task.problem().task->format)) {
    KC_ASSIGN_OR_RETURN(prepared->checker_,
                        PythonChecker::Start(task, setting.runner, setting.placement, cancel));
  }
  KC_RETURN_IF_ERROR(prepared->Prepare(prepared->reference_program_, cancel));
  return prepared;
}

absl::Status PreparedProblem::Prepare(const Program& oracle, const CancelToken& cancel) {
  KC_RETURN_IF_ERROR(FillCases());
  KC_RETURN_IF_ERROR(RunOracle(oracle, cancel));
  KC_RETURN_IF_ERROR(RenewProcesses(cancel));
  return RunReference(cancel);
}

absl::Status PreparedProblem::PlanCases() {
  if (problem_.inputs.size() + problem_.outputs.size() > size_t{runner::kMaxTensors}) {
    return absl::FailedPreconditionError(
        absl::StrCat("the cpu target takes at most ", runner::kMaxTensors, " tensors"));
  }
  const auto target = problem_.targets.find(kCpuTargetName);
  if (target == problem_.targets.end()) {
    return absl::FailedPreconditionError("the problem has no reference for target cpu");
  }
  Arranger inputs(0);
  // Correctness cases run one after the other and share the memory of their outputs.
  int64_t check_outputs_end = 0;
  int64_t check_oracle_end = 0;

  const auto add_case = [&](const AxisValues& axes, Arranger& outputs,
                            Arranger& oracle_outputs) -> absl::StatusOr<uint32_t> {
    KC_ASSIGN_OR_RETURN(auto input_layouts, Tensors().Inputs(axes));
    KC_ASSIGN_OR_RETURN(auto output_layouts, Tensors().Outputs(axes));
    if (task_ != nullptr) task_calls_.push_back(task_->IndexOf(axes));
    runner::CaseRecord record{};
    record.inputs = static_cast<uint32_t>(input_layouts.size());
    record.outputs = static_cast<uint32_t>(output_layouts.size());
    runner::CaseRecord oracle = record;
    uint32_t t = 0;
    for (const auto* layouts : {&input_layouts, &output_layouts}) {
      for (const TensorLayout& layout : *layouts) {
        if (std::ssize(layout.shape) > runner::kMaxDimensions) {
          return absl::FailedPreconditionError(
              absl::StrCat("the cpu target takes at most ", runner::kMaxDimensions, " dimensions"));
        }
        if (layouts == &input_layouts) {
          record.tensors[t] = inputs.Place(layout, layout.dtype);
          oracle.tensors[t] = record.tensors[t];
        } else {
          record.tensors[t] = outputs.Place(layout, layout.dtype);
          oracle.tensors[t] = oracle_outputs.Place(layout, OracleType(layout.dtype));
        }
        ++t;
      }
    }
    table_.push_back(record);
    oracle_table_.push_back(oracle);
    input_layouts_.push_back(std::move(input_layouts));
    output_layouts_.push_back(std::move(output_layouts));
    return static_cast<uint32_t>(table_.size() - 1);
  };

  std::vector<CaseSpec> specs =
      task_ != nullptr ? task_->CorrectnessCases(options_.min_seeds + options_.held_out_shapes)
                       : CorrectnessCases(problem_, target->second, options_, shapes_random_);
  for (CaseSpec& spec : specs) {
    Arranger outputs(0);
    Arranger oracle_outputs(0);
    CheckCase check;
    KC_ASSIGN_OR_RETURN(check.index, add_case(spec.axes, outputs, oracle_outputs));
    check.spec = std::move(spec);
    check_cases_.push_back(std::move(check));
    check_outputs_end = std::max(check_outputs_end, outputs.end());
    check_oracle_end = std::max(check_oracle_end, oracle_outputs.end());
  }

  Arranger outputs(check_outputs_end);
  Arranger oracle_outputs(check_oracle_end);
  for (const AxisValues& axes : target->second.bench_shapes) {
    BenchShape shape;
    shape.axes = axes;
    KC_ASSIGN_OR_RETURN(shape.bytes, Tensors().Bytes(axes));
    KC_ASSIGN_OR_RETURN(shape.flops, Tensors().Flops(axes));
    int64_t set_bytes = 0;
    KC_ASSIGN_OR_RETURN(const auto input_layouts, Tensors().Inputs(axes));
    KC_ASSIGN_OR_RETURN(const auto output_layouts, Tensors().Outputs(axes));
    for (const auto* layouts : {&input_layouts, &output_layouts}) {
      for (const TensorLayout& layout : *layouts) set_bytes += layout.bytes();
    }
    const int64_t affordable = options_.input_sets_bytes / std::max<int64_t>(1, set_bytes);
    const int64_t sets = std::clamp<int64_t>(affordable, 1, options_.input_sets);
    for (int64_t i = 0; i < sets; ++i) {
      KC_ASSIGN_OR_RETURN(const uint32_t index, add_case(axes, outputs, oracle_outputs));
      shape.slots.push_back(index);
    }
    bench_shapes_.push_back(std::move(shape));
  }
  inputs_bytes_ = inputs.end();
  outputs_bytes_ = outputs.end();
  oracle_outputs_bytes_ = oracle_outputs.end();
  KC_RETURN_IF_ERROR(CheckMemory());
  KC_ASSIGN_OR_RETURN(inputs_, MemoryFile::Create("kernelcast-inputs", inputs_bytes_,
                                                  MemoryFile::Sharing::kReadOnly));
  return absl::OkStatus();
}

absl::Status PreparedProblem::CheckMemory() const {
  // Inputs exist twice while processes are renewed. Outputs exist for the reference and the
  // candidate. The oracle's results exist together with the expected tensors made from them.
  double bytes = 2.0 * static_cast<double>(inputs_bytes_) +
                 2.0 * static_cast<double>(outputs_bytes_) +
                 2.0 * static_cast<double>(oracle_outputs_bytes_);
  for (const BenchShape& shape : bench_shapes_) {
    // Two banks, and their altered copies.
    const double sets = CanAlter(problem_) ? 4 : 2;
    for (const uint32_t slot : shape.slots) {
      for (const runner::TensorRecord& tensor : oracle_table_[slot].tensors) {
        bytes += sets * static_cast<double>(tensor.bytes);
      }
    }
  }
  const int64_t available_bytes = AvailableMemoryBytes();
  if (bytes > static_cast<double>(available_bytes)) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "the problem's inputs, outputs and expected outputs need %.0f bytes of memory; this worker "
        "has %d",
        bytes, available_bytes));
  }
  return absl::OkStatus();
}

absl::Status PreparedProblem::CheckPace() const {
  return PreparationPace(options_, Clock::Real().MonotonicNs() - started_ns_);
}

absl::StatusOr<std::vector<std::string>> PreparedProblem::DrawInputs(const CaseSpec& spec) {
  if (task_inputs_ != nullptr) {
    return task_inputs_->Draw(task_->IndexOf(spec.axes), values_random_.Next(), CancelToken());
  }
  KC_ASSIGN_OR_RETURN(const auto layouts, Layouts(problem_.inputs, spec.axes));
  CaseSpec scaled = spec;
  scaled.factor = InputFactor(problem_, values_random_);
  std::vector<std::string> inputs;
  for (size_t i = 0; i < layouts.size(); ++i) {
    std::string data(static_cast<size_t>(layouts[i].bytes()), '\0');
    Random random(values_random_.Next());
    KC_RETURN_IF_ERROR(FillInput(problem_.inputs[i], layouts[i], scaled, random,
                                 std::as_writable_bytes(std::span(data))));
    inputs.push_back(std::move(data));
  }
  return inputs;
}

void PreparedProblem::Place(uint32_t case_index, const std::vector<std::string>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::byte* const place = inputs_.data() + table_[case_index].tensors[i].offset;
    std::memcpy(place, inputs[i].data(), inputs[i].size());
    Flush({place, inputs[i].size()});
  }
}

absl::Status PreparedProblem::FillCases() {
  for (const CheckCase& check : check_cases_) {
    KC_RETURN_IF_ERROR(CheckPace());
    KC_ASSIGN_OR_RETURN(const auto inputs, DrawInputs(check.spec));
    Place(check.index, inputs);
  }
  for (BenchShape& shape : bench_shapes_) {
    const CaseSpec spec{.axes = shape.axes};
    for (std::vector<Set>& bank : shape.banks) {
      bank.resize(shape.slots.size());
      for (Set& set : bank) {
        KC_RETURN_IF_ERROR(CheckPace());
        KC_ASSIGN_OR_RETURN(set.inputs, DrawInputs(spec));
      }
    }
    if (task_inputs_ != nullptr) draw_flags_ |= task_inputs_->flags();
    for (size_t bank = 0; bank < 2 && CanAlter(problem_); ++bank) {
      shape.altered[bank].resize(shape.slots.size());
      for (size_t i = 0; i < shape.slots.size(); ++i) {
        std::vector<std::string>& altered = shape.altered[bank][i].inputs;
        altered = shape.banks[bank][i].inputs;
        Random random(values_random_.Next());
        AlterInputs(problem_.inputs, shape.banks[1 - bank][i].inputs, random, altered);
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<RunnerProcess>> PreparedProblem::StartReady(
    const Program& program, const std::vector<runner::CaseRecord>& table, const MemoryFile& outputs,
    const std::string& who, const CancelToken& cancel) const {
  KC_ASSIGN_OR_RETURN(auto process, RunnerProcess::Start(runner_options_, placement_, program,
                                                         table, inputs_, outputs));
  const RunnerProcess::End end = process->WaitReady(start_limit_ns(), cancel);
  if (end != RunnerProcess::End::kDone) {
    return TrustedFailure(*process, end, who, "load", start_limit_ns(), cancel);
  }
  return process;
}

absl::Status PreparedProblem::RunOracle(const Program& oracle, const CancelToken& cancel) {
  KC_ASSIGN_OR_RETURN(const MemoryFile outputs,
                      MemoryFile::Create("kernelcast-oracle", oracle_outputs_bytes_,
                                         MemoryFile::Sharing::kReadWrite));
  KC_ASSIGN_OR_RETURN(const auto process,
                      StartReady(oracle, oracle_table_, outputs, "oracle", cancel));
  const auto run = [&](uint32_t index, const CaseSpec& spec,
                       std::vector<ExpectedTensor>& expected) -> absl::Status {
    KC_RETURN_IF_ERROR(CheckPace());
    const std::string what = absl::StrCat(ShapeText(spec.axes), ", ", spec.distribution());
    const RunnerProcess::Result result =
        process->Call(runner::kRun, index, true, options_.problem_call_limit_ns, cancel);
    if (result.end != RunnerProcess::End::kDone) {
      return TrustedFailure(*process, result.end, "oracle", what, options_.problem_call_limit_ns,
                            cancel);
    }
    if (result.status != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("the problem's oracle returned ", result.status, " (", what, ")"));
    }
    expected.clear();
    for (size_t i = 0; i < output_layouts_[index].size(); ++i) {
      const auto& record = oracle_table_[index].tensors[oracle_table_[index].inputs + i];
      KC_ASSIGN_OR_RETURN(const Tolerance tolerance, Tensors().ToleranceOf(i, spec.axes));
      expected.emplace_back(output_layouts_[index][i], tolerance,
                            outputs.Span(record.offset, static_cast<int64_t>(record.bytes)),
                            Tensors().NoiseOf(i, spec.axes, tolerance));
      if (expected.back().has_nan() && !tolerance.nan_agrees) {
        return absl::FailedPreconditionError(
            absl::StrCat("the problem's oracle yields NaN in output ", OutputName(i, spec.axes),
                         " (", what, "), which no candidate can match"));
      }
    }
    return absl::OkStatus();
  };

  for (CheckCase& check : check_cases_) {
    KC_RETURN_IF_ERROR(run(check.index, check.spec, check.expected));
  }
  for (BenchShape& shape : bench_shapes_) {
    const CaseSpec spec{.axes = shape.axes};
    // Bank 0 is placed last and stays in the slots.
    for (std::vector<Set>* const bank :
         {&shape.altered[1], &shape.altered[0], &shape.banks[1], &shape.banks[0]}) {
      for (size_t i = 0; i < bank->size(); ++i) {
        Set& set = (*bank)[i];
        Place(shape.slots[i], set.inputs);
        KC_RETURN_IF_ERROR(run(shape.slots[i], spec, set.expected));
      }
    }
    shape.current_bank = 0;
  }
  return absl::OkStatus();
}

absl::Status PreparedProblem::RenewProcesses(const CancelToken& cancel) {
  reference_.reset();
  KC_ASSIGN_OR_RETURN(MemoryFile inputs, MemoryFile::Create("kernelcast-inputs", inputs_bytes_,
                                                            MemoryFile::Sharing::kReadOnly));
  std::memcpy(inputs.data(), inputs_.data(), static_cast<size_t>(inputs_bytes_));
  Flush(inputs.Span(0, inputs_bytes_));
  inputs_ = std::move(inputs);
  KC_ASSIGN_OR_RETURN(candidate_outputs_, MemoryFile::Create("kernelcast-outputs", outputs_bytes_,
                                                             MemoryFile::Sharing::kReadWrite));
  KC_ASSIGN_OR_RETURN(reference_outputs_, MemoryFile::Create("kernelcast-outputs", outputs_bytes_,
                                                             MemoryFile::Sharing::kReadWrite));
  KC_ASSIGN_OR_RETURN(
      reference_, StartReady(reference_program_, table_, reference_outputs_, "reference", cancel));
  missing_protections_ = reference_->missing_protections();
  return absl::OkStatus();
}

absl::Status PreparedProblem::RunReference(const CancelToken& cancel) {
  const auto run = [&](uint32_t index, const CaseSpec& spec, std::vector<ExpectedTensor>& expected,
                       int64_t& least_ns) -> absl::Status {
    KC_RETURN_IF_ERROR(CheckPace());
    const std::string what = absl::StrCat(ShapeText(spec.axes), ", ", spec.distribution());
    least_ns = INT64_MAX;
    for (int i = 0; i < kReferenceCalls; ++i) {
      const RunnerProcess::Result result =
          reference_->Call(runner::kRun, index, true, options_.problem_call_limit_ns, cancel);
      if (result.end != RunnerProcess::End::kDone) {
        return TrustedFailure(*reference_, result.end, "reference", what,
                              options_.problem_call_limit_ns, cancel);
      }
      if (result.status != 0) {
        return absl::FailedPreconditionError(
            absl::StrCat("the problem's reference returned ", result.status, " (", what, ")"));
      }
      least_ns = std::min(least_ns, result.ns);
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      const TensorVerdict verdict =
          CompareTensor(expected[i], Output(Owner::kReference, index, i), std::nullopt);
      if (spec.adversarial && ExceedsOnlyNormwise(verdict)) {
        expected[i].ForgetNormwise();
      } else if (!verdict.ok) {
        return ReferenceDisagrees(
            problem_, OutputName(i, spec.axes), what,
            absl::StrCat(verdict.mismatches, " mismatches, the first at ", verdict.index, ": ",
                         verdict.got, " instead of ", verdict.expected, "; normwise error ",
                         verdict.normwise_error));
      }
      if (Unexplained(verdict.variation, expected[i].layout().dtype, expected[i].noise(),
                      VariationRule::kFollow)) {
        expected[i].ForgetNoise();
      }
    }
    if (has_checker()) {
      KC_ASSIGN_OR_RETURN(const auto reason, AskChecker(Owner::kReference, index, cancel));
      if (reason) return ReferenceRefused(what, *reason);
    }
    return absl::OkStatus();
  };

  for (CheckCase& check : check_cases_) {
    KC_RETURN_IF_ERROR(run(check.index, check.spec, check.expected, check.reference_ns));
  }
  for (BenchShape& shape : bench_shapes_) {
    const CaseSpec spec{.axes = shape.axes};
    std::vector<ExpectedTensor>& first = shape.banks[shape.current_bank][0].expected;
    KC_RETURN_IF_ERROR(run(shape.slots[0], spec, first, shape.reference_ns));
    for (size_t i = 0; i < first.size(); ++i) {
      if (first[i].noise()) continue;
      for (auto* const banks : {&shape.banks, &shape.altered}) {
        for (std::vector<Set>& bank : *banks) {
          for (Set& set : bank) set.expected[i].ForgetNoise();
        }
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> PreparedProblem::AskChecker(Owner owner,
                                                                       uint32_t case_index,
                                                                       const CancelToken& cancel) {
  PythonChecker::Tensors inputs;
  PythonChecker::Tensors outputs;
  const runner::CaseRecord& call = table_[case_index];
  for (size_t i = 0; i < call.inputs; ++i) {
    const runner::TensorRecord& record = call.tensors[i];
    inputs.emplace_back(inputs_.Span(record.offset, static_cast<int64_t>(record.bytes)));
  }
  for (size_t i = 0; i < call.outputs; ++i) {
    outputs.emplace_back(Output(owner, case_index, i));
  }
  return checker_->Check(task_calls_[case_index], inputs, outputs, cancel);
}

std::vector<MeasurementNote> PreparedProblem::Notes() const {
  return task_ != nullptr ? NotesOf(draw_flags_)
                          : InputNotes(problem_, problem_.targets.find(kCpuTargetName)->second);
}

absl::StatusOr<std::vector<std::string>> PreparedProblem::DrawUnseen(const BenchShape& shape) {
  return DrawInputs({.axes = shape.axes});
}

std::vector<std::string> PreparedProblem::Altered(const BenchShape& shape, size_t slot,
                                                  const std::vector<std::string>& unseen) {
  std::vector<std::string> inputs = shape.current()[slot].inputs;
  Random random(values_random_.Next());
  AlterInputs(problem_.inputs, unseen, random, inputs);
  return inputs;
}

void PreparedProblem::Swap(BenchShape& shape) {
  shape.current_bank = 1 - shape.current_bank;
  for (size_t slot = 0; slot < shape.slots.size(); ++slot) {
    Put(shape, slot, shape.current()[slot].inputs);
  }
}

absl::StatusOr<std::unique_ptr<RunnerProcess>> PreparedProblem::StartCandidate(
    const Program& program) {
  ClearOutputs();
  for (const BenchShape& shape : bench_shapes_) {
    for (const uint32_t slot : shape.slots) {
      ResetGuards(slot);
    }
  }
  return RunnerProcess::Start(runner_options_, placement_, program, table_, inputs_,
                              candidate_outputs_);
}

// Fills with NaN for every floating-point type, and -1 for integers.
void PreparedProblem::ClearOutputs() {
  std::memset(candidate_outputs_.data(), 0xff, static_cast<size_t>(outputs_bytes_));
  Flush(candidate_outputs_.Span(0, outputs_bytes_));
}

std::span<std::byte> PreparedProblem::Output(Owner owner, uint32_t case_index,
                                             size_t output) const {
  const auto& record = table_[case_index].tensors[table_[case_index].inputs + output];
  const MemoryFile& file = owner == Owner::kCandidate ? candidate_outputs_ : reference_outputs_;
  return file.Span(record.offset, static_cast<int64_t>(record.bytes));
}

void PreparedProblem::Touch(Owner owner, uint32_t case_index) const {
  constexpr size_t kCacheLineBytes = 64;
  const auto& record = table_[case_index];
  for (uint32_t i = 0; i < record.inputs; ++i) {
    const std::span<const std::byte> input =
        inputs_.Span(record.tensors[i].offset, static_cast<int64_t>(record.tensors[i].bytes));
    for (size_t at = 0; at < input.size(); at += kCacheLineBytes) {
      (void)*static_cast<const volatile std::byte*>(&input[at]);
    }
  }
  for (uint32_t i = 0; i < record.outputs; ++i) {
    const std::span<std::byte> output = Output(owner, case_index, i);
    for (size_t at = 0; at < output.size(); at += kCacheLineBytes) {
      volatile std::byte* const line = &output[at];
      *line = *line;
    }
  }
}

std::array<std::span<std::byte>, 2> PreparedProblem::Guards(uint32_t case_index,
                                                            size_t output) const {
  const auto& record = table_[case_index].tensors[table_[case_index].inputs + output];
  return {candidate_outputs_.Span(record.offset - kGuardBytes, kGuardBytes),
          candidate_outputs_.Span(record.offset + record.bytes, kGuardBytes)};
}

bool PreparedProblem::GuardsHold(uint32_t case_index) const {
  for (size_t i = 0; i < table_[case_index].outputs; ++i) {
    for (const std::span<std::byte> guard : Guards(case_index, i)) {
      if (std::any_of(guard.begin(), guard.end(),
                      [](std::byte byte) { return byte != kGuardPattern; })) {
        return false;
      }
    }
  }
  return true;
}

void PreparedProblem::ResetGuards(uint32_t case_index) {
  for (size_t i = 0; i < table_[case_index].outputs; ++i) {
    for (const std::span<std::byte> guard : Guards(case_index, i)) {
      std::fill(guard.begin(), guard.end(), kGuardPattern);
    }
  }
}

}  // namespace kernelcast::worker
