#include "services/orchestrator/store/sqlite_event_store.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "services/orchestrator/store/event_codec.h"
#include "services/orchestrator/store/high_water_mark.h"

namespace kernelcast::orchestrator {
namespace {

constexpr int kSchemaVersion = 2;

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;

struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

absl::Status SqliteError(sqlite3* database, std::string_view doing) {
  const int code = sqlite3_errcode(database) & 0xff;
  const std::string message =
      absl::StrCat("event log: ", std::string(doing), ": ", sqlite3_errmsg(database));
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) {
    return absl::DataLossError(
        absl::StrCat(message,
                     ". Restore a backup, or recover the file with sqlite3 and start once with "
                     "--accept-loss"));
  }
  if (code == SQLITE_FULL) return absl::ResourceExhaustedError(message);
  return absl::UnavailableError(message);
}

// SQLite's integers are signed: a number beyond them would become a negative one.
int64_t Bounded(uint64_t number) {
  return static_cast<int64_t>(std::min<uint64_t>(number, INT64_MAX));
}

absl::Status Execute(sqlite3* database, const char* sql) {
  if (sqlite3_exec(database, sql, nullptr, nullptr, nullptr) != SQLITE_OK) {
    return SqliteError(database, sql);
  }
  return absl::OkStatus();
}

absl::StatusOr<Statement> Prepare(sqlite3* database, const char* sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v3(database, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr) !=
      SQLITE_OK) {
    return SqliteError(database, sql);
  }
  return Statement(statement);
}

void BindText(sqlite3_stmt* statement, int index, std::string_view text) {
  sqlite3_bind_text64(statement, index, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
}

absl::StatusOr<Database> OpenDatabase(const std::string& path, int flags) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  Database database(raw);
  if (code != SQLITE_OK) {
    return raw != nullptr ? SqliteError(raw, absl::StrCat("open ", path))
                          : absl::ResourceExhaustedError("event log: no memory to open it");
  }
  sqlite3_busy_timeout(raw, 5000);
  return database;
}

constexpr char kRow[] = "SELECT sequence, request_id, search_id, payload FROM events";

std::string_view BytesAt(sqlite3_stmt* statement, int column) {
  const auto* const bytes = static_cast<const char*>(sqlite3_column_blob(statement, column));
  const auto size = static_cast<size_t>(sqlite3_column_bytes(statement, column));
  return bytes == nullptr ? std::string_view() : std::string_view(bytes, size);
}

// The current row of a statement whose columns begin like kRow. Valid until the next step.
EventRow RowAt(sqlite3_stmt* statement) {
  return {static_cast<uint64_t>(sqlite3_column_int64(statement, 0)), BytesAt(statement, 1),
          BytesAt(statement, 2), BytesAt(statement, 3)};
}

// `visit` gets an EventRow.
template <class Visit>
absl::Status ReadRawRows(sqlite3* database, sqlite3_stmt* statement, const Visit& visit) {
  while (true) {
    const int code = sqlite3_step(statement);
    if (code == SQLITE_DONE) return absl::OkStatus();
    if (code != SQLITE_ROW) return SqliteError(database, "read");
    KC_RETURN_IF_ERROR(visit(RowAt(statement)));
  }
}

absl::Status ReadRows(sqlite3* database, sqlite3_stmt* statement,
                      const EventStore::Visitor& visit) {
  return ReadRawRows(database, statement, [&visit](const EventRow& row) -> absl::Status {
    KC_ASSIGN_OR_RETURN(StoredEvent stored, DecodeEvent(row));
    return visit(std::move(stored));
  });
}

// Resets a statement after use, so that it holds no read transaction open.
class ResetAtEnd {
 public:
  explicit ResetAtEnd(sqlite3_stmt* statement) : statement_(statement) {}
  ~ResetAtEnd() {
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
  }
  ResetAtEnd(const ResetAtEnd&) = delete;
  ResetAtEnd& operator=(const ResetAtEnd&) = delete;

 private:
  sqlite3_stmt* statement_;
};

// Runs a statement without rows or parameters.
absl::Status Step(sqlite3* database, sqlite3_stmt* statement, std::string_view doing) {
  ResetAtEnd reset(statement);
  return sqlite3_step(statement) == SQLITE_DONE ? absl::OkStatus() : SqliteError(database, doing);
}

}  // namespace

struct SqliteEventStore::Impl {
  ~Impl() {
    begin.reset();
    insert.reset();
    commit.reset();
    by_request.reset();
    by_search.reset();
    all.reset();
    last.reset();
    reader.reset();
    writer.reset();  // last, so that it checkpoints the write-ahead log
    if (lock_fd >= 0) close(lock_fd);
  }

  // Compares the log with the acknowledged mark. The last step of Open.
  absl::Status CheckAgainst(const std::optional<HighWaterMark::Value>& acknowledged,
                            const SqliteOptions& options);
  absl::StatusOr<HighWaterMark::Value> Newest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(reader_mutex);
  absl::StatusOr<uint32_t> ChecksumOf(uint64_t sequence)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reader_mutex);
  // Deletes the events after the last valid one, and returns that.
  absl::StatusOr<HighWaterMark::Value> CutAfterFirstLoss(
      HighWaterMark::Value newest, const std::optional<HighWaterMark::Value>& acknowledged)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reader_mutex);

  std::string path;
  int lock_fd = -1;

  // Used by Append only.
  Database writer;
  Statement begin;
  Statement insert;
  Statement commit;
  uint64_t last_sequence = 0;
  std::unique_ptr<HighWaterMark> mark;

  uint64_t first_unseen = 1;  // the event after those that Open found; then constant

  mutable std::mutex reader_mutex;
  Database reader ABSL_GUARDED_BY(reader_mutex);
  Statement by_request ABSL_GUARDED_BY(reader_mutex);
  Statement by_search ABSL_GUARDED_BY(reader_mutex);
  Statement all ABSL_GUARDED_BY(reader_mutex);
  Statement last ABSL_GUARDED_BY(reader_mutex);
};

namespace {

// The acknowledged mark of the log. Empty if it is unknown and not required.
absl::StatusOr<std::optional<HighWaterMark::Value>> ReadMark(const std::string& path,
                                                             const SqliteOptions& options) {
  auto mark = HighWaterMark::Read(path + ".mark");
  if (!absl::IsDataLoss(mark.status())) return mark;
  if (options.accept_loss) return std::nullopt;
  return LossError(
      absl::StrCat(path, ".mark, which says how many events were acknowledged, is ", "damaged"));
}

}  // namespace

SqliteEventStore::SqliteEventStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SqliteEventStore::~SqliteEventStore() = default;

absl::StatusOr<std::unique_ptr<SqliteEventStore>> SqliteEventStore::Open(
    const std::string& path, const SqliteOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  const std::string lock_path = path + ".lock";
  impl->lock_fd = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (impl->lock_fd < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("event log: open ", lock_path));
  }
  if (flock(impl->lock_fd, LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("event log: ", path, " is in use by another orchestrator"));
  }
  KC_ASSIGN_OR_RETURN(const auto acknowledged, ReadMark(path, options));
  // Checked before opening: if the main file is missing, SQLite would delete the rest of the log
  // next to it.
  std::error_code missing;
  const bool is_empty = std::filesystem::file_size(path, missing) == 0 || missing;
  if (is_empty && !options.accept_loss && acknowledged.has_value() && acknowledged->sequence > 0) {
    return LossError(absl::StrCat(path, " is empty or missing, but ", acknowledged->sequence,
                                  " events were acknowledged"));
  }
  KC_ASSIGN_OR_RETURN(impl->writer, OpenDatabase(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
  sqlite3* writer = impl->writer.get();
  // For new files. Two candidates with their sources rarely fit into the default page of 4 KiB.
  KC_RETURN_IF_ERROR(Execute(writer, "PRAGMA page_size=8192"));
  // Nothing in the file is changed, not even on close, until the log is known to be complete.
  sqlite3_db_config(writer, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  KC_RETURN_IF_ERROR(Execute(writer, "PRAGMA journal_mode=WAL"));
  KC_RETURN_IF_ERROR(Execute(writer, "PRAGMA synchronous=FULL"));
  // In pages. Five times as many cost 5% of the throughput and make callers wait longer for a
  // checkpoint (docs/decisions/event-log-checkpoints.md).
  KC_RETURN_IF_ERROR(Execute(writer, "PRAGMA wal_autocheckpoint=400"));
  KC_ASSIGN_OR_RETURN(Statement version, Prepare(writer, "PRAGMA user_version"));
  if (sqlite3_step(version.get()) != SQLITE_ROW) return SqliteError(writer, "read version");
  const int found = sqlite3_column_int(version.get(), 0);
  version.reset();
  if (found != 0 && found != kSchemaVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "event log: ", path, " has schema version ", found, "; this build knows ", kSchemaVersion,
        found < kSchemaVersion ? ". Export it with the release that wrote it, and start with an "
                                 "empty folder"
                               : ""));
  }
  if (found == 0) {
    KC_RETURN_IF_ERROR(Execute(writer,
                               "BEGIN IMMEDIATE;"
                               "CREATE TABLE IF NOT EXISTS events("
                               "  sequence INTEGER PRIMARY KEY,"
                               "  request_id TEXT,"
                               "  search_id TEXT,"
                               "  payload BLOB NOT NULL);"
                               "CREATE INDEX IF NOT EXISTS events_by_request ON events(request_id)"
                               "  WHERE request_id IS NOT NULL;"
                               "CREATE INDEX IF NOT EXISTS events_by_search ON events(search_id)"
                               "  WHERE search_id IS NOT NULL;"
                               "PRAGMA user_version=2;"
                               "COMMIT"));
  }
  KC_ASSIGN_OR_RETURN(impl->begin, Prepare(writer, "BEGIN IMMEDIATE"));
  KC_ASSIGN_OR_RETURN(impl->commit, Prepare(writer, "COMMIT"));
  KC_ASSIGN_OR_RETURN(
      impl->insert,
      Prepare(writer,
              "INSERT INTO events(sequence, request_id, search_id, payload) VALUES(?,?,?,?)"));
  {
    std::lock_guard lock(impl->reader_mutex);
    KC_ASSIGN_OR_RETURN(impl->reader, OpenDatabase(path, SQLITE_OPEN_READONLY));
    sqlite3* reader = impl->reader.get();
    KC_ASSIGN_OR_RETURN(
        impl->by_request,
        Prepare(reader, absl::StrCat(kRow, " WHERE request_id=? ORDER BY sequence").c_str()));
    KC_ASSIGN_OR_RETURN(impl->by_search,
                        Prepare(reader, absl::StrCat(kRow,
                                                     " WHERE search_id=? AND sequence>=? "
                                                     "ORDER BY sequence LIMIT ?")
                                            .c_str()));
    KC_ASSIGN_OR_RETURN(
        impl->all,
        Prepare(reader,
                absl::StrCat(kRow, " WHERE sequence>=? ORDER BY sequence LIMIT ?").c_str()));
    KC_ASSIGN_OR_RETURN(impl->last, Prepare(reader, "SELECT MAX(sequence) FROM events"));
  }
  std::unique_ptr<SqliteEventStore> store(new SqliteEventStore(std::move(impl)));
  KC_RETURN_IF_ERROR(store->impl_->CheckAgainst(acknowledged, options));
  sqlite3_db_config(writer, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
  return store;
}

absl::Status SqliteEventStore::Impl::CheckAgainst(
    const std::optional<HighWaterMark::Value>& acknowledged, const SqliteOptions& options) {
  std::lock_guard lock(reader_mutex);
  KC_ASSIGN_OR_RETURN(HighWaterMark::Value newest, Newest());
  if (options.accept_loss) {
    KC_ASSIGN_OR_RETURN(newest, CutAfterFirstLoss(newest, acknowledged));
  } else if (!acknowledged.has_value() && newest.sequence > 0) {
    return LossError(
        absl::StrCat(path, ".mark, which says how many events were acknowledged, is ", "missing"));
  } else if (acknowledged.has_value() && acknowledged->sequence > newest.sequence) {
    return LossError(absl::StrCat(path, " ends with event ", newest.sequence, ", but ",
                                  acknowledged->sequence, " events were acknowledged"));
  } else if (acknowledged.has_value() && acknowledged->sequence > 0) {
    KC_ASSIGN_OR_RETURN(const uint32_t checksum, ChecksumOf(acknowledged->sequence));
    if (checksum != acknowledged->checksum) {
      return LossError(absl::StrCat("event ", acknowledged->sequence, " of ", path,
                                    " is not the one that was acknowledged"));
    }
  }
  KC_ASSIGN_OR_RETURN(mark, HighWaterMark::Open(path + ".mark", newest));
  last_sequence = newest.sequence;
  first_unseen = newest.sequence + 1;
  return absl::OkStatus();
}

absl::StatusOr<HighWaterMark::Value> SqliteEventStore::Impl::Newest() {
  ResetAtEnd reset(last.get());
  if (sqlite3_step(last.get()) != SQLITE_ROW) return SqliteError(reader.get(), "read");
  const auto sequence = static_cast<uint64_t>(sqlite3_column_int64(last.get(), 0));
  if (sequence == 0) return HighWaterMark::Value{};
  KC_ASSIGN_OR_RETURN(const uint32_t checksum, ChecksumOf(sequence));
  return HighWaterMark::Value{sequence, checksum};
}

absl::StatusOr<uint32_t> SqliteEventStore::Impl::ChecksumOf(uint64_t sequence) {
  ResetAtEnd reset(all.get());
  sqlite3_bind_int64(all.get(), 1, static_cast<int64_t>(sequence));
  sqlite3_bind_int64(all.get(), 2, 1);
  uint32_t checksum = 0;
  bool is_there = false;
  KC_RETURN_IF_ERROR(ReadRawRows(reader.get(), all.get(), [&](const EventRow& row) {
    is_there = row.sequence == sequence;
    checksum = StoredChecksum(row.payload);
    return absl::OkStatus();
  }));
  if (!is_there) return MissingEventError(sequence);
  return checksum;
}

absl::StatusOr<HighWaterMark::Value> SqliteEventStore::Impl::CutAfterFirstLoss(
    HighWaterMark::Value newest, const std::optional<HighWaterMark::Value>& acknowledged) {
  HighWaterMark::Value whole;
  absl::Status loss;
  {
    ResetAtEnd reset(all.get());
    sqlite3_bind_int64(all.get(), 1, 0);
    sqlite3_bind_int64(all.get(), 2, -1);
    loss = ReadRawRows(reader.get(), all.get(), [&](const EventRow& row) -> absl::Status {
      if (row.sequence != whole.sequence + 1) return MissingEventError(whole.sequence + 1);
      KC_RETURN_IF_ERROR(CheckRow(row));
      whole = {row.sequence, StoredChecksum(row.payload)};
      return absl::OkStatus();
    });
  }
  const uint64_t expected =
      std::max(newest.sequence, acknowledged.has_value() ? acknowledged->sequence : 0);
  if (whole.sequence >= expected) return whole;
  Log(LogLevel::kWarning, "the loss of events is accepted",
      {{"log", path},
       {"events_kept", whole.sequence},
       {"events_lost", expected - whole.sequence},
       {"reason", std::string(loss.message())}});
  if (newest.sequence > whole.sequence) {
    KC_RETURN_IF_ERROR(
        Execute(writer.get(),
                absl::StrCat("DELETE FROM events WHERE sequence > ", whole.sequence).c_str()));
  }
  return whole;
}

absl::StatusOr<uint64_t> SqliteEventStore::Append(std::span<const AppendEntry> entries) {
  sqlite3* writer = impl_->writer.get();
  KC_RETURN_IF_ERROR(Step(writer, impl_->begin.get(), "begin"));
  uint64_t sequence = impl_->last_sequence;
  HighWaterMark::Value newest;
  std::string payload;
  for (const AppendEntry& entry : entries) {
    newest.checksum = EncodeEvent(sequence + 1, entry, payload);
    sqlite3_stmt* insert = impl_->insert.get();
    ResetAtEnd reset(insert);
    sqlite3_bind_int64(insert, 1, static_cast<int64_t>(++sequence));
    if (!entry.request_id.empty()) BindText(insert, 2, entry.request_id);
    if (!entry.search_id.empty()) BindText(insert, 3, entry.search_id);
    sqlite3_bind_blob64(insert, 4, payload.data(), payload.size(), SQLITE_STATIC);
    if (sqlite3_step(insert) != SQLITE_DONE) {
      absl::Status status = SqliteError(writer, "append");
      sqlite3_exec(writer, "ROLLBACK", nullptr, nullptr, nullptr);
      return status;
    }
  }
  if (absl::Status committed = Step(writer, impl_->commit.get(), "commit"); !committed.ok()) {
    sqlite3_exec(writer, "ROLLBACK", nullptr, nullptr, nullptr);
    return committed;
  }
  const uint64_t first = impl_->last_sequence + 1;
  impl_->last_sequence = sequence;
  if (!entries.empty()) {
    newest.sequence = sequence;
    impl_->mark->Set(newest);
  }
  return first;
}

absl::Status SqliteEventStore::Replay(uint64_t from_sequence, const Visitor& visit) const {
  std::lock_guard lock(impl_->reader_mutex);
  sqlite3_stmt* statement = impl_->all.get();
  ResetAtEnd reset(statement);
  sqlite3_bind_int64(statement, 1, Bounded(from_sequence));
  sqlite3_bind_int64(statement, 2, -1);
  uint64_t next = std::max<uint64_t>(1, from_sequence);
  KC_RETURN_IF_ERROR(
      ReadRows(impl_->reader.get(), statement, [&](StoredEvent stored) -> absl::Status {
        if (stored.sequence != next) return MissingEventError(next);
        ++next;
        return visit(std::move(stored));
      }));
  return next < impl_->first_unseen ? MissingEventError(next) : absl::OkStatus();
}

absl::StatusOr<std::vector<StoredEvent>> SqliteEventStore::ReadEvaluation(
    std::string_view request_id) const {
  std::vector<StoredEvent> events;
  std::lock_guard lock(impl_->reader_mutex);
  sqlite3_stmt* statement = impl_->by_request.get();
  ResetAtEnd reset(statement);
  BindText(statement, 1, request_id);
  KC_RETURN_IF_ERROR(ReadRows(impl_->reader.get(), statement, [&](StoredEvent stored) {
    events.push_back(std::move(stored));
    return absl::OkStatus();
  }));
  return events;
}

absl::StatusOr<std::vector<StoredEvent>> SqliteEventStore::ReadSearch(std::string_view search_id,
                                                                      uint64_t from_sequence,
                                                                      size_t limit) const {
  std::vector<StoredEvent> events;
  std::lock_guard lock(impl_->reader_mutex);
  sqlite3_stmt* statement = search_id.empty() ? impl_->all.get() : impl_->by_search.get();
  ResetAtEnd reset(statement);
  int index = 1;
  if (!search_id.empty()) BindText(statement, index++, search_id);
  sqlite3_bind_int64(statement, index++, Bounded(from_sequence));
  sqlite3_bind_int64(statement, index, Bounded(limit));
  KC_RETURN_IF_ERROR(ReadRows(impl_->reader.get(), statement, [&](StoredEvent stored) {
    events.push_back(std::move(stored));
    return absl::OkStatus();
  }));
  return events;
}

absl::StatusOr<uint64_t> SqliteEventStore::LastSequence() const {
  std::lock_guard lock(impl_->reader_mutex);
  sqlite3_stmt* statement = impl_->last.get();
  ResetAtEnd reset(statement);
  if (sqlite3_step(statement) != SQLITE_ROW) return SqliteError(impl_->reader.get(), "read");
  return static_cast<uint64_t>(sqlite3_column_int64(statement, 0));
}

}  // namespace kernelcast::orchestrator
