#include "services/cli/core/candidate_files.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "common/base/file.h"
#include "common/base/gzip_file.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/base/utf8.h"
#include "common/domain/candidate_json.h"
#include "common/domain/text.h"
#include "services/cli/core/paths.h"

namespace kernelcast::cli {
namespace {

namespace fs = std::filesystem;

// Returns the file `name` in the folder of `path`, following links. Rejects files outside the
// folder: an untrusted list of candidates must not cause other files to be sent to a service.
absl::StatusOr<fs::path> FileBeside(const std::string& where, const fs::path& path,
                                    const std::string& name) {
  std::error_code error;
  const fs::path folder = fs::canonical(fs::absolute(path).parent_path(), error);
  const fs::path file = fs::weakly_canonical(folder / name, error);
  const fs::path inside = file.lexically_relative(folder);
  if (error || inside.empty() || *inside.begin() == ".." || fs::path(name).is_absolute()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": source_file: ", Quoted(name), " is not in the folder of the list"));
  }
  return file;
}

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxJsonBytes = 1 << 20;
// The maximum size of a .jsonl.gz file after decompression.
constexpr int64_t kMaxLinesBytes = int64_t{1} << 30;
// A source of the maximum size, with every byte escaped, and its description.
constexpr int64_t kMaxLineBytes = 6 * kMaxSourceBytes + kMaxJsonBytes;

std::optional<CandidateKind> KindOfPath(const fs::path& path) {
  return KindOfFile(path.extension().string());
}

absl::StatusOr<std::string> TextAt(const std::string& where, const Json& object,
                                   const char* field) {
  const auto found = object.find(field);
  if (found == object.end()) return std::string();
  if (!found->is_string()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": ", field, ": expected a string, found ",
                     Quoted(found->dump(-1, ' ', false, Json::error_handler_t::replace))));
  }
  return found->get<std::string>();
}

// A candidate whose source is the whole file.
absl::StatusOr<NamedCandidate> ReadWhole(const fs::path& path, const std::string& problem_id,
                                         const std::string& target) {
  NamedCandidate named;
  named.name = path.stem().string();
  named.candidate.problem_id = problem_id;
  named.candidate.target = target;
  named.candidate.name = named.name;
  named.candidate.origin = absl::StrCat("file:", path.filename().string());
  KC_ASSIGN_OR_RETURN(named.candidate.source, ReadTextFile(path.string(), kMaxSourceBytes));
  return named;
}

absl::StatusOr<NamedCandidate> ReadSourceFile(const fs::path& path, const std::string& problem_id,
                                              const std::string& target) {
  KC_ASSIGN_OR_RETURN(NamedCandidate named, ReadWhole(path, problem_id, target));
  Candidate& candidate = named.candidate;
  candidate.kind = KindOfPath(path).value_or(candidate.kind);
  fs::path json = path;
  json.replace_extension(".json");
  std::error_code error;
  if (fs::exists(json, error)) {
    KC_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(json.string(), kMaxJsonBytes));
    KC_RETURN_IF_ERROR(ApplyCandidateJson(json.string(), text, candidate));
  }
  KC_RETURN_IF_ERROR(WithPrefix(absl::StrCat(path.string(), ": "), ValidateCandidate(candidate)));
  return named;
}

// Whether a JSON file is a solution of flashinfer-bench or SOL-ExecBench, which is a candidate.
bool IsSolution(std::string_view text) {
  const Json json = ParseBoundedJson<Json>(text);
  return json.is_object() && json.contains("spec") && json["spec"].is_object() &&
         json["spec"].contains("entry_point") && json.contains("sources");
}

absl::StatusOr<NamedCandidate> ReadSolution(const fs::path& path, const std::string& problem_id,
                                            const std::string& target) {
  KC_ASSIGN_OR_RETURN(NamedCandidate named, ReadWhole(path, problem_id, target));
  Candidate& candidate = named.candidate;
  candidate.kind = CandidateKind::kPython;
  if (!IsSolution(candidate.source)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(), ": no source next to it, such as ", named.name,
                     ".cc, and not a solution with spec.entry_point and sources"));
  }
  KC_RETURN_IF_ERROR(WithPrefix(absl::StrCat(path.string(), ": "), ValidateCandidate(candidate)));
  return named;
}

absl::StatusOr<std::vector<NamedCandidate>> ReadFolder(const fs::path& folder,
                                                       const std::string& problem_id,
                                                       const std::string& target,
                                                       std::vector<RefusedFile>* refused) {
  std::vector<fs::path> sources;
  std::vector<fs::path> descriptions;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (KindOfPath(entry.path())) sources.push_back(entry.path());
    if (entry.path().extension() == ".json") descriptions.push_back(entry.path());
  }
  if (error) {
    return absl::NotFoundError(
        absl::StrCat("cannot read ", folder.string(), ": ", error.message()));
  }
  std::sort(sources.begin(), sources.end());
  std::sort(descriptions.begin(), descriptions.end());
  std::set<std::string> stems;
  for (const fs::path& source : sources) {
    if (!stems.insert(source.stem().string()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(source.string(),
                       ": another source of the same name is in the folder; names must be unique"));
    }
  }
  std::vector<NamedCandidate> candidates;
  std::vector<RefusedFile> refusals;
  const auto add = [&](const fs::path& path, absl::StatusOr<NamedCandidate> named) -> absl::Status {
    if (named.ok()) {
      candidates.push_back(*std::move(named));
    } else if (refused == nullptr) {
      return named.status();
    } else {
      refusals.push_back({path.stem().string(), named.status()});
    }
    return absl::OkStatus();
  };
  for (const fs::path& json : descriptions) {
    if (stems.count(json.stem().string()) != 0) continue;
    KC_RETURN_IF_ERROR(add(json, ReadSolution(json, problem_id, target)));
  }
  if (sources.empty() && candidates.empty() && refusals.empty()) {
    return absl::NotFoundError(absl::StrCat(folder.string(), " holds no candidate; sources end in ",
                                            WordList(SourceExtensions(), "or"),
                                            ", solutions in .json"));
  }
  for (const fs::path& source : sources) {
    KC_RETURN_IF_ERROR(add(source, ReadSourceFile(source, problem_id, target)));
  }
  if (candidates.empty()) return refusals.front().reason;
  if (refused != nullptr) *refused = std::move(refusals);
  return candidates;
}

absl::StatusOr<std::vector<NamedCandidate>> ReadLines(const fs::path& path,
                                                      const std::string& problem_id,
                                                      const std::string& target) {
  const std::string stem = path.stem().stem().string();
  int64_t sources_bytes = 0;
  std::vector<NamedCandidate> candidates;
  const auto on_line = [&](int64_t number, const std::string& line) -> absl::Status {
    if (IsBlank(line)) return absl::OkStatus();
    const std::string where = absl::StrCat(path.string(), ":", number);
    KC_ASSIGN_OR_RETURN(const Json object, ParseCandidateJson(where, line, /*with_line=*/false));
    NamedCandidate named;
    Candidate& candidate = named.candidate;
    candidate.problem_id = problem_id;
    candidate.target = target;
    candidate.origin = absl::StrCat("file:", path.filename().string());
    KC_RETURN_IF_ERROR(
        ApplyCandidateFields(where, object, {"name", "source", "source_file"}, candidate));
    KC_ASSIGN_OR_RETURN(named.name, TextAt(where, object, "name"));
    if (named.name.empty()) named.name = absl::StrCat(stem, "#", number);
    candidate.name = named.name;
    KC_ASSIGN_OR_RETURN(candidate.source, TextAt(where, object, "source"));
    DropByteOrderMark(candidate.source);
    KC_ASSIGN_OR_RETURN(const std::string source_file, TextAt(where, object, "source_file"));
    if (candidate.source.empty() == source_file.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": source: exactly one of source and source_file is required"));
    }
    if (!source_file.empty()) {
      KC_ASSIGN_OR_RETURN(const fs::path file, FileBeside(where, path, source_file));
      const CandidateKind of_file = KindOfPath(file).value_or(candidate.kind);
      if (!object.contains("kind") && KindInfoOf(of_file).is_python) candidate.kind = of_file;
      KC_ASSIGN_OR_RETURN(candidate.source, ReadTextFile(file.string(), kMaxSourceBytes));
    }
    KC_RETURN_IF_ERROR(WithPrefix(absl::StrCat(where, ": "), ValidateCandidate(candidate)));
    sources_bytes += std::ssize(candidate.source);
    if (sources_bytes > kMaxLinesBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": the sources have more than ", kMaxLinesBytes, " bytes in all"));
    }
    candidates.push_back(std::move(named));
    return absl::OkStatus();
  };
  KC_RETURN_IF_ERROR(ForEachGzipLine(path.string(), on_line, kMaxLinesBytes, kMaxLineBytes));
  if (candidates.empty()) {
    return absl::NotFoundError(absl::StrCat(path.string(), " holds no candidate"));
  }
  return candidates;
}

}  // namespace

absl::Status ApplyCandidateJson(const std::string& file, std::string_view text,
                                Candidate& candidate) {
  KC_ASSIGN_OR_RETURN(const Json object, ParseCandidateJson(file, text, /*with_line=*/true));
  return ApplyCandidateFields(file, object, {}, candidate);
}

std::string CandidateDescription(const Candidate& candidate) {
  Json json;
  json["kind"] = KindName(candidate.kind);
  json["target"] = candidate.target;
  if (!candidate.flags.empty()) json["flags"] = candidate.flags;
  for (const Tunable& tunable : candidate.tunables) json["tunables"][tunable.name] = tunable.value;
  for (const Launch& launch : candidate.launches) {
    Json one = {{"kernel", launch.kernel}, {"grid", launch.grid}};
    if (!launch.block.empty()) one["block"] = launch.block;
    if (!launch.cluster.empty()) one["cluster"] = launch.cluster;
    if (!launch.shared_memory_bytes.empty()) {
      one["shared_memory_bytes"] = launch.shared_memory_bytes;
    }
    one["arguments"] = launch.arguments;
    if (!launch.when.empty()) one["when"] = launch.when;
    for (const Constexpr& constant : launch.constexprs) {
      one["constexprs"][constant.name] = constant.value;
    }
    if (launch.num_warps != 0) one["num_warps"] = launch.num_warps;
    if (launch.num_stages != 0) one["num_stages"] = launch.num_stages;
    json["launches"].push_back(std::move(one));
  }
  if (!candidate.workspace_bytes.empty()) json["workspace_bytes"] = candidate.workspace_bytes;
  if (!candidate.origin.empty()) json["origin"] = candidate.origin;
  if (!candidate.parent_candidate_id.empty()) json["parent"] = candidate.parent_candidate_id;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<std::vector<NamedCandidate>> ReadCandidatesOf(const Problem& problem,
                                                             const std::string& argument,
                                                             const std::string& target,
                                                             std::vector<RefusedFile>* refused) {
  std::error_code error;
  if (argument != kSpaceCandidates || fs::exists(argument, error)) {
    return ReadCandidates(argument, problem.problem_id, target, refused);
  }
  const auto found = problem.targets.find(target);
  if (found == problem.targets.end() || !found->second.space) {
    return absl::InvalidArgumentError(
        absl::StrCat("--candidates: ", problem.name, " has no template space for ", target));
  }
  std::vector<NamedCandidate> candidates;
  for (const SpacePoint& point : EnumeratePoints(*found->second.space)) {
    NamedCandidate named;
    named.candidate = CandidateFromPoint(*found->second.space, point, problem.problem_id);
    // The first tunable is the template.
    for (const Tunable& tunable : named.candidate.tunables) {
      absl::StrAppend(&named.name, named.name.empty() ? "" : absl::StrCat(" ", tunable.name, "="),
                      tunable.value);
    }
    named.candidate.name = named.name;
    candidates.push_back(std::move(named));
  }
  return candidates;
}

absl::StatusOr<std::vector<NamedCandidate>> ReadCandidates(const std::string& path,
                                                           const std::string& problem_id,
                                                           const std::string& target,
                                                           std::vector<RefusedFile>* refused) {
  std::error_code error;
  const fs::path file(path);
  if (fs::is_directory(file, error)) return ReadFolder(file, problem_id, target, refused);
  if (!fs::exists(file, error)) {
    return absl::NotFoundError(absl::StrCat("there is no file or folder '", path, "'"));
  }
  if (IsRecordFile(file.string())) return ReadLines(file, problem_id, target);
  if (const bool is_source = KindOfPath(file).has_value();
      is_source || file.extension() == ".json") {
    KC_ASSIGN_OR_RETURN(NamedCandidate named, is_source ? ReadSourceFile(file, problem_id, target)
                                                        : ReadSolution(file, problem_id, target));
    return std::vector<NamedCandidate>{std::move(named)};
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": not a folder, a source (", CommaList(SourceExtensions()),
                   "), a solution (.json) or a .jsonl or .jsonl.gz file"));
}

}  // namespace kernelcast::cli
