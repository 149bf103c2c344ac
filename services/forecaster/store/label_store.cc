#include "services/forecaster/store/label_store.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/sqlite/exclusive_file.h"

namespace kernelcast::forecaster {
namespace {

constexpr char kLabelSchema[] = R"(
  CREATE TABLE labels (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    label_id TEXT NOT NULL UNIQUE,
    problem_id TEXT NOT NULL,
    target TEXT NOT NULL,
    device_model TEXT NOT NULL,
    content BLOB NOT NULL
  );
  CREATE INDEX labels_by_problem ON labels (problem_id, target, device_model);
  CREATE TABLE problems (
    ordinal INTEGER PRIMARY KEY AUTOINCREMENT,
    problem_id TEXT NOT NULL UNIQUE,
    content BLOB NOT NULL
  );
  CREATE TABLE predictions (
    label_id TEXT PRIMARY KEY,
    backend_version TEXT NOT NULL,
    location REAL NOT NULL,
    scale REAL NOT NULL,
    degrees_of_freedom REAL NOT NULL
  ) WITHOUT ROWID;
)";

// Labels of layout 1 had no device model.
constexpr char kLabelUpgrade[] = R"(
  ALTER TABLE labels ADD COLUMN device_model TEXT NOT NULL DEFAULT 'unknown';
  DROP INDEX labels_by_problem;
  CREATE INDEX labels_by_problem ON labels (problem_id, target, device_model);
)";

constexpr sqlite::FileLayout kLabelLayout = {
    .application_id = 0x4b634663,  // "KcFc"
    .version = 2,
    .schema = kLabelSchema,
    .upgrade = kLabelUpgrade,
};

}  // namespace

absl::StatusOr<std::unique_ptr<LabelStore>> LabelStore::Open(const std::string& directory) {
  auto store = std::unique_ptr<LabelStore>(new LabelStore());
  sqlite::Database& database = store->database_;
  KC_RETURN_IF_ERROR(sqlite::OpenExclusively(directory, kFileName, kLabelLayout, database));
  KC_RETURN_IF_ERROR(store->append_label_.Prepare(
      database,
      "INSERT INTO labels (label_id, problem_id, target, device_model, content) "
      "VALUES (?, ?, ?, ?, ?) "
      "ON CONFLICT (label_id) DO NOTHING"));
  KC_RETURN_IF_ERROR(
      store->put_problem_.Prepare(database,
                                  "INSERT INTO problems (problem_id, content) VALUES (?, ?) "
                                  "ON CONFLICT (problem_id) DO NOTHING"));
  KC_RETURN_IF_ERROR(store->drop_idle_problems_.Prepare(
      database,
      "DELETE FROM problems WHERE ordinal IN ("
      "  SELECT ordinal FROM problems p"
      "  WHERE NOT EXISTS (SELECT 1 FROM labels l WHERE l.problem_id = p.problem_id)"
      "  ORDER BY ordinal DESC LIMIT -1 OFFSET ?)"));
  KC_RETURN_IF_ERROR(
      store->get_problem_.Prepare(database, "SELECT content FROM problems WHERE problem_id = ?"));
  KC_RETURN_IF_ERROR(store->keep_prediction_.Prepare(
      database,
      "INSERT OR REPLACE INTO predictions "
      "(label_id, backend_version, location, scale, degrees_of_freedom) VALUES (?, ?, ?, ?, ?)"));
  return store;
}

absl::StatusOr<std::vector<uint64_t>> LabelStore::Append(
    std::span<const LabelRecord* const> labels) {
  std::lock_guard lock(mutex_);
  std::vector<uint64_t> sequences;
  sequences.reserve(labels.size());
  sqlite::Transaction transaction(database_);
  KC_RETURN_IF_ERROR(transaction.Begin());
  for (const LabelRecord* label : labels) {
    append_label_.BindText(1, label->label_id);
    append_label_.BindText(2, label->problem_id);
    append_label_.BindText(3, label->target);
    append_label_.BindText(4, label->device_model);
    append_label_.BindBlob(5, label->content);
    KC_RETURN_IF_ERROR(append_label_.Run());
    const bool inserted = sqlite3_changes64(database_.get()) > 0;
    sequences.push_back(inserted ? static_cast<uint64_t>(sqlite3_last_insert_rowid(database_.get()))
                                 : 0);
  }
  KC_RETURN_IF_ERROR(transaction.Commit());
  return sequences;
}

absl::Status LabelStore::PutProblem(const std::string& problem_id, const std::string& content) {
  std::lock_guard lock(mutex_);
  sqlite::Transaction transaction(database_);
  KC_RETURN_IF_ERROR(transaction.Begin());
  put_problem_.BindText(1, problem_id);
  put_problem_.BindBlob(2, content);
  KC_RETURN_IF_ERROR(put_problem_.Run());
  drop_idle_problems_.BindInteger(1, kMaxIdleProblems);
  KC_RETURN_IF_ERROR(drop_idle_problems_.Run());
  return transaction.Commit();
}

absl::StatusOr<std::string> LabelStore::GetProblem(const std::string& problem_id) {
  std::lock_guard lock(mutex_);
  get_problem_.BindText(1, problem_id);
  const absl::StatusOr<bool> row = get_problem_.Step();
  absl::StatusOr<std::string> content =
      absl::NotFoundError(absl::StrCat("problem '", problem_id, "' is unknown"));
  if (!row.ok()) {
    content = row.status();
  } else if (*row) {
    content = get_problem_.Bytes(0);
  }
  get_problem_.Reset();
  return content;
}

absl::Status LabelStore::KeepPredictions(const std::vector<StoredPrediction>& predictions) {
  std::lock_guard lock(mutex_);
  sqlite::Transaction transaction(database_);
  KC_RETURN_IF_ERROR(transaction.Begin());
  for (const StoredPrediction& prediction : predictions) {
    keep_prediction_.BindText(1, prediction.label_id);
    keep_prediction_.BindText(2, prediction.backend_version);
    keep_prediction_.BindReal(3, prediction.log2_speedup.location);
    keep_prediction_.BindReal(4, prediction.log2_speedup.scale);
    keep_prediction_.BindReal(5, prediction.log2_speedup.degrees_of_freedom);
    KC_RETURN_IF_ERROR(keep_prediction_.Run());
  }
  return transaction.Commit();
}

absl::Status LabelStore::ForEachLabel(const std::function<absl::Status(StoredLabel)>& handle) {
  std::lock_guard lock(mutex_);
  sqlite::Statement statement;
  KC_RETURN_IF_ERROR(statement.Prepare(
      database_,
      "SELECT l.sequence, l.label_id, l.problem_id, l.target, l.device_model, l.content,"
      "       p.backend_version, p.location, p.scale, p.degrees_of_freedom "
      "FROM labels l LEFT JOIN predictions p ON p.label_id = l.label_id ORDER BY l.sequence"));
  return statement.ForEachRow([&]() -> absl::Status {
    StoredLabel label;
    label.sequence = static_cast<uint64_t>(statement.Integer(0));
    label.record = {statement.Bytes(1), statement.Bytes(2), statement.Bytes(3), statement.Bytes(4),
                    statement.Bytes(5)};
    if (!statement.IsNull(6)) {
      label.prediction =
          StoredPrediction{label.record.label_id,
                           statement.Bytes(6),
                           {statement.Real(7), statement.Real(8), statement.Real(9)}};
    }
    return handle(std::move(label));
  });
}

absl::Status LabelStore::ForEachProblem(
    const std::function<absl::Status(const std::string& problem_id, const std::string& content)>&
        handle) {
  std::lock_guard lock(mutex_);
  sqlite::Statement statement;
  KC_RETURN_IF_ERROR(
      statement.Prepare(database_, "SELECT problem_id, content FROM problems ORDER BY ordinal"));
  return statement.ForEachRow([&] { return handle(statement.Bytes(0), statement.Bytes(1)); });
}

}  // namespace kernelcast::forecaster
