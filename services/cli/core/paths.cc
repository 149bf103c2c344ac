#include "services/cli/core/paths.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/domain/task_files.h"
#include "common/domain/text.h"

namespace kernelcast::cli {
namespace {

namespace fs = std::filesystem;

bool HoldsProblem(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / "problem.yaml", error);
}

absl::Status FileError(int code, const std::string& what) {
  const std::string message = absl::StrCat(what, ": ", std::strerror(code));
  switch (code) {
    case ENOENT:
    case ENOTDIR: return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case EROFS: return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT: return absl::ResourceExhaustedError(message);
    default: return absl::InternalError(message);
  }
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

std::string ProgramFolder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return error ? std::string(".") : program.parent_path().string();
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

absl::Status MakeFolders(const std::string& folder) {
  if (folder.empty()) return absl::OkStatus();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return FileError(error.value(), absl::StrCat("cannot make the folder ", folder));
  return absl::OkStatus();
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view content) {
  KC_RETURN_IF_ERROR(MakeFolders(fs::path(path).parent_path().string()));
  const std::string temporary = absl::StrCat(path, ".", static_cast<int>(getpid()), ".partial");
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return FileError(errno, absl::StrCat("cannot write ", path));
  while (!content.empty()) {
    const ssize_t written = write(file, content.data(), content.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      const int code = errno;
      close(file);
      unlink(temporary.c_str());
      return FileError(code, absl::StrCat("cannot write ", path));
    }
    content.remove_prefix(static_cast<size_t>(written));
  }
  close(file);
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    const int code = errno;
    unlink(temporary.c_str());
    return FileError(code, absl::StrCat("cannot write ", path));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return FileError(errno, absl::StrCat("cannot read ", path));
  std::string content;
  std::string buffer(64 << 10, '\0');
  for (;;) {
    const ssize_t count = read(file, buffer.data(), buffer.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      const int code = errno;
      close(file);
      return FileError(code, absl::StrCat("cannot read ", path));
    }
    if (count == 0) break;
    content.append(buffer, 0, static_cast<size_t>(count));
    if (static_cast<int64_t>(content.size()) > max_bytes) {
      close(file);
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": larger than ", max_bytes, " bytes, the most that is allowed"));
    }
  }
  close(file);
  DropByteOrderMark(content);
  return content;
}

}  // namespace kernelcast::cli
