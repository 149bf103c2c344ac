#include "services/worker/python/launch_recorder.h"

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/domain/python_task.h"
#include "nlohmann/json.hpp"
#include "services/worker/native/toolchain.h"

namespace kernelcast::worker {
namespace {

constexpr const char* kRequestFile = "request.json";
constexpr const char* kResultFile = "result.json";
// Libraries of CUDA alone take several GiB of addresses.
constexpr CompilerLimits kRecorderLimits = {.timeout_ns = 60'000'000'000,
                                            .max_memory_bytes = int64_t{24} << 30,
                                            .max_file_bytes = kMaxRecordingBytes};

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

}  // namespace

LaunchRecorder::LaunchRecorder(PythonInterpreter python, CompilerSandbox sandbox,
                               std::string work_directory)
    : python_(std::move(python)),
      sandbox_(std::move(sandbox)),
      work_directory_(std::move(work_directory)) {
  sandbox_.read_only = python_.read_only;
}

absl::StatusOr<Recording> LaunchRecorder::Record(const PythonTask& task, size_t case_index,
                                                 const std::string& source, const RecordedGpu& gpu,
                                                 const CancelToken& cancel) const {
  KC_RETURN_IF_ERROR(cancel.Check());
  nlohmann::json request;
  request["role"] = source == task.source ? "reference" : "candidate";
  request["format"] = Name(task.format);
  request["task"] = task.source;
  request["details"] = task.details;
  request["candidate"] = source;
  request["case"] = case_index;
  request["gpu"] = {{"name", gpu.name},
                    {"multiprocessors", gpu.multiprocessors},
                    {"capability", {gpu.capability_major, gpu.capability_minor}}};
  KC_ASSIGN_OR_RETURN(const WorkFolder folder, WorkFolder::Make(work_directory_, sandbox_.uid));
  KC_RETURN_IF_ERROR(folder.Write(kRequestFile, request.dump()));
  std::vector<std::string> argv = {
      python_.program,       "-I",         "-S",        "-W", "ignore", "-c",
      kPythonLaunchRecorder, kRequestFile, kResultFile,
  };
  argv.insert(argv.end(), python_.packages.begin(), python_.packages.end());
  std::vector<std::string> environment = CompilerEnvironment(folder.path());
  for (const char* threads : {"OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "MKL_NUM_THREADS=1"}) {
    environment.emplace_back(threads);
  }
  KC_ASSIGN_OR_RETURN(
      const CompilerStep step,
      RunCompilerStep(sandbox_, argv, environment, folder.path(), kRecorderLimits, cancel));
  const std::optional<std::string> text = folder.Read(kResultFile);
  if (!step.ok || !text) {
    return NotRecorded(absl::StrCat("the recorder ended: ", std::string(LastLine(step.log))));
  }
  auto recording = ReadRecording(*text);
  if (!recording.ok()) return NotRecorded(std::string(recording.status().message()));
  return recording;
}

}  // namespace kernelcast::worker
