#include "services/worker/native/assembly_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "services/worker/native/elf_file.h"

namespace kernelcast::worker {
namespace {

using namespace std::string_view_literals;

constexpr std::array kPlainDirectives = {
    ".addrsig"sv,   ".addrsig_sym"sv, ".comm"sv,  ".file"sv,     ".global"sv,
    ".globl"sv,     ".hidden"sv,      ".ident"sv, ".internal"sv, ".local"sv,
    ".protected"sv, ".size"sv,        ".weak"sv,  ".weakref"sv};
constexpr std::array kDataDirectives = {
    ".2byte"sv,  ".4byte"sv,  ".8byte"sv,   ".ascii"sv,  ".asciz"sv, ".byte"sv,
    ".double"sv, ".fill"sv,   ".float"sv,   ".hword"sv,  ".int"sv,   ".long"sv,
    ".octa"sv,   ".quad"sv,   ".short"sv,   ".single"sv, ".skip"sv,  ".sleb128"sv,
    ".space"sv,  ".string"sv, ".uleb128"sv, ".value"sv,  ".word"sv,  ".zero"sv};
constexpr std::array kPrefixes = {
    "addr16"sv, "addr32"sv, "bnd"sv,  "cs"sv,    "data16"sv,  "data32"sv,   "ds"sv,
    "es"sv,     "fs"sv,     "gs"sv,   "lock"sv,  "notrack"sv, "rep"sv,      "repe"sv,
    "repne"sv,  "repnz"sv,  "repz"sv, "rex64"sv, "ss"sv,      "xacquire"sv, "xrelease"sv};
// Select an encoding of one instruction.
constexpr std::array kPseudoPrefixes = {"{disp32}"sv, "{disp8}"sv, "{evex}"sv,
                                        "{load}"sv,   "{rex}"sv,   "{store}"sv,
                                        "{vex}"sv,    "{vex2}"sv,  "{vex3}"sv};
constexpr std::array kSymbolTypes = {"function"sv, "notype"sv, "object"sv, "tls_object"sv};

template <class Words>
bool IsOneOf(const Words& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool IsBlank(char c) { return c == ' ' || c == '\t'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsSymbol(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '$';
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  return text;
}

std::string_view Symbol(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && IsSymbol(text[end])) ++end;
  return text.substr(0, end);
}

bool IsNumber(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsDigit);
}

// Splits at commas outside strings and trims.
std::vector<std::string_view> Operands(std::string_view text) {
  std::vector<std::string_view> operands;
  bool quoted = false;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && !quoted)) {
      operands.push_back(Trim(text.substr(start, i - start)));
      start = i + 1;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (text[i] == '\\') {
      ++i;
    }
  }
  return operands;
}

absl::Status NotAllowed(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the assembly contains '", std::string(what.substr(0, 100)), "', which is not allowed"));
}

class Reader {
 public:
  absl::Status Read(std::string_view text) {
    // After #NO_APP the assembler would not strip comments and blanks.
    if (text.substr(0, 7) == "#NO_APP") return NotAllowed("#NO_APP");
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      KC_RETURN_IF_ERROR(ReadLine(text.substr(0, end)));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return absl::OkStatus();
  }

  std::string Write() const {
    std::string text;
    std::map<std::string_view, int> seen;
    for (const Statement& statement : statements_) {
      switch (statement.kind) {
        case Statement::kLabel:
          if (statement.in_code && IsNumber(statement.text)) ++seen[statement.text];
          absl::StrAppend(
              &text,
              statement.in_code ? LabelName(statement.text, seen, 0) : std::string(statement.text),
              ":\n");
          break;
        case Statement::kInstruction:
          absl::StrAppend(&text, "\t", Instruction(statement.text, seen), "\n");
          break;
        case Statement::kDirective:
          absl::StrAppend(&text, "\t", std::string(statement.text), "\n");
          break;
      }
    }
    return text;
  }

 private:
  struct Statement {
    enum Kind { kLabel, kDirective, kInstruction } kind = kLabel;
    std::string_view text;
    bool in_code = false;
  };

  absl::Status ReadLine(std::string_view line) {
    size_t start = 0;
    bool quoted = false;
    for (size_t i = 0; i < line.size(); ++i) {
      const char c = line[i];
      if (quoted) {
        if (c == '\\') {
          ++i;
        } else if (c == '"') {
          quoted = false;
        }
        continue;
      }
      if (c == '#') {
        return ReadStatement(line.substr(start, i - start));
      }
      if (c == ';') {
        KC_RETURN_IF_ERROR(ReadStatement(line.substr(start, i - start)));
        start = i + 1;
      } else if (c == '"') {
        quoted = true;
      } else if (c == '/' || c == '\\' || c == '\'' || c == '!' || c == '`' ||
                 (c != '\t' && (c < ' ' || c > '~'))) {
        // Part of comments, escapes and character constants, which the assembler interprets first.
        return NotAllowed(line);
      }
    }
    return quoted ? NotAllowed(line) : ReadStatement(line.substr(start));
  }

  absl::Status ReadStatement(std::string_view text) {
    text = Trim(text);
    for (;;) {
      const std::string_view symbol = Symbol(text);
      const std::string_view rest = Trim(text.substr(symbol.size()));
      if (symbol.empty() || rest.empty() || rest[0] != ':') break;
      if (IsDigit(symbol[0]) && !IsNumber(symbol)) return NotAllowed(text);
      Add(Statement::kLabel, symbol);
      text = Trim(rest.substr(1));
    }
    if (text.empty()) return absl::OkStatus();
    const std::string_view whole = text;
    while (text.front() == '{') {
      const size_t end = std::min(text.find('}'), text.size() - 1);
      if (!IsOneOf(kPseudoPrefixes, text.substr(0, end + 1))) return NotAllowed(whole);
      text = Trim(text.substr(end + 1));
      if (text.empty()) return NotAllowed(whole);
    }
    const std::string_view word = Symbol(text);
    const std::string_view rest = text.substr(word.size());
    if (word.empty() || (!rest.empty() && !IsBlank(rest[0])) ||
        (!Trim(rest).empty() && Trim(rest)[0] == '=')) {
      return NotAllowed(whole);
    }
    if (word[0] == '.') {
      if (text.size() != whole.size()) return NotAllowed(whole);
      KC_RETURN_IF_ERROR(Directive(word, Trim(rest)));
      Add(Statement::kDirective, whole);
      return absl::OkStatus();
    }
    return AddInstruction(whole, word, Trim(rest));
  }

  absl::Status AddInstruction(std::string_view whole, std::string_view word,
                              std::string_view operands) {
    while (IsInstructionPrefix(word) && !operands.empty()) {
      word = Symbol(operands);
      operands = Trim(operands.substr(word.size()));
    }
    if (word.empty() || !section_.code || operands.find('"') != std::string_view::npos ||
        !std::all_of(word.begin(), word.end(), [](char c) {
          return (c >= 'a' && c <= 'z') || IsDigit(c) || c == '.' || c == '_';
        })) {
      return NotAllowed(whole);
    }
    Add(Statement::kInstruction, whole);
    return absl::OkStatus();
  }

  absl::Status Directive(std::string_view word, std::string_view rest) {
    if (word == ".text" || word == ".data" || word == ".bss") {
      return rest.empty() ? Enter({std::string(word), word == ".text"}) : NotAllowed(word);
    }
    if (word == ".section") return Section(rest);
    if (word == ".pushsection") {
      pushed_.emplace_back(section_, previous_);
      return Section(rest);
    }
    if (word == ".popsection" && rest.empty() && !pushed_.empty()) {
      std::tie(section_, previous_) = pushed_.back();
      pushed_.pop_back();
      return absl::OkStatus();
    }
    if (word == ".previous" && rest.empty()) {
      std::swap(section_, previous_);
      return absl::OkStatus();
    }
    if (word == ".p2align" || word == ".align" || word == ".balign") return Align(word, rest);
    if (word == ".type") return Type(rest);
    if (word == ".set" || word == ".equ") return Set(rest);
    if (word == ".att_syntax" && (rest.empty() || rest == "prefix")) return absl::OkStatus();
    if (IsOneOf(kDataDirectives, word)) {
      // Compilers write these as prefixes of calls that access thread-local variables.
      const bool prefix =
          (word == ".byte" && rest == "0x66") || (word == ".value" && rest == "0x6666");
      return section_.code && !prefix ? NotAllowed(absl::StrCat(std::string(word), " in code"))
                                      : absl::OkStatus();
    }
    if (IsOneOf(kPlainDirectives, word) || word.substr(0, 5) == ".cfi_") return absl::OkStatus();
    return NotAllowed(word);
  }

  struct Place {
    std::string name;
    bool code = false;
  };

  absl::Status Enter(Place place) {
    previous_ = section_;
    section_ = std::move(place);
    return absl::OkStatus();
  }

  absl::Status Section(std::string_view rest) {
    const std::vector<std::string_view> operands = Operands(rest);
    std::string_view name = operands[0];
    if (name.size() > 1 && name.front() == '"' && name.back() == '"') {
      name = name.substr(1, name.size() - 2);
    }
    const bool plain = Symbol(name).size() == name.size() || name == ".note.GNU-stack";
    if (!plain || !IsKnownSection(name) || name.substr(0, 4) == ".plt" || name == ".init" ||
        name == ".fini") {
      return NotAllowed(absl::StrCat(".section ", std::string(name)));
    }
    const bool named_code = name.substr(0, 5) == ".text";
    bool code = named_code;
    if (operands.size() > 1) {
      const std::string_view flags = operands[1];
      if (flags.size() < 2 || flags.front() != '"' || flags.back() != '"') return NotAllowed(rest);
      const bool executable = flags.find('x') != std::string_view::npos;
      if (flags.find('?') != std::string_view::npos || executable != named_code ||
          (executable && flags.find('w') != std::string_view::npos)) {
        return NotAllowed(absl::StrCat(".section ", std::string(rest)));
      }
      code = executable;
    }
    return Enter({std::string(name), code});
  }

  absl::Status Align(std::string_view word, std::string_view rest) const {
    const std::vector<std::string_view> operands = Operands(rest);
    const bool plain =
        IsNumber(operands[0]) && operands.size() <= 3 &&
        (operands.size() < 2 || operands[1].empty() || operands[1] == "0x90" || !section_.code) &&
        (operands.size() < 3 || IsNumber(operands[2]));
    return plain ? absl::OkStatus()
                 : NotAllowed(absl::StrCat(std::string(word), " ", std::string(rest)));
  }

  absl::Status Type(std::string_view rest) {
    const std::vector<std::string_view> operands = Operands(rest);
    if (operands.size() != 2 || operands[1].size() < 2 ||
        (operands[1][0] != '@' && operands[1][0] != '%') ||
        !IsOneOf(kSymbolTypes, operands[1].substr(1))) {
      return NotAllowed(absl::StrCat(".type ", std::string(rest)));
    }
    if (operands[1].substr(1) == "function") functions_.insert(operands[0]);
    return absl::OkStatus();
  }

  // A symbol for a register or for the current location would hide what an instruction does.
  static absl::Status Set(std::string_view rest) {
    const std::vector<std::string_view> operands = Operands(rest);
    const bool plain = operands.size() == 2 && !operands[0].empty() && operands[0] != "." &&
                       Symbol(operands[0]).size() == operands[0].size() &&
                       rest.find_first_of("%\"") == std::string_view::npos;
    return plain ? absl::OkStatus() : NotAllowed(absl::StrCat(".set ", std::string(rest)));
  }

  void Add(Statement::Kind kind, std::string_view text) {
    statements_.push_back({kind, text, section_.code});
    if (kind == Statement::kLabel && section_.code) code_labels_.insert(text);
  }

  bool IsLocal(std::string_view label) const {
    return label.substr(0, 2) != ".L" && !functions_.count(label) && code_labels_.count(label);
  }

  // `ahead`: 1 for a numbered label that is defined later.
  std::string LabelName(std::string_view label, const std::map<std::string_view, int>& seen,
                        int ahead) const {
    if (IsNumber(label)) {
      const auto found = seen.find(label);
      return absl::StrCat(".L", std::string(label), "_",
                          (found == seen.end() ? 0 : found->second) + ahead);
    }
    return absl::StrCat(IsLocal(label) ? ".L" : "", std::string(label));
  }

  std::string Instruction(std::string_view text,
                          const std::map<std::string_view, int>& seen) const {
    const size_t space = text.find_last_of(" \t");
    if (space == std::string_view::npos || text.find(',') != std::string_view::npos ||
        (text[0] != 'j' && text[0] != 'l' && text[0] != 'c')) {
      return std::string(text);
    }
    std::string_view operand = text.substr(space + 1);
    const std::string before(text.substr(0, space + 1));
    const bool numbered = operand.size() > 1 && IsNumber(operand.substr(0, operand.size() - 1));
    if (numbered && (operand.back() == 'b' || operand.back() == 'f')) {
      const int ahead = operand.back() == 'f' ? 1 : 0;
      operand.remove_suffix(1);
      return absl::StrCat(before, LabelName(operand, seen, ahead));
    }
    return IsLocal(operand) ? absl::StrCat(before, LabelName(operand, seen, 0)) : std::string(text);
  }

  std::vector<Statement> statements_;
  Place section_ = {".text", true};
  Place previous_ = {".text", true};
  std::vector<std::pair<Place, Place>> pushed_;
  std::set<std::string_view> functions_;
  std::set<std::string_view> code_labels_;
};

}  // namespace

bool IsInstructionPrefix(std::string_view word) { return IsOneOf(kPrefixes, word); }

absl::StatusOr<std::string> CanonicalAssembly(std::string_view assembly) {
  Reader reader;
  KC_RETURN_IF_ERROR(reader.Read(assembly));
  return reader.Write();
}

}  // namespace kernelcast::worker
