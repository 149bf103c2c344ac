#include "common/domain/launch_parser.h"

#include <algorithm>
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

}  // namespace

absl::StatusOr<DeclaredLaunches> ParseLaunches(const Cursor& parent, const DeclaredNames& declared,
                                               const std::vector<std::string>& variables) {
  DeclaredLaunches parsed;
  if (parent.Has("workspace_bytes")) {
    KC_ASSIGN_OR_RETURN(parsed.workspace_bytes,
                        ReadExpressionText(parent.At("workspace_bytes"), variables));
  }
  const Cursor list = parent.At("launches");
  KC_RETURN_IF_ERROR(ExpectList(list, 1, kMaxLaunches));
  for (size_t i = 0; i < list.node->items.size(); ++i) {
    const Cursor at = list.Item(i);
    KC_RETURN_IF_ERROR(ExpectKeys(at, {"kernel", "grid", "block", "arguments"},
                                  {"shared_memory_bytes", "cluster"}));
    Launch launch;
    KC_ASSIGN_OR_RETURN(launch.kernel, ReadText(at.At("kernel"), kMaxYamlNameBytes));
    if (!IsIdentifier(launch.kernel)) {
      return Error(at.At("kernel"), Quoted(launch.kernel) + " is not the name of a kernel");
    }
    KC_ASSIGN_OR_RETURN(launch.grid, ReadExtent(at.At("grid"), 1, variables));
    KC_ASSIGN_OR_RETURN(launch.block, ReadExtent(at.At("block"), 1, variables));
    if (at.Has("cluster")) {
      KC_ASSIGN_OR_RETURN(launch.cluster, ReadExtent(at.At("cluster"), 0, variables));
    }
    if (at.Has("shared_memory_bytes")) {
      KC_ASSIGN_OR_RETURN(launch.shared_memory_bytes,
                          ReadExpressionText(at.At("shared_memory_bytes"), variables));
    }
    const Cursor arguments = at.At("arguments");
    KC_RETURN_IF_ERROR(ExpectList(arguments, 0, kMaxLaunchArguments));
    for (size_t j = 0; j < arguments.node->items.size(); ++j) {
      KC_ASSIGN_OR_RETURN(std::string argument, ReadArgument(arguments.Item(j), declared, variables,
                                                             !parsed.workspace_bytes.empty()));
      launch.arguments.push_back(std::move(argument));
    }
    parsed.launches.push_back(std::move(launch));
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
