#include "services/orchestrator/generator/edit_blocks.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"
#include "common/domain/text.h"
#include "common/prompt/text_lines.h"

namespace kernelcast::orchestrator {
namespace {

constexpr size_t kLeastMark = 5;

// Whether the line is a mark such as "<<<<<<< SEARCH".
bool IsMark(std::string_view line, char mark, std::string_view word) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  const size_t length = std::min(line.find_first_not_of(mark), line.size());
  if (length < kLeastMark) return false;
  line.remove_prefix(length);
  if (word.empty()) return line.empty();
  return line.size() > word.size() && line.front() == ' ' && line.substr(1) == word;
}

std::string_view WithoutIndent(std::string_view line, size_t indent) {
  return line.substr(std::min({indent, line.find_first_not_of(" \t"), line.size()}));
}

// Where the lines of a pattern occur in a text, by the algorithm of Knuth, Morris and Pratt.
struct Occurrences {
  size_t first = 0;
  size_t count = 0;           // at most 2
  size_t longest_prefix = 0;  // lines of the pattern found in a row
};

Occurrences Find(std::span<const int> pattern, std::span<const int> text) {
  std::vector<size_t> borders(pattern.size(), 0);
  for (size_t i = 1, length = 0; i < pattern.size(); ++i) {
    while (length > 0 && pattern[i] != pattern[length]) length = borders[length - 1];
    if (pattern[i] == pattern[length]) ++length;
    borders[i] = length;
  }
  Occurrences found;
  for (size_t i = 0, length = 0; i < text.size() && found.count < 2; ++i) {
    while (length > 0 && text[i] != pattern[length]) length = borders[length - 1];
    if (text[i] == pattern[length]) ++length;
    found.longest_prefix = std::max(found.longest_prefix, length);
    if (length < pattern.size()) continue;
    if (found.count++ == 0) found.first = i + 1 - pattern.size();
    length = borders[length - 1];
  }
  return found;
}

}  // namespace

EditBlocks ReadEditBlocks(std::string_view text) {
  EditBlocks read;
  enum class Part { kOutside, kSearch, kReplace };
  Part part = Part::kOutside;
  size_t indent = 0;
  EditBlock block;
  const auto fail = [&read](size_t number, const char* what) {
    if (read.fault.empty()) read.fault = absl::StrCat("edit ", number, ": ", what);
  };
  for (const std::string_view line : TextLines(text)) {
    const size_t number = read.blocks.size() + 1;
    if (IsMark(line, '<', "SEARCH")) {
      if (part != Part::kOutside) fail(number, "a new SEARCH begins before REPLACE ends this edit");
      if (number > EditBlocks::kMaxBlocks) {
        fail(number, "there are too many edits");
        break;
      }
      part = Part::kSearch;
      block = {};
      indent = std::min(line.find_first_not_of(" \t"), line.size());
      read.last_at = static_cast<size_t>(line.data() - text.data());
    } else if (part == Part::kSearch && IsMark(line, '=', "")) {
      part = Part::kReplace;
    } else if (part != Part::kOutside && IsMark(line, '>', "REPLACE")) {
      if (part == Part::kSearch) fail(number, "no ======= between SEARCH and REPLACE");
      const auto blank = [](std::string_view searched) { return searched.empty(); };
      if (std::ranges::all_of(block.search, blank)) fail(number, "SEARCH has no lines");
      read.blocks.push_back(std::move(block));
      part = Part::kOutside;
    } else if (part != Part::kOutside) {
      auto& lines = part == Part::kSearch ? block.search : block.replace;
      lines.push_back(WithoutIndent(line, indent));
    }
  }
  read.open = part != Part::kOutside;
  return read;
}

EditedSource ApplyEdits(const std::vector<EditBlock>& edits, std::string_view source) {
  EditedSource edited;
  LineNumbers numbering;
  std::vector<std::string_view> lines = TextLines(source);
  std::vector<int> numbers = numbering.Of(lines);
  for (size_t i = 0; i < edits.size(); ++i) {
    const std::vector<std::string_view>& search = edits[i].search;
    const Occurrences found = Find(numbering.Of(search), numbers);
    if (found.count != 1) {
      edited.fault =
          found.count == 0 ? EditedSource::Fault::kNotFound : EditedSource::Fault::kFoundTwice;
      const std::string which = absl::StrCat("edit ", i + 1, " of ", edits.size(), ": ");
      edited.reason =
          found.count > 1 ? absl::StrCat(which, "the lines of SEARCH occur more than once in the ",
                                         "kernel; the first is ", Quoted(search.front()))
          : found.longest_prefix == 0
              ? absl::StrCat(which, "the first line of SEARCH is not in the kernel: ",
                             Quoted(search.front()))
              : absl::StrCat(which, "line ", found.longest_prefix + 1,
                             " of SEARCH does not follow the lines before it in the kernel: ",
                             Quoted(search[found.longest_prefix]));
      return edited;
    }
    const auto splice = [&](auto& into, const auto& added) {
      const auto begin = into.begin() + static_cast<std::ptrdiff_t>(found.first);
      into.insert(into.erase(begin, begin + static_cast<std::ptrdiff_t>(search.size())),
                  added.begin(), added.end());
    };
    splice(numbers, numbering.Of(edits[i].replace));
    splice(lines, edits[i].replace);
  }
  for (const std::string_view line : lines) edited.source.append(line).push_back('\n');
  return edited;
}

}  // namespace kernelcast::orchestrator
