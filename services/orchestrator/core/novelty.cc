#include "services/orchestrator/core/novelty.h"

#include <algorithm>
#include <cctype>

namespace kernelcast::orchestrator {
namespace {

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v'; }

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// White space next to these characters is insignificant.
bool StandsAlone(char c) { return std::string_view("(){}[];,").find(c) != std::string_view::npos; }

// End of the literal whose opening quote is at `begin`: after the closing quote, or at the end of
// the line or text.
size_t EndOfQuoted(std::string_view text, size_t begin) {
  const char quote = text[begin];
  for (size_t i = begin + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == quote) {
      return i + 1;
    } else if (text[i] == '\n') {
      return i;
    }
  }
  return text.size();
}

// The same for R"tag(...)tag", whose quote is at `begin`.
size_t EndOfRaw(std::string_view text, size_t begin) {
  constexpr size_t kLongestTag = 16;
  const size_t open = text.find('(', begin);
  if (open == std::string_view::npos || open - begin - 1 > kLongestTag) {
    return EndOfQuoted(text, begin);
  }
  std::string closing = ")";
  closing.append(text.substr(begin + 1, open - begin - 1)).push_back('"');
  const size_t close = text.find(closing, open);
  return close == std::string_view::npos ? text.size() : close + closing.size();
}

class Normalizer {
 public:
  void Literal(std::string_view text) {
    Part(text.empty() ? '"' : text.front());
    result_.append(text);
  }
  void Character(char c) {
    Part(c);
    result_.push_back(c);
  }
  void Blank() { blank_ = true; }
  // Begins or ends the line of a directive.
  void Break() {
    if (!result_.empty() && result_.back() != '\n') result_.push_back('\n');
    blank_ = false;
  }
  std::string Take() {
    while (!result_.empty() && result_.back() == '\n') result_.pop_back();
    return std::move(result_);
  }

 private:
  void Part(char next) {
    if (blank_ && !result_.empty() && result_.back() != '\n' && !StandsAlone(result_.back()) &&
        !StandsAlone(next)) {
      result_.push_back(' ');
    }
    blank_ = false;
  }

  std::string result_;
  bool blank_ = false;
};

}  // namespace

std::string NormalizedSource(std::string_view source) {
  Normalizer normalizer;
  bool directive = false;
  bool line_start = true;
  for (size_t i = 0; i < source.size();) {
    const char c = source[i];
    const char next = i + 1 < source.size() ? source[i + 1] : '\0';
    if (c == '\\' && (next == '\n' || (next == '\r' && source.substr(i + 2, 1) == "\n"))) {
      normalizer.Blank();
      i += next == '\n' ? 2 : 3;
    } else if (c == '/' && next == '/') {
      i = std::min(source.find('\n', i), source.size());
    } else if (c == '/' && next == '*') {
      const size_t end = source.find("*/", i + 2);
      i = end == std::string_view::npos ? source.size() : end + 2;
      normalizer.Blank();
    } else if (c == '\n') {
      if (directive) normalizer.Break();
      normalizer.Blank();
      directive = false;
      line_start = true;
      ++i;
    } else if (IsBlank(c)) {
      normalizer.Blank();
      ++i;
    } else if (c == '"' || (c == '\'' && !(i > 0 && IsWord(source[i - 1])))) {
      const bool raw = c == '"' && i > 0 && source[i - 1] == 'R';
      const size_t end = raw ? EndOfRaw(source, i) : EndOfQuoted(source, i);
      normalizer.Literal(source.substr(i, end - i));
      line_start = false;
      i = end;
    } else {
      if (c == '#' && line_start) {
        normalizer.Break();
        directive = true;
      }
      normalizer.Character(c);
      line_start = false;
      ++i;
    }
  }
  return normalizer.Take();
}

std::string NoveltyKey(const Candidate& candidate) {
  Candidate bare = candidate;
  bare.source = NormalizedSource(candidate.source);
  return CandidateId(bare);
}

}  // namespace kernelcast::orchestrator
