#include "services/worker/cuda/judge/python_task.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "services/worker/cuda/runner/program_table.h"
#include "services/worker/native/dlpack_type.h"

namespace kernelcast::worker {
namespace {

using cuda_runner::Program;
using cuda_runner::RunRecord;

static_assert(kMaxTaskTensors <= cuda_runner::kMaxTensors &&
              kMaxTaskDimensions <= cuda_runner::kMaxDimensions);

constexpr uint32_t kInputsArena = 0;
constexpr uint32_t kOutputsArena = 1;
constexpr int64_t kCallLimitNs = 120'000'000'000;
constexpr size_t kKeptOutputBytes = 4096;

TensorLayout Bytes(int64_t bytes, DataType dtype) {
  TensorLayout layout;
  layout.dtype = dtype;
  layout.shape = {bytes};
  return layout;
}

absl::Status RunOnce(CudaRunner& runner, const std::string& stage, const CancelToken& cancel) {
  const RunRecord record{cuda_runner::kCandidate, 0};
  return TaskStatus(runner, runner.Run({&record, 1}, kCallLimitNs, cancel), stage, cancel);
}

absl::Status SetProgram(CudaRunner& runner, Program program, const std::string& stage,
                        const CancelToken& cancel) {
  KC_ASSIGN_OR_RETURN(
      const CudaRunner::Answer taken,
      runner.SetPrograms(cuda_runner::kCandidate, std::span(&program, 1), kCallLimitNs, cancel));
  return TaskStatus(runner, taken, stage, cancel);
}

absl::Status MapArena(CudaRunner& runner, uint32_t number, const SharedArena& arena, bool writable,
                      const CancelToken& cancel) {
  return TaskStatus(runner, runner.Map(number, arena.fd(), arena.mapped_bytes(), writable, cancel),
                    "mapping memory", cancel);
}

}  // namespace

absl::Status TaskStatus(const CudaRunner& runner, const CudaRunner::Answer& answer,
                        const std::string& stage, const CancelToken& cancel) {
  if (answer.ok()) return absl::OkStatus();
  if (answer.end == CudaRunner::End::kStopped) return cancel.Check();
  const std::string printed =
      SanitizeUtf8(std::string(TruncateUtf8Front(runner.output(), kKeptOutputBytes)));
  return UnsupportedTask(absl::StrCat("failed (", stage, "): ", CudaRunner::FailureText(answer),
                                      printed.empty() ? "" : "; ", printed));
}

absl::StatusOr<cuda_runner::TensorRecord> TensorRecordOf(const TensorLayout& layout, uint32_t arena,
                                                         uint64_t offset) {
  cuda_runner::TensorRecord made{};
  if (layout.shape.size() > cuda_runner::kMaxDimensions) {
    return absl::InvalidArgumentError("a tensor has too many dimensions");
  }
  made.arena = arena;
  made.dlpack_code = DlpackCode(layout.dtype);
  made.dlpack_bits = static_cast<uint32_t>(8 * SizeBytes(layout.dtype));
  made.dimensions = static_cast<uint32_t>(layout.shape.size());
  made.offset = offset;
  std::copy(layout.shape.begin(), layout.shape.end(), made.shape);
  return made;
}

absl::Status LoadTaskProgram(CudaRunner& runner, const std::string& program,
                             const std::string& stage, const CancelToken& cancel) {
  KC_ASSIGN_OR_RETURN(const CudaRunner::Answer loaded,
                      runner.LoadObject(program, kCallLimitNs, cancel));
  return TaskStatus(runner, loaded, stage, cancel);
}

absl::StatusOr<PythonTaskPrograms> DescribeTask(const Problem& problem, CudaDevice& device,
                                                const CudaRunnerOptions& python,
                                                const CancelToken& cancel) {
  const std::string stage = "description";
  KC_ASSIGN_OR_RETURN(const auto runner, CudaRunner::Start(python, cancel));
  KC_ASSIGN_OR_RETURN(const SharedArena arena, SharedArena::Create(device, kDescriptionBytes));
  KC_RETURN_IF_ERROR(device.Check(
      device.api().MemsetD8Async(arena.address(), 0, kDescriptionBytes, device.stream()),
      "clearing memory"));
  KC_RETURN_IF_ERROR(device.Synchronize());
  KC_RETURN_IF_ERROR(MapArena(*runner, kOutputsArena, arena, true, cancel));
  KC_RETURN_IF_ERROR(LoadTaskProgram(
      *runner, PythonTaskPrograms::DescribeProgram(problem, 0).content, stage, cancel));
  Program program;
  KC_ASSIGN_OR_RETURN(program.outputs.emplace_back(),
                      TensorRecordOf(Bytes(kDescriptionBytes, DataType::kUint8), kOutputsArena, 0));
  KC_RETURN_IF_ERROR(SetProgram(*runner, std::move(program), stage, cancel));
  KC_RETURN_IF_ERROR(RunOnce(*runner, stage, cancel));
  std::string text(kDescriptionBytes, '\0');
  KC_RETURN_IF_ERROR(device.Check(
      device.api().MemcpyDtoHAsync(text.data(), arena.address(), text.size(), device.stream()),
      "reading a description"));
  KC_RETURN_IF_ERROR(device.Synchronize());
  return PythonTaskPrograms::Read(problem, text);
}

absl::StatusOr<std::unique_ptr<CudaTaskInputs>> CudaTaskInputs::Start(
    const PythonTaskPrograms& task, CudaDevice& device, const CudaRunnerOptions& python,
    const CancelToken& cancel) {
  const std::string stage = "inputs";
  std::unique_ptr<CudaTaskInputs> inputs(new CudaTaskInputs(device));
  KC_ASSIGN_OR_RETURN(const auto layouts, Layouts(task.problem().inputs, {}));
  Program program;
  KC_ASSIGN_OR_RETURN(program.inputs.emplace_back(),
                      TensorRecordOf(Bytes(1, DataType::kInt64), kInputsArena, 0));
  uint64_t end = 0;
  for (const TensorLayout& layout : layouts) {
    inputs->offsets_.push_back(end);
    inputs->bytes_.push_back(static_cast<uint64_t>(layout.bytes()));
    KC_ASSIGN_OR_RETURN(program.outputs.emplace_back(), TensorRecordOf(layout, kOutputsArena, end));
    end = AlignTensor(end + inputs->bytes_.back());
  }
  KC_ASSIGN_OR_RETURN(inputs->seed_, SharedArena::Create(device, sizeof(int64_t)));
  KC_ASSIGN_OR_RETURN(inputs->made_, SharedArena::Create(device, end));
  KC_ASSIGN_OR_RETURN(inputs->runner_, CudaRunner::Start(python, cancel));
  KC_RETURN_IF_ERROR(MapArena(*inputs->runner_, kInputsArena, inputs->seed_, false, cancel));
  KC_RETURN_IF_ERROR(MapArena(*inputs->runner_, kOutputsArena, inputs->made_, true, cancel));
  KC_RETURN_IF_ERROR(LoadTaskProgram(*inputs->runner_, task.Inputs().content, stage, cancel));
  KC_RETURN_IF_ERROR(SetProgram(*inputs->runner_, std::move(program), stage, cancel));
  return inputs;
}

absl::Status CudaTaskInputs::Draw(uint64_t seed, const CancelToken& cancel) {
  const auto bounded = static_cast<int64_t>(seed % kTaskSeeds);
  KC_RETURN_IF_ERROR(device_.Check(
      device_.api().MemcpyHtoDAsync(seed_.address(), &bounded, sizeof(bounded), device_.stream()),
      "writing a seed"));
  // Earlier draws are copied.
  KC_RETURN_IF_ERROR(device_.Synchronize());
  return RunOnce(*runner_, "inputs", cancel);
}

absl::Status CudaTaskInputs::CopyTo(size_t tensor, CUdeviceptr to) {
  return device_.Check(device_.api().MemcpyDtoDAsync(to, made_.address() + offsets_[tensor],
                                                     bytes_[tensor], device_.stream()),
                       "copying inputs");
}

}  // namespace kernelcast::worker
