#include "services/cli/core/suite_folder.h"

#include <fnmatch.h>
#include <string.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/bounded_json.h"
#include "common/base/file.h"
#include "common/base/gzip_file.h"
#include "common/base/status.h"
#include "common/domain/candidate.h"
#include "common/domain/candidate_kind.h"
#include "common/domain/task_files.h"
#include "common/domain/text.h"

namespace kernelcast::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Deeper folders are not searched.
constexpr int kMaxDepth = 32;
// The files that are read to find out what they are.
constexpr int64_t kMaxTaskBytes = int64_t{1} << 20;

// Folders that hold candidates of tasks next to them.
bool HoldsCandidates(const std::string& name) {
  static const std::set<std::string> kNames = {"candidates", "runs", "solutions", "submissions"};
  return kNames.count(name) != 0;
}

// Folders of a data set, or of tools, that hold neither tasks nor candidates.
bool IsSkipped(const std::string& name) {
  static const std::set<std::string> kNames = {"__pycache__", "blob", "node_modules", "traces",
                                               "workloads"};
  return name.empty() || name.front() == '.' || kNames.count(name) != 0;
}

std::vector<fs::path> Entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    entries.push_back(entry.path());
  }
  std::ranges::sort(entries);
  return entries;
}

bool IsFile(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// A folder that is no link.
bool IsFolder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(fs::symlink_status(path, error));
}

// All files below a folder, sorted.
void AddFiles(const fs::path& folder, int depth, std::vector<fs::path>& files) {
  if (depth > kMaxDepth) return;
  for (const fs::path& entry : Entries(folder)) {
    if (IsFolder(entry)) {
      if (!IsSkipped(entry.filename().string())) AddFiles(entry, depth + 1, files);
    } else if (IsFile(entry)) {
      files.push_back(entry);
    }
  }
}

// A path without the extensions of sources, solutions and lists.
fs::path WithoutExtension(fs::path path) {
  if (path.extension() == ".gz") path.replace_extension();
  return path.replace_extension();
}

// Whether a file may be read by ReadCandidates. A description next to a source may not.
bool IsSource(const fs::path& path) {
  if (KindOfFile(path.extension().string()) || IsRecordFile(path.string())) return true;
  if (path.extension() != ".json") return false;
  return std::ranges::none_of(SourceExtensions(), [&](const std::string& extension) {
    fs::path source = path;
    return IsFile(source.replace_extension(extension));
  });
}

// A source below a folder, with its path inside it. The name is that path, and nothing else is
// known.
struct FoundSource {
  fs::path file;
  fs::path inside;
  SuiteSource source;
};
std::vector<FoundSource> SourcesBelow(const fs::path& folder) {
  std::vector<fs::path> files;
  AddFiles(folder, 0, files);
  std::vector<FoundSource> found;
  for (const fs::path& file : files) {
    if (!IsSource(file)) continue;
    const fs::path inside = file.lexically_relative(folder);
    SuiteSource source;
    source.path = file.string();
    source.name = WithoutExtension(inside).string();
    found.push_back({file, inside, std::move(source)});
  }
  return found;
}

// Whether a line of the text begins with one of the words.
bool HasLine(std::string_view text, std::initializer_list<std::string_view> beginnings) {
  for (const std::string_view beginning : beginnings) {
    if (text.starts_with(beginning)) return true;
    if (text.find(absl::StrCat("\n", std::string(beginning))) != std::string_view::npos)
      return true;
  }
  return false;
}

// Whether the text is a task of KernelBench, and no candidate of one.
bool IsKernelBenchTask(const fs::path& path) {
  const absl::StatusOr<std::string> text = ReadFile(path.string(), kMaxTaskBytes);
  return text.ok() && HasLine(*text, {"class Model(", "class Model:"}) &&
         HasLine(*text, {"def get_inputs("});
}

// A solution of flashinfer-bench or SOL-ExecBench names its definition and its author.
struct SolutionNames {
  std::string definition;
  std::string author;
};
SolutionNames NamesIn(const fs::path& path) {
  SolutionNames names;
  const absl::StatusOr<std::string> text = ReadFile(path.string(), kMaxSourceBytes);
  if (!text.ok()) return names;
  const Json json = ParseBoundedJson<Json>(*text);
  names.definition = StringAt(json, "definition");
  names.author = StringAt(json, "author");
  return names;
}

// The leaderboard in the header of a submission to GPU MODE: "#!POPCORN leaderboard NAME".
std::string LeaderboardOf(const fs::path& path) {
  constexpr std::string_view kHeader = "!POPCORN leaderboard ";
  const absl::StatusOr<std::string> text = ReadFile(path.string(), kMaxSourceBytes);
  const size_t at = text.ok() ? text->find(kHeader) : std::string::npos;
  if (at == std::string::npos) return "";
  const size_t from = at + kHeader.size();
  return text->substr(from, text->find_first_of(" \r\n", from) - from);
}

std::vector<std::string> PartsOf(const fs::path& path) {
  std::vector<std::string> parts;
  for (const fs::path& part : path) parts.push_back(part.string());
  return parts;
}

class Finder {
 public:
  explicit Finder(fs::path root) : root_(std::move(root)) {}

  void Walk(const fs::path& folder, int depth) {
    if (depth > kMaxDepth) return;
    if (IsFile(folder / "problem.yaml") || IsTaskPath(folder.string())) {
      AddFolderTask(folder);
      return;
    }
    for (const fs::path& entry : Entries(folder)) {
      const std::string name = entry.filename().string();
      if (IsFolder(entry)) {
        if (HoldsCandidates(name)) {
          shared_.push_back(entry);
        } else if (name == "definitions") {
          AddDefinitions(entry);
        } else if (!IsSkipped(name)) {
          Walk(entry, depth + 1);
        }
      } else if (entry.extension() == ".py" && IsFile(entry) && IsKernelBenchTask(entry)) {
        AddKernelBenchTask(entry);
      }
    }
  }

  // Candidates below the folders that Walk has seen next to tasks.
  void MatchShared() {
    for (const fs::path& folder : shared_) Match(folder, folder.parent_path());
  }
  // Candidates below a folder, of the tasks below `scope`.
  void Match(const fs::path& folder, const fs::path& scope) {
    std::map<std::string, std::vector<size_t>> named;
    std::map<std::pair<std::string, int64_t>, std::vector<size_t>> numbered;
    for (size_t i = 0; i < tasks_.size(); ++i) {
      const fs::path inside = fs::path(tasks_[i].path).lexically_relative(scope);
      if (inside.empty() || *inside.begin() == "..") continue;
      named[BaseNameOf(tasks_[i])].push_back(i);
      if (tasks_[i].number > 0) numbered[{tasks_[i].level, tasks_[i].number}].push_back(i);
    }
    for (auto& [file, inside, source] : SourcesBelow(folder)) {
      const std::vector<size_t> owners = OwnersOf(file, inside, named, numbered, source);
      if (owners.size() == 1) {
        tasks_[owners.front()].sources.push_back(std::move(source));
      } else if (file.extension() != ".json" || !NamesIn(file).definition.empty()) {
        // Other JSON files are results and settings of tools.
        unmatched_.push_back(file.string());
      }
    }
  }

  SuiteFolder Take() {
    for (SuiteTask& task : tasks_) {
      std::ranges::stable_sort(task.sources, [](const SuiteSource& a, const SuiteSource& b) {
        return strverscmp(a.name.c_str(), b.name.c_str()) < 0;
      });
      // Sources that differ by extension or root.
      std::map<std::string, int> seen;
      for (SuiteSource& source : task.sources) {
        const int count = ++seen[source.name];
        if (count > 1) absl::StrAppend(&source.name, "#", count);
      }
    }
    std::ranges::stable_sort(tasks_, [](const SuiteTask& a, const SuiteTask& b) {
      return strverscmp(a.name.c_str(), b.name.c_str()) < 0;
    });
    return {std::move(tasks_), std::move(unmatched_)};
  }

  bool empty() const { return tasks_.empty(); }

 private:
  static std::string BaseNameOf(const SuiteTask& task) {
    return fs::path(task.name).filename().string();
  }

  // The name of the folder above a path, unless that is the suite's.
  std::string ParentName(const fs::path& path) const {
    const fs::path parent = path.parent_path();
    return parent == root_ || path == root_ ? std::string() : parent.filename().string();
  }

  SuiteTask TaskAt(const fs::path& path) const {
    SuiteTask task;
    task.path = path.string();
    const fs::path inside = path.lexically_relative(root_);
    task.name = inside == "." ? root_.filename().string() : inside.string();
    return task;
  }

  void AddFolderTask(const fs::path& folder) {
    SuiteTask task = TaskAt(folder);
    if (!IsFile(folder / "problem.yaml")) {
      task.category = ParentName(folder);
      static const std::regex kSubset("L[0-9]+");  // of SOL-ExecBench
      if (std::regex_match(task.category, kSubset)) std::swap(task.level, task.category);
    }
    bool any = false;
    for (const fs::path& entry : Entries(folder)) {
      if (IsFolder(entry) && HoldsCandidates(entry.filename().string())) {
        any = AddOwn(entry, task) || any;
      } else if (IsFile(entry) && IsRecordFile(entry.string()) &&
                 WithoutExtension(entry.filename()) == "candidates") {
        task.sources.push_back({entry.string(), "candidates", "", -1});
        any = true;
      }
    }
    // Users of GPU MODE edit this file.
    if (!any && IsFile(folder / "task.yml") && IsFile(folder / "submission.py")) {
      task.sources.push_back({(folder / "submission.py").string(), "submission", "", -1});
    }
    tasks_.push_back(std::move(task));
  }

  // Candidates in a folder of the task itself. Their author is the folder in it.
  static bool AddOwn(const fs::path& folder, SuiteTask& task) {
    bool any = false;
    for (auto& [file, inside, source] : SourcesBelow(folder)) {
      if (file.extension() == ".json") source.author = NamesIn(file).author;
      const std::vector<std::string> parts = PartsOf(inside);
      if (source.author.empty() && parts.size() > 1) source.author = parts.front();
      task.sources.push_back(std::move(source));
      any = true;
    }
    return any;
  }

  void AddDefinitions(const fs::path& folder) {
    std::vector<fs::path> files;
    AddFiles(folder, 0, files);
    for (const fs::path& file : files) {
      if (file.extension() != ".json") continue;
      SuiteTask task = TaskAt(file);
      task.name = WithoutExtension(task.name).string();
      const fs::path inside = file.lexically_relative(folder);
      if (std::distance(inside.begin(), inside.end()) > 1) {
        task.category = inside.begin()->string();
      }
      tasks_.push_back(std::move(task));
    }
  }

  void AddKernelBenchTask(const fs::path& file) {
    static const std::regex kNumber("([0-9]{1,9})_.*");
    static const std::regex kLevel("level[0-9]+");
    SuiteTask task = TaskAt(file);
    task.name = WithoutExtension(task.name).string();
    const std::string parent = file.parent_path().filename().string();
    const std::string name = file.filename().string();
    std::smatch number;
    if (std::regex_match(parent, kLevel) && std::regex_match(name, number, kNumber)) {
      task.level = parent;
      task.number = std::stoll(number[1]);
    }
    tasks_.push_back(std::move(task));
  }

  // The tasks that a file is for, and in `source` what its path says about it.
  std::vector<size_t> OwnersOf(
      const fs::path& file, const fs::path& inside,
      const std::map<std::string, std::vector<size_t>>& named,
      const std::map<std::pair<std::string, int64_t>, std::vector<size_t>>& numbered,
      SuiteSource& source) const {
    static const std::regex kSample(
        "level_([0-9]{1,9})_problem_([0-9]{1,9})_sample_([0-9]{1,9})_kernel");
    const auto find = [](const auto& tasks, const auto& key) {
      const auto found = tasks.find(key);
      return found == tasks.end() ? std::vector<size_t>() : found->second;
    };
    std::smatch match;
    const std::string stem = WithoutExtension(file.filename()).string();
    if (std::regex_match(stem, match, kSample)) {
      const std::string level = absl::StrCat("level", match[1].str());
      source.sample = std::stoll(match[3]);
      source.author = file.parent_path().filename().string();
      const fs::path run = inside.parent_path();
      source.name = absl::StrCat(run.string(), run.empty() ? "" : "/", "sample_", source.sample);
      return find(numbered, std::pair(level, std::stoll(match[2])));
    }
    if (file.extension() == ".json") {
      const SolutionNames names = NamesIn(file);
      if (!names.definition.empty()) {
        const std::vector<size_t> owners = find(named, names.definition);
        source.author = names.author;
        std::vector<std::string> parts = PartsOf(WithoutExtension(inside));
        // A data set has folders of the category and the task.
        if (!owners.empty()) {
          const std::string& category = tasks_[owners.front()].category;
          std::erase_if(parts, [&](const std::string& part) {
            return &part != &parts.back() && (part == names.definition || part == category);
          });
        }
        source.name = absl::StrJoin(parts, "/");
        return owners;
      }
    }
    // The last part of the path that is a task's name. An author's folder is in it or above it.
    const std::vector<std::string> parts = PartsOf(WithoutExtension(inside));
    for (size_t i = parts.size(); i-- > 0;) {
      std::vector<size_t> owners = find(named, parts[i]);
      if (owners.empty()) continue;
      // A data set has the category above the task.
      std::vector<std::string> rest(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(i));
      if (!rest.empty() && rest.back() == tasks_[owners.front()].category) rest.pop_back();
      if (i + 2 < parts.size()) {
        source.author = parts[i + 1];
      } else if (!rest.empty()) {
        source.author = rest.back();
      }
      rest.insert(rest.end(), parts.begin() + static_cast<std::ptrdiff_t>(i) + 1, parts.end());
      if (rest.empty()) rest.push_back(parts[i]);
      source.name = absl::StrJoin(rest, "/");
      return owners;
    }
    if (KindOfFile(file.extension().string())) return find(named, LeaderboardOf(file));
    return {};
  }

  const fs::path root_;
  std::vector<SuiteTask> tasks_;
  std::vector<fs::path> shared_;
  std::vector<std::string> unmatched_;
};

absl::StatusOr<fs::path> FolderAt(const std::string& path) {
  std::error_code error;
  const fs::path folder = fs::canonical(path, error);
  if (error || !fs::is_directory(folder, error)) {
    return absl::NotFoundError(absl::StrCat("there is no folder ", Quoted(path, 255)));
  }
  return folder;
}

}  // namespace

absl::StatusOr<SuiteFolder> FindSuite(const std::string& folder,
                                      const std::vector<std::string>& more) {
  KC_ASSIGN_OR_RETURN(const fs::path root, FolderAt(folder));
  Finder finder(root);
  finder.Walk(root, 0);
  if (finder.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no task below ", Quoted(folder, 255),
                     "; tasks are folders with problem.yaml, task.yml or definition.json and "
                     "workload.jsonl, files below definitions, and sources with 'class Model' and "
                     "'get_inputs'"));
  }
  finder.MatchShared();
  for (const std::string& path : more) {
    KC_ASSIGN_OR_RETURN(const fs::path candidates, FolderAt(path));
    finder.Match(candidates, root);
  }
  return finder.Take();
}

absl::Status KeepTasks(const std::vector<std::string>& patterns, SuiteFolder& found) {
  if (patterns.empty()) return absl::OkStatus();
  std::erase_if(found.tasks, [&](const SuiteTask& task) {
    return std::ranges::none_of(patterns, [&](const std::string& pattern) {
      return fnmatch(pattern.c_str(), task.name.c_str(), 0) == 0;
    });
  });
  if (!found.tasks.empty()) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("--only: no task's name matches ",
                                          Quoted(patterns.front()),
                                          "; `kernelcast suite DIR --list` lists the names"));
}

}  // namespace kernelcast::cli
