#include "services/worker/core/source_scan.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/str_cat.h"

namespace kernelcast::worker {
namespace {

// `#pragma GCC` names that open files.
constexpr std::string_view kFilePragmas[] = {"dependency", "pch_preprocess"};

bool IsSpace(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Like translation phase 2: a backslash, optional blanks and a newline join two lines.
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

// Returns the position after blanks and /* comments */ from `at` on. Newlines count as blanks
// because a comment may contain them.
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

// Whether the name is relative and without "..".
bool IsPlainName(std::string_view name) {
  return !name.empty() && name[0] != '/' && name.find("..") == std::string_view::npos &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return IsWord(c) || c == '.' || c == '/' || c == '-' || c == '+';
         });
}

bool IsNumber(std::string_view word) {
  return !word.empty() &&
         std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Checks the file that a #line or a line marker names: compilers print lines of that file in
// messages. `at` is the position after the directive's name, or after the number of a marker.
std::optional<std::string> CheckLineOperand(std::string_view text, size_t at, bool marker) {
  if (!marker) {
    at = SkipBlanks(text, at);
    const std::string_view number = Word(text, at);
    if (!IsNumber(number)) {
      return "#line must give its number literally";
    }
    at += number.size();
  }
  const size_t next = SkipBlanks(text, at);
  const bool same_line = text.substr(at, next - at).find('\n') == std::string_view::npos;
  if (next < text.size() && text[next] == '"') {
    const size_t end = text.find('"', next + 1);
    const std::string_view name =
        end == std::string_view::npos ? std::string_view() : text.substr(next + 1, end - next - 1);
    if (!IsPlainName(name)) {
      return absl::StrCat("#line of '", std::string(name.substr(0, 200)),
                          "': must name a relative path without \"..\"");
    }
  } else if (!marker && same_line && next < text.size()) {
    return "#line must name its file literally";
  }
  return std::nullopt;
}

// The file that an #include names, whether it is quoted, and what is wrong with it.
struct Operand {
  IncludedFile file;
  std::optional<std::string> problem;
};

Operand ReadOperand(std::string_view text, size_t at, std::string_view allowed) {
  Operand operand;
  at = SkipBlanks(text, at);
  const char open = at < text.size() ? text[at] : '\0';
  const char close = open == '<' ? '>' : open == '"' ? '"' : '\0';
  if (close == '\0') {
    operand.problem = "#include must name its file literally";
    return operand;
  }
  const size_t end = text.find(close, at + 1);
  const std::string_view name =
      end == std::string_view::npos ? std::string_view() : text.substr(at + 1, end - at - 1);
  operand.file = {std::string(name), open == '"'};
  if (!IsPlainName(name)) {
    operand.problem = absl::StrCat("#include of '", std::string(name.substr(0, 200)), "': only ",
                                   std::string(allowed), " are allowed");
  }
  return operand;
}

bool IsInclude(std::string_view word) {
  return word == "include" || word == "include_next" || word == "import" || word == "embed";
}

// Calls `see` with the name of each directive and the position after it, until `see` returns false.
// Text in strings and comments that looks like a directive counts too.
template <class See>
void ForEachDirective(std::string_view text, See see) {
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
    if (!see(word, at + word.size())) {
      return;
    }
  }
}

// Returns the position after each occurrence of `word` as a whole word.
std::vector<size_t> PlacesAfter(std::string_view text, std::string_view word) {
  std::vector<size_t> places;
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const size_t after = at + word.size();
    const bool alone =
        (at == 0 || !IsWord(text[at - 1])) && (after == text.size() || !IsWord(text[after]));
    if (alone) places.push_back(after);
  }
  return places;
}

// Checks operators that query or open a file without a directive.
std::optional<std::string> CheckOperators(std::string_view text, std::string_view allowed) {
  for (const std::string_view word : {"__has_include", "__has_include_next", "__has_embed"}) {
    for (size_t at : PlacesAfter(text, word)) {
      at = SkipBlanks(text, at);
      if (at >= text.size() || text[at] != '(') continue;  // only tests whether the operator exists
      if (ReadOperand(text, at + 1, allowed).problem) {
        return absl::StrCat(std::string(word), " must name a header literally, by a relative path");
      }
    }
  }
  for (size_t at : PlacesAfter(text, "_Pragma")) {
    const std::string_view operand = text.substr(at, text.find(')', at) - at);
    for (const std::string_view name : kFilePragmas) {
      if (operand.find(name) != std::string_view::npos) {
        return absl::StrCat("_Pragma of GCC ", std::string(name), " is not allowed");
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> CheckIncludeDirectives(std::string_view source,
                                                  std::string_view allowed) {
  const std::string text = JoinLines(source);
  std::optional<std::string> problem;
  ForEachDirective(text, [&](std::string_view word, size_t at) {
    if (IsInclude(word)) {
      problem = ReadOperand(text, at, allowed).problem;
    } else if (word == "line") {
      problem = CheckLineOperand(text, at, false);
    } else if (IsNumber(word)) {
      problem = CheckLineOperand(text, at, true);
    } else if (word == "pragma") {
      const size_t next = SkipBlanks(text, at);
      const std::string_view space = Word(text, next);
      const std::string_view name = Word(text, SkipBlanks(text, next + space.size()));
      if (space == "GCC" && std::find(std::begin(kFilePragmas), std::end(kFilePragmas), name) !=
                                std::end(kFilePragmas)) {
        problem = absl::StrCat("#pragma GCC ", std::string(name), " is not allowed");
      }
    }
    return !problem.has_value();
  });
  return problem ? problem : CheckOperators(text, allowed);
}

std::optional<std::string> CheckNoDirective(std::string_view source,
                                            std::span<const std::string_view> forbidden) {
  const std::string text = JoinLines(source);
  std::optional<std::string> problem;
  ForEachDirective(text, [&](std::string_view word, size_t) {
    if (std::find(forbidden.begin(), forbidden.end(), word) != forbidden.end()) {
      problem = absl::StrCat("#", std::string(word), " is not allowed");
    }
    return !problem.has_value();
  });
  return problem;
}

std::vector<IncludedFile> IncludedFiles(std::string_view source) {
  const std::string text = JoinLines(source);
  std::vector<IncludedFile> files;
  ForEachDirective(text, [&](std::string_view word, size_t at) {
    if (IsInclude(word)) {
      Operand operand = ReadOperand(text, at, "");
      if (!operand.file.name.empty()) {
        files.push_back(std::move(operand.file));
      }
    }
    return true;
  });
  return files;
}

}  // namespace kernelcast::worker
