#include "common/domain/problem_files.h"

#include <algorithm>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

constexpr size_t kMaxPathBytes = 255;

// Checks that a path is relative, '/'-separated, and needs no quoting in a shell, a #line or a URL.
absl::Status CheckRelativePath(std::string_view path) {
  const auto invalid = [&](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat("path ", Quoted(path), " ", why));
  };
  if (path.empty()) return invalid("is empty");
  if (path.size() > kMaxPathBytes) {
    return invalid(absl::StrCat("is longer than ", kMaxPathBytes, " bytes"));
  }
  if (path[0] == '/') return invalid("is absolute; it must be relative to the problem's folder");
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part == "..") return invalid("leaves the problem's folder");
    if (part.empty() || part == ".") return invalid("has an empty or '.' part");
    begin = end + 1;
  }
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("_.-+/").find(c) != std::string_view::npos;
    if (!plain) return invalid("has a character other than letters, digits and _ . - + /");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status GivenFiles::Add(ProblemFile file) {
  KC_RETURN_IF_ERROR(CheckRelativePath(file.path));
  const std::string path = file.path;
  if (!files_.emplace(path, std::move(file.content)).second) {
    return absl::InvalidArgumentError(absl::StrCat("file ", Quoted(path), " occurs twice"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> GivenFiles::Read(const std::string& path) {
  const auto found = files_.find(path);
  if (found == files_.end()) return absl::InvalidArgumentError("is missing");
  return found->second;
}

absl::StatusOr<std::string> FolderFiles::Read(const std::string& path) {
  std::error_code error;
  const std::filesystem::path resolved = std::filesystem::canonical(folder_ / path, error);
  if (error) return absl::NotFoundError("does not exist");
  // A link may lead outside the folder even if the path does not.
  const auto [inside, unused] =
      std::mismatch(folder_.begin(), folder_.end(), resolved.begin(), resolved.end());
  if (inside != folder_.end()) {
    return absl::InvalidArgumentError("leaves the problem's folder");
  }
  if (!std::filesystem::is_regular_file(resolved, error)) {
    return absl::InvalidArgumentError("is not a regular file");
  }
  absl::StatusOr<std::string> content = ReadTextFile(resolved.string(), kMaxProblemBytes);
  if (content.ok()) return content;
  // The path is the caller's to name.
  return absl::IsInvalidArgument(content.status())
             ? absl::InvalidArgumentError(
                   absl::StrCat("has more than ", kMaxProblemBytes, " bytes"))
             : absl::NotFoundError("cannot be read");
}

absl::StatusOr<std::string> ProblemFileReader::ReadWhole(const std::string& path) {
  if (const auto known = files_.find(path); known != files_.end()) return known->second;
  KC_ASSIGN_OR_RETURN(std::string content, source_.Read(path));
  total_bytes_ += static_cast<int64_t>(content.size());
  if (total_bytes_ > kMaxProblemBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the files of the problem have more than ",
                                                   kMaxProblemBytes, " bytes in all"));
  }
  files_[path] = content;
  return content;
}

absl::StatusOr<std::string> ProblemFileReader::ReadNamed(const Cursor& at,
                                                         const std::string& folder,
                                                         std::string& path) {
  KC_ASSIGN_OR_RETURN(const std::string name, ReadText(at, kMaxPathBytes));
  path = folder + name;
  if (const absl::Status status = CheckRelativePath(name); !status.ok()) return Error(at, status);
  if (const absl::Status status = CheckRelativePath(path); !status.ok()) return Error(at, status);
  absl::StatusOr<std::string> content = ReadWhole(path);
  if (!content.ok()) {
    const absl::Status error =
        Error(at, absl::StrCat("file ", Quoted(path), ": ", content.status().message()));
    return absl::Status(content.status().code(), error.message());
  }
  return content;
}

absl::StatusOr<std::string> ProblemFileReader::ReadSource(const Cursor& at,
                                                          const std::string& folder,
                                                          std::string& path, int64_t max_bytes) {
  KC_ASSIGN_OR_RETURN(std::string source, ReadNamed(at, folder, path));
  const std::string file = "file " + Quoted(path);
  if (source.empty()) return Error(at, file + " is empty");
  if (static_cast<int64_t>(source.size()) > max_bytes) {
    return Error(at, absl::StrCat(file, " has ", source.size(), " bytes; at most ", max_bytes,
                                  " are allowed"));
  }
  if (!IsSourceText(source)) return Error(at, file + " is not UTF-8 text without NUL");
  return source;
}

}  // namespace kernelcast
