#include "services/cli/rpc/suite_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/id.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/base/version.h"
#include "common/convert/proto_json.h"
#include "common/domain/text.h"
#include "services/cli/report/search_json.h"
#include "services/cli/rpc/records.h"

namespace kernelcast::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "kernelcast-suite";
constexpr int kVersion = 1;
// A guard against files that are something else: 10,000 results have about 50 MB.
constexpr int64_t kMaxResultsBytes = int64_t{4} << 30;

int64_t NumberOf(const Json& object, const char* field, int64_t fallback) {
  const auto found = object.find(field);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : fallback;
}

Json HeaderOf(const SuiteSettings& settings) {
  return {{"format", kFormat},       {"version", kVersion},   {"suite", settings.suite_id},
          {"title", settings.title}, {"mode", settings.mode}, {"baseline", settings.baseline},
          {"rules", settings.rules}};
}

absl::Status ReadHeader(const Json& header, SuiteSettings& settings) {
  if (StringAt(header, "format") != kFormat) {
    return absl::InvalidArgumentError(absl::StrCat("format: expected '", std::string(kFormat),
                                                   "', found ",
                                                   Quoted(StringAt(header, "format"))));
  }
  if (NumberOf(header, "version", 0) != kVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat("version: expected ", kVersion, ", found ", NumberOf(header, "version", 0)));
  }
  settings = {StringAt(header, "suite"), StringAt(header, "title"), StringAt(header, "mode"),
              StringAt(header, "baseline"), StringAt(header, "rules")};
  if (settings.suite_id.empty()) return absl::InvalidArgumentError("suite: an id is required");
  return absl::OkStatus();
}

std::vector<SuiteTaskInfo> ReadTasks(const Json& array) {
  std::vector<SuiteTaskInfo> tasks;
  for (const Json& one : array) {
    SuiteTaskInfo& task = tasks.emplace_back(
        SuiteTaskInfo{StringAt(one, "task"), StringAt(one, "level"), StringAt(one, "category"),
                      NumberOf(one, "number", 0), StringAt(one, "file")});
    const auto candidates = one.find("candidates");
    if (candidates == one.end() || !candidates->is_object()) continue;
    for (const auto& [name, content] : candidates->items()) {
      task.candidates[name] = content.is_string() ? content.get<std::string>() : std::string();
    }
  }
  return tasks;
}

absl::StatusOr<SuiteRow> ReadRow(const Json& line) {
  SuiteRow row;
  row.task = StringAt(line, "task");
  row.name = StringAt(line, "name");
  row.author = StringAt(line, "author");
  row.sample = NumberOf(line, "sample", -1);
  row.content = StringAt(line, "content");
  row.target = StringAt(line, "target");
  if (row.task.empty() || row.name.empty()) {
    return absl::InvalidArgumentError("task and name: both are required");
  }
  if (const auto found = line.find("evaluation"); found != line.end()) {
    v1::Evaluation evaluation;
    KC_RETURN_IF_ERROR(RecordFromJson(found->dump(), &evaluation));
    KC_RETURN_IF_ERROR(TakeEvaluation(evaluation, row));
  } else if (const auto error = line.find("error"); error != line.end() && error->is_object()) {
    row.error = absl::UnknownError(StringAt(*error, "message"));
  } else {
    return absl::InvalidArgumentError("expected evaluation or error");
  }
  return row;
}

std::string ResultsPath(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error) ? absl::StrCat(path, "/", std::string(kSuiteResults)) : path;
}

// Parses the complete lines of a file. Returns their size through `complete_bytes`.
absl::StatusOr<SuiteResults> Parse(const std::string& path, std::string_view text,
                                   size_t& complete_bytes) {
  SuiteResults results;
  complete_bytes = 0;
  for (int64_t number = 1;; ++number) {
    const size_t end = text.find('\n', complete_bytes);
    if (end == std::string_view::npos) break;
    const std::string_view text_of_line = text.substr(complete_bytes, end - complete_bytes);
    complete_bytes = end + 1;
    const std::string where = absl::StrCat(path, ":", number, ": ");
    const Json line = ParseBoundedJson<Json>(text_of_line);
    if (!line.is_object()) return absl::InvalidArgumentError(where + "expected a JSON object");
    if (number == 1) {
      KC_RETURN_IF_ERROR(WithPrefix(where, ReadHeader(line, results.settings)));
    } else if (const auto tasks = line.find("tasks"); tasks != line.end()) {
      results.tasks = ReadTasks(*tasks);
    } else {
      KC_ASSIGN_OR_RETURN(SuiteRow row, WithPrefix(where, ReadRow(line)));
      const std::pair key(row.task, row.name);
      ++results.attempts[key];
      results.rows.insert_or_assign(key, std::move(row));
    }
  }
  if (complete_bytes == 0 && !text.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ":1: is not a suite's file of results"));
  }
  return results;
}

absl::Status Errno(const std::string& what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " ", Quoted(path, 255)));
}

}  // namespace

nlohmann::ordered_json SuiteLine(const SuiteRow& row, const v1::Evaluation* evaluation) {
  Json line = {{"task", row.task}, {"name", row.name}, {"author", row.author}};
  if (row.sample >= 0) line["sample"] = row.sample;
  if (!row.content.empty()) line["content"] = row.content;
  if (!row.target.empty()) line["target"] = row.target;
  if (evaluation != nullptr) line["evaluation"] = JsonOf(*evaluation);
  return line;
}

absl::Status TakeEvaluation(const v1::Evaluation& evaluation, SuiteRow& row) {
  KC_ASSIGN_OR_RETURN(row.judged, ReportCandidateFromProto(evaluation, v1::Candidate()));
  row.device_model =
      row.judged->measurement ? row.judged->measurement->device.model : evaluation.device_model();
  return absl::OkStatus();
}

bool IsSuiteResults(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return fs::is_regular_file(ResultsPath(path), error);
  return fs::path(path).filename() == kSuiteResults && fs::is_regular_file(path, error);
}

absl::StatusOr<SuiteResults> ReadSuiteResults(const std::string& path) {
  const std::string file = ResultsPath(path);
  KC_ASSIGN_OR_RETURN(const std::string text, ReadFile(file, kMaxResultsBytes));
  size_t complete_bytes = 0;
  return Parse(file, text, complete_bytes);
}

std::vector<SuiteRow> CurrentRows(const SuiteResults& results) {
  std::vector<SuiteRow> rows;
  for (const SuiteTaskInfo& task : results.tasks) {
    for (const auto& [name, content] : task.candidates) {
      const auto found = results.rows.find({task.name, name});
      if (found != results.rows.end() && found->second.content == content) {
        rows.push_back(found->second);
      }
    }
  }
  return rows;
}

SuiteInput SuiteInputOf(const SuiteResults& results) {
  SuiteInput input;
  input.title = results.settings.title;
  input.mode = results.settings.mode;
  input.tasks = results.tasks;
  input.rows = CurrentRows(results);
  input.generated_ns = Clock::Real().WallNs();
  input.generator_version = absl::StrCat("kernelcast ", std::string(Version()));
  return input;
}

bool SuiteIsRunning(const std::string& folder) {
  const int fd = open(ResultsPath(folder).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool locked = flock(fd, LOCK_SH | LOCK_NB) != 0;
  close(fd);
  return locked;
}

absl::StatusOr<std::unique_ptr<SuiteFile>> SuiteFile::Open(const std::string& folder,
                                                           SuiteSettings settings) {
  KC_RETURN_IF_ERROR(MakeFolders(folder));
  const std::string path = absl::StrCat(folder, "/", std::string(kSuiteResults));
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return Errno("write", path);
  auto file = std::unique_ptr<SuiteFile>(new SuiteFile(path, fd));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return Errno("lock", path);
    return absl::FailedPreconditionError(absl::StrCat("another `kernelcast suite` writes to ",
                                                      Quoted(folder, 255), "; wait for its end"));
  }
  KC_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxResultsBytes));
  if (text.find('\n') == std::string::npos) {
    // New, or cut off in its first line.
    if (ftruncate(fd, 0) != 0) return Errno("write", path);
    settings.suite_id = RandomId("u_");
    file->results_.settings = settings;
    KC_RETURN_IF_ERROR(file->Add(HeaderOf(settings)));
    return file;
  }
  size_t complete_bytes = 0;
  KC_ASSIGN_OR_RETURN(file->results_, Parse(path, text, complete_bytes));
  const SuiteSettings& kept = file->results_.settings;
  struct Setting {
    const char* option;
    const std::string SuiteSettings::*value;
  };
  for (const Setting& setting :
       {Setting{"--mode", &SuiteSettings::mode}, Setting{"--baseline", &SuiteSettings::baseline},
        Setting{"--task-rules-only", &SuiteSettings::rules}}) {
    const std::string& before = kept.*setting.value;
    const std::string& now = settings.*setting.value;
    if (before == now) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        setting.option, ": the results in ", Quoted(folder, 255), " were made with ",
        before.empty() ? "its default" : Quoted(before), ", now it is ",
        now.empty() ? "the default" : Quoted(now), "; choose another folder with --output"));
  }
  if (complete_bytes < text.size() && ftruncate(fd, static_cast<off_t>(complete_bytes)) != 0) {
    return Errno("write", path);
  }
  return file;
}

SuiteFile::~SuiteFile() { close(fd_); }

absl::Status SuiteFile::AddTasks(const std::vector<SuiteTaskInfo>& tasks) {
  Json array = Json::array();
  for (const SuiteTaskInfo& task : tasks) {
    Json one = {{"task", task.name}};
    if (!task.level.empty()) one["level"] = task.level;
    if (!task.category.empty()) one["category"] = task.category;
    if (task.number > 0) one["number"] = task.number;
    one["file"] = task.file;
    one["candidates"] = task.candidates;
    array.push_back(std::move(one));
  }
  return Add({{"tasks", std::move(array)}});
}

absl::Status SuiteFile::Add(const nlohmann::ordered_json& line) {
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t written = write(fd_, rest.data(), rest.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      const absl::Status reason = Errno("write", path_);
      return absl::ResourceExhaustedError(reason.message());
    }
    rest.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace kernelcast::cli
