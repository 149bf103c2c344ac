#include "common/domain/space_parser.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/domain/text.h"
#include "common/domain/yaml_tree.h"

namespace kernelcast {
namespace {

constexpr size_t kMaxTemplates = 256;
constexpr size_t kMaxDimensions = 32;
constexpr size_t kMaxValues = 1024;
constexpr size_t kMaxFlagSets = 64;
// Maximum size of the lines before a template, with kMaxDimensions names and values of
// kMaxYamlNameBytes.
constexpr int64_t kMaxPrologueBytes = 8 << 10;
constexpr size_t kMaxConstraints = 32;
constexpr int64_t kMaxPoints = 1'000'000;
// Points times constraints. Bounds the time to list a space to a few seconds.
constexpr int64_t kMaxConstraintChecks = 4'000'000;
// Maximum number of points to try when checking that constraints admit any.
constexpr int kConstraintTrials = 20'000;

absl::Status ParseTunables(const Cursor& at, const SpaceOwner& owner, SpaceTemplate& parsed) {
  KC_RETURN_IF_ERROR(ExpectMapping(at));
  if (at.node->entries.size() > kMaxDimensions) {
    return Error(at, absl::StrCat(at.node->entries.size(), " tunables; at most ", kMaxDimensions,
                                  " are allowed"));
  }
  for (const auto& [key, line, value] : at.node->entries) {
    KC_RETURN_IF_ERROR(CheckVariableName(at, line, key));
    if (key == "FLAGS" || key == "TEMPLATE") {
      return ErrorAtLine(at, line, Quoted(key) + " is reserved");
    }
    if (KindInfoOf(parsed.kind).has_launches() && owner.names != nullptr &&
        std::ranges::find(owner.names->axes, key) != owner.names->axes.end()) {
      return ErrorAtLine(at, line, Quoted(key) + " is the name of an axis");
    }
    const Cursor values = at.Child(value, key);
    KC_RETURN_IF_ERROR(ExpectList(values, 1, kMaxValues));
    SpaceTemplate::Dimension dimension;
    dimension.name = key;
    std::set<std::string> seen;
    for (size_t i = 0; i < values.node->items.size(); ++i) {
      const Cursor item = values.Item(i);
      KC_ASSIGN_OR_RETURN(std::string text, ReadText(item, kMaxYamlNameBytes));
      if (!IsDecimalInteger(text) && !IsIdentifier(text)) {
        return Error(item, Quoted(text) + " is neither a decimal integer nor an identifier");
      }
      if (!seen.insert(text).second) return Error(item, Quoted(text) + " occurs twice");
      dimension.values.push_back(std::move(text));
    }
    parsed.dimensions.push_back(std::move(dimension));
  }
  return absl::OkStatus();
}

absl::Status ParseFlagSets(const Cursor& template_at, SpaceTemplate& parsed) {
  if (!template_at.Has("flags")) {
    parsed.flag_sets.emplace_back();
    return absl::OkStatus();
  }
  const Cursor at = template_at.At("flags");
  KC_RETURN_IF_ERROR(ExpectList(at, 1, kMaxFlagSets));
  for (size_t i = 0; i < at.node->items.size(); ++i) {
    KC_ASSIGN_OR_RETURN(std::vector<std::string> flags, ReadFlags(at.Item(i)));
    if (std::ranges::find(parsed.flag_sets, flags) != parsed.flag_sets.end()) {
      return Error(at.Item(i), "repeats an earlier set of flags");
    }
    parsed.flag_sets.push_back(std::move(flags));
  }
  if (parsed.flag_sets.size() > 1) {
    SpaceTemplate::Dimension dimension;
    dimension.name = "FLAGS";
    for (size_t i = 0; i < parsed.flag_sets.size(); ++i) {
      dimension.values.push_back(absl::StrCat(i));
    }
    parsed.dimensions.push_back(std::move(dimension));
  }
  return absl::OkStatus();
}

// Tunables that have only integer values, and so can be used in expressions.
std::vector<std::string> NumericTunables(const SpaceTemplate& parsed) {
  std::vector<std::string> numeric;
  for (const SpaceTemplate::Dimension& dimension : parsed.dimensions) {
    if (std::ranges::all_of(dimension.values,
                            [](const std::string& value) { return IsDecimalInteger(value); })) {
      numeric.push_back(dimension.name);
    }
  }
  return numeric;
}

absl::Status ParseConstraints(const Cursor& at, const std::vector<std::string>& numeric,
                              SpaceTemplate& parsed) {
  KC_RETURN_IF_ERROR(ExpectList(at, 0, kMaxConstraints));
  for (size_t i = 0; i < at.node->items.size(); ++i) {
    KC_ASSIGN_OR_RETURN(Expression constraint, ReadExpression(at.Item(i), numeric));
    parsed.constraints.push_back(std::move(constraint));
  }
  return absl::OkStatus();
}

// Checks that some point of the template is admitted. If `trials` run out, the template is
// accepted.
absl::Status CheckSatisfiable(const Cursor& at, const Space& space, int template_index,
                              int& trials) {
  const SpaceTemplate& parsed = space.templates[template_index];
  if (parsed.constraints.empty()) return absl::OkStatus();
  SpacePoint point{.template_index = template_index,
                   .values = std::vector<int>(parsed.dimensions.size(), 0)};
  do {
    if (trials-- <= 0 || Admits(space, point)) return absl::OkStatus();
  } while (NextPoint(parsed, point));
  return Error(at.At("constraints"), "no point satisfies them");
}

// A Python file of the cuda target has launches; others are of the reference's kind.
absl::StatusOr<CandidateKind> KindOf(const Cursor& at, const SpaceOwner& owner) {
  if (owner.target != kCudaTargetName || !at.Has("file")) return owner.kind;
  KC_ASSIGN_OR_RETURN(const std::string file, ReadText(at.At("file"), kMaxYamlNameBytes));
  const std::optional<CandidateKind> of_file = KindOfFile(file);
  if (!of_file || !KindInfoOf(*of_file).is_python) return owner.kind;
  return KindOfSource(/*is_python=*/true, /*has_launches=*/true);
}

// Adds every word of the texts below a node that an expression could use as a name.
void AddWords(const YamlNode& node, std::set<std::string>& words) {
  std::string word;
  for (const char c : node.scalar + " ") {
    if (IsIdentifier(word + c)) {
      word += c;
      continue;
    }
    if (!word.empty() && !Expression::IsReservedName(word)) words.insert(word);
    word.clear();
  }
  for (const YamlNode& item : node.items) AddWords(item, words);
  for (const YamlEntry& entry : node.entries) AddWords(entry.value, words);
}

absl::Status ParseDeviceProgram(const Cursor& at, const SpaceOwner& owner,
                                const std::vector<std::string>& numeric, SpaceTemplate& parsed) {
  DeclaredNames names;
  if (owner.names != nullptr) {
    names = *owner.names;
  } else {
    AddWords(*at.node, names.tensors);
    names.axes.assign(names.tensors.begin(), names.tensors.end());
  }
  std::vector<std::string> variables = names.axes;
  variables.insert(variables.end(), numeric.begin(), numeric.end());
  DeclaredLaunches declared;
  if (KindInfoOf(parsed.kind).launch_form == LaunchForm::kTriton) {
    KC_ASSIGN_OR_RETURN(DeclaredTritonLaunches triton,
                        ParseTritonLaunches(at, names, variables, parsed.dimensions));
    declared = std::move(triton.declared);
    parsed.triton_tunables = std::move(triton.tunables);
  } else {
    KC_ASSIGN_OR_RETURN(declared, ParseLaunches(at, names, variables));
  }
  parsed.launches = std::move(declared.launches);
  parsed.workspace_bytes = std::move(declared.workspace_bytes);
  return absl::OkStatus();
}

absl::StatusOr<SpaceTemplate> ParseTemplate(const Cursor& at, const std::string& folder,
                                            const SpaceOwner& owner, ProblemFileReader& files) {
  KC_RETURN_IF_ERROR(ExpectMapping(at));
  SpaceTemplate parsed;
  KC_ASSIGN_OR_RETURN(parsed.kind, KindOf(at, owner));
  const KindInfo& info = KindInfoOf(parsed.kind);
  std::vector<std::string> required = {"name", "file"};
  std::vector<std::string> optional = {"description", "tunables", "constraints"};
  if (info.has_launches()) {
    required.emplace_back("launches");
    optional.emplace_back("workspace_bytes");
  }
  if (!info.is_python) optional.emplace_back("flags");
  KC_RETURN_IF_ERROR(ExpectKeys(at, required, optional));
  KC_ASSIGN_OR_RETURN(parsed.name, ReadLowerName(at.At("name")));
  // The name becomes the value of a tunable.
  if (!IsIdentifier(parsed.name)) {
    return Error(at.At("name"), Quoted(parsed.name) + " does not begin with a letter");
  }
  if (at.Has("description")) {
    KC_ASSIGN_OR_RETURN(parsed.description, ReadText(at.At("description"), kMaxDescriptionBytes));
  }
  std::string path;
  KC_ASSIGN_OR_RETURN(parsed.source, files.ReadSource(at.At("file"), folder, path,
                                                      kMaxSourceBytes - kMaxPrologueBytes));
  parsed.file = path.substr(folder.size());
  if (at.Has("tunables")) {
    KC_RETURN_IF_ERROR(ParseTunables(at.At("tunables"), owner, parsed));
  }
  KC_RETURN_IF_ERROR(ParseFlagSets(at, parsed));
  const std::vector<std::string> numeric = NumericTunables(parsed);
  if (at.Has("constraints")) {
    KC_RETURN_IF_ERROR(ParseConstraints(at.At("constraints"), numeric, parsed));
  }
  if (info.has_launches()) KC_RETURN_IF_ERROR(ParseDeviceProgram(at, owner, numeric, parsed));
  return parsed;
}

}  // namespace

absl::StatusOr<Space> ParseSpace(const Cursor& at, const SpaceOwner& owner,
                                 ProblemFileReader& files) {
  std::string file;
  KC_ASSIGN_OR_RETURN(const std::string content, files.ReadNamed(at, "", file));
  KC_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(file, content));
  const Cursor top{&file, &root, "", root.line};
  KC_RETURN_IF_ERROR(ExpectKeys(top, {"schema", "target", "templates"}, {}));
  KC_RETURN_IF_ERROR(ReadInteger(top.At("schema"), 1, 1).status());
  Space space;
  KC_ASSIGN_OR_RETURN(space.target, ReadLowerName(top.At("target")));
  if (space.target != owner.target) {
    return Error(top.At("target"), absl::StrCat(Quoted(space.target), " is not the target '",
                                                owner.target, "' that names this file"));
  }
  const size_t slash = file.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : file.substr(0, slash + 1);
  const Cursor list = top.At("templates");
  KC_RETURN_IF_ERROR(ExpectList(list, 1, kMaxTemplates));
  std::set<std::string> names;
  int64_t points = 0;
  int64_t checks = 0;
  int trials = kConstraintTrials;
  for (size_t i = 0; i < list.node->items.size(); ++i) {
    const Cursor item = list.Item(i);
    KC_ASSIGN_OR_RETURN(SpaceTemplate parsed, ParseTemplate(item, folder, owner, files));
    if (!names.insert(parsed.name).second) {
      return Error(item.At("name"), Quoted(parsed.name) + " is the name of an earlier template");
    }
    int64_t size = 1;
    for (const SpaceTemplate::Dimension& dimension : parsed.dimensions) {
      size =
          std::min<int64_t>(size * static_cast<int64_t>(dimension.values.size()), kMaxPoints + 1);
    }
    points += size;
    if (points > kMaxPoints) {
      return Error(item, absl::StrCat("the space has more than ", kMaxPoints, " points"));
    }
    checks += size * static_cast<int64_t>(parsed.constraints.size());
    if (checks > kMaxConstraintChecks) {
      return Error(item, absl::StrCat("more than ", kMaxConstraintChecks,
                                      " points times constraints in the space"));
    }
    space.templates.push_back(std::move(parsed));
    KC_RETURN_IF_ERROR(CheckSatisfiable(item, space, static_cast<int>(i), trials));
  }
  return space;
}

}  // namespace kernelcast
