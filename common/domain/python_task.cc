#include "common/domain/python_task.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/base/utf8.h"
#include "common/domain/problem_files.h"
#include "common/domain/safetensors_file.h"
#include "common/domain/task_problem.h"
#include "common/domain/task_space.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

using Format = PythonTask::Format;

constexpr std::string_view kExtension = ".py";
constexpr size_t kMaxTaskName = 60;
constexpr size_t kMaxFileNameBytes = 255;

struct Definition {
  std::string_view line;
  std::string_view name;
};
constexpr Definition kKernelBench[] = {{"class Model(", "class Model"},
                                       {"def get_inputs(", "get_inputs()"},
                                       {"def get_init_inputs(", "get_init_inputs()"}};

// "19_ReLU" becomes "19_relu".
std::string NameOf(const std::string& title) {
  std::string name;
  for (const char c : title.substr(0, kMaxTaskName)) {
    const auto byte = static_cast<unsigned char>(c);
    name += absl::ascii_isalnum(byte) ? absl::ascii_tolower(byte) : '_';
  }
  return name.empty() ? "task" : name;
}

bool IsOfSpace(const ProblemFile& file) {
  return file.path.starts_with(kTaskSpaceFolder) && !file.path.ends_with(kSafetensorsExtension);
}

// The files without those of TaskOptions and of the space.
std::vector<ProblemFile> OwnFiles(std::vector<ProblemFile> files) {
  std::erase_if(files, [](const ProblemFile& file) {
    return file.path == kBaselineFile || file.path == kRulesFile || IsOfSpace(file);
  });
  return files;
}

// Returns nullopt if none of the files belongs to a space.
absl::StatusOr<std::optional<Space>> SpaceOf(const std::vector<ProblemFile>& files) {
  GivenFiles given;
  for (const ProblemFile& file : files) {
    if (IsOfSpace(file)) KC_RETURN_IF_ERROR(given.Add(file));
  }
  if (given.files().empty()) return std::optional<Space>();
  ProblemFileReader reader(given);
  KC_ASSIGN_OR_RETURN(Space space, ParseTaskSpace(reader));
  for (const auto& [path, content] : given.files()) {
    if (!reader.files_read().contains(path)) {
      return absl::InvalidArgumentError(
          absl::StrCat("file ", Quoted(path), " is not named by ", std::string(kTaskSpaceFile)));
    }
  }
  return std::optional<Space>(std::move(space));
}

// Returns which of the two words the file of a task option has, the first where there is no file.
absl::StatusOr<std::string> ReadOption(const std::vector<ProblemFile>& files, std::string_view path,
                                       std::string_view usual, std::string_view other) {
  const auto file = std::ranges::find(files, path, &ProblemFile::path);
  const std::string word(file == files.end() ? usual : Trim(file->content));
  if (word == usual || word == other) return word;
  return absl::InvalidArgumentError(absl::StrCat(std::string(path), ": is ", Quoted(word),
                                                 "; it must be ", std::string(usual), " or ",
                                                 std::string(other)));
}

bool IsKernelBench(const std::vector<ProblemFile>& files) {
  return files.size() == 1 && files[0].path.ends_with(kExtension);
}

absl::StatusOr<Problem> ParseKernelBenchTask(std::vector<ProblemFile> files) {
  const ProblemFile file = files[0];
  KC_RETURN_IF_ERROR(CheckTaskSource(file.path, file.content));
  for (const Definition& definition : kKernelBench) {
    if (!HasLine(file.content, definition.line)) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path, ": does not define ", std::string(definition.name),
                       "; a KernelBench task defines class Model(nn.Module), get_inputs() and "
                       "get_init_inputs() at its top level"));
    }
  }
  TaskParts parts;
  parts.title = PathStem(file.path);
  parts.task.format = Format::kKernelBench;
  parts.task.entries = {"ModelNew"};
  parts.task.file = file.path;
  parts.task.source = file.content;
  // A task has one shape, which no axis varies.
  parts.task.cases.emplace_back();
  parts.checked = {0};
  parts.timed = {0};
  return MakeTaskProblem(std::move(parts), std::move(files), "");
}

absl::StatusOr<Problem> ParseTaskFiles(std::vector<ProblemFile> files) {
  std::set<std::string> paths;
  for (const ProblemFile& file : files) {
    // Files of tensors have the paths that workloads give them. Nothing opens these.
    const bool has_path = file.path.ends_with(kSafetensorsExtension);
    if (file.path.empty() || (!has_path && file.path.find('/') != std::string::npos)) {
      return absl::InvalidArgumentError(
          absl::StrCat("file ", Quoted(file.path), " is not in the task's folder"));
    }
    // Messages name the file.
    if (file.path.size() > kMaxFileNameBytes || !IsValidUtf8(file.path) ||
        std::ranges::any_of(file.path, absl::ascii_iscntrl)) {
      return absl::InvalidArgumentError(
          absl::StrCat("file ", Quoted(file.path), " has a name that is not UTF-8, has a control ",
                       "character or is longer than ", kMaxFileNameBytes, " bytes"));
    }
    if (!paths.insert(file.path).second) {
      return absl::InvalidArgumentError(absl::StrCat("file ", Quoted(file.path), " occurs twice"));
    }
  }
  std::ranges::sort(files, {}, &ProblemFile::path);
  if (IsKernelBench(files)) return ParseKernelBenchTask(std::move(files));
  if (IsGpuMode(files)) return ParseGpuModeTask(std::move(files));
  if (IsSolExecBench(files)) return ParseDefinitionTask(Format::kSolExecBench, std::move(files));
  if (IsFlashInferBench(files)) {
    return ParseDefinitionTask(Format::kFlashInferBench, std::move(files));
  }
  return absl::InvalidArgumentError("the files are no task of a known format");
}

std::string BoundText(const Tolerance& tolerance) {
  const std::string atol = NumberText(tolerance.atol);
  const std::string rtol = NumberText(tolerance.rtol);
  return tolerance.larger_of_both ? absl::StrCat("with an absolute error of at most ", atol,
                                                 " or a relative error of at most ", rtol)
                                  : absl::StrCat("within ", atol, " + ", rtol, " * abs(expected)");
}

}  // namespace

std::string_view Name(Format format) {
  switch (format) {
    case Format::kKernelBench: return "kernelbench";
    case Format::kFlashInferBench: return "flashinfer_bench";
    case Format::kSolExecBench: return "sol_execbench";
    case Format::kGpuMode: return "gpu_mode";
    case Format::kGpuModeEval: return "gpu_mode_eval";
  }
  return "unknown";
}

std::string_view ReferenceName(Format format) {
  switch (format) {
    case Format::kKernelBench: return "Model";
    case Format::kFlashInferBench:
    case Format::kSolExecBench: return "run";
    case Format::kGpuMode: return "ref_kernel";
    case Format::kGpuModeEval: return "";
  }
  return "";
}

bool HasChecker(Format format) {
  return format == Format::kGpuMode || format == Format::kGpuModeEval;
}

bool IsPythonTask(const std::vector<ProblemFile>& all_files) {
  const std::vector<ProblemFile> files = OwnFiles(all_files);
  return IsKernelBench(files) || IsGpuMode(files) || IsSolExecBench(files) ||
         IsFlashInferBench(files);
}

absl::StatusOr<Problem> WithOptions(const Problem& problem, const TaskOptions& options) {
  if (!problem.task) {
    return absl::InvalidArgumentError(
        absl::StrCat("problem ", problem.name,
                     " is no PyTorch task: it has one baseline, and tolerances of its own"));
  }
  std::vector<ProblemFile> files = problem.files;
  const auto set = [&](std::string_view path, const std::string& word, std::string_view usual) {
    if (word.empty()) return;
    std::erase_if(files, [&](const ProblemFile& file) { return file.path == path; });
    if (word != usual) files.push_back({std::string(path), word});
  };
  set(kBaselineFile, options.baseline, kEagerBaseline);
  set(kRulesFile, options.rules, kAllRules);
  return ParsePythonTask(std::move(files));
}

absl::StatusOr<Problem> ParsePythonTask(std::vector<ProblemFile> files) {
  KC_ASSIGN_OR_RETURN(const std::string baseline,
                      ReadOption(files, kBaselineFile, kEagerBaseline, kCompiledBaseline));
  KC_ASSIGN_OR_RETURN(const std::string rules,
                      ReadOption(files, kRulesFile, kAllRules, kTaskRules));
  std::vector<ProblemFile> own = OwnFiles(files);
  if (own.size() == files.size()) return ParseTaskFiles(std::move(files));
  KC_ASSIGN_OR_RETURN(Problem problem, ParseTaskFiles(std::move(own)));
  problem.task->compiled_baseline = baseline == kCompiledBaseline;
  problem.task->task_rules_only = rules == kTaskRules;
  KC_ASSIGN_OR_RETURN(problem.targets.at(std::string(kCudaTargetName)).space, SpaceOf(files));
  std::ranges::sort(files, {}, &ProblemFile::path);
  problem.problem_id = ProblemId(files);
  problem.files = std::move(files);
  return problem;
}

Problem MakeTaskProblem(TaskParts parts, std::vector<ProblemFile> files,
                        const std::string& axis_name) {
  std::vector<PythonTask::Case>& cases = parts.task.cases;
  std::set<AxisValues> different;
  for (const PythonTask::Case& one : cases) different.insert(one.axes);
  for (size_t i = 0; i < cases.size() && different.size() < cases.size(); ++i) {
    cases[i].axes[axis_name] = static_cast<int64_t>(i);
  }
  Problem problem;
  problem.problem_id = ProblemId(files);
  problem.name = NameOf(parts.title);
  problem.title = std::move(parts.title);
  problem.description = std::move(parts.description);
  problem.family = parts.family.empty() ? "pytorch" : std::move(parts.family);
  for (const size_t i : parts.checked) problem.check_shapes.push_back(cases[i].axes);
  for (const size_t i : parts.timed) problem.bench_shapes.push_back(cases[i].axes);
  ProblemTarget target;
  target.kind = CandidateKind::kPython;
  target.reference.file = parts.task.file;
  target.reference.source = parts.task.source;
  target.check_shapes = problem.check_shapes;
  target.bench_shapes = problem.bench_shapes;
  problem.targets.emplace(kCudaTargetName, target);
  problem.targets.emplace(kCpuTargetName, std::move(target));
  problem.task = std::move(parts.task);
  problem.files = std::move(files);
  return problem;
}

std::vector<size_t> Spread(const std::vector<size_t>& items, size_t most) {
  if (items.size() <= most || most < 2) return items;
  std::vector<size_t> spread;
  for (size_t i = 0; i < most; ++i) {
    spread.push_back(items[i * (items.size() - 1) / (most - 1)]);
  }
  return spread;
}

absl::Status CheckTaskSource(const std::string& file, const std::string& content) {
  if (!IsSourceText(content)) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": is not UTF-8 text"));
  }
  if (std::ssize(content) > kMaxSourceBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": has ", content.size(), " bytes; at most ", kMaxSourceBytes));
  }
  return absl::OkStatus();
}

bool HasLine(std::string_view source, std::string_view text) {
  return source.starts_with(text) ||
         source.find(absl::StrCat("\n", std::string(text))) != std::string_view::npos;
}

std::string PathStem(const std::string& path) { return path.substr(0, path.rfind('.')); }

const std::string* FindFile(const std::vector<ProblemFile>& files, std::string_view path) {
  const auto found = std::ranges::find(files, path, &ProblemFile::path);
  return found == files.end() ? nullptr : &found->content;
}

Tolerance TaskTolerance(const PythonTask& task, const PythonTask::Case& task_case, DataType dtype) {
  if (task_case.tolerance) return *task_case.tolerance;
  const bool narrow = dtype == DataType::kFloat16 || dtype == DataType::kBfloat16 ||
                      dtype == DataType::kFloat8E4m3 || dtype == DataType::kFloat8E5m2;
  if (HasChecker(task.format)) {
    const double bound = narrow ? 5e-2 : 1e-2;
    return {.atol = bound, .rtol = bound, .nan_agrees = true};
  }
  // KernelBench, eval.py: get_tolerance_for_precision.
  const double bound = narrow ? 1e-2 : 1e-4;
  return {.atol = bound, .rtol = bound, .normwise = 0, .scaled = false};
}

std::string RuleText(Format format, const Tolerance& tolerance) {
  const std::string name(Name(format));
  if (format == Format::kGpuMode) {
    return absl::StrCat(name, ": check_implementation accepts every output");
  }
  if (format == Format::kGpuModeEval) {
    return absl::StrCat(name, ": the task's own program reports a pass for these outputs");
  }
  std::string text = absl::StrCat(
      name, ": ",
      tolerance.matched_ratio < 1
          ? absl::StrCat("at least ", NumberText(100 * tolerance.matched_ratio), "% of elements ")
          : std::string("every element "),
      BoundText(tolerance));
  if (tolerance.max_error > 0) {
    absl::StrAppend(&text, ", none off by more than ", NumberText(tolerance.max_error));
  }
  if (tolerance.own_error) {
    absl::StrAppend(&text, "; or kernelcast: an error against float64 of at most ",
                    NumberText(kOwnErrors), " times the reference's own");
  }
  return text;
}

}  // namespace kernelcast
