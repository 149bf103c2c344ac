#include "services/worker/cuda/language/pytorch/launch_recorder.h"

#include <string_view>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/domain/python_task.h"
#include "nlohmann/json.hpp"
#include "services/worker/cuda/compiler/wire.h"

namespace kernelcast::worker {
namespace {

Recording NotRecorded(std::string_view why) {
  Recording recording;
  const std::string clean = SanitizeUtf8(std::string(why));
  recording.not_recorded = std::string(TruncateUtf8(clean, kMaxReasonBytes));
  return recording;
}

std::string_view LastLine(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  const size_t end = text.rfind('\n');
  return end == std::string_view::npos ? text : text.substr(end + 1);
}

CompileServerOptions RecorderOptions(PythonInterpreter python, CompilerSandbox sandbox,
                                     std::string work_directory) {
  CompileServerOptions options;
  options.compiler = "recorder";
  options.program = kPythonLaunchRecorder;
  options.python = std::move(python);
  options.sandbox = std::move(sandbox);
  options.work_directory = std::move(work_directory);
  // Libraries of CUDA alone take several GiB of addresses.
  options.max_memory_bytes = int64_t{24} << 30;
  options.max_reply_bytes = kMaxRecordingBytes;
  // A recording takes less than one second. The candidate is measured only after it.
  options.timeout_ns = 10'000'000'000;
  return options;
}

}  // namespace

LaunchRecorder::LaunchRecorder(PythonInterpreter python, CompilerSandbox sandbox,
                               std::string work_directory)
    : server_(RecorderOptions(std::move(python), std::move(sandbox), std::move(work_directory))) {}

absl::StatusOr<LaunchRecorder::Answer> LaunchRecorder::Ask(const PythonTask& task, const char* role,
                                                           size_t case_index,
                                                           const std::string& candidate,
                                                           const RecordedGpu& gpu,
                                                           const CancelToken& cancel) {
  nlohmann::json request;
  request["role"] = role;
  request["format"] = Name(task.format);
  request["task"] = task.source;
  request["details"] = task.details;
  request["candidate"] = candidate;
  request["case"] = case_index;
  request["gpu"] = {{"name", gpu.name},
                    {"multiprocessors", gpu.multiprocessors},
                    {"capability", {gpu.capability_major, gpu.capability_minor}}};
  compiler_wire::Encoder fields;
  fields.Text(request.dump());
  KC_ASSIGN_OR_RETURN(const CompileServer::Outcome outcome,
                      server_.Compile(fields.TakeFields(), cancel));
  if (const auto* const error = std::get_if<CompileError>(&outcome)) {
    return Answer{"", absl::StrCat("the recorder ended: ", std::string(LastLine(error->log)))};
  }
  compiler_wire::Decoder answer(std::get<std::string>(outcome));
  return Answer{std::string(answer.Text()), ""};
}

absl::StatusOr<Recording> LaunchRecorder::Record(const PythonTask& task, size_t case_index,
                                                 const std::string& source, const RecordedGpu& gpu,
                                                 const CancelToken& cancel) {
  const char* const role = source == task.source ? "reference" : "candidate";
  KC_ASSIGN_OR_RETURN(const Answer answer, Ask(task, role, case_index, source, gpu, cancel));
  if (!answer.not_recorded.empty()) return NotRecorded(answer.not_recorded);
  auto recording = ReadRecording(answer.text);
  if (!recording.ok()) return NotRecorded(std::string(recording.status().message()));
  return recording;
}

absl::StatusOr<PythonTaskPrograms> LaunchRecorder::Describe(const Problem& problem,
                                                            const RecordedGpu& gpu,
                                                            const CancelToken& cancel) {
  KC_ASSIGN_OR_RETURN(const Answer answer, Ask(*problem.task, "describe", 0, "", gpu, cancel));
  std::string why = answer.not_recorded;
  const nlohmann::json json = ParseBoundedJson(answer.text);
  if (json.is_object() && json.contains("not_recorded") && json["not_recorded"].is_string()) {
    why = json["not_recorded"].get<std::string>();
  }
  if (!why.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the sizes of the task's tensors are not known without a GPU: ",
                     NotRecorded(why).not_recorded));
  }
  return PythonTaskPrograms::Read(problem, answer.text);
}

}  // namespace kernelcast::worker
