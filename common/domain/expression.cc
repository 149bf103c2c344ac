#include "common/domain/expression.h"

#include <muParser.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

constexpr size_t kMaxFormulaBytes = 1024;
constexpr size_t kCompiledPerThread = 64;
constexpr double kMaxExactInteger = 9007199254740992.0;  // 2^53

double CeilDiv(double a, double b) { return std::ceil(a / b); }
double FlooredMod(double a, double b) { return a - b * std::floor(a / b); }
double Floor(double a) { return std::floor(a); }
double Ceil(double a) { return std::ceil(a); }
// The smallest power of two that is not less. 1 for values below 1.
double NextPowerOfTwo(double a) {
  if (!(a > 1)) return 1;
  int exponent = 0;
  const double fraction = std::frexp(a, &exponent);
  return std::ldexp(1.0, fraction == 0.5 ? exponent - 1 : exponent);
}

void DefineFunctions(mu::Parser& parser) {
  parser.DefineFun("floor", Floor);
  parser.DefineFun("ceil", Ceil);
  parser.DefineFun("ceildiv", CeilDiv);
  parser.DefineFun("mod", FlooredMod);
  parser.DefineFun("next_power_of_2", NextPowerOfTwo);
}

const std::set<std::string, std::less<>>& BuiltInNames() {
  static const auto& names = *[] {
    auto* all = new std::set<std::string, std::less<>>;
    mu::Parser parser;
    DefineFunctions(parser);
    for (const auto& [name, function] : parser.GetFunDef()) all->insert(name);
    for (const auto& [name, value] : parser.GetConst()) all->insert(name);
    return all;
  }();
  return names;
}

bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigitOrDot(char c) { return (c >= '0' && c <= '9') || c == '.'; }
bool IsNameChar(char c) { return IsNameStart(c) || (c >= '0' && c <= '9'); }

// Index after the number that starts at `i`, including its exponent.
size_t SkipNumber(std::string_view text, size_t i) {
  while (i < text.size() && IsDigitOrDot(text[i])) ++i;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    size_t j = i + 1;
    if (j < text.size() && (text[j] == '+' || text[j] == '-')) ++j;
    if (j < text.size() && IsDigitOrDot(text[j])) {
      while (j < text.size() && IsDigitOrDot(text[j])) ++j;
      return j;
    }
  }
  return i;
}

absl::Status SyntaxError(std::string_view text, size_t position, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("expression ", Quoted(text), ", character ",
                                                 position + 1, ": ", std::string(what)));
}

// muParser's message without its description of the position.
std::string ShortMessage(const mu::ParserError& error) {
  std::string message = error.GetMsg();
  for (const char* tail : {" found at position", " at position", " at expression position"}) {
    if (const size_t at = message.find(tail); at != std::string::npos) message.resize(at);
  }
  while (!message.empty() && (message.back() == '.' || message.back() == ' ')) message.pop_back();
  return message;
}

// A compiled expression and the storage of its variables. Used by one thread.
struct Compiled {
  std::string text;
  std::vector<std::string> names;
  std::vector<double> values;
  mu::Parser parser;
};

// Compiles into `compiled`, which is unspecified on failure.
absl::Status Compile(const std::string& text, const std::vector<std::string>& names,
                     Compiled& compiled) {
  try {
    compiled.text = text;
    compiled.names = names;
    compiled.values.assign(names.size(), 1);
    DefineFunctions(compiled.parser);
    for (size_t i = 0; i < names.size(); ++i) {
      compiled.parser.DefineVar(names[i], &compiled.values[i]);
    }
    compiled.parser.SetExpr(text);
    compiled.parser.Eval();
    if (compiled.parser.GetNumResults() != 1) {
      return SyntaxError(text, 0, "several results; a comma only separates arguments");
    }
    return absl::OkStatus();
  } catch (const mu::ParserError& error) {
    const int position = error.GetPos();
    const bool known = position >= 0 && position <= static_cast<int>(text.size());
    return SyntaxError(text, known ? static_cast<size_t>(position) : text.size(),
                       ShortMessage(error));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("expression ", Quoted(text), ": ", error.what()));
  }
}

// Returns the compiled form from a small per-thread cache. muParser's objects must not be shared,
// and building one costs more than a hundred evaluations.
absl::StatusOr<Compiled*> CompiledOnThisThread(const std::string& text,
                                               const std::vector<std::string>& names) {
  struct Cache {
    std::array<std::unique_ptr<Compiled>, kCompiledPerThread> slots;
    size_t next = 0;
  };
  thread_local Cache cache;
  for (const std::unique_ptr<Compiled>& slot : cache.slots) {
    if (slot != nullptr && slot->text == text && slot->names == names) return slot.get();
  }
  auto compiled = std::make_unique<Compiled>();
  KC_RETURN_IF_ERROR(Compile(text, names, *compiled));
  std::unique_ptr<Compiled>& slot = cache.slots[cache.next];
  cache.next = (cache.next + 1) % cache.slots.size();
  slot = std::move(compiled);
  return slot.get();
}

}  // namespace

bool Expression::IsReservedName(std::string_view name) { return BuiltInNames().contains(name); }

absl::StatusOr<Expression> Expression::Parse(std::string_view text,
                                             const std::vector<std::string>& names) {
  if (text.size() > kMaxFormulaBytes) {
    return absl::InvalidArgumentError(absl::StrCat("expression ", Quoted(text), " has ",
                                                   text.size(), " bytes; at most ",
                                                   kMaxFormulaBytes, " are allowed"));
  }
  std::set<std::string, std::less<>> used;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (IsDigitOrDot(c)) {
      i = SkipNumber(text, i);
    } else if (IsNameStart(c)) {
      size_t end = i;
      while (end < text.size() && IsNameChar(text[end])) ++end;
      const std::string_view name = text.substr(i, end - i);
      if (std::ranges::find(names, name) != names.end()) {
        used.emplace(name);
      } else if (!BuiltInNames().contains(name)) {
        return SyntaxError(text, i,
                           absl::StrCat("unknown name ", Quoted(name), "; known names are ",
                                        names.empty() ? "none" : CommaList(names)));
      }
      i = end;
    } else if (c == '=') {
      // muParser would treat '=' as an assignment to a variable.
      const bool second = i > 0 && std::string_view("=<>!").find(text[i - 1]) != text.npos;
      const bool first = i + 1 < text.size() && text[i + 1] == '=';
      if (!first && !second) return SyntaxError(text, i, "'=' does not compare; write '=='");
      i += first ? 2 : 1;
    } else if (std::string_view(" +-*/^()<>!&|?:,").find(c) != std::string_view::npos) {
      ++i;
    } else {
      return SyntaxError(
          text, i,
          absl::StrCat("character ", Quoted(text.substr(i, 1)), " is not part of an expression"));
    }
  }
  Expression expression;
  expression.text_ = std::string(text);
  expression.names_.assign(used.begin(), used.end());
  KC_RETURN_IF_ERROR(CompiledOnThisThread(expression.text_, expression.names_).status());
  return expression;
}

absl::StatusOr<double> Expression::Evaluate(const Variables& variables) const {
  KC_ASSIGN_OR_RETURN(Compiled * compiled, CompiledOnThisThread(text_, names_));
  for (size_t i = 0; i < names_.size(); ++i) {
    const auto variable = variables.find(names_[i]);
    if (variable == variables.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("expression ", Quoted(text_), ": ", Quoted(names_[i]), " has no value"));
    }
    compiled->values[i] = variable->second;
  }
  double value = 0;
  try {
    value = compiled->parser.Eval();
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("expression ", Quoted(text_), ": ", error.what()));
  } catch (const mu::ParserError& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("expression ", Quoted(text_), ": ", ShortMessage(error)));
  }
  if (!std::isfinite(value)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expression ", Quoted(text_), " is ", NumberText(value), ", not a number"));
  }
  return value;
}

absl::StatusOr<int64_t> Expression::EvaluateInteger(const Variables& variables, int64_t low,
                                                    int64_t high) const {
  KC_ASSIGN_OR_RETURN(const double value, Evaluate(variables));
  const bool whole = value == std::floor(value) && std::abs(value) <= kMaxExactInteger;
  const int64_t integer = whole ? static_cast<int64_t>(value) : 0;
  if (!whole || integer < low || integer > high) {
    return absl::InvalidArgumentError(
        absl::StrCat("expression ", Quoted(text_), " is ", NumberText(value, 17),
                     ", not a whole number from ", low, " to ", high));
  }
  return integer;
}

}  // namespace kernelcast
