#include "common/domain/launch_parser.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/domain/launch_argument.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

constexpr size_t kMaxArgumentBytes = 1024;

absl::StatusOr<std::string> ReadExpressionText(const Cursor& at,
                                               const std::vector<std::string>& names) {
  KC_ASSIGN_OR_RETURN(const Expression expression, ReadExpression(at, names));
  return expression.text();
}

absl::StatusOr<std::vector<std::string>> ReadExtent(const Cursor& at, size_t at_least,
                                                    const std::vector<std::string>& names) {
  KC_RETURN_IF_ERROR(ExpectList(at, at_least, 3));
  std::vector<std::string> extent;
  for (size_t i = 0; i < at.node->items.size(); ++i) {
    KC_ASSIGN_OR_RETURN(std::string text, ReadExpressionText(at.Item(i), names));
    extent.push_back(std::move(text));
  }
  return extent;
}

absl::StatusOr<std::string> ReadArgument(const Cursor& at, const DeclaredNames& declared,
                                         const std::vector<std::string>& variables,
                                         bool has_workspace) {
  KC_ASSIGN_OR_RETURN(std::string text, ReadText(at, kMaxArgumentBytes));
  const absl::StatusOr<LaunchArgument> argument = ParseLaunchArgument(text);
  if (!argument.ok()) return Error(at, argument.status());
  if (argument->kind == LaunchArgument::Kind::kName) {
    const std::string& name = argument->name;
    if (declared.tensors.contains(name) ||
        std::ranges::find(declared.axes, name) != declared.axes.end()) {
      return text;
    }
    std::vector<std::string> known(declared.tensors.begin(), declared.tensors.end());
    known.insert(known.end(), declared.axes.begin(), declared.axes.end());
    known.emplace_back(kWorkspaceArgument);
    return Error(at, absl::StrCat(Quoted(text), " is not one of ", CommaList(known),
                                  ", or an expression with a type such as 3:int or 0.5:float"));
  }
  if (argument->kind == LaunchArgument::Kind::kWorkspace && !has_workspace) {
    return Error(at, Quoted(text) + " needs the key workspace_bytes");
  }
  const absl::Status expression = CheckArgumentExpression(*argument, variables);
  return expression.ok() ? absl::StatusOr<std::string>(text) : Error(at, expression);
}

// The part that launches of CUDA and Triton have in common.
absl::StatusOr<Launch> ReadLaunch(const Cursor& at, const DeclaredNames& declared,
                                  const std::vector<std::string>& variables, bool has_workspace) {
  Launch launch;
  KC_ASSIGN_OR_RETURN(launch.kernel, ReadText(at.At("kernel"), kMaxYamlNameBytes));
  if (!IsIdentifier(launch.kernel)) {
    return Error(at.At("kernel"), Quoted(launch.kernel) + " is not the name of a kernel");
  }
  KC_ASSIGN_OR_RETURN(launch.grid, ReadExtent(at.At("grid"), 1, variables));
  const Cursor arguments = at.At("arguments");
  KC_RETURN_IF_ERROR(ExpectList(arguments, 0, kMaxLaunchArguments));
  for (size_t j = 0; j < arguments.node->items.size(); ++j) {
    KC_ASSIGN_OR_RETURN(std::string argument,
                        ReadArgument(arguments.Item(j), declared, variables, has_workspace));
    launch.arguments.push_back(std::move(argument));
  }
  return launch;
}

absl::StatusOr<std::string> ReadWorkspaceBytes(const Cursor& parent,
                                               const std::vector<std::string>& variables) {
  if (!parent.Has("workspace_bytes")) return std::string();
  return ReadExpressionText(parent.At("workspace_bytes"), variables);
}

absl::StatusOr<std::vector<Constexpr>> ReadConstexprs(const Cursor& at,
                                                      const std::vector<std::string>& variables) {
  KC_RETURN_IF_ERROR(ExpectMapping(at));
  if (at.node->entries.size() > kMaxConstexprs) {
    return Error(at, absl::StrCat(at.node->entries.size(), " constants; at most ", kMaxConstexprs,
                                  " are allowed"));
  }
  std::vector<Constexpr> constexprs;
  for (const auto& [key, line, value] : at.node->entries) {
    KC_RETURN_IF_ERROR(CheckVariableName(at, line, key));
    const Cursor item = at.Child(value, key);
    KC_ASSIGN_OR_RETURN(std::string text, ReadText(item, kMaxArgumentBytes));
    const bool is_constant = text == "true" || text == "false" || text == "none" ||
                             text.starts_with("tl.") || text.starts_with("'");
    if (!is_constant) KC_RETURN_IF_ERROR(ReadExpression(item, variables).status());
    constexprs.push_back({key, std::move(text)});
  }
  return constexprs;
}

// The numbers that a count of warps or stages may be, from 1.
struct CountLimits {
  int32_t most;
  bool power_of_two;
  bool Allow(int32_t value) const {
    return value >= 1 && value <= most &&
           (!power_of_two || std::has_single_bit(static_cast<uint32_t>(value)));
  }
};
constexpr CountLimits kWarpCounts = {kMaxNumWarps, true};
constexpr CountLimits kStageCounts = {kMaxNumStages, false};

// Warps or stages: a number, or the tunable that gives it.
struct Count {
  int32_t value = 0;
  std::string tunable;
};

absl::StatusOr<Count> ReadCount(const Cursor& at,
                                const std::vector<SpaceTemplate::Dimension>& tunables,
                                const CountLimits& limits) {
  KC_ASSIGN_OR_RETURN(const std::string text, ReadText(at, kMaxYamlNameBytes));
  const auto named = std::ranges::find(tunables, text, &SpaceTemplate::Dimension::name);
  const bool is_named = named != tunables.end();
  for (const std::string& value : is_named ? named->values : std::vector<std::string>{text}) {
    // More digits than any allowed number has.
    if (IsDecimalInteger(value) && value.size() <= 4 && limits.Allow(std::stoi(value))) continue;
    return Error(
        at,
        absl::StrCat(Quoted(value), " is not ", limits.power_of_two ? "a power of two" : "a number",
                     " from 1 to ", limits.most, is_named ? "" : ", or the name of a tunable"));
  }
  return is_named ? Count{.value = 0, .tunable = text}
                  : Count{.value = std::stoi(text), .tunable = ""};
}

}  // namespace

absl::StatusOr<DeclaredLaunches> ParseLaunches(const Cursor& parent, const DeclaredNames& declared,
                                               const std::vector<std::string>& variables) {
  DeclaredLaunches parsed;
  KC_ASSIGN_OR_RETURN(parsed.workspace_bytes, ReadWorkspaceBytes(parent, variables));
  const Cursor list = parent.At("launches");
  KC_RETURN_IF_ERROR(ExpectList(list, 1, kMaxLaunches));
  for (size_t i = 0; i < list.node->items.size(); ++i) {
    const Cursor at = list.Item(i);
    KC_RETURN_IF_ERROR(ExpectKeys(at, {"kernel", "grid", "block", "arguments"},
                                  {"shared_memory_bytes", "cluster"}));
    KC_ASSIGN_OR_RETURN(Launch launch,
                        ReadLaunch(at, declared, variables, !parsed.workspace_bytes.empty()));
    KC_ASSIGN_OR_RETURN(launch.block, ReadExtent(at.At("block"), 1, variables));
    if (at.Has("cluster")) {
      KC_ASSIGN_OR_RETURN(launch.cluster, ReadExtent(at.At("cluster"), 0, variables));
    }
    if (at.Has("shared_memory_bytes")) {
      KC_ASSIGN_OR_RETURN(launch.shared_memory_bytes,
                          ReadExpressionText(at.At("shared_memory_bytes"), variables));
    }
    parsed.launches.push_back(std::move(launch));
  }
  return parsed;
}

absl::StatusOr<DeclaredTritonLaunches> ParseTritonLaunches(
    const Cursor& parent, const DeclaredNames& declared, const std::vector<std::string>& variables,
    const std::vector<SpaceTemplate::Dimension>& tunables) {
  DeclaredTritonLaunches parsed;
  KC_ASSIGN_OR_RETURN(parsed.declared.workspace_bytes, ReadWorkspaceBytes(parent, variables));
  const Cursor list = parent.At("launches");
  KC_RETURN_IF_ERROR(ExpectList(list, 1, kMaxLaunches));
  for (size_t i = 0; i < list.node->items.size(); ++i) {
    const Cursor at = list.Item(i);
    KC_RETURN_IF_ERROR(
        ExpectKeys(at, {"kernel", "grid", "arguments"}, {"constexprs", "num_warps", "num_stages"}));
    KC_ASSIGN_OR_RETURN(Launch launch, ReadLaunch(at, declared, variables,
                                                  !parsed.declared.workspace_bytes.empty()));
    if (at.Has("constexprs")) {
      KC_ASSIGN_OR_RETURN(launch.constexprs, ReadConstexprs(at.At("constexprs"), variables));
    }
    SpaceTemplate::TritonTunables names;
    if (at.Has("num_warps")) {
      KC_ASSIGN_OR_RETURN(const Count count, ReadCount(at.At("num_warps"), tunables, kWarpCounts));
      launch.num_warps = count.value;
      names.num_warps = count.tunable;
    }
    if (at.Has("num_stages")) {
      KC_ASSIGN_OR_RETURN(const Count count,
                          ReadCount(at.At("num_stages"), tunables, kStageCounts));
      launch.num_stages = count.value;
      names.num_stages = count.tunable;
    }
    parsed.declared.launches.push_back(std::move(launch));
    parsed.tunables.push_back(std::move(names));
  }
  return parsed;
}

absl::StatusOr<std::vector<std::string>> ReadFlags(const Cursor& at) {
  KC_RETURN_IF_ERROR(ExpectList(at, 0, kMaxFlags));
  std::vector<std::string> flags;
  for (size_t i = 0; i < at.node->items.size(); ++i) {
    KC_ASSIGN_OR_RETURN(std::string flag, ReadText(at.Item(i), 255));
    if (!IsFlagShaped(flag)) {
      return Error(at.Item(i), Quoted(flag) + " is not one compiler flag such as -ffast-math");
    }
    flags.push_back(std::move(flag));
  }
  return flags;
}

}  // namespace kernelcast
