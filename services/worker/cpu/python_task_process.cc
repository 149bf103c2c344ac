#include "services/worker/cpu/python_task_process.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "services/worker/core/verdict.h"
#include "services/worker/cpu/python_task.h"
#include "services/worker/native/dlpack_type.h"

namespace kernelcast::worker {
namespace {

constexpr int64_t kCallLimitNs = 60'000'000'000;
// The first draw of a case is compared with others.
constexpr int64_t kDrawLimitNs = 8 * kCallLimitNs;
constexpr int64_t kTensorAlignment = 64;
constexpr std::string_view kInputsStage = "inputs";
// The maximum length of the reason that a checker gives.
constexpr int64_t kMessageBytes = 1024;

int64_t AlignTensor(int64_t value) {
  return (value + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

// Why a process that runs the task's code ended.
absl::Status TaskFailure(RunnerProcess& process, RunnerProcess::End end, const std::string& stage,
                         int64_t limit_ns, const CancelToken& cancel) {
  if (end == RunnerProcess::End::kStopped) return cancel.Check();
  KC_ASSIGN_OR_RETURN(MeasureOutcome outcome, process.Failure(end, stage, limit_ns));
  return UnsupportedTask(
      absl::StrCat("failed (", stage, "): ", OutcomeFeedback(std::move(outcome))));
}

}  // namespace

absl::Status AwaitTaskReady(RunnerProcess& process, const std::string& stage,
                            const CancelToken& cancel) {
  const RunnerProcess::End end = process.WaitReady(kPythonStartLimitNs, cancel);
  return end == RunnerProcess::End::kDone
             ? absl::OkStatus()
             : TaskFailure(process, end, stage, kPythonStartLimitNs, cancel);
}

absl::StatusOr<int32_t> CallTask(RunnerProcess& process, uint32_t index, const std::string& stage,
                                 const CancelToken& cancel) {
  const int64_t limit_ns = stage == kInputsStage ? kDrawLimitNs : kCallLimitNs;
  const RunnerProcess::Result result = process.Call(runner::kRun, index, false, limit_ns, cancel);
  if (result.end != RunnerProcess::End::kDone) {
    return TaskFailure(process, result.end, stage, limit_ns, cancel);
  }
  return result.status;
}

runner::TensorRecord RecordAt(int64_t offset, const TensorLayout& layout, DataType dtype) {
  runner::TensorRecord record{};
  record.offset = static_cast<uint64_t>(offset);
  record.bytes = static_cast<uint64_t>(layout.elements() * SizeBytes(dtype));
  record.dlpack_code = DlpackCode(dtype);
  record.dlpack_bits = static_cast<uint8_t>(8 * SizeBytes(dtype));
  record.dimensions = static_cast<uint16_t>(layout.shape.size());
  std::copy(layout.shape.begin(), layout.shape.end(), record.shape);
  return record;
}

std::vector<runner::TensorRecord> ArrangeTensors(const std::vector<TensorLayout>& layouts,
                                                 int64_t& end) {
  std::vector<runner::TensorRecord> records;
  int64_t at = 0;
  for (const TensorLayout& layout : layouts) {
    const runner::TensorRecord& record =
        records.emplace_back(RecordAt(AlignTensor(at), layout, layout.dtype));
    at = static_cast<int64_t>(record.offset + record.bytes);
  }
  end = std::max(end, at);
  return records;
}

runner::TensorRecord BytesRecord(int64_t offset, int64_t bytes) {
  return RecordAt(offset, {.dtype = DataType::kUint8, .shape = {bytes}}, DataType::kUint8);
}

absl::StatusOr<std::unique_ptr<PythonInputs>> PythonInputs::Start(const PythonTaskPrograms& task,
                                                                  const RunnerOptions& options,
                                                                  const Placement& placement,
                                                                  const CancelToken& cancel) {
  std::unique_ptr<PythonInputs> inputs(new PythonInputs());
  // The seed comes first. The process writes its flags there.
  const TensorLayout seed{.dtype = DataType::kInt64, .shape = {1}};
  int64_t bytes = 0;
  std::vector<runner::CaseRecord> table;
  for (const TaskCase& one : task.cases()) {
    std::vector<TensorLayout> layouts = {seed};
    layouts.insert(layouts.end(), one.inputs.begin(), one.inputs.end());
    inputs->tensors_.push_back(ArrangeTensors(layouts, bytes));
    runner::CaseRecord& call = table.emplace_back();
    call.outputs = static_cast<uint32_t>(layouts.size());
    std::ranges::copy(inputs->tensors_.back(), call.tensors);
  }
  KC_ASSIGN_OR_RETURN(inputs->nothing_,
                      MemoryFile::Create("kernelcast-nothing", 1, MemoryFile::Sharing::kReadOnly));
  KC_ASSIGN_OR_RETURN(inputs->made_, MemoryFile::Create("kernelcast-inputs", bytes,
                                                        MemoryFile::Sharing::kReadWrite));
  KC_ASSIGN_OR_RETURN(inputs->process_,
                      RunnerProcess::Start(options, placement, task.Inputs(), table,
                                           inputs->nothing_, inputs->made_));
  KC_RETURN_IF_ERROR(AwaitTaskReady(*inputs->process_, std::string(kInputsStage), cancel));
  return inputs;
}

absl::StatusOr<std::vector<std::string>> PythonInputs::Draw(size_t case_index, uint64_t seed,
                                                            const CancelToken& cancel) {
  const auto bounded = static_cast<int64_t>(seed % kTaskSeeds);
  std::memcpy(made_.data(), &bounded, sizeof(bounded));
  KC_RETURN_IF_ERROR(
      CallTask(*process_, static_cast<uint32_t>(case_index), std::string(kInputsStage), cancel)
          .status());
  std::memcpy(&flags_, made_.data(), sizeof(flags_));
  std::vector<std::string> drawn;
  for (const runner::TensorRecord& tensor : std::span(tensors_[case_index]).subspan(1)) {
    const auto bytes = made_.Span(tensor.offset, static_cast<int64_t>(tensor.bytes));
    drawn.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return drawn;
}

absl::StatusOr<std::unique_ptr<PythonChecker>> PythonChecker::Start(const PythonTaskPrograms& task,
                                                                    const RunnerOptions& options,
                                                                    const Placement& placement,
                                                                    const CancelToken& cancel) {
  std::unique_ptr<PythonChecker> checker(new PythonChecker());
  int64_t inputs_bytes = 1;
  int64_t outputs_bytes = 1;
  for (const TaskCase& one : task.cases()) {
    const auto inputs = ArrangeTensors(one.inputs, inputs_bytes);
    const auto outputs = ArrangeTensors(one.outputs, outputs_bytes);
    runner::CaseRecord& call = checker->table_.emplace_back();
    call.inputs = static_cast<uint32_t>(inputs.size());
    call.outputs = static_cast<uint32_t>(outputs.size() + 1);
    std::ranges::copy(outputs, std::ranges::copy(inputs, call.tensors).out);
  }
  const int64_t message_at = AlignTensor(outputs_bytes);
  for (runner::CaseRecord& call : checker->table_) {
    call.tensors[call.inputs + call.outputs - 1] = BytesRecord(message_at, kMessageBytes);
  }
  KC_ASSIGN_OR_RETURN(checker->inputs_, MemoryFile::Create("kernelcast-checked", inputs_bytes,
                                                           MemoryFile::Sharing::kReadOnly));
  KC_ASSIGN_OR_RETURN(checker->outputs_,
                      MemoryFile::Create("kernelcast-checked", message_at + kMessageBytes,
                                         MemoryFile::Sharing::kReadWrite));
  KC_ASSIGN_OR_RETURN(checker->process_,
                      RunnerProcess::Start(options, placement, task.Checker(), checker->table_,
                                           checker->inputs_, checker->outputs_));
  KC_RETURN_IF_ERROR(AwaitTaskReady(*checker->process_, "check_implementation", cancel));
  return checker;
}

absl::StatusOr<std::optional<std::string>> PythonChecker::Check(size_t case_index,
                                                                const Tensors& inputs,
                                                                const Tensors& outputs,
                                                                const CancelToken& cancel) {
  const runner::CaseRecord& call = table_[case_index];
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::memcpy(inputs_.data() + call.tensors[i].offset, inputs[i].data(), inputs[i].size());
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::memcpy(outputs_.data() + call.tensors[inputs.size() + i].offset, outputs[i].data(),
                outputs[i].size());
  }
  KC_ASSIGN_OR_RETURN(const int32_t status, CallTask(*process_, static_cast<uint32_t>(case_index),
                                                     "check_implementation", cancel));
  if (status == 0) return std::optional<std::string>();
  const runner::TensorRecord& message = call.tensors[call.inputs + call.outputs - 1];
  const auto bytes = outputs_.Span(message.offset, kMessageBytes);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return std::optional<std::string>(text.substr(0, text.find('\0')));
}

}  // namespace kernelcast::worker
