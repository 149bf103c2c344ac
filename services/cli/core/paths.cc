#include "services/cli/core/paths.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/domain/task_files.h"
#include "common/domain/text.h"

namespace kernelcast::cli {
namespace {

namespace fs = std::filesystem;

// Whether the folder is a problem or a task.
bool HoldsProblem(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / "problem.yaml", error) ||
         (fs::is_directory(folder, error) && IsTaskPath(folder.string()));
}

}  // namespace

Environment ProcessEnvironment() {
  return [](const std::string& name) -> std::string {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? "" : value;
  };
}

absl::StatusOr<std::string> DefaultStateDir(const Environment& environment) {
  if (const std::string state = environment("XDG_STATE_HOME"); !state.empty() && state[0] == '/') {
    return state + "/kernelcast";
  }
  if (const std::string home = environment("HOME"); !home.empty()) {
    return home + "/.local/state/kernelcast";
  }
  return absl::FailedPreconditionError(
      "neither XDG_STATE_HOME nor HOME is set; choose a state folder with --state-dir");
}

absl::StatusOr<std::unique_ptr<ScratchFolder>> ScratchFolder::Make() {
  std::error_code error;
  std::string path = (fs::temp_directory_path(error) / "kernelcast-XXXXXX").string();
  if (error || mkdtemp(path.data()) == nullptr) {
    return absl::PermissionDeniedError(absl::StrCat("cannot make a temporary folder: ", path));
  }
  return std::unique_ptr<ScratchFolder>(new ScratchFolder(path));
}

ScratchFolder::~ScratchFolder() {
  std::error_code error;
  fs::remove_all(path_, error);
}

std::string ProgramFolder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return error ? std::string(".") : program.parent_path().string();
}

std::string EnvironmentPython(const std::string& program_folder) {
  if (!program_folder.ends_with("/lib/kernelcast/bin")) return "";
  const fs::path environment = fs::path(program_folder).parent_path().parent_path().parent_path();
  std::vector<fs::path> candidates = {environment / "bin/python3"};
  if (environment.filename() == "local") {
    candidates.push_back(environment.parent_path() / "bin/python3");
  }
  std::error_code error;
  for (const fs::path& python : candidates) {
    if (fs::exists(python, error)) return python.string();
  }
  return "";
}

std::vector<std::string> ProblemFolders(const Environment& environment,
                                        const std::string& program_folder) {
  std::vector<std::string> folders;
  const std::string listed = environment("KERNELCAST_PROBLEMS");
  for (size_t start = 0; start <= listed.size();) {
    const size_t end = std::min(listed.find(':', start), listed.size());
    if (end > start) folders.push_back(listed.substr(start, end - start));
    start = end + 1;
  }
  folders.push_back("examples/problems");
  folders.push_back(
      (fs::path(program_folder) / ".." / "share" / "kernelcast" / "problems").lexically_normal());
  return folders;
}

absl::StatusOr<std::string> FindProblemFolder(const std::string& argument,
                                              const std::vector<std::string>& folders) {
  std::error_code error;
  if (HoldsProblem(argument)) return argument;
  const fs::path path(argument);
  if (fs::is_regular_file(path, error) && path.filename() == "problem.yaml") {
    return path.has_parent_path() ? path.parent_path().string() : std::string(".");
  }
  const std::string file = path.filename().string();
  if (fs::is_regular_file(path, error) && (file == "task.yml" || file == "definition.json")) {
    return path.has_parent_path() ? path.parent_path().string() : std::string(".");
  }
  if (IsTaskPath(argument)) return argument;
  if (path.extension() == ".py" || path.extension() == ".json") {
    return absl::NotFoundError(absl::StrCat("there is no file '", argument, "'"));
  }
  if (fs::is_directory(path, error)) {
    return absl::NotFoundError(absl::StrCat(
        "'", argument, "' holds no problem.yaml, task.yml, or definition.json and workload.jsonl"));
  }
  if (argument.find('/') != std::string::npos) {
    return absl::NotFoundError(absl::StrCat("there is no folder '", argument, "'"));
  }
  std::vector<std::string> known;
  for (const std::string& folder : folders) {
    if (!argument.empty() && HoldsProblem(fs::path(folder) / argument)) {
      return (fs::path(folder) / argument).string();
    }
    for (const std::string& name : ListProblems(folder)) known.push_back(name);
  }
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  std::string message = absl::StrCat("no problem '", argument, "' in ");
  for (const std::string& folder : folders) {
    absl::StrAppend(&message, &folder == &folders.front() ? "" : ", ", folder);
  }
  if (const std::string near = NearestWord(argument, known); !near.empty()) {
    absl::StrAppend(&message, "; did you mean '", near, "'?");
  } else if (!known.empty()) {
    absl::StrAppend(&message, "; there are: ", CommaList(known));
  } else {
    absl::StrAppend(&message, "; KERNELCAST_PROBLEMS may name other folders");
  }
  return absl::NotFoundError(message);
}

std::string FileNameFor(const std::string& name) {
  constexpr size_t kMaxLength = 100;
  std::string file;
  for (const char c : name.substr(0, kMaxLength)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || (c == '.' && !file.empty());
    file += plain ? c : '_';
  }
  if (file == name && !name.empty()) return file;
  return absl::StrCat(file, "-", ContentHasher().Add(name).Hex128().substr(0, 16));
}

std::vector<std::string> ListProblems(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (HoldsProblem(entry.path())) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace kernelcast::cli
