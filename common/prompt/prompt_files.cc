#include "common/prompt/prompt_files.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

constexpr size_t kMaxFileBytes = 256 << 10;
constexpr size_t kHashDigitsShown = 8;

absl::StatusOr<std::string> ReadText(const std::string& path) {
  KC_ASSIGN_OR_RETURN(std::string text, ReadTextFile(path));
  if (text.size() > kMaxFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": longer than ", kMaxFileBytes, " bytes"));
  }
  return text;
}

}  // namespace

const std::string& PromptFiles::Text(std::string_view name) const {
  static const std::string* const kNone = new std::string();
  const auto found = texts.find(name);
  return found == texts.end() ? *kNone : found->second;
}

std::vector<PromptFiles> PromptFolders(std::span<const EmbeddedFile> files) {
  std::vector<PromptFiles> folders;
  for (const EmbeddedFile& file : files) {
    if (folders.empty() || folders.back().folder != file.folder) {
      folders.emplace_back().folder = file.folder;
    }
    folders.back().texts.emplace(file.name, file.text);
  }
  return folders;
}

absl::StatusOr<PromptFiles> ReadPromptFolder(const std::string& directory,
                                             std::span<const std::string_view> names) {
  PromptFiles files;
  files.folder = std::filesystem::path(directory).filename().string();
  for (const std::string_view name : names) {
    KC_ASSIGN_OR_RETURN(std::string text,
                        ReadText(absl::StrCat(directory, "/", std::string(name))));
    files.texts.emplace(name, std::move(text));
  }
  return files;
}

absl::Status CheckPromptVersion(const std::string& version) {
  const size_t slash = version.find('/');
  if (slash == std::string::npos || !IsToken(version.substr(0, slash)) ||
      !IsToken(version.substr(slash + 1))) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(version), " is not of the form NAME/NUMBER"));
  }
  return absl::OkStatus();
}

std::string NamedPromptVersion(std::string_view version, std::string_view hash) {
  return absl::StrCat(std::string(version), "@", std::string(hash.substr(0, kHashDigitsShown)));
}

std::string_view WithoutPromptHash(std::string_view named_version) {
  return named_version.substr(0, named_version.find('@'));
}

}  // namespace kernelcast
