#include "services/gateway/core/catalogue.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/domain/python_task.h"
#include "common/domain/text.h"
#include "common/domain/yaml_cursor.h"

namespace kernelcast::gateway {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxServed = 1000;
constexpr size_t kMaxDeviceModels = 32;
constexpr size_t kMaxText = 4096;
constexpr int64_t kMaxEvaluations = 1'000'000'000;

// Names are parts of URLs.
absl::Status CheckName(const std::string& name) {
  const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("-_.").find(c) != std::string_view::npos;
  });
  if (plain && name.size() <= kMaxYamlNameBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a name has 1 to ", kMaxYamlNameBytes, " letters, digits, '-', '_' and '.'"));
}

absl::StatusOr<Problem> ReadProblemAt(const fs::path& place) {
  KC_ASSIGN_OR_RETURN(std::vector<ProblemFile> files, ReadProblemFolder(place.string()));
  return ParseProblem(std::move(files));
}

absl::StatusOr<Problem> ReadProblem(const Cursor& at, const std::string& named,
                                    const fs::path& beside,
                                    const std::vector<std::string>& folders) {
  std::vector<fs::path> places = {fs::path(named).is_absolute() ? fs::path(named) : beside / named};
  for (const std::string& folder : folders) places.push_back(fs::path(folder) / named);
  std::error_code error;
  for (const fs::path& place : places) {
    if (!fs::exists(place, error)) continue;
    absl::StatusOr<Problem> problem = ReadProblemAt(place);
    if (!problem.ok()) return Error(at, problem.status());
    return problem;
  }
  return Error(at, absl::StrCat("there is no problem '", named, "' here, nor in ",
                                folders.empty() ? "any folder of --problems"
                                                : absl::StrJoin(folders, ", ")));
}

absl::StatusOr<std::vector<std::string>> ReadDeviceModels(const Cursor& at) {
  KC_RETURN_IF_ERROR(ExpectList(at, 1, kMaxDeviceModels));
  std::vector<std::string> models;
  for (size_t i = 0; i < at.node->items.size(); ++i) {
    KC_ASSIGN_OR_RETURN(std::string model, ReadText(at.Item(i), kMaxText));
    models.push_back(std::move(model));
  }
  return models;
}

absl::StatusOr<Served> ReadServed(const Cursor& at, const fs::path& beside,
                                  const std::vector<std::string>& folders) {
  KC_RETURN_IF_ERROR(ExpectKeys(at, {"name", "problem"},
                                {"target", "device_models", "description", "max_evaluations"}));
  Served served;
  KC_ASSIGN_OR_RETURN(served.name, ReadText(at.At("name"), kMaxText));
  if (const absl::Status named = CheckName(served.name); !named.ok()) {
    return Error(at.At("name"), named);
  }
  KC_ASSIGN_OR_RETURN(const std::string named, ReadText(at.At("problem"), kMaxText));
  KC_ASSIGN_OR_RETURN(served.problem, ReadProblem(at.At("problem"), named, beside, folders));
  served.target = DefaultTarget(served.problem);
  served.names_target = at.Has("target");
  if (served.names_target) {
    KC_ASSIGN_OR_RETURN(served.target, ReadText(at.At("target"), kMaxText));
  }
  if (!served.problem.targets.contains(served.target)) {
    return Error(served.names_target ? at.At("target") : at,
                 absl::StrCat(served.problem.name, " has no reference for '", served.target, "'"));
  }
  if (at.Has("device_models")) {
    KC_ASSIGN_OR_RETURN(served.device_models, ReadDeviceModels(at.At("device_models")));
  }
  served.description = served.problem.title;
  if (at.Has("description")) {
    KC_ASSIGN_OR_RETURN(served.description, ReadText(at.At("description"), kMaxText));
  }
  if (at.Has("max_evaluations")) {
    KC_ASSIGN_OR_RETURN(served.max_evaluations,
                        ReadInteger(at.At("max_evaluations"), 1, kMaxEvaluations));
  }
  return served;
}

absl::StatusOr<Site> ReadSite(const Cursor& at) {
  KC_RETURN_IF_ERROR(ExpectKeys(at, {}, {"target", "device_model"}));
  Site site;
  if (at.Has("target")) {
    KC_ASSIGN_OR_RETURN(site.target, ReadText(at.At("target"), kMaxText));
  }
  if (at.Has("device_model")) {
    KC_ASSIGN_OR_RETURN(site.device_model, ReadText(at.At("device_model"), kMaxText));
  }
  return site;
}

}  // namespace

Catalogue::Catalogue(std::vector<Served> served, Site own_references)
    : served_(std::move(served)), own_references_(std::move(own_references)) {}

absl::StatusOr<Catalogue> Catalogue::Read(const std::string& path,
                                          const std::vector<std::string>& problem_folders) {
  KC_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  KC_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(path, text));
  const Cursor top{&path, &root, "", root.line};
  KC_RETURN_IF_ERROR(ExpectKeys(top, {"serve"}, {"own_references"}));
  const Cursor list = top.At("serve");
  KC_RETURN_IF_ERROR(ExpectList(list, 0, kMaxServed));
  std::vector<Served> all;
  std::set<std::string> names;
  for (size_t i = 0; i < list.node->items.size(); ++i) {
    KC_ASSIGN_OR_RETURN(Served served,
                        ReadServed(list.Item(i), fs::path(path).parent_path(), problem_folders));
    if (!names.insert(absl::AsciiStrToLower(served.name)).second) {
      return Error(list.Item(i), absl::StrCat("'", served.name, "' is served already"));
    }
    all.push_back(std::move(served));
  }
  Site own_references;
  if (top.Has("own_references")) {
    KC_ASSIGN_OR_RETURN(own_references, ReadSite(top.At("own_references")));
  }
  return Catalogue(std::move(all), std::move(own_references));
}

absl::StatusOr<Catalogue> Catalogue::ReadFolders(const std::vector<std::string>& problem_folders) {
  std::map<std::string, fs::path> places;  // by lower-case name
  for (const std::string& folder : problem_folders) {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
      if (!fs::exists(entry.path() / "problem.yaml", error)) continue;
      places.try_emplace(absl::AsciiStrToLower(entry.path().filename().string()), entry.path());
    }
  }
  if (places.size() > kMaxServed) {
    return absl::InvalidArgumentError(
        absl::StrCat("there are more than ", kMaxServed, " problems: choose some with --serve"));
  }
  std::vector<Served> all;
  for (const auto& [name, place] : places) {
    Served served;
    served.name = place.filename().string();
    absl::Status status = CheckName(served.name);
    if (status.ok()) {
      absl::StatusOr<Problem> problem = ReadProblemAt(place);
      status = problem.status();
      if (problem.ok()) served.problem = *std::move(problem);
    }
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(place.string(), ": ", std::string(status.message())));
    }
    served.target = DefaultTarget(served.problem);
    served.description = served.problem.title;
    all.push_back(std::move(served));
  }
  return Catalogue(std::move(all), Site());
}

void Catalogue::SetDefaultTarget(size_t index, const std::string& target) {
  Served& served = served_[index];
  if (!served.names_target && served.problem.targets.contains(target)) served.target = target;
}

const Served* Catalogue::Find(std::string_view name) const {
  const auto found = std::find_if(served_.begin(), served_.end(), [name](const Served& served) {
    return absl::EqualsIgnoreCase(served.name, AbslView(name));
  });
  return found == served_.end() ? nullptr : &*found;
}

const std::vector<ProblemFile>* Catalogue::FilesOf(std::string_view problem_id) const {
  const auto found = std::find_if(
      served_.begin(), served_.end(),
      [problem_id](const Served& served) { return served.problem.problem_id == problem_id; });
  return found == served_.end() ? nullptr : &found->problem.files;
}

absl::StatusOr<Candidate> MakeCandidate(const Problem& problem, const std::string& target,
                                        Language language, std::string source) {
  if (problem.task.has_value() && language != Language::kPython) {
    return absl::InvalidArgumentError(
        absl::StrCat(problem.name, " is a task in Python: its candidates are Python that defines ",
                     WordList(problem.task->entries, "and")));
  }
  if (!problem.task.has_value() && language != Language::kNative) {
    return absl::InvalidArgumentError(
        absl::StrCat(problem.name,
                     " has candidates in C++ or CUDA that export kernelcast_run. Python needs the "
                     "launches of its kernels, which this API does not carry"));
  }
  Candidate candidate;
  candidate.problem_id = problem.problem_id;
  candidate.target = target;
  candidate.kind = KindOfSource(language == Language::kPython, /*has_launches=*/false);
  candidate.source = std::move(source);
  KC_RETURN_IF_ERROR(ValidateCandidate(candidate));
  candidate.candidate_id = CandidateId(candidate);
  return candidate;
}

}  // namespace kernelcast::gateway
