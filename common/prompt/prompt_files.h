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

// A file of a prompt's folder, embedded at build time. CMake's kernelcast_embed_prompts generates
// lists of them.
struct EmbeddedFile {
  std::string_view folder;
  std::string_view name;
  std::string_view text;
};

// The texts of a prompt, by file name.
struct PromptFiles {
  // Last part of the folder's path.
  std::string folder;
  std::map<std::string, std::string, std::less<>> texts;

  // Empty if there is no such file.
  const std::string& Text(std::string_view name) const;
};

// Groups the files by folder, in the order of the list. Files of one folder must be adjacent.
std::vector<PromptFiles> PromptFolders(std::span<const EmbeddedFile> files);

// Reads the named files of a folder. NOT_FOUND: a file is missing. INVALID_ARGUMENT: a file is too
// long.
[[nodiscard]] absl::StatusOr<PromptFiles> ReadPromptFolder(const std::string& directory,
                                                           std::span<const std::string_view> names);

// INVALID_ARGUMENT: not of the form NAME/NUMBER.
[[nodiscard]] absl::Status CheckPromptVersion(const std::string& version);

// "speedup-bins/2@0123abcd": the version and the first digits of the hash of its content.
std::string NamedPromptVersion(std::string_view version, std::string_view hash);
// The part before the hash: "speedup-bins/2".
std::string_view WithoutPromptHash(std::string_view named_version);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_PROMPT_PROMPT_FILES_H_
