#ifndef KERNELCAST_COMMON_PROMPT_PROMPT_FILES_H_
#define KERNELCAST_COMMON_PROMPT_PROMPT_FILES_H_

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast {

// A file of a prompt's folder, as it was when the program was built. CMake's
// kernelcast_embed_prompts makes lists of them.
struct EmbeddedFile {
  std::string_view folder;
  std::string_view name;
  std::string_view text;
};

// The texts that a prompt consists of, by file name.
struct PromptFiles {
  // Last part of the folder's path.
  std::string folder;
  std::map<std::string, std::string, std::less<>> texts;

  // Empty where there is no such file.
  const std::string& Text(std::string_view name) const;
};

// In the order of the list, whose files of one folder stand together.
std::vector<PromptFiles> PromptFolders(std::span<const EmbeddedFile> files);

// The named files of a folder. NOT_FOUND: a file is missing. INVALID_ARGUMENT: one is too long.
[[nodiscard]] absl::StatusOr<PromptFiles> ReadPromptFolder(const std::string& directory,
                                                           std::span<const std::string_view> names);

// INVALID_ARGUMENT: not of the form NAME/NUMBER.
[[nodiscard]] absl::Status CheckPromptVersion(const std::string& version);

// "speedup-bins/1@0123abcd": a version, and the first digits of the hash of all that it stands for.
std::string NamedPromptVersion(std::string_view version, std::string_view hash);
// "speedup-bins/1" of that.
std::string_view WithoutPromptHash(std::string_view named_version);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_PROMPT_PROMPT_FILES_H_
