#include "services/cli/report/highlight.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>

#include "common/base/utf8.h"

namespace kernelcast::cli {
namespace {

bool IsNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' ||
         (c & 0x80) != 0;
}
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNamePart(char c) { return IsNameStart(c) || IsDigit(c); }

const std::set<std::string_view>& Keywords() {
  static const auto* const keywords = new std::set<std::string_view>{"alignas",
                                                                     "alignof",
                                                                     "asm",
                                                                     "auto",
                                                                     "break",
                                                                     "case",
                                                                     "catch",
                                                                     "class",
                                                                     "concept",
                                                                     "const",
                                                                     "consteval",
                                                                     "constexpr",
                                                                     "constinit",
                                                                     "const_cast",
                                                                     "continue",
                                                                     "decltype",
                                                                     "default",
                                                                     "delete",
                                                                     "do",
                                                                     "dynamic_cast",
                                                                     "else",
                                                                     "enum",
                                                                     "explicit",
                                                                     "export",
                                                                     "extern",
                                                                     "false",
                                                                     "for",
                                                                     "friend",
                                                                     "goto",
                                                                     "if",
                                                                     "inline",
                                                                     "mutable",
                                                                     "namespace",
                                                                     "new",
                                                                     "noexcept",
                                                                     "nullptr",
                                                                     "operator",
                                                                     "private",
                                                                     "protected",
                                                                     "public",
                                                                     "register",
                                                                     "reinterpret_cast",
                                                                     "requires",
                                                                     "return",
                                                                     "sizeof",
                                                                     "static",
                                                                     "static_assert",
                                                                     "static_cast",
                                                                     "struct",
                                                                     "switch",
                                                                     "template",
                                                                     "this",
                                                                     "throw",
                                                                     "true",
                                                                     "try",
                                                                     "typedef",
                                                                     "typename",
                                                                     "union",
                                                                     "using",
                                                                     "virtual",
                                                                     "volatile",
                                                                     "while",
                                                                     "__restrict",
                                                                     "__restrict__",
                                                                     "__attribute__",
                                                                     "__global__",
                                                                     "__device__",
                                                                     "__host__",
                                                                     "__shared__",
                                                                     "__constant__",
                                                                     "__launch_bounds__",
                                                                     "__forceinline__",
                                                                     "_Pragma",
                                                                     "thread_local"};
  return *keywords;
}

const std::set<std::string_view>& Types() {
  static const auto* const types = new std::set<std::string_view>{
      "bool",     "char",      "double",   "float",    "int",          "long",
      "short",    "signed",    "unsigned", "void",     "wchar_t",      "char8_t",
      "char16_t", "char32_t",  "int8_t",   "int16_t",  "int32_t",      "int64_t",
      "uint8_t",  "uint16_t",  "uint32_t", "uint64_t", "size_t",       "ptrdiff_t",
      "intptr_t", "uintptr_t", "half",     "__half",   "float2",       "float4",
      "double2",  "int2",      "int4",     "dim3",     "cudaStream_t", "DLTensor"};
  return *types;
}

// Writes tokens as HTML and closes open spans at the end of each line.
class LineWriter {
 public:
  void Add(std::string_view text, char style) {
    size_t start = 0;
    while (start <= text.size()) {
      const size_t newline = text.find('\n', start);
      const size_t end = std::min(newline, text.size());
      std::string_view part = text.substr(start, end - start);
      if (newline != std::string_view::npos && !part.empty() && part.back() == '\r') {
        part.remove_suffix(1);
      }
      if (!part.empty()) {
        if (style != 0) {
          line_ += "<i class=";
          line_ += style;
          line_ += '>';
        }
        line_ += Html(part);
        if (style != 0) line_ += "</i>";
      }
      if (newline == std::string_view::npos) return;
      EndLine();
      start = newline + 1;
    }
  }

  std::vector<std::string> Finish() {
    if (!line_.empty()) EndLine();
    return std::move(lines_);
  }

 private:
  void EndLine() {
    lines_.push_back(std::move(line_));
    line_.clear();
  }
  std::vector<std::string> lines_;
  std::string line_;
};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(source) {}

  std::vector<std::string> Run() {
    bool line_start = true;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        Emit(at_ + 1, 0);
        line_start = true;
        continue;
      }
      if (c == ' ' || c == '\t' || c == '\r') {
        Emit(at_ + 1, 0);
        continue;
      }
      if (c == '#' && line_start) {
        Preprocessor();
      } else if (Looking("//")) {
        Emit(EndOfLogicalLine(at_), 'c');
      } else if (Looking("/*")) {
        Emit(After("*/", at_ + 2), 'c');
      } else if (c == '"' || c == '\'') {
        Emit(EndOfQuoted(at_), 's');
      } else if (IsDigit(c) || (c == '.' && at_ + 1 < text_.size() && IsDigit(text_[at_ + 1]))) {
        Emit(EndOfNumber(at_), 'n');
      } else if (IsNameStart(c)) {
        Name();
      } else {
        Emit(at_ + 1, 0);
      }
      line_start = false;
    }
    Flush();
    return writer_.Finish();
  }

 private:
  bool Looking(std::string_view what) const { return text_.substr(at_, what.size()) == what; }

  void Flush() {
    writer_.Add(text_.substr(plain_, at_ - plain_), 0);
    plain_ = at_;
  }

  // Text without a style is collected, so that escapes that span several characters are not split.
  void Emit(size_t end, char style) {
    if (style == 0) {
      at_ = end;
      return;
    }
    Flush();
    writer_.Add(text_.substr(at_, end - at_), style);
    at_ = end;
    plain_ = at_;
  }

  size_t After(std::string_view what, size_t from) const {
    const size_t found = text_.find(what, from);
    return found == std::string_view::npos ? text_.size() : found + what.size();
  }

  // Position of the end of a line that may be continued with backslashes.
  size_t EndOfLogicalLine(size_t from) const {
    size_t end = from;
    while (end < text_.size()) {
      end = std::min(text_.find('\n', end), text_.size());
      if (end == text_.size() || end == 0 || text_[end - 1] != '\\') break;
      ++end;
    }
    return end;
  }

  size_t EndOfQuoted(size_t from) const {
    const char quote = text_[from];
    size_t end = from + 1;
    while (end < text_.size() && text_[end] != quote && text_[end] != '\n') {
      end += text_[end] == '\\' ? 2 : 1;
    }
    if (end < text_.size() && text_[end] == '\n') return end;
    return std::min(end + 1, text_.size());
  }

  size_t EndOfNumber(size_t from) const {
    size_t end = from;
    while (end < text_.size()) {
      const char c = text_[end];
      const bool sign = (c == '+' || c == '-') && end > from &&
                        (text_[end - 1] == 'e' || text_[end - 1] == 'E' || text_[end - 1] == 'p' ||
                         text_[end - 1] == 'P') &&
                        !(text_.substr(from, 2) == "0x" && text_[end - 1] != 'p');
      const bool separator = c == '\'' && end + 1 < text_.size() && IsNamePart(text_[end + 1]);
      if (!IsNamePart(c) && c != '.' && !sign && !separator) break;
      ++end;
    }
    return end;
  }

  void Preprocessor() {
    size_t end = at_ + 1;
    while (end < text_.size() && (text_[end] == ' ' || text_[end] == '\t')) ++end;
    const size_t word = end;
    while (end < text_.size() && IsNamePart(text_[end])) ++end;
    const std::string_view directive = text_.substr(word, end - word);
    if (directive == "include") {
      Emit(end, 'p');
      const size_t line_end = std::min(text_.find('\n', at_), text_.size());
      const size_t comment = std::min(text_.find("//", at_), text_.find("/*", at_));
      Emit(std::min(line_end, comment), 's');
      return;
    }
    if (directive == "pragma") {
      Emit(std::min(text_.find('\n', at_), text_.size()), 'p');
      return;
    }
    Emit(end, 'p');
  }

  void Name() {
    size_t end = at_;
    while (end < text_.size() && IsNamePart(text_[end])) ++end;
    const std::string_view name = text_.substr(at_, end - at_);
    if (end < text_.size() && text_[end] == '"' &&
        (name == "R" || name == "u8R" || name == "uR" || name == "UR" || name == "LR")) {
      const size_t open = text_.find('(', end);
      if (open != std::string_view::npos && open - end <= 17) {
        const std::string close = ")" + std::string(text_.substr(end + 1, open - end - 1)) + "\"";
        Emit(After(close, open), 's');
        return;
      }
    }
    if (end < text_.size() && (text_[end] == '"' || text_[end] == '\'') &&
        (name == "u8" || name == "u" || name == "U" || name == "L")) {
      Emit(EndOfQuoted(end), 's');
      return;
    }
    if (Keywords().count(name) > 0) {
      Emit(end, 'k');
    } else if (Types().count(name) > 0) {
      Emit(end, 't');
    } else if (end < text_.size() && text_[end] == '(') {
      Emit(end, 'f');
    } else {
      Emit(end, 0);
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t plain_ = 0;  // start of the text that has not been written yet
  LineWriter writer_;
};

}  // namespace

std::string Html(std::string_view untrusted) {
  // Most text needs no escaping, so this is one pass.
  const std::string text = SanitizeUtf8(untrusted);
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    switch (c) {
      case '&': out += "&amp;"; continue;
      case '<': out += "&lt;"; continue;
      case '>': out += "&gt;"; continue;
      case '"': out += "&quot;"; continue;
      case '\'': out += "&#39;"; continue;
      default: break;
    }
    if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7F) {
      // Replace by U+2400 + c: control pictures.
      const unsigned picture = c == 0x7F ? 0x2421u : 0x2400u + c;
      out += static_cast<char>(0xE0 | (picture >> 12));
      out += static_cast<char>(0x80 | ((picture >> 6) & 0x3F));
      out += static_cast<char>(0x80 | (picture & 0x3F));
      continue;
    }
    // U+202A..U+202E and U+2066..U+2069 reorder the text that follows.
    if (c == 0xE2 && i + 2 < text.size()) {
      const auto second = static_cast<unsigned char>(text[i + 1]);
      const auto third = static_cast<unsigned char>(text[i + 2]);
      const bool override_mark = (second == 0x80 && third >= 0xAA && third <= 0xAE) ||
                                 (second == 0x81 && third >= 0xA6 && third <= 0xA9);
      if (override_mark) {
        std::array<char, 16> code;
        const unsigned point = 0x2000u | ((second & 0x3Fu) << 6) | (third & 0x3Fu);
        std::snprintf(code.data(), code.size(), "[U+%04X]", point);
        out += code.data();
        i += 2;
        continue;
      }
    }
    out += static_cast<char>(c);
  }
  return out;
}

std::vector<std::string> HighlightSource(std::string_view source) { return Lexer(source).Run(); }

}  // namespace kernelcast::cli
