#include "services/worker/cuda/judge/python_task.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/secret_random.h"
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

constexpr uint32_t kOutputsArena = 1;
constexpr int64_t kCallLimitNs = 120'000'000'000;
// The first draw of a case is compared with others.
constexpr int64_t kDrawLimitNs = 8 * kCallLimitNs;
constexpr size_t kKeptOutputBytes = 4096;
// The maximum length of the reason that a checker gives.
constexpr int64_t kMessageBytes = 1024;
constexpr const char* kCheckStage = "check_implementation";
constexpr const char* kLacksMemoryUrl = "kernelcast.lacks_device_memory";

TensorLayout Bytes(int64_t bytes, DataType dtype) {
  TensorLayout layout;
  layout.dtype = dtype;
  layout.shape = {bytes};
  return layout;
}

CudaRunner::Answer RunCase(CudaRunner& runner, size_t task_case, const CancelToken& cancel,
                           int64_t limit_ns = kCallLimitNs) {
  const RunRecord record{cuda_runner::kCandidate, static_cast<uint32_t>(task_case)};
  return runner.Run({&record, 1}, limit_ns, cancel);
}

// Places tensors one after the other from `end` on, and adds their records.
absl::StatusOr<std::vector<CasePlan::Place>> Arrange(
    const std::vector<TensorLayout>& layouts, uint32_t arena, uint64_t& end,
    std::vector<cuda_runner::TensorRecord>& records) {
  std::vector<CasePlan::Place> places;
  for (const TensorLayout& layout : layouts) {
    places.push_back({end, static_cast<uint64_t>(layout.bytes())});
    KC_ASSIGN_OR_RETURN(records.emplace_back(), TensorRecordOf(layout, arena, end));
    end = AlignTensor(end + places.back().bytes);
  }
  return places;
}

// Starts a process with the task's own code, which works on the arena.
absl::StatusOr<std::unique_ptr<CudaRunner>> StartTask(
    const CudaRunnerOptions& python, const SharedArena& arena, const std::string& content,
    std::span<const Program> programs, const std::string& stage, const CancelToken& cancel) {
  KC_ASSIGN_OR_RETURN(auto runner, CudaRunner::Start(python, cancel));
  KC_RETURN_IF_ERROR(
      TaskStatus(*runner,
                 runner->Map(kOutputsArena, arena.fd(), arena.mapped_bytes(),
                             /*writable=*/true, cancel, static_cast<uint32_t>(arena.padding())),
                 "mapping memory", cancel));
  KC_RETURN_IF_ERROR(LoadTaskProgram(*runner, content, stage, cancel));
  KC_ASSIGN_OR_RETURN(const CudaRunner::Answer taken,
                      runner->SetPrograms(cuda_runner::kCandidate, programs, kCallLimitNs, cancel));
  KC_RETURN_IF_ERROR(TaskStatus(*runner, taken, stage, cancel));
  return runner;
}

}  // namespace

absl::Status TaskStatus(const CudaRunner& runner, const CudaRunner::Answer& answer,
                        const std::string& stage, const CancelToken& cancel) {
  if (answer.ok()) return absl::OkStatus();
  if (answer.end == CudaRunner::End::kStopped) return cancel.Check();
  const std::string printed =
      SanitizeUtf8(std::string(TruncateUtf8Front(runner.output(), kKeptOutputBytes)));
  absl::Status failed =
      UnsupportedTask(absl::StrCat("failed (", stage, "): ", CudaRunner::FailureText(answer),
                                   printed.empty() ? "" : "; ", printed));
  if (answer.lacks_memory()) failed.SetPayload(kLacksMemoryUrl, absl::Cord());
  return failed;
}

bool LacksDeviceMemory(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || status.GetPayload(kLacksMemoryUrl).has_value();
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

// torch.cuda.Stream, getStreamFromPool, cudaStreamCreate
bool NamesStreams(const std::string& program) {
  return absl::StrContains(absl::AsciiStrToLower(program), "stream");
}

CudaRunnerOptions OptionsFor(const std::string& program, CudaRunnerOptions python) {
  python.several_streams = NamesStreams(program);
  return python;
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
  SecretRandom held_out("held-out cases");
  KC_ASSIGN_OR_RETURN(const SharedArena arena, SharedArena::Create(device, kDescriptionBytes));
  KC_RETURN_IF_ERROR(device.Check(
      device.api().MemsetD8Async(arena.address(), 0, kDescriptionBytes, device.stream()),
      "clearing memory"));
  KC_RETURN_IF_ERROR(device.Synchronize());
  Program program;
  KC_ASSIGN_OR_RETURN(program.outputs.emplace_back(),
                      TensorRecordOf(Bytes(kDescriptionBytes, DataType::kUint8), kOutputsArena, 0));
  KC_ASSIGN_OR_RETURN(
      const auto runner,
      StartTask(python, arena,
                PythonTaskPrograms::DescribeProgram(problem, held_out.Next()).content,
                std::span(&program, 1), stage, cancel));
  KC_RETURN_IF_ERROR(TaskStatus(*runner, RunCase(*runner, 0, cancel), stage, cancel));
  std::string text(kDescriptionBytes, '\0');
  KC_RETURN_IF_ERROR(
      device.Read(text.data(), arena.address(), text.size(), "reading a description"));
  return PythonTaskPrograms::Read(problem, text);
}

absl::Status WriteTaskWeights(const PythonTaskPrograms& task, const SharedArena& arena,
                              const CudaRunnerOptions& python, const CancelToken& cancel) {
  const std::string stage = "weights";
  Program program;
  const auto bytes = static_cast<int64_t>(task.weights_bytes());
  KC_ASSIGN_OR_RETURN(program.outputs.emplace_back(),
                      TensorRecordOf(Bytes(bytes, DataType::kUint8), kOutputsArena, 0));
  KC_ASSIGN_OR_RETURN(const auto runner, StartTask(python, arena, task.Weights().content,
                                                   std::span(&program, 1), stage, cancel));
  return TaskStatus(*runner, RunCase(*runner, 0, cancel), stage, cancel);
}

absl::StatusOr<std::unique_ptr<CudaTaskInputs>> CudaTaskInputs::Start(
    const PythonTaskPrograms& task, CudaDevice& device, const CudaRunnerOptions& python,
    const CancelToken& cancel) {
  std::unique_ptr<CudaTaskInputs> inputs(new CudaTaskInputs(device));
  std::vector<Program> programs;
  uint64_t most_bytes = 0;
  for (const TaskCase& one : task.cases()) {
    Program& program = programs.emplace_back();
    program.task_case = static_cast<uint32_t>(programs.size() - 1);
    KC_ASSIGN_OR_RETURN(program.inputs.emplace_back(),
                        TensorRecordOf(Bytes(1, DataType::kInt64), kOutputsArena, 0));
    uint64_t end = AlignTensor(sizeof(int64_t));
    KC_ASSIGN_OR_RETURN(inputs->places_.emplace_back(),
                        Arrange(one.inputs, kOutputsArena, end, program.outputs));
    most_bytes = std::max(most_bytes, end);
  }
  KC_ASSIGN_OR_RETURN(inputs->made_, SharedArena::Create(device, most_bytes));
  KC_ASSIGN_OR_RETURN(inputs->runner_, StartTask(python, inputs->made_, task.Inputs().content,
                                                 programs, "inputs", cancel));
  return inputs;
}

absl::Status CudaTaskInputs::Draw(size_t task_case, uint64_t seed, const CancelToken& cancel) {
  const auto bounded = static_cast<int64_t>(seed % kTaskSeeds);
  KC_RETURN_IF_ERROR(device_.Write(made_.address(), &bounded, sizeof(bounded), "writing a seed"));
  // Earlier draws are copied.
  KC_RETURN_IF_ERROR(device_.Synchronize());
  drawn_ = task_case;
  KC_RETURN_IF_ERROR(
      TaskStatus(*runner_, RunCase(*runner_, task_case, cancel, kDrawLimitNs), "inputs", cancel));
  return device_.Read(&flags_, made_.address(), sizeof(flags_), "reading flags");
}

absl::Status CudaTaskInputs::CopyTo(size_t tensor, CUdeviceptr to) {
  const CasePlan::Place& place = places_[drawn_][tensor];
  return device_.Copy(to, made_.address() + place.offset, place.bytes, "copying inputs");
}

absl::StatusOr<std::unique_ptr<CudaTaskChecker>> CudaTaskChecker::Start(
    const PythonTaskPrograms& task, CudaDevice& device, const CudaRunnerOptions& python,
    const CancelToken& cancel) {
  std::unique_ptr<CudaTaskChecker> checker(new CudaTaskChecker(device));
  std::vector<Program> programs;
  uint64_t most_bytes = 0;
  for (const TaskCase& one : task.cases()) {
    Program& program = programs.emplace_back();
    program.task_case = static_cast<uint32_t>(programs.size() - 1);
    std::vector<TensorLayout> layouts = one.inputs;
    layouts.insert(layouts.end(), one.outputs.begin(), one.outputs.end());
    uint64_t end = AlignTensor(kMessageBytes);
    KC_ASSIGN_OR_RETURN(checker->places_.emplace_back(),
                        Arrange(layouts, kOutputsArena, end, program.inputs));
    KC_ASSIGN_OR_RETURN(program.outputs.emplace_back(),
                        TensorRecordOf(Bytes(kMessageBytes, DataType::kUint8), kOutputsArena, 0));
    most_bytes = std::max(most_bytes, end);
  }
  KC_ASSIGN_OR_RETURN(checker->copies_, SharedArena::Create(device, most_bytes));
  KC_ASSIGN_OR_RETURN(checker->runner_, StartTask(python, checker->copies_, task.Checker().content,
                                                  programs, kCheckStage, cancel));
  return checker;
}

absl::StatusOr<std::optional<std::string>> CudaTaskChecker::Check(
    size_t task_case, std::span<const CUdeviceptr> tensors, const CancelToken& cancel) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const CasePlan::Place& place = places_[task_case][i];
    KC_RETURN_IF_ERROR(device_.Copy(copies_.address() + place.offset, tensors[i], place.bytes,
                                    "copying tensors to check"));
  }
  KC_RETURN_IF_ERROR(device_.Synchronize());
  const CudaRunner::Answer answer = RunCase(*runner_, task_case, cancel);
  if (answer.ok()) return std::optional<std::string>();
  if (answer.end != CudaRunner::End::kFailed ||
      answer.reply.failure != cuda_runner::Failure::kEntry) {
    return TaskStatus(*runner_, answer, kCheckStage, cancel);
  }
  std::string text(kMessageBytes, '\0');
  KC_RETURN_IF_ERROR(
      device_.Read(text.data(), copies_.address(), text.size(), "reading a message"));
  return std::optional<std::string>(SanitizeUtf8(text.substr(0, text.find('\0'))));
}

}  // namespace kernelcast::worker
