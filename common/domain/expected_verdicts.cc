#include "common/domain/expected_verdicts.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/domain/text.h"
#include "common/domain/yaml_tree.h"

namespace kernelcast {
namespace {

constexpr ExpectedVerdict kVerdicts[] = {ExpectedVerdict::kOk, ExpectedVerdict::kWrongResult,
                                         ExpectedVerdict::kCompileError, ExpectedVerdict::kRace};

class VerdictsParser {
 public:
  VerdictsParser(const std::string& file, const Space& space) : file_(file), space_(space) {}

  absl::StatusOr<ExpectedVerdicts> Parse(const std::string& content) {
    KC_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(file_, content));
    if (root.kind != YamlNode::Kind::kMapping) {
      return Error(root.line, "", "expected a mapping of templates to their verdicts");
    }
    std::vector<std::string> names;
    for (const SpaceTemplate& known : space_.templates) names.push_back(known.name);
    for (const YamlEntry& entry : root.entries) {
      if (std::ranges::find(names, entry.key) == names.end()) {
        return Error(entry.line, entry.key,
                     absl::StrCat("the space has no such template; it has ", CommaList(names)));
      }
    }
    ExpectedVerdicts verdicts;
    for (const SpaceTemplate& known : space_.templates) {
      const YamlNode* const node = root.Find(known.name);
      if (node == nullptr) return Error(root.line, known.name, "the template has no verdict");
      KC_ASSIGN_OR_RETURN(verdicts.emplace_back(), ParseTemplate(known, *node));
    }
    return verdicts;
  }

 private:
  absl::Status Error(int line, const std::string& path, const std::string& what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(file_, ":", line, ": ", path, path.empty() ? "" : ": ", what));
  }

  // Checks for a mapping with no keys other than `allowed`.
  absl::Status ExpectKeys(const YamlNode& node, const std::string& path,
                          const std::vector<std::string>& allowed) const {
    if (node.kind != YamlNode::Kind::kMapping) {
      return Error(node.line, path, absl::StrCat("expected a mapping of ", CommaList(allowed)));
    }
    for (const YamlEntry& entry : node.entries) {
      if (std::ranges::find(allowed, entry.key) == allowed.end()) {
        return Error(
            entry.line, path,
            absl::StrCat("unknown key ", Quoted(entry.key), "; allowed are ", CommaList(allowed)));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ExpectedVerdict> ParseVerdict(const YamlNode& parent,
                                               const std::string& path) const {
    const YamlNode* const node = parent.Find("verdict");
    if (node == nullptr) return Error(parent.line, path, "missing key 'verdict'");
    std::vector<std::string> names;
    for (const ExpectedVerdict verdict : kVerdicts) {
      if (node->scalar == Name(verdict)) return verdict;
      names.emplace_back(Name(verdict));
    }
    return Error(node->line, path + ".verdict",
                 absl::StrCat(Quoted(node->scalar), " is not one of ", CommaList(names)));
  }

  absl::StatusOr<TemplateVerdicts> ParseTemplate(const SpaceTemplate& known,
                                                 const YamlNode& node) const {
    KC_RETURN_IF_ERROR(ExpectKeys(node, known.name, {"verdict", "note", "except"}));
    TemplateVerdicts verdicts;
    KC_ASSIGN_OR_RETURN(verdicts.verdict, ParseVerdict(node, known.name));
    const YamlNode* const note = node.Find("note");
    if (note == nullptr || note->kind != YamlNode::Kind::kScalar || note->scalar.empty()) {
      return Error(node.line, known.name, "missing a 'note' that says why");
    }
    verdicts.note = note->scalar;
    const YamlNode* const except = node.Find("except");
    if (except == nullptr) return verdicts;
    const std::string path = known.name + ".except";
    if (except->kind != YamlNode::Kind::kSequence || except->items.empty()) {
      return Error(except->line, path, "expected a list of exceptions");
    }
    for (size_t i = 0; i < except->items.size(); ++i) {
      KC_ASSIGN_OR_RETURN(verdicts.exceptions.emplace_back(),
                          ParseException(known, except->items[i], absl::StrCat(path, "[", i, "]")));
    }
    return verdicts;
  }

  absl::StatusOr<TemplateVerdicts::Exception> ParseException(const SpaceTemplate& known,
                                                             const YamlNode& node,
                                                             const std::string& path) const {
    KC_RETURN_IF_ERROR(ExpectKeys(node, path, {"verdict", "at"}));
    TemplateVerdicts::Exception exception;
    KC_ASSIGN_OR_RETURN(exception.verdict, ParseVerdict(node, path));
    const YamlNode* const at = node.Find("at");
    if (at == nullptr || at->kind != YamlNode::Kind::kMapping || at->entries.empty()) {
      return Error(node.line, path, "missing 'at': tunables with lists of their values");
    }
    for (const YamlEntry& entry : at->entries) {
      const std::string entry_path = absl::StrCat(path, ".at.", entry.key);
      const auto dimension =
          std::ranges::find(known.dimensions, entry.key, &SpaceTemplate::Dimension::name);
      if (dimension == known.dimensions.end()) {
        return Error(entry.line, entry_path, "the template has no such tunable");
      }
      SpaceTemplate::Dimension match{.name = entry.key, .values = {}};
      for (const YamlNode& value : entry.value.items) {
        if (std::ranges::find(dimension->values, value.scalar) == dimension->values.end()) {
          return Error(
              value.line, entry_path,
              absl::StrCat(Quoted(value.scalar), " is not one of ", CommaList(dimension->values)));
        }
        match.values.push_back(value.scalar);
      }
      if (match.values.empty()) return Error(entry.line, entry_path, "expected a list of values");
      exception.at.push_back(std::move(match));
    }
    return exception;
  }

  const std::string& file_;
  const Space& space_;
};

bool Matches(const TemplateVerdicts::Exception& exception, const SpaceTemplate& space_template,
             const SpacePoint& point) {
  return std::ranges::all_of(exception.at, [&](const SpaceTemplate::Dimension& match) {
    const auto dimension =
        std::ranges::find(space_template.dimensions, match.name, &SpaceTemplate::Dimension::name);
    const std::string& value =
        dimension->values[point.values[dimension - space_template.dimensions.begin()]];
    return std::ranges::find(match.values, value) != match.values.end();
  });
}

}  // namespace

std::string_view Name(ExpectedVerdict verdict) {
  switch (verdict) {
    case ExpectedVerdict::kOk: return "ok";
    case ExpectedVerdict::kWrongResult: return "wrong_result";
    case ExpectedVerdict::kCompileError: return "compile_error";
    case ExpectedVerdict::kRace: return "race";
  }
  return "";
}

absl::StatusOr<ExpectedVerdicts> ParseExpectedVerdicts(const std::string& file,
                                                       const std::string& content,
                                                       const Space& space) {
  return VerdictsParser(file, space).Parse(content);
}

absl::StatusOr<std::optional<ExpectedVerdicts>> ReadExpectedVerdicts(const std::string& folder,
                                                                     const Space& space) {
  const std::string file = absl::StrCat("space/expected_verdicts_", space.target, ".yaml");
  const absl::StatusOr<std::string> content = ReadTextFile(absl::StrCat(folder, "/", file));
  if (absl::IsNotFound(content.status())) return std::optional<ExpectedVerdicts>();
  if (!content.ok()) return content.status();
  KC_ASSIGN_OR_RETURN(ExpectedVerdicts verdicts, ParseExpectedVerdicts(file, *content, space));
  return std::optional<ExpectedVerdicts>(std::move(verdicts));
}

const TemplateVerdicts::Exception* ExceptionAt(const ExpectedVerdicts& verdicts, const Space& space,
                                               const SpacePoint& point) {
  for (const TemplateVerdicts::Exception& exception : verdicts[point.template_index].exceptions) {
    if (Matches(exception, space.templates[point.template_index], point)) return &exception;
  }
  return nullptr;
}

}  // namespace kernelcast
