#include "common/domain/python_task.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/utf8.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

constexpr std::string_view kExtension = ".py";
constexpr size_t kMaxTaskName = 60;

// Whether a line at the source's top level starts with `text`.
bool HasLine(std::string_view source, std::string_view text) {
  return source.starts_with(text) ||
         source.find(absl::StrCat("\n", std::string(text))) != std::string_view::npos;
}

struct Definition {
  std::string_view line;
  std::string_view name;
};
constexpr Definition kKernelBench[] = {{"class Model(", "class Model"},
                                       {"def get_inputs(", "get_inputs()"},
                                       {"def get_init_inputs(", "get_init_inputs()"}};

std::string Stem(const std::string& path) {
  return path.substr(0, path.size() - kExtension.size());
}

// "19_ReLU" becomes "19_relu".
std::string NameOf(const std::string& stem) {
  std::string name;
  for (const char c : stem.substr(0, kMaxTaskName)) {
    const auto byte = static_cast<unsigned char>(c);
    name += absl::ascii_isalnum(byte) ? absl::ascii_tolower(byte) : '_';
  }
  return name.empty() ? "task" : name;
}

}  // namespace

std::string_view Name(PythonTask::Format format) {
  switch (format) {
    case PythonTask::Format::kKernelBench: return "kernelbench";
  }
  return "unknown";
}

std::string_view CandidateName(PythonTask::Format format) {
  switch (format) {
    case PythonTask::Format::kKernelBench: return "ModelNew";
  }
  return "";
}

std::string_view ReferenceName(PythonTask::Format format) {
  switch (format) {
    case PythonTask::Format::kKernelBench: return "Model";
  }
  return "";
}

bool IsPythonTask(const std::vector<ProblemFile>& files) {
  return files.size() == 1 && files[0].path.ends_with(kExtension);
}

absl::StatusOr<Problem> ParsePythonTask(std::vector<ProblemFile> files) {
  if (!IsPythonTask(files)) return absl::InvalidArgumentError("a task is one file NAME.py");
  const ProblemFile& file = files[0];
  if (file.path.find('/') != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("file ", Quoted(file.path), " is not in the task's folder"));
  }
  if (!IsValidUtf8(file.content) || file.content.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(file.path, ": is not UTF-8 text"));
  }
  for (const Definition& definition : kKernelBench) {
    if (!HasLine(file.content, definition.line)) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path, ": does not define ", std::string(definition.name),
                       "; a KernelBench task defines class Model(nn.Module), get_inputs() and "
                       "get_init_inputs() at its top level"));
    }
  }
  if (std::ssize(file.content) > kMaxSourceBytes) {
    return absl::InvalidArgumentError(absl::StrCat(file.path, ": has ", file.content.size(),
                                                   " bytes; at most ", kMaxSourceBytes));
  }
  Problem problem;
  problem.problem_id = ProblemId(files);
  const std::string stem = Stem(file.path);
  problem.name = NameOf(stem);
  problem.title = stem;
  problem.family = "pytorch";
  problem.task = PythonTask{PythonTask::Format::kKernelBench, file.path, file.content};
  // A task has one shape, which no axis varies.
  problem.check_shapes = {AxisValues()};
  problem.bench_shapes = {AxisValues()};
  ProblemTarget target;
  target.kind = CandidateKind::kPython;
  target.reference.file = file.path;
  target.reference.source = file.content;
  target.check_shapes = problem.check_shapes;
  target.bench_shapes = problem.bench_shapes;
  problem.targets.emplace(kCpuTargetName, std::move(target));
  problem.files = std::move(files);
  return problem;
}

Tolerance TaskTolerance(PythonTask::Format, DataType dtype) {
  const bool narrow = dtype == DataType::kFloat16 || dtype == DataType::kBfloat16 ||
                      dtype == DataType::kFloat8E4m3 || dtype == DataType::kFloat8E5m2;
  // KernelBench, eval.py: get_tolerance_for_precision.
  const double bound = narrow ? 1e-2 : 1e-4;
  return {.atol = bound, .rtol = bound, .normwise = 0, .scaled = false};
}

}  // namespace kernelcast
