#include "services/cli/core/candidate_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/domain/text.h"
#include "services/cli/core/paths.h"

namespace kernelcast::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int64_t kMaxJsonBytes = 1 << 20;
constexpr int64_t kMaxLinesBytes = int64_t{1} << 30;

struct KindName {
  std::string_view name;
  CandidateKind kind;
};
constexpr std::array kKinds = {KindName{"host_native", CandidateKind::kHostNative},
                               KindName{"device_cuda", CandidateKind::kDeviceCuda},
                               KindName{"python", CandidateKind::kPython}};

constexpr std::array<std::string_view, 5> kSourceExtensions = {".cc", ".cpp", ".cxx", ".cu", ".py"};

bool IsSourceFile(const fs::path& path) {
  const std::string extension = path.extension().string();
  return std::find(kSourceExtensions.begin(), kSourceExtensions.end(), extension) !=
         kSourceExtensions.end();
}

// Reads fields of one JSON object; the first mistake is kept and ends the reading.
class Fields {
 public:
  Fields(std::string where, const Json& object, std::string path = "")
      : where_(std::move(where)), path_(std::move(path)), object_(object) {}

  absl::Status Error(std::string_view field, std::string_view what) const {
    const std::string full = field.empty()   ? path_
                             : path_.empty() ? std::string(field)
                                             : absl::StrCat(path_, ".", std::string(field));
    return absl::InvalidArgumentError(
        absl::StrCat(where_, ": ", full, full.empty() ? "" : ": ", std::string(what)));
  }

  absl::Status CheckKeys(const std::vector<std::string>& allowed) const {
    if (!object_.is_object()) {
      return Error("", absl::StrCat("expected an object {...}, found ", object_.type_name()));
    }
    for (const auto& [key, value] : object_.items()) {
      if (std::find(allowed.begin(), allowed.end(), key) != allowed.end()) continue;
      const std::string near = NearestWord(key, allowed);
      return Error(key, absl::StrCat("unknown field; ",
                                     near.empty() ? absl::StrCat("allowed are ", CommaList(allowed))
                                                  : absl::StrCat("did you mean '", near, "'?")));
    }
    return absl::OkStatus();
  }

  const Json* Find(std::string_view field) const {
    const auto found = object_.find(std::string(field));
    return found == object_.end() ? nullptr : &*found;
  }

  absl::StatusOr<std::string> Text(std::string_view field) const {
    const Json* value = Find(field);
    if (value == nullptr) return std::string();
    if (!value->is_string()) {
      return Error(field, absl::StrCat("expected a string, found ", Shown(*value)));
    }
    return value->get<std::string>();
  }

  // A number may stand for the expression that it is.
  absl::StatusOr<std::string> ExpressionText(std::string_view field) const {
    const Json* value = Find(field);
    if (value != nullptr && value->is_number_integer()) return value->dump();
    return Text(field);
  }

  absl::StatusOr<std::vector<std::string>> Texts(std::string_view field) const {
    std::vector<std::string> texts;
    const Json* value = Find(field);
    if (value == nullptr) return texts;
    if (!value->is_array()) {
      return Error(field, absl::StrCat("expected a list of strings, found ", Shown(*value)));
    }
    for (size_t i = 0; i < value->size(); ++i) {
      const Json& entry = (*value)[i];
      const std::string name = absl::StrCat(std::string(field), "[", i, "]");
      if (entry.is_number_integer()) {
        texts.push_back(entry.dump());
        continue;
      }
      if (!entry.is_string()) {
        return Error(name, absl::StrCat("expected a string, found ", Shown(entry)));
      }
      texts.push_back(entry.get<std::string>());
    }
    return texts;
  }

  static std::string Shown(const Json& value) {
    return Quoted(value.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

 private:
  std::string where_;
  std::string path_;
  const Json& object_;
};

absl::StatusOr<Json> ParseJson(const std::string& where, std::string_view text, bool with_line) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    const size_t offset = std::min<size_t>(error.byte == 0 ? 0 : error.byte - 1, text.size());
    const std::string_view before = text.substr(0, offset);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const size_t line_start = before.rfind('\n');
    const size_t column = offset - (line_start == std::string_view::npos ? 0 : line_start + 1) + 1;
    // "[json.exception...] parse error at line 1, column 2: syntax error while ...": keep the
    // reason.
    std::string what = error.what();
    if (const size_t reason = what.find(": "); reason != std::string::npos) {
      what = what.substr(reason + 2);
    }
    const std::string position = with_line ? absl::StrCat(line, ":", column) : absl::StrCat(column);
    return absl::InvalidArgumentError(
        absl::StrCat(where, ":", position, ": not JSON: ", Quoted(what, 200)));
  }
}

absl::Status ApplyTunables(const Fields& fields, Candidate& candidate) {
  const Json* tunables = fields.Find("tunables");
  if (tunables == nullptr) return absl::OkStatus();
  if (!tunables->is_object()) {
    return fields.Error("tunables",
                        absl::StrCat("expected an object such as {\"UNROLL\": 4}, found ",
                                     Fields::Shown(*tunables)));
  }
  for (const auto& [name, value] : tunables->items()) {
    const std::string field = absl::StrCat("tunables.", name);
    if (!IsIdentifier(name)) {
      return fields.Error("tunables", absl::StrCat(Quoted(name), " is not an identifier"));
    }
    std::string text;
    if (value.is_number_integer()) {
      text = value.dump();
    } else if (value.is_string()) {
      text = value.get<std::string>();
    }
    if (!IsDecimalInteger(text) && !IsIdentifier(text)) {
      return fields.Error(
          field, absl::StrCat(Fields::Shown(value), " is neither an integer nor an identifier"));
    }
    candidate.tunables.push_back({name, text});
  }
  return absl::OkStatus();
}

absl::Status ApplyLaunches(const std::string& where, const Fields& fields, Candidate& candidate) {
  const Json* launches = fields.Find("launches");
  if (launches == nullptr) return absl::OkStatus();
  if (!launches->is_array()) {
    return fields.Error(
        "launches", absl::StrCat("expected a list of objects, found ", Fields::Shown(*launches)));
  }
  for (size_t i = 0; i < launches->size(); ++i) {
    const Fields entry(where, (*launches)[i], absl::StrCat("launches[", i, "]"));
    KC_RETURN_IF_ERROR(entry.CheckKeys(
        {"kernel", "grid", "block", "shared_memory_bytes", "arguments", "cluster"}));
    Launch launch;
    KC_ASSIGN_OR_RETURN(launch.kernel, entry.Text("kernel"));
    KC_ASSIGN_OR_RETURN(launch.grid, entry.Texts("grid"));
    KC_ASSIGN_OR_RETURN(launch.block, entry.Texts("block"));
    KC_ASSIGN_OR_RETURN(launch.shared_memory_bytes, entry.ExpressionText("shared_memory_bytes"));
    KC_ASSIGN_OR_RETURN(launch.arguments, entry.Texts("arguments"));
    KC_ASSIGN_OR_RETURN(launch.cluster, entry.Texts("cluster"));
    if (launch.kernel.empty()) return entry.Error("kernel", "is missing");
    candidate.launches.push_back(std::move(launch));
  }
  return absl::OkStatus();
}

absl::Status ApplyFields(const std::string& where, const Json& object, bool is_line,
                         Candidate& candidate) {
  const Fields fields(where, object);
  std::vector<std::string> allowed = {"target", "kind",   "flags",    "tunables",
                                      "parent", "origin", "launches", "workspace_bytes"};
  if (is_line) allowed.insert(allowed.begin(), {"name", "source", "source_file"});
  KC_RETURN_IF_ERROR(fields.CheckKeys(allowed));

  KC_ASSIGN_OR_RETURN(const std::string target, fields.Text("target"));
  if (!target.empty()) candidate.target = target;
  KC_ASSIGN_OR_RETURN(const std::string kind, fields.Text("kind"));
  if (fields.Find("kind") != nullptr) {
    const auto found = std::find_if(kKinds.begin(), kKinds.end(),
                                    [&](const KindName& known) { return known.name == kind; });
    if (found == kKinds.end()) {
      return fields.Error("kind", absl::StrCat(Quoted(kind),
                                               " is not one of host_native, "
                                               "device_cuda, python"));
    }
    candidate.kind = found->kind;
  }
  KC_ASSIGN_OR_RETURN(candidate.flags, fields.Texts("flags"));
  for (size_t i = 0; i < candidate.flags.size(); ++i) {
    if (!IsFlagShaped(candidate.flags[i])) {
      return fields.Error(absl::StrCat("flags[", i, "]"),
                          absl::StrCat(Quoted(candidate.flags[i]),
                                       " is not one compiler flag such as \"-ffast-math\""));
    }
  }
  KC_RETURN_IF_ERROR(ApplyTunables(fields, candidate));
  KC_ASSIGN_OR_RETURN(candidate.parent_candidate_id, fields.Text("parent"));
  KC_ASSIGN_OR_RETURN(const std::string origin, fields.Text("origin"));
  if (!origin.empty()) candidate.origin = origin;
  KC_RETURN_IF_ERROR(ApplyLaunches(where, fields, candidate));
  KC_ASSIGN_OR_RETURN(candidate.workspace_bytes, fields.ExpressionText("workspace_bytes"));
  // Code that comes with launches has no entry on the host.
  if (fields.Find("kind") == nullptr && candidate.kind == CandidateKind::kHostNative &&
      !candidate.launches.empty()) {
    candidate.kind = CandidateKind::kDeviceCuda;
  }
  return absl::OkStatus();
}

CandidateKind KindOfFile(const fs::path& path) {
  return path.extension() == ".py" ? CandidateKind::kPython : CandidateKind::kHostNative;
}

absl::Status WithFile(const std::string& file, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(file, ": ", std::string(status.message())));
}

absl::StatusOr<NamedCandidate> ReadSourceFile(const fs::path& path, const std::string& problem_id,
                                              const std::string& target) {
  NamedCandidate named;
  named.name = path.stem().string();
  Candidate& candidate = named.candidate;
  candidate.problem_id = problem_id;
  candidate.target = target;
  candidate.kind = KindOfFile(path);
  candidate.origin = absl::StrCat("file:", path.filename().string());
  KC_ASSIGN_OR_RETURN(candidate.source, ReadFile(path.string(), kMaxSourceBytes));
  fs::path json = path;
  json.replace_extension(".json");
  std::error_code error;
  if (fs::exists(json, error)) {
    KC_ASSIGN_OR_RETURN(const std::string text, ReadFile(json.string(), kMaxJsonBytes));
    KC_RETURN_IF_ERROR(ApplyCandidateJson(json.string(), text, candidate));
  }
  KC_RETURN_IF_ERROR(WithFile(path.string(), ValidateCandidate(candidate)));
  return named;
}

absl::StatusOr<std::vector<NamedCandidate>> ReadFolder(const fs::path& folder,
                                                       const std::string& problem_id,
                                                       const std::string& target) {
  std::vector<fs::path> sources;
  std::vector<fs::path> descriptions;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (IsSourceFile(entry.path())) sources.push_back(entry.path());
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
                       ": another source of the same name is beside it; each needs a "
                       "name of its own"));
    }
  }
  for (const fs::path& json : descriptions) {
    if (stems.count(json.stem().string()) == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          json.string(), ": no source beside it, such as ", json.stem().string(), ".cc"));
    }
  }
  if (sources.empty()) {
    return absl::NotFoundError(absl::StrCat(
        folder.string(), " holds no candidate; sources end in .cc, .cpp, .cxx, .cu or .py"));
  }
  std::vector<NamedCandidate> candidates;
  for (const fs::path& source : sources) {
    KC_ASSIGN_OR_RETURN(NamedCandidate named, ReadSourceFile(source, problem_id, target));
    candidates.push_back(std::move(named));
  }
  return candidates;
}

absl::StatusOr<std::vector<NamedCandidate>> ReadLines(const fs::path& path,
                                                      const std::string& problem_id,
                                                      const std::string& target) {
  KC_ASSIGN_OR_RETURN(const std::string text, ReadFile(path.string(), kMaxLinesBytes));
  std::vector<NamedCandidate> candidates;
  size_t start = 0;
  for (int number = 1; start < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view line(text.data() + start, end - start);
    start = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = absl::StrCat(path.string(), ":", number);
    KC_ASSIGN_OR_RETURN(const Json object, ParseJson(where, line, /*with_line=*/false));
    NamedCandidate named;
    Candidate& candidate = named.candidate;
    candidate.problem_id = problem_id;
    candidate.target = target;
    candidate.origin = absl::StrCat("file:", path.filename().string());
    KC_RETURN_IF_ERROR(ApplyFields(where, object, /*is_line=*/true, candidate));
    const Fields fields(where, object);
    KC_ASSIGN_OR_RETURN(named.name, fields.Text("name"));
    if (named.name.empty()) named.name = absl::StrCat(path.stem().string(), "#", number);
    KC_ASSIGN_OR_RETURN(candidate.source, fields.Text("source"));
    KC_ASSIGN_OR_RETURN(const std::string source_file, fields.Text("source_file"));
    if (candidate.source.empty() == source_file.empty()) {
      return fields.Error("source", "exactly one of source and source_file must be there");
    }
    if (!source_file.empty()) {
      const fs::path file = path.parent_path() / source_file;
      if (fields.Find("kind") == nullptr && KindOfFile(file) == CandidateKind::kPython) {
        candidate.kind = CandidateKind::kPython;
      }
      KC_ASSIGN_OR_RETURN(candidate.source, ReadFile(file.string(), kMaxSourceBytes));
    }
    KC_RETURN_IF_ERROR(WithFile(where, ValidateCandidate(candidate)));
    candidates.push_back(std::move(named));
  }
  if (candidates.empty()) {
    return absl::NotFoundError(absl::StrCat(path.string(), " holds no candidate"));
  }
  return candidates;
}

}  // namespace

absl::Status ApplyCandidateJson(const std::string& file, std::string_view text,
                                Candidate& candidate) {
  KC_ASSIGN_OR_RETURN(const Json object, ParseJson(file, text, /*with_line=*/true));
  return ApplyFields(file, object, /*is_line=*/false, candidate);
}

absl::StatusOr<std::vector<NamedCandidate>> ReadCandidates(const std::string& path,
                                                           const std::string& problem_id,
                                                           const std::string& target) {
  std::error_code error;
  const fs::path file(path);
  if (fs::is_directory(file, error)) return ReadFolder(file, problem_id, target);
  if (!fs::exists(file, error)) {
    return absl::NotFoundError(absl::StrCat("there is no file or folder '", path, "'"));
  }
  if (file.extension() == ".jsonl") return ReadLines(file, problem_id, target);
  if (IsSourceFile(file)) {
    KC_ASSIGN_OR_RETURN(NamedCandidate named, ReadSourceFile(file, problem_id, target));
    std::vector<NamedCandidate> candidates;
    candidates.push_back(std::move(named));
    return candidates;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": not a folder, a source (.cc, .cpp, .cxx, .cu, .py) or a .jsonl file"));
}

}  // namespace kernelcast::cli
