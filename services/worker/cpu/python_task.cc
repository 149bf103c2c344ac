#include "services/worker/cpu/python_task.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/bounded_json.h"
#include "common/base/status.h"
#include "common/domain/python_task.h"
#include "nlohmann/json.hpp"
#include "services/worker/core/inputs.h"
#include "services/worker/native/dlpack_type.h"

namespace kernelcast::worker {
namespace {

using Json = nlohmann::json;

constexpr int64_t kDescriptionBytes = 64 << 10;
constexpr int64_t kCallLimitNs = 60'000'000'000;
constexpr int64_t kTensorAlignment = 64;
// Seeds of PyTorch and NumPy are less than this.
constexpr uint64_t kSeeds = uint64_t{1} << 32;

absl::Status Unsupported(const std::string& what) {
  return absl::FailedPreconditionError(absl::StrCat("the task ", what));
}

// Why a process that runs the task's code ended.
absl::Status TaskFailure(RunnerProcess& process, RunnerProcess::End end, const std::string& stage,
                         const CancelToken& cancel) {
  if (end == RunnerProcess::End::kStopped) return cancel.Check();
  Measurement measurement;
  KC_ASSIGN_OR_RETURN(measurement.outcome, process.Failure(end, stage, kCallLimitNs));
  return Unsupported(absl::StrCat("failed (", stage, "): ", MeasurementFeedback(measurement)));
}

// PyTorch's bool is stored as bytes that are 0 or 1.
absl::StatusOr<DataType> TorchType(const std::string& name) {
  if (name == "bool") return DataType::kUint8;
  if (name == "float8_e4m3fn") return DataType::kFloat8E4m3;
  return ParseDataType(name);
}

absl::StatusOr<TensorSpec> ReadTensor(const Json& json, const std::string& name) {
  TensorSpec tensor;
  tensor.name = name;
  if (!json.is_object() || !json.contains("dtype") || !json["dtype"].is_string() ||
      !json.contains("shape") || !json["shape"].is_array()) {
    return Unsupported(absl::StrCat("gave no description of ", name));
  }
  const absl::StatusOr<DataType> dtype = TorchType(json["dtype"].get<std::string>());
  if (!dtype.ok()) {
    return Unsupported(absl::StrCat("has ", name, " of ", json["dtype"].get<std::string>(),
                                    ", which is not supported"));
  }
  tensor.dtype = *dtype;
  if (json["shape"].size() > size_t{runner::kMaxDimensions}) {
    return Unsupported(absl::StrCat("has ", name, " of ", json["shape"].size(),
                                    " dimensions; at most ", runner::kMaxDimensions));
  }
  for (const Json& size : json["shape"]) {
    if (!size.is_number_unsigned()) {
      return Unsupported(absl::StrCat("gave no description of ", name));
    }
    KC_ASSIGN_OR_RETURN(Expression extent,
                        Expression::Parse(absl::StrCat(size.get<uint64_t>()), {}));
    tensor.shape.push_back(std::move(extent));
  }
  const auto shape = TensorShape(tensor, {});
  if (!shape.ok()) return Unsupported(absl::StrCat("has ", std::string(shape.status().message())));
  return tensor;
}

// Places tensors one after the other and returns the end of the last.
int64_t Arrange(const std::vector<TensorLayout>& layouts,
                std::vector<runner::TensorRecord>& records) {
  int64_t end = 0;
  for (const TensorLayout& layout : layouts) {
    runner::TensorRecord& record = records.emplace_back();
    record.offset =
        static_cast<uint64_t>((end + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment);
    record.bytes = static_cast<uint64_t>(layout.bytes());
    record.dlpack_code = DlpackCode(layout.dtype);
    record.dlpack_bits = static_cast<uint8_t>(8 * SizeBytes(layout.dtype));
    record.dimensions = static_cast<uint16_t>(layout.shape.size());
    std::copy(layout.shape.begin(), layout.shape.end(), record.shape);
    end = static_cast<int64_t>(record.offset + record.bytes);
  }
  return end;
}

absl::Status Finish(RunnerProcess& process, const std::string& stage, const CancelToken& cancel) {
  const RunnerProcess::Result result = process.Call(runner::kRun, 0, false, kCallLimitNs, cancel);
  if (result.end != RunnerProcess::End::kDone) {
    return TaskFailure(process, result.end, stage, cancel);
  }
  return absl::OkStatus();
}

absl::Status AwaitReady(RunnerProcess& process, const std::string& stage,
                        const CancelToken& cancel) {
  const RunnerProcess::End end = process.WaitReady(kPythonStartLimitNs, cancel);
  return end == RunnerProcess::End::kDone ? absl::OkStatus()
                                          : TaskFailure(process, end, stage, cancel);
}

}  // namespace

PythonProgram PythonTaskPrograms::Make(const char* role, const std::string& candidate) const {
  Json json;
  json["role"] = role;
  json["format"] = Name(problem_.task->format);
  json["task"] = problem_.task->source;
  json["candidate"] = candidate;
  if (!inputs_.empty()) json["inputs"] = ParseBoundedJson(inputs_);
  if (!outputs_.empty()) json["outputs"] = ParseBoundedJson(outputs_);
  return {json.dump()};
}

absl::StatusOr<PythonTaskPrograms> PythonTaskPrograms::Describe(const Problem& problem,
                                                                const RunnerOptions& options,
                                                                const Placement& placement,
                                                                const CancelToken& cancel) {
  PythonTaskPrograms task;
  task.problem_ = problem;
  KC_ASSIGN_OR_RETURN(const MemoryFile inputs,
                      MemoryFile::Create("kernelcast-task", 1, MemoryFile::Sharing::kReadOnly));
  KC_ASSIGN_OR_RETURN(
      const MemoryFile outputs,
      MemoryFile::Create("kernelcast-task", kDescriptionBytes, MemoryFile::Sharing::kReadWrite));
  runner::CaseRecord call{};
  call.outputs = 1;
  call.tensors[0] = {.offset = 0,
                     .bytes = kDescriptionBytes,
                     .dlpack_code = DlpackCode(DataType::kUint8),
                     .dlpack_bits = 8,
                     .dimensions = 1,
                     .reserved = 0,
                     .shape = {kDescriptionBytes}};
  KC_ASSIGN_OR_RETURN(const auto process,
                      RunnerProcess::Start(options, placement, task.Make("describe", ""),
                                           {&call, 1}, inputs, outputs));
  KC_RETURN_IF_ERROR(AwaitReady(*process, "description", cancel));
  KC_RETURN_IF_ERROR(Finish(*process, "description", cancel));
  // The task's own process writes it, so it may be anything, and change while it is read.
  const std::string text(reinterpret_cast<const char*>(outputs.data()), kDescriptionBytes);
  const Json json = ParseBoundedJson(text.substr(0, text.find('\0')));
  if (!json.is_object() || !json.contains("inputs") || !json["inputs"].is_array() ||
      !json.contains("outputs") || !json["outputs"].is_array() || json["outputs"].empty()) {
    return Unsupported("gave no description of its inputs and outputs");
  }
  if (json["inputs"].size() + json["outputs"].size() > size_t{runner::kMaxTensors}) {
    return Unsupported(absl::StrCat("has ", json["inputs"].size() + json["outputs"].size(),
                                    " inputs and outputs; at most ", runner::kMaxTensors));
  }
  for (size_t i = 0; i < json["inputs"].size(); ++i) {
    const Json& input = json["inputs"][i];
    if (input.is_object() && input.contains("value") && !input["value"].is_structured()) continue;
    KC_ASSIGN_OR_RETURN(TensorSpec tensor, ReadTensor(input, absl::StrCat("input", i)));
    task.problem_.inputs.push_back(std::move(tensor));
  }
  for (size_t i = 0; i < json["outputs"].size(); ++i) {
    KC_ASSIGN_OR_RETURN(TensorSpec tensor,
                        ReadTensor(json["outputs"][i], absl::StrCat("output", i)));
    if (IsFloat(tensor.dtype)) {
      tensor.tolerance = TaskTolerance(problem.task->format, tensor.dtype);
    }
    task.problem_.outputs.push_back(std::move(tensor));
  }
  task.inputs_ = json["inputs"].dump();
  task.outputs_ = json["outputs"].dump();
  return task;
}

absl::StatusOr<std::unique_ptr<PythonInputs>> PythonInputs::Start(const PythonTaskPrograms& task,
                                                                  const RunnerOptions& options,
                                                                  const Placement& placement,
                                                                  const CancelToken& cancel) {
  std::unique_ptr<PythonInputs> inputs(new PythonInputs());
  KC_ASSIGN_OR_RETURN(const auto layouts, Layouts(task.problem().inputs, {}));
  const int64_t bytes = Arrange(layouts, inputs->tensors_);
  KC_ASSIGN_OR_RETURN(inputs->seed_, MemoryFile::Create("kernelcast-seed", sizeof(int64_t),
                                                        MemoryFile::Sharing::kReadOnly));
  KC_ASSIGN_OR_RETURN(inputs->made_,
                      MemoryFile::Create("kernelcast-inputs", std::max<int64_t>(1, bytes),
                                         MemoryFile::Sharing::kReadWrite));
  runner::CaseRecord call{};
  call.inputs = 1;
  call.outputs = static_cast<uint32_t>(inputs->tensors_.size());
  call.tensors[0] = {.offset = 0,
                     .bytes = sizeof(int64_t),
                     .dlpack_code = DlpackCode(DataType::kInt64),
                     .dlpack_bits = 64,
                     .dimensions = 1,
                     .reserved = 0,
                     .shape = {1}};
  std::copy(inputs->tensors_.begin(), inputs->tensors_.end(), call.tensors + 1);
  KC_ASSIGN_OR_RETURN(inputs->process_,
                      RunnerProcess::Start(options, placement, task.Inputs(), {&call, 1},
                                           inputs->seed_, inputs->made_));
  KC_RETURN_IF_ERROR(AwaitReady(*inputs->process_, "inputs", cancel));
  return inputs;
}

absl::StatusOr<std::vector<std::string>> PythonInputs::Draw(uint64_t seed,
                                                            const CancelToken& cancel) {
  const auto bounded = static_cast<int64_t>(seed % kSeeds);
  std::memcpy(seed_.data(), &bounded, sizeof(bounded));
  KC_RETURN_IF_ERROR(Finish(*process_, "inputs", cancel));
  std::vector<std::string> drawn;
  for (const runner::TensorRecord& tensor : tensors_) {
    const auto bytes = made_.Span(tensor.offset, static_cast<int64_t>(tensor.bytes));
    drawn.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return drawn;
}

CompileFacts CountPythonSource(std::string_view source) {
  double lines = 0;
  double functions = 0;
  double loops = 0;
  const std::string text(source);
  for (const auto part : absl::StrSplit(text, '\n')) {
    const auto line = absl::StripAsciiWhitespace(part);
    if (line.empty()) continue;
    ++lines;
    if (absl::StartsWith(line, "def ")) ++functions;
    if (absl::StartsWith(line, "for ") || absl::StartsWith(line, "while ")) ++loops;
  }
  double uses = 0;
  for (const std::string_view prefix : {"torch.", "F."}) {
    for (size_t at = source.find(prefix); at != std::string_view::npos;
         at = source.find(prefix, at + 1)) {
      ++uses;
    }
  }
  return {.schema = std::string(kPythonSourceSchemaId),
          .values = {lines, static_cast<double>(source.size()), functions, loops, uses}};
}

}  // namespace kernelcast::worker
