#include "services/cli/core/yaml_hint.h"

#include <charconv>

#include "absl/strings/str_cat.h"

namespace kernelcast::cli {
namespace {

// "" if the text has fewer lines.
std::string_view LineAt(std::string_view text, int line) {
  for (; line > 1; --line) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return "";
    text.remove_prefix(end + 1);
  }
  return line < 1 ? "" : text.substr(0, text.find('\n'));
}

bool IsIndentedWithTab(std::string_view line) {
  const size_t tab = line.find('\t');
  return tab != std::string_view::npos && tab < line.find_first_not_of(" \t");
}

// The value after "key: ".
std::string_view ValueOf(std::string_view line) {
  const size_t colon = line.find(": ");
  if (colon == std::string_view::npos) return "";
  const size_t begin = line.find_first_not_of(' ', colon + 1);
  return begin == std::string_view::npos ? "" : line.substr(begin);
}

bool IsQuotedNumber(std::string_view value) {
  if (value.size() < 3 || (value[0] != '\'' && value[0] != '"')) return false;
  const size_t end = value.find(value[0], 1);
  const std::string_view inner = value.substr(1, end == std::string_view::npos ? end : end - 1);
  return !inner.empty() && inner.find_first_not_of("0123456789.-+eE") == std::string_view::npos;
}

}  // namespace

std::string YamlHint(std::string_view text, int line) {
  // An indentation that is wrong may be noticed in the next line.
  for (const int at : {line, line - 1}) {
    if (IsIndentedWithTab(LineAt(text, at))) {
      return absl::StrCat("line ", at, " is indented with a tab; YAML allows blanks only");
    }
  }
  const std::string_view value = ValueOf(LineAt(text, line));
  if (value.empty()) return "";
  if (IsQuotedNumber(value)) return "quotes make it text; write the number without them";
  const bool is_plain = std::string_view("'\"{[|>#&*").find(value[0]) == std::string_view::npos;
  if (is_plain && value.find(": ") != std::string_view::npos) {
    return "a text that contains ': ' needs quotes";
  }
  return "";
}

int LineInMessage(std::string_view message, std::string_view name) {
  const size_t at = message.find(name);
  if (at == std::string_view::npos) return 0;
  const std::string_view rest = message.substr(at + name.size());
  if (rest.empty() || rest[0] != ':') return 0;
  int line = 0;
  std::from_chars(rest.data() + 1, rest.data() + rest.size(), line);
  return line;
}

}  // namespace kernelcast::cli
