#include "services/worker/native/compiler_output.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace kernelcast::worker {
namespace {

bool IsSpace(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

}  // namespace

std::optional<std::string> CheckDependencies(std::string_view depfile, std::string_view source_name,
                                             const std::vector<std::string>& directories) {
  const size_t colon = depfile.find(": ");
  std::string_view rest = colon == std::string_view::npos ? depfile : depfile.substr(colon + 1);
  while (!rest.empty()) {
    size_t start = 0;
    while (start < rest.size() && (IsSpace(rest[start]) || rest[start] == '\\')) {
      ++start;
    }
    size_t end = start;
    while (end < rest.size() && !IsSpace(rest[end])) {
      ++end;
    }
    const std::string path =
        std::filesystem::path(rest.substr(start, end - start)).lexically_normal().string();
    rest.remove_prefix(end);
    if (path.empty() || path == source_name) {
      continue;
    }
    const bool known =
        path == "/usr/include/stdc-predef.h" ||
        std::any_of(directories.begin(), directories.end(), [&](const auto& directory) {
          return path.compare(0, directory.size(), directory) == 0 &&
                 path.size() > directory.size() && path[directory.size()] == '/';
        });
    if (!known) {
      return absl::StrCat(
          "#include of '", path,
          "': only headers of the toolchain and kernelcast/candidate.h are allowed");
    }
  }
  return std::nullopt;
}

}  // namespace kernelcast::worker
