#include "services/worker/cpu/source_scan.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace kernelcast::worker {
namespace {

constexpr std::string_view kAllowedFlags[] = {
    "-O1",
    "-O2",
    "-O3",
    "-ffast-math",
    "-fassociative-math",
    "-ffinite-math-only",
    "-ffp-contract=fast",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-signed-zeros",
    "-fno-trapping-math",
    "-fno-tree-vectorize",
    "-fno-unroll-loops",
    "-fopenmp-simd",
    "-freciprocal-math",
    "-funroll-loops",
    "-mprefer-vector-width=128",
    "-mprefer-vector-width=256",
    "-mprefer-vector-width=512",
};

bool IsSpace(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// As the compiler's second phase: a backslash, blanks and a newline join two lines.
std::string JoinLines(std::string_view source) {
  std::string joined;
  joined.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\\') {
      size_t end = i + 1;
      while (end < source.size() && source[end] != '\n' && IsSpace(source[end])) {
        ++end;
      }
      if (end < source.size() && source[end] == '\n') {
        i = end;
        continue;
      }
    }
    joined += source[i];
  }
  return joined;
}

// Position after blanks and /* comments */ from `at` on; newlines count as blanks, because a
// comment may hold them.
size_t SkipBlanks(std::string_view text, size_t at) {
  for (;;) {
    while (at < text.size() && IsSpace(text[at])) {
      ++at;
    }
    if (text.substr(at, 2) != "/*") {
      return at;
    }
    const size_t end = text.find("*/", at + 2);
    if (end == std::string_view::npos) {
      return text.size();
    }
    at = end + 2;
  }
}

std::string_view Word(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && IsWord(text[end])) {
    ++end;
  }
  return text.substr(at, end - at);
}

std::optional<std::string> CheckIncludeOperand(std::string_view text, size_t at) {
  at = SkipBlanks(text, at);
  const char open = at < text.size() ? text[at] : '\0';
  const char close = open == '<' ? '>' : open == '"' ? '"' : '\0';
  if (close == '\0') {
    return "#include must name its file literally";
  }
  const size_t end = text.find(close, at + 1);
  const std::string_view name =
      end == std::string_view::npos ? std::string_view() : text.substr(at + 1, end - at - 1);
  const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return IsWord(c) || c == '.' || c == '/' || c == '-' || c == '+';
  });
  if (!plain || name[0] == '/' || name.find("..") != std::string_view::npos) {
    return absl::StrCat("#include of '", std::string(name.substr(0, 200)),
                        "': only headers of the toolchain and kernelcast/candidate.h are allowed");
  }
  return std::nullopt;
}

}  // namespace

std::span<const std::string_view> AllowedCpuFlags() { return kAllowedFlags; }

std::optional<std::string> CheckFlags(const std::vector<std::string>& flags) {
  for (const std::string& flag : flags) {
    if (std::find(std::begin(kAllowedFlags), std::end(kAllowedFlags), flag) ==
        std::end(kAllowedFlags)) {
      std::string allowed;
      for (const std::string_view name : kAllowedFlags) {
        absl::StrAppend(&allowed, " ", std::string(name));
      }
      return absl::StrCat("flag '", flag.substr(0, 200), "' is not one of", allowed);
    }
  }
  return std::nullopt;
}

std::optional<std::string> CheckIncludeDirectives(std::string_view source) {
  const std::string text = JoinLines(source);
  for (size_t i = 0; i < text.size(); ++i) {
    size_t after = 0;
    if (text[i] == '#') {
      after = i + 1;
    } else if (text.compare(i, 2, "%:") == 0) {
      after = i + 2;
    } else if (text.compare(i, 3, "?\?=") == 0) {
      after = i + 3;
    } else {
      continue;
    }
    const size_t at = SkipBlanks(text, after);
    const std::string_view word = Word(text, at);
    if (word == "include" || word == "include_next" || word == "import" || word == "embed") {
      if (auto problem = CheckIncludeOperand(text, at + word.size())) {
        return problem;
      }
    } else if (word == "pragma") {
      // `#pragma GCC dependency` and its kin open files.
      const size_t next = SkipBlanks(text, at + word.size());
      const std::string_view space = Word(text, next);
      const std::string_view name = Word(text, SkipBlanks(text, next + space.size()));
      if (space == "GCC" && (name == "dependency" || name == "pch_preprocess")) {
        return absl::StrCat("#pragma GCC ", std::string(name), " is not allowed");
      }
    }
  }
  return std::nullopt;
}

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

std::optional<std::string> CheckAssembly(std::string_view assembly) {
  static constexpr std::string_view kForbidden[] = {
      ".incbin", ".include",      ".macro",  ".altmacro", ".irp",   ".rept",
      ".rep ",   ".rep\t",        ".symver", ".print",    ".reloc", "gnu_indirect_function",
      ".dtors",  ".preinit_array"};
  std::string lower(assembly);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const std::string_view word : kForbidden) {
    if (lower.find(word) != std::string::npos) {
      return absl::StrCat("the assembly says '", std::string(word), "', which is not allowed");
    }
  }
  return std::nullopt;
}

}  // namespace kernelcast::worker
