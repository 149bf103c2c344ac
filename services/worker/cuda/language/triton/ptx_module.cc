#include "services/worker/cuda/language/triton/ptx_module.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/domain/text.h"

namespace kernelcast::worker {
namespace {

constexpr size_t kMaxNameBytes = 256;
constexpr int64_t kMaxBlockThreads = 1024;

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '$' || c == '%';
}

bool IsDirective(std::string_view line, std::string_view name) {
  return line.starts_with(name) &&
         (line.size() == name.size() || line[name.size()] == ' ' || line[name.size()] == '\t');
}

// The words of a line, separated by blanks and commas.
std::vector<std::string_view> Words(std::string_view line) {
  std::vector<std::string_view> words;
  for (size_t at = 0; at < line.size();) {
    const size_t start = line.find_first_not_of(" \t,", at);
    if (start == std::string_view::npos) break;
    at = std::min(line.find_first_of(" \t,", start), line.size());
    words.push_back(line.substr(start, at - start));
  }
  return words;
}

std::optional<int64_t> WholeNumber(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value)
                                                                  : std::nullopt;
}

// The lines of a text up to its debug sections, without comments.
std::vector<std::string_view> CodeLines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, line.find("//"));
    if (IsDirective(Trim(line), ".section")) break;
    lines.push_back(line);
  }
  return lines;
}

// The number that the text gives to the file `source_name`, or "".
std::string_view FileNumber(std::span<const std::string_view> lines, std::string_view source_name) {
  const std::string ending = absl::StrCat(std::string(source_name), "\"");
  for (const std::string_view line : lines) {
    const std::string_view text = Trim(line);
    if (!IsDirective(text, ".file") || !text.ends_with(ending)) continue;
    const std::vector<std::string_view> words = Words(text);
    if (words.size() >= 3) return words[1];
  }
  return {};
}

// The identifier before `end`, or "".
std::string_view NameBefore(std::string_view text, size_t end) {
  while (end > 0 && (text[end - 1] == ' ' || text[end - 1] == '\t')) --end;
  size_t start = end;
  while (start > 0 && IsNameCharacter(text[start - 1])) --start;
  return text.substr(start, end - start);
}

std::string_view NameAfter(std::string_view text, size_t start) {
  while (start < text.size() && (text[start] == ' ' || text[start] == '\t')) ++start;
  size_t end = start;
  while (end < text.size() && IsNameCharacter(text[end])) ++end;
  return text.substr(start, end - start);
}

// One text, checked and without what the module states itself.
struct Text {
  std::vector<std::string_view> lines;  // with ".loc" of the source only
  std::string version;
  std::string kernel;
  std::set<std::string> names;  // that the text defines outside functions
  int64_t block_threads = 0;
  int64_t parameters = 0;
};

absl::Status Invalid(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("the PTX of the kernel ", std::string(what)));
}

absl::Status ReadDefinition(std::string_view line, Text& text) {
  if (const size_t entry = line.find(".entry"); entry != std::string_view::npos) {
    if (!text.kernel.empty()) return Invalid("defines several kernels");
    text.kernel = std::string(NameAfter(line, entry + 6));
    if (text.kernel.size() > kMaxNameBytes || !IsIdentifier(text.kernel)) {
      return Invalid("has a kernel without a name");
    }
    return absl::OkStatus();
  }
  const bool is_external = line.find(".extern") != std::string_view::npos;
  if (const size_t function = line.find(".func"); function != std::string_view::npos) {
    if (is_external) {
      return Invalid(
          "calls a function of the system: device_print and device_assert are not supported");
    }
    size_t start = function + 5;
    const size_t results = line.find('(', start);
    if (results != std::string_view::npos && NameAfter(line, start).empty()) {
      start = std::min(line.find(')', results), line.size() - 1) + 1;
    }
    text.names.emplace(NameAfter(line, start));
    return absl::OkStatus();
  }
  if (is_external) return absl::OkStatus();
  for (const std::string_view space : {".global", ".const", ".shared"}) {
    if (line.find(space) == std::string_view::npos) continue;
    const size_t end = line.find_first_of("[=;");
    if (end != std::string_view::npos) text.names.emplace(NameBefore(line, end));
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::StatusOr<Text> ReadText(std::string_view content, std::string_view architecture,
                              std::string_view source_name) {
  const std::vector<std::string_view> lines = CodeLines(content);
  const std::string_view source_file = FileNumber(lines, source_name);
  Text text;
  int depth = 0;
  bool in_header = false;  // of the kernel
  bool in_list = false;    // of its parameters
  for (const std::string_view line : lines) {
    const std::string_view trimmed = Trim(line);
    if (IsDirective(trimmed, ".file") || IsDirective(trimmed, ".address_size")) continue;
    if (IsDirective(trimmed, ".version")) {
      const std::string_view version = Trim(trimmed.substr(8));
      if (version.empty() || version.size() > 8 ||
          version.find_first_not_of("0123456789.") != std::string_view::npos) {
        return Invalid("has no version");
      }
      text.version = std::string(version);
      continue;
    }
    if (IsDirective(trimmed, ".target")) {
      const std::vector<std::string_view> words = Words(trimmed);
      if (words.size() < 2 || words[1] != architecture) return Invalid("is for another GPU");
      continue;
    }
    if (IsDirective(trimmed, ".loc")) {
      const std::vector<std::string_view> words = Words(trimmed);
      if (words.size() >= 4 && !source_file.empty() && words[1] == source_file) {
        text.lines.push_back(line);
      }
      continue;
    }
    if (depth == 0 && !in_header) {
      KC_RETURN_IF_ERROR(ReadDefinition(trimmed, text));
      in_header = in_list = trimmed.find(".entry") != std::string_view::npos;
    }
    if (in_header) {
      const std::string_view list = in_list ? trimmed.substr(0, trimmed.find(')')) : "";
      for (size_t at = list.find(".param"); at != std::string_view::npos;
           at = list.find(".param", at + 1)) {
        ++text.parameters;
      }
      if (list.size() < trimmed.size()) in_list = false;
      if (IsDirective(trimmed, ".reqntid") || IsDirective(trimmed, ".maxntid")) {
        text.block_threads = 1;
        const std::vector<std::string_view> words = Words(trimmed);
        for (size_t i = 1; i < words.size(); ++i) {
          const auto threads = WholeNumber(words[i]);
          if (!threads || *threads < 1 || *threads > kMaxBlockThreads) {
            return Invalid("demands an invalid block size");
          }
          text.block_threads = std::min(text.block_threads * *threads, kMaxBlockThreads + 1);
        }
      }
    }
    for (const char c : trimmed) {
      if (c == '{') ++depth;
      if (c == '}') --depth;
      if (c == '{') in_header = false;
    }
    text.lines.push_back(line);
  }
  if (text.kernel.empty()) return Invalid("has no kernel");
  if (text.version.empty()) return Invalid("has no version");
  if (text.block_threads < 1 || text.block_threads > kMaxBlockThreads) {
    return Invalid("does not say how many threads a block has");
  }
  return text;
}

// Replaces whole names. What a dot precedes or follows is part of an instruction.
std::string Renamed(std::string_view line,
                    const std::map<std::string, std::string, std::less<>>& to) {
  std::string out;
  for (size_t at = 0; at < line.size();) {
    if (!IsNameCharacter(line[at])) {
      out += line[at++];
      continue;
    }
    size_t end = at;
    while (end < line.size() && IsNameCharacter(line[end])) ++end;
    const std::string_view name = line.substr(at, end - at);
    const bool in_instruction =
        (at > 0 && line[at - 1] == '.') || (end < line.size() && line[end] == '.');
    const auto found = in_instruction ? to.end() : to.find(name);
    out += found == to.end() ? name : std::string_view(found->second);
    at = end;
  }
  return out;
}

}  // namespace

absl::StatusOr<PtxModule> MergePtx(std::span<const std::string> texts,
                                   std::string_view architecture, std::string_view source_name) {
  PtxModule module;
  std::set<std::string, std::less<>> used;
  std::set<std::string, std::less<>> external;
  std::string version;
  for (const std::string& content : texts) {
    KC_ASSIGN_OR_RETURN(const Text text, ReadText(content, architecture, source_name));
    if (version.empty()) {
      version = text.version;
      absl::StrAppend(&module.text, ".version ", version, "\n.target ", std::string(architecture),
                      "\n.address_size 64\n\n");
    } else if (text.version != version) {
      return Invalid("has another version than the first");
    }
    std::map<std::string, std::string, std::less<>> renamed;
    std::set<std::string> names = text.names;
    names.insert(text.kernel);
    for (const std::string& name : names) {
      std::string unique = name;
      for (int number = 2; !used.insert(unique).second; ++number) {
        unique = absl::StrCat(name, "__", number);
      }
      if (unique != name) renamed[name] = unique;
    }
    for (const std::string_view line : text.lines) {
      const std::string_view trimmed = Trim(line);
      if (trimmed.starts_with(".extern") && !external.emplace(trimmed).second) continue;
      if (IsDirective(trimmed, ".loc")) {
        const std::vector<std::string_view> words = Words(trimmed);
        absl::StrAppend(&module.text, "\t.loc\t1 ", std::string(words[2]), " ",
                        std::string(words[3]), "\n");
        continue;
      }
      if (renamed.empty()) {
        module.text += line;
      } else {
        module.text += Renamed(line, renamed);
      }
      module.text += '\n';
    }
    const auto own = renamed.find(text.kernel);
    module.kernels.push_back(
        {own == renamed.end() ? text.kernel : own->second, text.block_threads, text.parameters});
  }
  return module;
}

}  // namespace kernelcast::worker
