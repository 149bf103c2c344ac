#include "common/domain/task_files.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/domain/problem_files.h"
#include "common/domain/task_problem.h"
#include "common/domain/task_space.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

namespace fs = std::filesystem;

// The reference solution in a folder of GPU MODE.
constexpr char kSolution[] = "submission.py";

bool IsFile(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

absl::StatusOr<ProblemFile> ReadTaskFile(const fs::path& path, const std::string& name) {
  if (!IsFile(path)) {
    return absl::NotFoundError(absl::StrCat("there is no file ", Quoted(path.string(), 255)));
  }
  KC_ASSIGN_OR_RETURN(std::string content, ReadTextFile(path.string(), kMaxProblemBytes));
  return ProblemFile{name, std::move(content)};
}

// Where flashinfer-bench keeps the workloads of a definition.
absl::StatusOr<fs::path> WorkloadsOf(const fs::path& definition) {
  fs::path beside = definition;
  beside.replace_extension(".jsonl");
  fs::path elsewhere;
  bool replaced = false;
  for (const fs::path& part : beside) {
    const bool here = !replaced && part == "definitions";
    elsewhere /= here ? fs::path("workloads") : part;
    replaced = replaced || here;
  }
  for (const fs::path& path : {elsewhere, beside}) {
    if (IsFile(path)) return path;
  }
  return absl::NotFoundError(
      absl::StrCat("no workloads of ", Quoted(definition.string(), 255), ": there is no file ",
                   replaced ? absl::StrCat(Quoted(elsewhere.string(), 255), " or ") : "",
                   Quoted(beside.string(), 255)));
}

// Adds the files of tensors that the workloads name. `root` is the folder of relative paths.
absl::Status AddTensorFiles(const fs::path& root, std::vector<ProblemFile>& files) {
  for (const std::string& path : TensorFilesOf(files.back().content)) {
    KC_ASSIGN_OR_RETURN(files.emplace_back(), ReadTaskFile(root / path, path));
  }
  return absl::OkStatus();
}

// The folder of a flashinfer-bench data set, above "definitions"; or that of the definition.
fs::path DataSetOf(const fs::path& definition) {
  fs::path root;
  for (const fs::path& part : definition) {
    if (part == "definitions") return root;
    root /= part;
  }
  return definition.parent_path();
}

absl::StatusOr<std::vector<ProblemFile>> ReadGpuModeFolder(const fs::path& folder) {
  std::vector<ProblemFile> files(1);
  KC_ASSIGN_OR_RETURN(files[0], ReadTaskFile(folder / "task.yml", "task.yml"));
  KC_ASSIGN_OR_RETURN(const GpuModeFiles named, ReadGpuModeFiles(files[0].content));
  const auto read = [&](const GpuModeFile& file) -> absl::Status {
    KC_ASSIGN_OR_RETURN(files.emplace_back(), ReadTaskFile(folder / file.source, file.name));
    return absl::OkStatus();
  };
  for (const GpuModeFile& file : named.modules) KC_RETURN_IF_ERROR(read(file));
  if (!NeedsGpuModeProgram(files)) return files;
  for (const GpuModeFile& file : {named.program, GpuModeFile{kSolution, kSolution}}) {
    // Without it the task is refused, with a reason.
    if (!file.name.empty() && IsFile(folder / file.source)) KC_RETURN_IF_ERROR(read(file));
  }
  return files;
}

// Adds the files of the task's space, if the folder has one.
absl::Status AddSpaceFiles(const fs::path& folder, std::vector<ProblemFile>& files) {
  if (!IsFile(folder / kTaskSpaceFile)) return absl::OkStatus();
  std::error_code error;
  FolderFiles source(fs::canonical(folder, error));
  if (error) return absl::NotFoundError(absl::StrCat("no folder ", Quoted(folder.string(), 255)));
  ProblemFileReader reader(source);
  KC_RETURN_IF_ERROR(ParseTaskSpace(reader).status());
  for (const auto& [path, content] : reader.files_read()) files.push_back({path, content});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ProblemFile>> ReadSolExecBenchFolder(const fs::path& folder) {
  std::vector<ProblemFile> files(1);
  KC_ASSIGN_OR_RETURN(files[0], ReadTaskFile(folder / "definition.json", "definition.json"));
  for (const char* const name : {"reference.py", "workload.jsonl"}) {
    if (!IsFile(folder / name)) continue;
    KC_ASSIGN_OR_RETURN(files.emplace_back(), ReadTaskFile(folder / name, name));
  }
  KC_RETURN_IF_ERROR(AddTensorFiles(folder, files));
  return files;
}

}  // namespace

bool IsTaskPath(const std::string& argument) {
  const fs::path path(argument);
  if (path.extension() == ".py" || path.extension() == ".json") return IsFile(path);
  return IsFile(path / "task.yml") ||
         (IsFile(path / "definition.json") && IsFile(path / "workload.jsonl"));
}

absl::StatusOr<std::vector<ProblemFile>> ReadTaskFiles(const std::string& argument) {
  const fs::path path(argument);
  std::vector<ProblemFile> files;
  const bool gpu_mode = IsFile(path / "task.yml");
  if (gpu_mode || IsFile(path / "definition.json")) {
    KC_ASSIGN_OR_RETURN(files, gpu_mode ? ReadGpuModeFolder(path) : ReadSolExecBenchFolder(path));
    KC_RETURN_IF_ERROR(AddSpaceFiles(path, files));
    return files;
  }
  files.resize(1);
  KC_ASSIGN_OR_RETURN(files[0], ReadTaskFile(path, path.filename().string()));
  if (path.extension() == ".json") {
    KC_ASSIGN_OR_RETURN(const fs::path workloads, WorkloadsOf(path));
    KC_ASSIGN_OR_RETURN(files.emplace_back(),
                        ReadTaskFile(workloads, workloads.filename().string()));
    KC_RETURN_IF_ERROR(AddTensorFiles(DataSetOf(path), files));
  }
  return files;
}

}  // namespace kernelcast
