#include "services/gateway/store/task_file.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/convert/proto_json.h"
#include "common/sqlite/exclusive_file.h"

namespace kernelcast::gateway {
namespace {

using nlohmann::json;

constexpr char kGatewaySchema[] = R"(
  CREATE TABLE tasks (
    ordinal INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id TEXT NOT NULL UNIQUE,
    dialect TEXT NOT NULL,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    created_ns INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    content BLOB NOT NULL
  );
  CREATE INDEX tasks_by_owner ON tasks (dialect, owner, ordinal);
  CREATE TABLE counts (
    dialect TEXT NOT NULL,
    name TEXT NOT NULL,
    tasks INTEGER NOT NULL,
    PRIMARY KEY (dialect, name)
  );
)";

constexpr sqlite::FileLayout kGatewayLayout = {
    .application_id = 0x4b634777,  // "KcGw"
    .version = 2,
    .schema = kGatewaySchema,
    .synchronous = "NORMAL",
    .check = false,
};

std::string Encode(const Submission& submission) {
  json files = json::array();
  for (const ProblemFile& file : submission.problem_files) {
    files.push_back({{"path", file.path}, {"content", file.content}});
  }
  return json{{"candidate", ParseBoundedJson(ProtoToJson(ToProto(submission.candidate)))},
              {"device_model", submission.device_model},
              {"problem_files", files},
              {"checks_only", submission.checks_only},
              {"note", submission.note}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::Status Decode(std::string_view content, Submission& submission) {
  const json stored = ParseBoundedJson(content);
  try {
    v1::Candidate candidate;
    absl::Status read = ProtoFromJson(stored.at("candidate").dump(), &candidate);
    absl::StatusOr<Candidate> known = FromProto(candidate);
    if (read.ok()) read = known.status();
    if (!read.ok()) {
      return absl::DataLossError(
          absl::StrCat("a stored task cannot be read: ", std::string(read.message())));
    }
    submission.candidate = *std::move(known);
    submission.candidate.candidate_id = CandidateId(submission.candidate);
    submission.device_model = stored.at("device_model").get<std::string>();
    for (const json& file : stored.at("problem_files")) {
      submission.problem_files.push_back(
          {file.at("path").get<std::string>(), file.at("content").get<std::string>()});
    }
    submission.checks_only = stored.value("checks_only", false);
    submission.note = stored.at("note");
  } catch (const json::exception& error) {
    return absl::DataLossError(absl::StrCat("a stored task cannot be read: ", error.what()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<TaskFile>> TaskFile::Open(const std::string& directory,
                                                         int64_t max_bytes) {
  auto file = std::unique_ptr<TaskFile>(new TaskFile());
  file->max_bytes_ = max_bytes;
  const std::lock_guard lock(file->mutex_);
  KC_RETURN_IF_ERROR(
      sqlite::OpenExclusively(directory, kFileName, kGatewayLayout, file->database_));
  KC_RETURN_IF_ERROR(file->Prepare());
  return file;
}

absl::Status TaskFile::Prepare() {
  KC_RETURN_IF_ERROR(find_.Prepare(
      database_, "SELECT dialect, owner, name, created_ns, content FROM tasks WHERE task_id = ?"));
  KC_RETURN_IF_ERROR(
      put_.Prepare(database_,
                   "INSERT INTO tasks (task_id, dialect, owner, name, created_ns, bytes, content) "
                   "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (task_id) DO NOTHING"));
  KC_RETURN_IF_ERROR(
      count_up_.Prepare(database_,
                        "INSERT INTO counts (dialect, name, tasks) VALUES (?, ?, 1) "
                        "ON CONFLICT (dialect, name) DO UPDATE SET tasks = tasks + 1"));
  KC_RETURN_IF_ERROR(
      count_.Prepare(database_, "SELECT tasks FROM counts WHERE dialect = ? AND name = ?"));
  KC_RETURN_IF_ERROR(
      list_.Prepare(database_,
                    "SELECT task_id FROM tasks WHERE dialect = ?1 AND owner = ?2 AND "
                    "(?3 = '' OR name = ?3) ORDER BY ordinal DESC LIMIT ?4 OFFSET ?5"));
  KC_RETURN_IF_ERROR(
      oldest_.Prepare(database_, "SELECT ordinal, bytes FROM tasks ORDER BY ordinal LIMIT 1"));
  KC_RETURN_IF_ERROR(remove_.Prepare(database_, "DELETE FROM tasks WHERE ordinal = ?"));
  KC_ASSIGN_OR_RETURN(bytes_, database_.QueryInteger("SELECT coalesce(sum(bytes), 0) FROM tasks"));
  return Evict();
}

absl::Status TaskFile::Put(const Submission& submission, int64_t created_ns) {
  const std::lock_guard lock(mutex_);
  const int64_t bytes_before = bytes_;
  sqlite::Transaction transaction(database_);
  KC_RETURN_IF_ERROR(transaction.Begin());
  absl::Status status = Insert(submission, created_ns);
  if (status.ok()) status = transaction.Commit();
  if (!status.ok()) bytes_ = bytes_before;
  return status;
}

absl::Status TaskFile::Insert(const Submission& submission, int64_t created_ns) {
  const std::string content = Encode(submission);
  const auto bytes = static_cast<int64_t>(content.size() + submission.task_id.size());
  put_.BindText(1, submission.task_id);
  put_.BindText(2, submission.dialect);
  put_.BindText(3, submission.owner);
  put_.BindText(4, submission.name);
  put_.BindInteger(5, created_ns);
  put_.BindInteger(6, bytes);
  put_.BindBlob(7, content);
  KC_RETURN_IF_ERROR(put_.Run());
  if (sqlite3_changes64(database_.get()) == 0) return absl::OkStatus();
  bytes_ += bytes;
  count_up_.BindText(1, submission.dialect);
  count_up_.BindText(2, submission.name);
  KC_RETURN_IF_ERROR(count_up_.Run());
  return Evict();
}

absl::Status TaskFile::Evict() {
  while (bytes_ > max_bytes_) {
    const absl::StatusOr<bool> row = oldest_.Step();
    const bool found = row.ok() && *row;
    const int64_t ordinal = found ? oldest_.Integer(0) : 0;
    const int64_t bytes = found ? oldest_.Integer(1) : 0;
    oldest_.Reset();
    KC_RETURN_IF_ERROR(row.status());
    if (!found) break;
    remove_.BindInteger(1, ordinal);
    KC_RETURN_IF_ERROR(remove_.Run());
    bytes_ -= bytes;
  }
  return absl::OkStatus();
}

absl::StatusOr<StoredTask> TaskFile::Find(const std::string& task_id) {
  const std::lock_guard lock(mutex_);
  StoredTask task;
  task.submission.task_id = task_id;
  bool found = false;
  find_.BindText(1, task_id);
  KC_RETURN_IF_ERROR(find_.ForEachRow([&]() -> absl::Status {
    found = true;
    task.submission.dialect = find_.Bytes(0);
    task.submission.owner = find_.Bytes(1);
    task.submission.name = find_.Bytes(2);
    task.created_ns = find_.Integer(3);
    return Decode(find_.View(4), task.submission);
  }));
  if (!found) return absl::NotFoundError("there is no such task");
  return task;
}

absl::StatusOr<std::vector<std::string>> TaskFile::List(const std::string& dialect,
                                                        const std::string& owner,
                                                        const std::string& name, size_t limit,
                                                        size_t offset) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> ids;
  list_.BindText(1, dialect);
  list_.BindText(2, owner);
  list_.BindText(3, name);
  list_.BindInteger(4, static_cast<int64_t>(limit));
  list_.BindInteger(5, static_cast<int64_t>(offset));
  KC_RETURN_IF_ERROR(list_.ForEachRow([&] {
    ids.push_back(list_.Bytes(0));
    return absl::OkStatus();
  }));
  return ids;
}

absl::StatusOr<uint64_t> TaskFile::Count(const std::string& dialect, const std::string& name) {
  const std::lock_guard lock(mutex_);
  uint64_t count = 0;
  count_.BindText(1, dialect);
  count_.BindText(2, name);
  KC_RETURN_IF_ERROR(count_.ForEachRow([&] {
    count = static_cast<uint64_t>(count_.Integer(0));
    return absl::OkStatus();
  }));
  return count;
}

}  // namespace kernelcast::gateway
