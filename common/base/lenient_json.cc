#include "common/base/lenient_json.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <utility>

namespace kernelcast {
namespace {

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsWordStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsWordPart(char c) { return IsWordStart(c) || IsDigit(c); }
bool EndsValue(char c) { return c == ',' || c == ']' || c == '}' || c == ':'; }

class Mender {
 public:
  explicit Mender(std::string_view text) : text_(text) {}

  std::optional<MendedJson> Read() {
    if (!Value(0)) return std::nullopt;
    result_.end = at_;
    return std::move(result_);
  }

 private:
  bool AtEnd() const { return at_ >= text_.size(); }
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  void Put(std::string_view text) { result_.strict.append(text); }
  void Note(Repair repair) { result_.repairs.insert(repair); }

  // Skips white space and comments.
  void SkipSpace() {
    while (!AtEnd()) {
      if (IsSpace(Peek())) {
        ++at_;
      } else if (Peek() == '#' || (Peek() == '/' && Peek(1) == '/')) {
        Note(Repair::kComment);
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (Peek() == '/' && Peek(1) == '*') {
        Note(Repair::kComment);
        const size_t end = text_.find("*/", at_ + 2);
        at_ = end == std::string_view::npos ? text_.size() : end + 2;
      } else {
        return;
      }
    }
  }

  bool Value(int depth) {
    SkipSpace();
    if (AtEnd() || depth > kMaxJsonDepth) return false;
    const char c = Peek();
    if (c == '{' || c == '[') return List(c, depth + 1);
    if (c == '"' || c == '\'') return String(c);
    return IsWordStart(c) ? Word() : Number();
  }

  // An object or an array.
  bool List(char open, int depth) {
    const char close = open == '{' ? '}' : ']';
    result_.strict += open;
    ++at_;
    bool after_comma = false;
    for (bool first = true;; first = false) {
      SkipSpace();
      if (Peek() == close) {
        if (after_comma) Note(Repair::kTrailingComma);
        result_.strict += close;
        ++at_;
        return true;
      }
      if (!first && !after_comma) return false;
      if (!first) result_.strict += ',';
      if (open == '{' && !Key()) return false;
      if (!Value(depth)) return false;
      SkipSpace();
      after_comma = Peek() == ',';
      if (after_comma) ++at_;
    }
  }

  bool Key() {
    const char c = Peek();
    if (c == '"' || c == '\'') {
      if (!String(c)) return false;
    } else if (IsWordStart(c)) {
      Note(Repair::kBareKey);
      const size_t begin = at_;
      while (IsWordPart(Peek())) ++at_;
      Put("\"");
      Put(text_.substr(begin, at_ - begin));
      Put("\"");
    } else {
      return false;
    }
    SkipSpace();
    if (Peek() != ':') return false;
    ++at_;
    result_.strict += ':';
    return true;
  }

  // Whether a single quote here ends a string. Otherwise it is an apostrophe.
  bool ClosesSingleQuoted() const {
    for (size_t i = at_ + 1; i < text_.size(); ++i) {
      const char c = text_[i];
      if (IsSpace(c)) continue;
      return EndsValue(c) || c == '#' || c == '/';
    }
    return true;
  }

  bool String(char quote) {
    if (quote == '\'') Note(Repair::kSingleQuotes);
    ++at_;
    result_.strict += '"';
    for (; !AtEnd(); ++at_) {
      const char c = Peek();
      if (c == quote && (quote == '"' || ClosesSingleQuoted())) {
        ++at_;
        result_.strict += '"';
        return true;
      }
      if (c == '\\') {
        if (!Escape()) return false;
      } else if (c == '"') {
        Put("\\\"");
      } else if (static_cast<unsigned char>(c) < 0x20) {
        Note(Repair::kControlCharacter);
        std::array<char, 8> escaped;
        std::snprintf(escaped.data(), escaped.size(), "\\u%04x", static_cast<unsigned char>(c));
        Put(escaped.data());
      } else {
        result_.strict += c;
      }
    }
    return false;
  }

  // The escape at the backslash. Leaves at_ on its last character.
  bool Escape() {
    const char c = Peek(1);
    if (c == '\0') return false;
    ++at_;
    if (c == '\'') {
      result_.strict += c;
    } else if (std::string_view("\"\\/bfnrtu").find(c) != std::string_view::npos) {
      result_.strict += '\\';
      result_.strict += c;
    } else {
      Note(Repair::kEscape);
      Put("\\\\");
      --at_;  // the next character is read as itself
    }
    return true;
  }

  bool Word() {
    const size_t begin = at_;
    while (IsWordPart(Peek())) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    constexpr std::pair<std::string_view, std::string_view> kPython[] = {
        {"True", "true"}, {"False", "false"}, {"None", "null"}};
    for (const auto& [python, json] : kPython) {
      if (word == json) {
        Put(word);
        return true;
      }
      if (word != python) continue;
      Note(Repair::kPythonWord);
      Put(json);
      return true;
    }
    return false;
  }

  size_t Digits() {
    const size_t begin = at_;
    while (IsDigit(Peek())) ++at_;
    return at_ - begin;
  }

  bool Number() {
    std::string number;
    if (Peek() == '+' || Peek() == '-') {
      if (Peek() == '+') Note(Repair::kNumberForm);
      if (Peek() == '-') number += '-';
      ++at_;
    }
    size_t begin = at_;
    const size_t whole = Digits();
    if (whole > 1 && text_[begin] == '0') return false;
    number += whole > 0 ? text_.substr(begin, whole) : "0";
    size_t fraction = 0;
    const bool point = Peek() == '.';
    if (point) {
      begin = ++at_;
      fraction = Digits();
      number += '.';
      number += fraction > 0 ? text_.substr(begin, fraction) : "0";
    }
    if (whole + fraction == 0) return false;
    if (whole == 0 || (point && fraction == 0)) Note(Repair::kNumberForm);
    if (Peek() == 'e' || Peek() == 'E') {
      number += text_[at_++];
      if (Peek() == '+' || Peek() == '-') number += text_[at_++];
      begin = at_;
      const size_t exponent = Digits();
      if (exponent == 0) return false;
      number += text_.substr(begin, exponent);
    }
    const bool percent = Peek() == '%';
    if (percent) {
      ++at_;
      number = '"' + number + "%\"";
    }
    if (!AtEnd() && !IsSpace(Peek()) && !EndsValue(Peek()) && Peek() != '#' && Peek() != '/') {
      return false;
    }
    Put(number);
    return true;
  }

  const std::string_view text_;
  size_t at_ = 0;
  MendedJson result_;
};

}  // namespace

std::string_view Name(Repair repair) {
  switch (repair) {
    case Repair::kTrailingComma: return "trailing_comma";
    case Repair::kComment: return "comment";
    case Repair::kSingleQuotes: return "single_quotes";
    case Repair::kBareKey: return "bare_key";
    case Repair::kPythonWord: return "python_word";
    case Repair::kNumberForm: return "number_form";
    case Repair::kControlCharacter: return "control_character";
    case Repair::kEscape: return "escape";
    case Repair::kPercent: return "percent";
    case Repair::kEncodedTwice: return "encoded_twice";
    case Repair::kInReasoning: return "in_reasoning";
  }
  return "other";
}

std::optional<MendedJson> MendJsonValue(std::string_view text) { return Mender(text).Read(); }

}  // namespace kernelcast
