#include "common/domain/candidate.h"

#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

constexpr size_t kMaxNameBytes = 128;
constexpr size_t kMaxFlagBytes = 256;
constexpr size_t kMaxLabelBytes = 256;
constexpr size_t kMaxExpressionBytes = 1024;

absl::Status Invalid(const std::string& field, const std::string& problem) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", problem));
}

absl::Status TooMany(const std::string& field, size_t count, size_t limit) {
  return Invalid(field, absl::StrCat(count, " entries; at most ", limit, " are allowed"));
}

absl::Status CheckToken(const std::string& field, const std::string& value) {
  if (value.size() <= kMaxNameBytes && IsToken(value)) return absl::OkStatus();
  return Invalid(field, absl::StrCat(Quoted(value), " is not a name: 1 to ", kMaxNameBytes,
                                     " of A-Z a-z 0-9 _ . : -, a letter or digit first"));
}

absl::Status CheckExpressionText(const std::string& field, const std::string& text) {
  if (!text.empty() && text.size() <= kMaxExpressionBytes && IsSourceText(text)) {
    return absl::OkStatus();
  }
  return Invalid(field, absl::StrCat(Quoted(text), " is not an expression of 1 to ",
                                     kMaxExpressionBytes, " bytes"));
}

absl::Status CheckExtent(const std::string& field, const std::vector<std::string>& extent,
                         size_t at_least) {
  if (extent.size() < at_least || extent.size() > 3) {
    return Invalid(field,
                   absl::StrCat(extent.size(), " entries; from ", at_least, " to 3 are allowed"));
  }
  for (size_t i = 0; i < extent.size(); ++i) {
    KC_RETURN_IF_ERROR(CheckExpressionText(absl::StrCat(field, "[", i, "]"), extent[i]));
  }
  return absl::OkStatus();
}

absl::Status CheckSource(const std::string& source) {
  if (source.empty()) return Invalid("source", "is empty");
  if (static_cast<int64_t>(source.size()) > kMaxSourceBytes) {
    return Invalid(
        "source", absl::StrCat(source.size(), " bytes; at most ", kMaxSourceBytes, " are allowed"));
  }
  if (source.find('\0') != std::string::npos) {
    return Invalid("source",
                   absl::StrCat("NUL at byte ", source.find('\0'), "; only UTF-8 text is allowed"));
  }
  if (!IsSourceText(source)) return Invalid("source", "is not UTF-8; only UTF-8 text is allowed");
  return absl::OkStatus();
}

absl::Status CheckTunables(const std::vector<Tunable>& tunables) {
  if (tunables.size() > kMaxTunables) return TooMany("tunables", tunables.size(), kMaxTunables);
  std::set<std::string_view> seen;
  for (size_t i = 0; i < tunables.size(); ++i) {
    const auto& [name, value] = tunables[i];
    const std::string field = absl::StrCat("tunables[", i, "]");
    if (name.size() > kMaxNameBytes || !IsIdentifier(name)) {
      return Invalid(field + ".name", Quoted(name) + " is not an identifier");
    }
    if (!seen.insert(name).second) return Invalid(field + ".name", Quoted(name) + " occurs twice");
    if (value.size() > kMaxNameBytes || !(IsIdentifier(value) || IsDecimalInteger(value))) {
      return Invalid(field + ".value",
                     Quoted(value) + " is neither a decimal integer nor an identifier");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckArgument(const std::string& field, const std::string& text, bool has_workspace) {
  if (text.size() > kMaxExpressionBytes || !IsSourceText(text)) {
    return Invalid(field, absl::StrCat(Quoted(text), " is not an argument of 1 to ",
                                       kMaxExpressionBytes, " bytes"));
  }
  const absl::StatusOr<LaunchArgument> argument = ParseLaunchArgument(text);
  if (!argument.ok()) return Invalid(field, std::string(argument.status().message()));
  if (argument->kind == LaunchArgument::Kind::kWorkspace && !has_workspace) {
    return Invalid(field, Quoted(text) + " needs workspace_bytes");
  }
  if (argument->name.size() > kMaxNameBytes) {
    return Invalid(field, absl::StrCat(Quoted(text), " is longer than ", kMaxNameBytes, " bytes"));
  }
  return absl::OkStatus();
}

std::string KindsWithTritonLaunches() {
  return WordList(
      KindNames([](const KindInfo& info) { return info.launch_form == LaunchForm::kTriton; }),
      "and");
}

std::string KindsWithLaunches() {
  return WordList(KindNames([](const KindInfo& info) { return info.has_launches(); }), "and");
}

absl::Status CheckCudaFields(const std::string& field, const Launch& launch) {
  KC_RETURN_IF_ERROR(CheckExtent(field + ".block", launch.block, 1));
  KC_RETURN_IF_ERROR(CheckExtent(field + ".cluster", launch.cluster, 0));
  if (!launch.constexprs.empty()) {
    return Invalid(field + ".constexprs",
                   absl::StrCat("only ", KindsWithTritonLaunches(), " candidates have them"));
  }
  for (const auto& [name, value] :
       {std::pair(".num_warps", launch.num_warps), std::pair(".num_stages", launch.num_stages)}) {
    if (value != 0) {
      return Invalid(field + name,
                     absl::StrCat("only ", KindsWithTritonLaunches(), " candidates have it"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTritonFields(const std::string& field, const std::string& kind,
                               const Launch& launch) {
  for (const auto& [name, present] :
       {std::pair(".block", !launch.block.empty()), std::pair(".cluster", !launch.cluster.empty()),
        std::pair(".shared_memory_bytes", !launch.shared_memory_bytes.empty())}) {
    if (!present) continue;
    return Invalid(field + name, absl::StrCat("must be absent for a ", kind,
                                              " candidate; the compiler decides it"));
  }
  if (launch.num_warps < 0 || launch.num_warps > kMaxNumWarps ||
      (launch.num_warps & (launch.num_warps - 1)) != 0) {
    return Invalid(field + ".num_warps", absl::StrCat(launch.num_warps, " is not a power of two",
                                                      " from 1 to ", kMaxNumWarps));
  }
  if (launch.num_stages < 0 || launch.num_stages > kMaxNumStages) {
    return Invalid(field + ".num_stages",
                   absl::StrCat(launch.num_stages, " is not from 1 to ", kMaxNumStages));
  }
  if (launch.constexprs.size() > kMaxConstexprs) {
    return TooMany(field + ".constexprs", launch.constexprs.size(), kMaxConstexprs);
  }
  std::set<std::string_view> seen;
  for (const auto& [name, value] : launch.constexprs) {
    if (name.size() > kMaxNameBytes || !IsIdentifier(name)) {
      return Invalid(field + ".constexprs", Quoted(name) + " is not an identifier");
    }
    if (!seen.insert(name).second) {
      return Invalid(field + ".constexprs", Quoted(name) + " occurs twice");
    }
    KC_RETURN_IF_ERROR(CheckExpressionText(absl::StrCat(field, ".constexprs.", name), value));
  }
  return absl::OkStatus();
}

absl::Status CheckLaunches(const Candidate& candidate) {
  const std::vector<Launch>& launches = candidate.launches;
  const KindInfo& info = KindInfoOf(candidate.kind);
  const std::string kind(info.name);
  if (!info.has_launches()) {
    if (!launches.empty()) {
      return Invalid("launches",
                     absl::StrCat("only ", KindsWithLaunches(), " candidates have launches"));
    }
    if (!candidate.workspace_bytes.empty()) {
      return Invalid("workspace_bytes",
                     absl::StrCat("only ", KindsWithLaunches(), " candidates have a workspace"));
    }
    return absl::OkStatus();
  }
  if (launches.empty()) {
    return Invalid("launches", absl::StrCat("a ", kind, " candidate needs at least one"));
  }
  if (launches.size() > kMaxLaunches) return TooMany("launches", launches.size(), kMaxLaunches);
  for (size_t i = 0; i < launches.size(); ++i) {
    const Launch& launch = launches[i];
    const std::string field = absl::StrCat("launches[", i, "]");
    if (launch.kernel.size() > kMaxNameBytes || !IsIdentifier(launch.kernel)) {
      return Invalid(field + ".kernel", Quoted(launch.kernel) + " is not an identifier");
    }
    KC_RETURN_IF_ERROR(CheckExtent(field + ".grid", launch.grid, 1));
    if (info.launch_form == LaunchForm::kTriton) {
      KC_RETURN_IF_ERROR(CheckTritonFields(field, kind, launch));
    } else {
      KC_RETURN_IF_ERROR(CheckCudaFields(field, launch));
    }
    if (!launch.when.empty()) {
      KC_RETURN_IF_ERROR(CheckExpressionText(field + ".when", launch.when));
    }
    if (!launch.shared_memory_bytes.empty()) {
      KC_RETURN_IF_ERROR(
          CheckExpressionText(field + ".shared_memory_bytes", launch.shared_memory_bytes));
    }
    if (launch.arguments.size() > kMaxLaunchArguments) {
      return TooMany(field + ".arguments", launch.arguments.size(), kMaxLaunchArguments);
    }
    for (size_t j = 0; j < launch.arguments.size(); ++j) {
      KC_RETURN_IF_ERROR(CheckArgument(absl::StrCat(field, ".arguments[", j, "]"),
                                       launch.arguments[j], !candidate.workspace_bytes.empty()));
    }
  }
  if (!candidate.workspace_bytes.empty()) {
    KC_RETURN_IF_ERROR(CheckExpressionText("workspace_bytes", candidate.workspace_bytes));
  }
  return absl::OkStatus();
}

void AddList(ContentHasher& hasher, const std::vector<std::string>& list) {
  hasher.Add(static_cast<long long>(list.size()));
  for (const std::string& entry : list) hasher.Add(entry);
}

}  // namespace

std::string CandidateId(const Candidate& candidate) {
  const KindInfo& info = KindInfoOf(candidate.kind);
  ContentHasher hasher;
  hasher.Add("candidate/1")
      .Add(candidate.problem_id)
      .Add(candidate.target)
      .Add(info.name)
      .Add(candidate.source);
  AddList(hasher, candidate.flags);
  hasher.Add(static_cast<long long>(candidate.tunables.size()));
  for (const Tunable& tunable : candidate.tunables) hasher.Add(tunable.name).Add(tunable.value);
  hasher.Add(static_cast<long long>(candidate.launches.size()));
  for (const Launch& launch : candidate.launches) {
    hasher.Add(launch.kernel);
    AddList(hasher, launch.grid);
    AddList(hasher, launch.block);
    hasher.Add(launch.shared_memory_bytes);
    AddList(hasher, launch.arguments);
    AddList(hasher, launch.cluster);
    // Absent from launches without them, so that older ids stay valid.
    if (!launch.when.empty()) hasher.Add("when").Add(launch.when);
    if (info.launch_form != LaunchForm::kTriton) continue;
    hasher.Add(static_cast<long long>(launch.constexprs.size()));
    for (const Constexpr& constant : launch.constexprs) {
      hasher.Add(constant.name).Add(constant.value);
    }
    hasher.Add(static_cast<long long>(launch.num_warps))
        .Add(static_cast<long long>(launch.num_stages));
  }
  hasher.Add(candidate.workspace_bytes);
  return "k_" + hasher.Hex128();
}

absl::Status ValidateCandidate(const Candidate& candidate) {
  KC_RETURN_IF_ERROR(CheckToken("problem_id", candidate.problem_id));
  KC_RETURN_IF_ERROR(CheckToken("target", candidate.target));
  if (candidate.kind == CandidateKind::kUnspecified) {
    return Invalid("kind",
                   absl::StrCat("is not set; ", WordList(KindNames(), "and"), " are allowed"));
  }
  KC_RETURN_IF_ERROR(CheckSource(candidate.source));
  if (candidate.flags.size() > kMaxFlags) {
    return TooMany("flags", candidate.flags.size(), kMaxFlags);
  }
  for (size_t i = 0; i < candidate.flags.size(); ++i) {
    const std::string& flag = candidate.flags[i];
    if (flag.size() > kMaxFlagBytes || !IsFlagShaped(flag)) {
      return Invalid(absl::StrCat("flags[", i, "]"),
                     absl::StrCat(Quoted(flag), " is not '-' and up to ", kMaxFlagBytes - 1,
                                  " printable ASCII characters without blanks"));
    }
  }
  KC_RETURN_IF_ERROR(CheckTunables(candidate.tunables));
  KC_RETURN_IF_ERROR(CheckLaunches(candidate));
  if (!candidate.parent_candidate_id.empty()) {
    KC_RETURN_IF_ERROR(CheckToken("parent_candidate_id", candidate.parent_candidate_id));
  }
  for (const auto& [field, text] :
       {std::pair("origin", &candidate.origin), std::pair("name", &candidate.name)}) {
    if (text->size() > kMaxLabelBytes || !IsSourceText(*text)) {
      return Invalid(field, absl::StrCat(Quoted(*text), " is not UTF-8 of at most ", kMaxLabelBytes,
                                         " bytes"));
    }
  }
  if (!candidate.candidate_id.empty()) {
    const std::string expected = CandidateId(candidate);
    if (candidate.candidate_id != expected) {
      return Invalid("candidate_id", absl::StrCat(Quoted(candidate.candidate_id),
                                                  " is not the hash of the content, ", expected,
                                                  "; leave it empty to have it set"));
    }
  }
  return absl::OkStatus();
}

}  // namespace kernelcast
