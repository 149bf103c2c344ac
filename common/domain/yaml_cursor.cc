#include "common/domain/yaml_cursor.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

std::string Describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull: return "nothing";
    case YamlNode::Kind::kScalar: return Quoted(node.scalar);
    case YamlNode::Kind::kSequence: return "a list";
    case YamlNode::Kind::kMapping: return "a mapping";
  }
  return "nothing";
}

}  // namespace

absl::Status ErrorAtLine(const Cursor& at, int line, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat(*at.file, ":", line, ": ", at.path, at.path.empty() ? "" : ": ", what));
}

absl::Status Error(const Cursor& at, const std::string& what) {
  return ErrorAtLine(at, at.line, what);
}

absl::Status Error(const Cursor& at, const absl::Status& cause) {
  return Error(at, std::string(cause.message()));
}

absl::Status ExpectMapping(const Cursor& at) {
  if (at.node->kind == YamlNode::Kind::kMapping) return absl::OkStatus();
  return Error(at,
               absl::StrCat("expected a mapping of keys to values, found ", Describe(*at.node)));
}

absl::Status ExpectKeys(const Cursor& at, const std::vector<std::string>& required,
                        const std::vector<std::string>& optional) {
  KC_RETURN_IF_ERROR(ExpectMapping(at));
  std::vector<std::string> allowed = required;
  allowed.insert(allowed.end(), optional.begin(), optional.end());
  for (const auto& [key, line, value] : at.node->entries) {
    if (std::ranges::find(allowed, key) != allowed.end()) continue;
    const std::string nearest = NearestWord(key, allowed);
    return ErrorAtLine(
        at, line,
        absl::StrCat("unknown key ", Quoted(key),
                     nearest.empty() ? "" : "; did you mean '" + nearest + "'?",
                     nearest.empty() ? "; allowed are " : " Allowed are ", CommaList(allowed)));
  }
  for (const std::string& key : required) {
    if (!at.Has(key)) return Error(at, absl::StrCat("missing key '", key, "'"));
  }
  return absl::OkStatus();
}

absl::Status ExpectList(const Cursor& at, size_t at_least, size_t at_most) {
  if (at.node->kind != YamlNode::Kind::kSequence) {
    return Error(at, absl::StrCat("expected a list, found ", Describe(*at.node)));
  }
  const size_t size = at.node->items.size();
  if (size == 0 && at_least > 0) {
    return Error(at, absl::StrCat("is an empty list; at least ", at_least, " entr",
                                  at_least == 1 ? "y is" : "ies are", " needed"));
  }
  if (size < at_least || size > at_most) {
    return Error(
        at, at_least == at_most
                ? absl::StrCat(size, " entries; exactly ", at_most, " are needed")
                : absl::StrCat(size, " entries; from ", at_least, " to ", at_most, " are allowed"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadText(const Cursor& at, size_t max_bytes) {
  if (at.node->kind != YamlNode::Kind::kScalar) {
    return Error(at, absl::StrCat("expected text, found ", Describe(*at.node)));
  }
  std::string text = at.node->scalar;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if (text.empty()) return Error(at, "is empty");
  if (text.size() > max_bytes) {
    return Error(at, absl::StrCat(text.size(), " bytes; at most ", max_bytes, " are allowed"));
  }
  // An escape in a quoted scalar can produce characters that are not allowed in the file.
  if (!IsSourceText(text)) return Error(at, "is not UTF-8 text without NUL");
  return text;
}

absl::StatusOr<int64_t> ReadInteger(const Cursor& at, int64_t low, int64_t high) {
  const YamlNode& node = *at.node;
  if (node.kind == YamlNode::Kind::kScalar && IsDecimalInteger(node.scalar)) {
    int64_t value = 0;
    std::from_chars(node.scalar.data(), node.scalar.data() + node.scalar.size(), value);
    if (value >= low && value <= high) return value;
  }
  return Error(at, absl::StrCat(Describe(node), " is not a whole number from ", low, " to ", high));
}

absl::StatusOr<double> ReadNumber(const Cursor& at) {
  const YamlNode& node = *at.node;
  if (node.kind == YamlNode::Kind::kScalar) {
    const std::string& text = node.scalar;
    const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
    const char* end = text.data() + text.size();
    double value = 0;
    const auto [stop, error] = std::from_chars(begin, end, value);
    if (error == std::errc() && stop == end && std::isfinite(value)) return value;
  }
  return Error(at, absl::StrCat(Describe(node), " is not a finite number"));
}

absl::StatusOr<double> ReadNumber(const Cursor& at, double low, double high) {
  KC_ASSIGN_OR_RETURN(const double value, ReadNumber(at));
  if (value >= low && value <= high) return value;
  return Error(at, absl::StrCat(Describe(*at.node), " is not a number from ", NumberText(low),
                                " to ", NumberText(high)));
}

absl::StatusOr<Expression> ReadExpression(const Cursor& at, const std::vector<std::string>& names) {
  if (at.node->kind != YamlNode::Kind::kScalar) {
    return Error(at, absl::StrCat("expected an expression, found ", Describe(*at.node)));
  }
  absl::StatusOr<Expression> expression = Expression::Parse(at.node->scalar, names);
  if (!expression.ok()) {
    // YAML has split [min(a, b)] at the comma.
    const std::string& text = at.node->scalar;
    const bool cut = std::ranges::count(text, '(') != std::ranges::count(text, ')');
    return Error(
        at, absl::StrCat(expression.status().message(),
                         cut ? "; between brackets, an expression with a comma needs quotes" : ""));
  }
  return expression;
}

absl::StatusOr<std::string> ReadLowerName(const Cursor& at) {
  KC_ASSIGN_OR_RETURN(const std::string name, ReadText(at, kMaxYamlNameBytes));
  if (IsLowerName(name)) return name;
  return Error(at, Quoted(name) + " is not a name of a-z, 0-9 and _");
}

absl::Status CheckVariableName(const Cursor& at, int line, const std::string& name) {
  if (name.size() > kMaxYamlNameBytes || !IsIdentifier(name) || name[0] == '_') {
    return ErrorAtLine(at, line,
                       absl::StrCat(Quoted(name), " is not a name: a letter, then letters, digits ",
                                    "and _, at most ", kMaxYamlNameBytes, " in all"));
  }
  if (Expression::IsReservedName(name)) {
    return ErrorAtLine(at, line, Quoted(name) + " is the name of a function in expressions");
  }
  return absl::OkStatus();
}

}  // namespace kernelcast
