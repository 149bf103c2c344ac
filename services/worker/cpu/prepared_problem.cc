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

// Bytes of the oracle's value of an output: float outputs are float64.
DataType OracleType(DataType dtype) { return IsFloat(dtype) ? DataType::kFloat64 : dtype; }
int64_t OracleBytes(const TensorLayout& output) {
  return output.elements() * SizeBytes(OracleType(output.dtype));
}
int64_t OracleBytes(const CasePlan::Case& at) {
  int64_t bytes = 0;
  for (const TensorLayout& output : at.output_layouts) bytes += OracleBytes(output) + kAlignment;
  return bytes;
}

// A case as runners know it. The oracle runs one case at a time, all at the start of its memory.
absl::StatusOr<runner::CaseRecord> RecordOf(const CasePlan::Case& at, bool oracle) {
  runner::CaseRecord record{};
  uint64_t oracle_end = 0;
  const auto add = [&](const TensorLayout& layout, DataType dtype,
                       uint64_t offset) -> absl::Status {
    if (std::ssize(layout.shape) > runner::kMaxDimensions) {
      return absl::FailedPreconditionError(
          absl::StrCat("the cpu target takes at most ", runner::kMaxDimensions, " dimensions"));
    }
    record.tensors[record.inputs + record.outputs] =
        RecordAt(static_cast<int64_t>(offset), layout, dtype);
    return absl::OkStatus();
  };
  for (size_t i = 0; i < at.inputs.size(); ++i, ++record.inputs) {
    const TensorLayout& layout = at.input_layouts[i];
    KC_RETURN_IF_ERROR(add(layout, layout.dtype, at.inputs[i].offset));
  }
  for (size_t i = 0; i < at.outputs.size(); ++i, ++record.outputs) {
    const TensorLayout& layout = at.output_layouts[i];
    KC_RETURN_IF_ERROR(oracle ? add(layout, OracleType(layout.dtype), oracle_end)
                              : add(layout, layout.dtype, at.outputs[i].offset));
    oracle_end += static_cast<uint64_t>(OracleBytes(layout) + kAlignment - 1) / kAlignment *
                  uint64_t{kAlignment};
  }
  return record;
}

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
  KC_RETURN_IF_ERROR(prepared->Arrange());
  KC_RETURN_IF_ERROR(prepared->Prepare(oracle, cancel));
  return prepared;
}

absl::StatusOr<std::unique_ptr<PreparedProblem>> PreparedProblem::MakeTask(
    const PythonTaskPrograms& task, const Setting& setting, const CancelToken& cancel) {
  std::unique_ptr<PreparedProblem> prepared(
      new PreparedProblem(task.problem(), PythonProgram(), setting));
  prepared->task_ = std::make_shared<PythonTaskPrograms>(task);
  KC_RETURN_IF_ERROR(prepared->Arrange());
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

absl::Status PreparedProblem::Arrange() {
  if (problem_.inputs.size() + problem_.outputs.size() > size_t{runner::kMaxTensors}) {
    return absl::FailedPreconditionError(
        absl::StrCat("the cpu target takes at most ", runner::kMaxTensors, " tensors"));
  }
  const PlanRules rules{.target = kCpuTargetName,
                        .alignment = kAlignment,
                        .guard_bytes = kGuardBytes,
                        .input_gap_bytes = kGuardBytes,
                        .shares_outputs = true,
                        .task_cases = options_.min_seeds + options_.held_out_shapes,
                        .slots = [&](const Case& at) -> absl::StatusOr<int64_t> {
                          const auto bytes = std::max(int64_t{1}, static_cast<int64_t>(at.bytes()));
                          return std::clamp<int64_t>(options_.input_sets_bytes / bytes, 1,
                                                     options_.input_sets);
                        }};
  KC_ASSIGN_OR_RETURN(plan_, PlanCases(problem_, task_.get(), options_, rules, shapes_random_));
  sets_.resize(plan_.cases.size());
  for (const Case& at : plan_.cases) {
    task_calls_.push_back(at.task_case);
    KC_ASSIGN_OR_RETURN(table_.emplace_back(), RecordOf(at, /*oracle=*/false));
  }
  KC_RETURN_IF_ERROR(CheckMemory());
  KC_ASSIGN_OR_RETURN(
      inputs_, MemoryFile::Create("kernelcast-inputs", static_cast<int64_t>(plan_.inputs_bytes),
                                  MemoryFile::Sharing::kReadOnly));
  return absl::OkStatus();
}

absl::Status PreparedProblem::CheckMemory() const {
  // Inputs exist twice while processes are renewed. Outputs exist for the reference and the
  // candidate.
  double bytes = 2.0 * static_cast<double>(plan_.inputs_bytes) +
                 2.0 * static_cast<double>(plan_.outputs_bytes);
  const double banks = has_altered() ? 3 : 2;
  double most_expected = 0;  // what the oracle writes in a call
  for (const Case& at : plan_.cases) {
    const auto expected = static_cast<double>(OracleBytes(at));
    most_expected = std::max(most_expected, expected);
    bytes += at.timed ? banks * (static_cast<double>(at.bytes()) + expected) : expected;
  }
  const int64_t available_bytes = AvailableMemoryBytes();
  if (bytes + most_expected > static_cast<double>(available_bytes)) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "the problem's inputs, outputs and expected outputs need %.0f bytes of memory; this worker "
        "has %d",
        bytes + most_expected, available_bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> PreparedProblem::DrawInputs(const Case& at) {
  if (task_inputs_ != nullptr) {
    return task_inputs_->Draw(at.task_case, values_random_.Next(), CancelToken());
  }
  CaseSpec scaled = at.spec;
  scaled.factor = InputFactor(problem_, values_random_);
  std::vector<std::string> inputs;
  for (size_t i = 0; i < at.inputs.size(); ++i) {
    std::string data(at.inputs[i].bytes, '\0');
    Random random(values_random_.Next());
    KC_RETURN_IF_ERROR(FillInput(problem_.inputs[i], at.input_layouts[i], scaled, random,
                                 std::as_writable_bytes(std::span(data))));
    inputs.push_back(std::move(data));
  }
  return inputs;
}

void PreparedProblem::Place(size_t index, const std::vector<std::string>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::byte* const place = inputs_.data() + table_[index].tensors[i].offset;
    std::memcpy(place, inputs[i].data(), inputs[i].size());
    Flush({place, inputs[i].size()});
  }
}

absl::Status PreparedProblem::FillCases() {
  return plan_.ForEachDraw([&](size_t index, Bank bank) -> absl::Status {
    const Case& at = plan_.cases[index];
    Set& set = sets_[index][bank];
    if (bank == kAltered) {
      if (!has_altered()) return absl::OkStatus();
      set.inputs = sets_[index][kBase].inputs;
      Random random(values_random_.Next());
      AlterInputs(problem_.inputs, sets_[index][kOther].inputs, random, set.inputs);
      return absl::OkStatus();
    }
    KC_RETURN_IF_ERROR(CheckPace());
    KC_ASSIGN_OR_RETURN(set.inputs, DrawInputs(at));
    if (at.timed) {
      if (task_inputs_ != nullptr) draw_flags_ |= task_inputs_->flags();
    } else {
      Place(index, std::exchange(set.inputs, {}));
    }
    return absl::OkStatus();
  });
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
  std::vector<runner::CaseRecord> table;
  int64_t bytes = 1;
  for (const Case& at : plan_.cases) {
    KC_ASSIGN_OR_RETURN(table.emplace_back(), RecordOf(at, /*oracle=*/true));
    bytes = std::max(bytes, OracleBytes(at));
  }
  KC_ASSIGN_OR_RETURN(
      const MemoryFile outputs,
      MemoryFile::Create("kernelcast-oracle", bytes, MemoryFile::Sharing::kReadWrite));
  KC_ASSIGN_OR_RETURN(const auto process, StartReady(oracle, table, outputs, "oracle", cancel));
  const auto run = [&](size_t index, Bank bank) -> absl::Status {
    if (bank == kAltered && !has_altered()) return absl::OkStatus();
    KC_RETURN_IF_ERROR(CheckPace());
    const Case& at = plan_.cases[index];
    Set& set = sets_[index][bank];
    if (at.timed) Put(index, bank);
    const std::string what = absl::StrCat(ShapeText(at.spec.axes), ", ", at.spec.distribution());
    const RunnerProcess::Result result = process->Call(
        runner::kRun, static_cast<uint32_t>(index), true, options_.problem_call_limit_ns, cancel);
    if (result.end != RunnerProcess::End::kDone) {
      return TrustedFailure(*process, result.end, "oracle", what, options_.problem_call_limit_ns,
                            cancel);
    }
    if (result.status != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("the problem's oracle returned ", result.status, " (", what, ")"));
    }
    for (size_t i = 0; i < at.output_layouts.size(); ++i) {
      const auto& record = table[index].tensors[table[index].inputs + i];
      KC_ASSIGN_OR_RETURN(const Tolerance tolerance, Tensors().ToleranceOf(i, at.spec.axes));
      set.expected.emplace_back(at.output_layouts[i], tolerance,
                                outputs.Span(record.offset, static_cast<int64_t>(record.bytes)),
                                Tensors().NoiseOf(i, at.spec.axes, tolerance));
      if (set.expected.back().has_nan() && !tolerance.nan_agrees) {
        return absl::FailedPreconditionError(
            absl::StrCat("the problem's oracle yields NaN in output ", OutputName(i, at.spec.axes),
                         " (", what, "), which no candidate can match"));
      }
    }
    return absl::OkStatus();
  };
  KC_RETURN_IF_ERROR(plan_.ForEachDraw(run));
  for (const BenchShape& shape : plan_.bench_shapes) {
    for (const size_t index : shape.slots) Put(index, kBase);
  }
  return absl::OkStatus();
}

absl::Status PreparedProblem::RenewProcesses(const CancelToken& cancel) {
  reference_.reset();
  KC_ASSIGN_OR_RETURN(
      MemoryFile inputs,
      MemoryFile::Create("kernelcast-inputs", static_cast<int64_t>(plan_.inputs_bytes),
                         MemoryFile::Sharing::kReadOnly));
  std::memcpy(inputs.data(), inputs_.data(), plan_.inputs_bytes);
  Flush(inputs.Span(0, static_cast<int64_t>(plan_.inputs_bytes)));
  inputs_ = std::move(inputs);
  KC_ASSIGN_OR_RETURN(
      candidate_outputs_,
      MemoryFile::Create("kernelcast-outputs", static_cast<int64_t>(plan_.outputs_bytes),
                         MemoryFile::Sharing::kReadWrite));
  KC_ASSIGN_OR_RETURN(
      reference_outputs_,
      MemoryFile::Create("kernelcast-outputs", static_cast<int64_t>(plan_.outputs_bytes),
                         MemoryFile::Sharing::kReadWrite));
  KC_ASSIGN_OR_RETURN(
      reference_, StartReady(reference_program_, table_, reference_outputs_, "reference", cancel));
  missing_protections_ = reference_->missing_protections();
  return absl::OkStatus();
}

absl::Status PreparedProblem::RunReference(const CancelToken& cancel) {
  const auto run = [&](size_t index) -> absl::Status {
    KC_RETURN_IF_ERROR(CheckPace());
    Case& at = plan_.cases[index];
    const std::string what = absl::StrCat(ShapeText(at.spec.axes), ", ", at.spec.distribution());
    at.reference_ns = INT64_MAX;
    for (int i = 0; i < kReferenceCalls; ++i) {
      const RunnerProcess::Result result = reference_->Call(
          runner::kRun, static_cast<uint32_t>(index), true, options_.problem_call_limit_ns, cancel);
      if (result.end != RunnerProcess::End::kDone) {
        return TrustedFailure(*reference_, result.end, "reference", what,
                              options_.problem_call_limit_ns, cancel);
      }
      if (result.status != 0) {
        return absl::FailedPreconditionError(
            absl::StrCat("the problem's reference returned ", result.status, " (", what, ")"));
      }
      at.reference_ns = std::min(at.reference_ns, result.ns);
    }
    std::vector<ExpectedTensor>& expected = sets_[index][kBase].expected;
    for (size_t i = 0; i < expected.size(); ++i) {
      const TensorVerdict verdict =
          CompareTensor(expected[i], Output(Owner::kReference, index, i), std::nullopt);
      if (at.spec.adversarial && ExceedsOnlyNormwise(verdict)) {
        expected[i].ForgetNormwise();
      } else if (!verdict.ok) {
        return ReferenceDisagrees(
            problem_, OutputName(i, at.spec.axes), what,
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

  for (const CheckCase& check : plan_.check_cases) KC_RETURN_IF_ERROR(run(check.index));
  for (BenchShape& shape : plan_.bench_shapes) {
    const size_t first = shape.slots.front();
    KC_RETURN_IF_ERROR(run(first));
    shape.reference_ns = plan_.cases[first].reference_ns;
    const std::vector<ExpectedTensor>& expected = set(first, kBase).expected;
    for (size_t i = 0; i < expected.size(); ++i) {
      if (expected[i].noise()) continue;
      for (const size_t index : shape.slots) {
        for (Set& set : sets_[index]) {
          if (!set.expected.empty()) set.expected[i].ForgetNoise();
        }
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> PreparedProblem::AskChecker(Owner owner, size_t index,
                                                                       const CancelToken& cancel) {
  PythonChecker::Tensors inputs;
  PythonChecker::Tensors outputs;
  const runner::CaseRecord& call = table_[index];
  for (size_t i = 0; i < call.inputs; ++i) {
    const runner::TensorRecord& record = call.tensors[i];
    inputs.emplace_back(inputs_.Span(record.offset, static_cast<int64_t>(record.bytes)));
  }
  for (size_t i = 0; i < call.outputs; ++i) {
    outputs.emplace_back(Output(owner, index, i));
  }
  return checker_->Check(task_calls_[index], inputs, outputs, cancel);
}

absl::StatusOr<std::unique_ptr<RunnerProcess>> PreparedProblem::StartCandidate(
    const Program& program) {
  ClearOutputs();
  for (const BenchShape& shape : plan_.bench_shapes) {
    for (const size_t index : shape.slots) ResetGuards(index);
  }
  return RunnerProcess::Start(runner_options_, placement_, program, table_, inputs_,
                              candidate_outputs_);
}

// Fills with NaN for every floating-point type, and -1 for integers.
void PreparedProblem::ClearOutputs() {
  std::memset(candidate_outputs_.data(), 0xff, plan_.outputs_bytes);
  Flush(candidate_outputs_.Span(0, static_cast<int64_t>(plan_.outputs_bytes)));
}

std::span<std::byte> PreparedProblem::Output(Owner owner, size_t index, size_t output) const {
  const auto& record = table_[index].tensors[table_[index].inputs + output];
  const MemoryFile& file = owner == Owner::kCandidate ? candidate_outputs_ : reference_outputs_;
  return file.Span(record.offset, static_cast<int64_t>(record.bytes));
}

void PreparedProblem::Touch(Owner owner, size_t index) const {
  constexpr size_t kCacheLineBytes = 64;
  const auto& record = table_[index];
  for (uint32_t i = 0; i < record.inputs; ++i) {
    const std::span<const std::byte> input =
        inputs_.Span(record.tensors[i].offset, static_cast<int64_t>(record.tensors[i].bytes));
    for (size_t at = 0; at < input.size(); at += kCacheLineBytes) {
      (void)*static_cast<const volatile std::byte*>(&input[at]);
    }
  }
  for (uint32_t i = 0; i < record.outputs; ++i) {
    const std::span<std::byte> output = Output(owner, index, i);
    for (size_t at = 0; at < output.size(); at += kCacheLineBytes) {
      volatile std::byte* const line = &output[at];
      *line = *line;
    }
  }
}

std::array<std::span<std::byte>, 2> PreparedProblem::Guards(size_t index, size_t output) const {
  const auto& record = table_[index].tensors[table_[index].inputs + output];
  return {candidate_outputs_.Span(record.offset - kGuardBytes, kGuardBytes),
          candidate_outputs_.Span(record.offset + record.bytes, kGuardBytes)};
}

bool PreparedProblem::GuardsHold(size_t index) const {
  for (size_t i = 0; i < table_[index].outputs; ++i) {
    for (const std::span<std::byte> guard : Guards(index, i)) {
      if (std::any_of(guard.begin(), guard.end(),
                      [](std::byte byte) { return byte != kGuardPattern; })) {
        return false;
      }
    }
  }
  return true;
}

void PreparedProblem::ResetGuards(size_t index) {
  for (size_t i = 0; i < table_[index].outputs; ++i) {
    for (const std::span<std::byte> guard : Guards(index, i)) {
      std::fill(guard.begin(), guard.end(), kGuardPattern);
    }
  }
}

}  // namespace kernelcast::worker
