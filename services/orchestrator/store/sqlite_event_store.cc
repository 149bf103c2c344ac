#include "services/orchestrator/store/sqlite_event_store.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <unistd.h>

#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "services/orchestrator/store/event_codec.h"

namespace kernelcast::orchestrator {
namespace {

constexpr int kSchemaVersion = 1;

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
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) return absl::DataLossError(message);
  if (code == SQLITE_FULL) return absl::ResourceExhaustedError(message);
  return absl::UnavailableError(message);
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

// Row of (sequence, payload) to event.
absl::StatusOr<StoredEvent> ReadRow(sqlite3_stmt* statement) {
  const auto* const payload = static_cast<const char*>(sqlite3_column_blob(statement, 1));
  const auto bytes = static_cast<size_t>(sqlite3_column_bytes(statement, 1));
  return DecodeEvent(static_cast<uint64_t>(sqlite3_column_int64(statement, 0)),
                     std::string_view(payload, bytes));
}

absl::Status ReadRows(sqlite3* database, sqlite3_stmt* statement,
                      const EventStore::Visitor& visit) {
  while (true) {
    const int code = sqlite3_step(statement);
    if (code == SQLITE_DONE) return absl::OkStatus();
    if (code != SQLITE_ROW) return SqliteError(database, "read");
    KC_ASSIGN_OR_RETURN(StoredEvent stored, ReadRow(statement));
    KC_RETURN_IF_ERROR(visit(std::move(stored)));
  }
}

// Resets a statement at the end of its use, so that it holds no read transaction open.
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

// A statement without rows or parameters.
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
    writer.reset();
    reader.reset();
    if (lock_fd >= 0) close(lock_fd);
  }

  std::string path;
  int lock_fd = -1;

  // Used by Append alone.
  Database writer;
  Statement begin;
  Statement insert;
  Statement commit;
  uint64_t last_sequence = 0;

  mutable std::mutex reader_mutex;
  Database reader ABSL_GUARDED_BY(reader_mutex);
  Statement by_request ABSL_GUARDED_BY(reader_mutex);
  Statement by_search ABSL_GUARDED_BY(reader_mutex);
  Statement all ABSL_GUARDED_BY(reader_mutex);
  Statement last ABSL_GUARDED_BY(reader_mutex);
};

SqliteEventStore::SqliteEventStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SqliteEventStore::~SqliteEventStore() = default;

absl::StatusOr<std::unique_ptr<SqliteEventStore>> SqliteEventStore::Open(const std::string& path) {
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
  KC_ASSIGN_OR_RETURN(impl->writer, OpenDatabase(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
  sqlite3* writer = impl->writer.get();
  // Of a new file: two candidates with their sources seldom share the usual 4 KiB.
  KC_RETURN_IF_ERROR(Execute(writer, "PRAGMA page_size=8192"));
  KC_RETURN_IF_ERROR(Execute(writer, "PRAGMA journal_mode=WAL"));
  KC_RETURN_IF_ERROR(Execute(writer, "PRAGMA synchronous=FULL"));
  // In pages. Measured (docs/benchmarks.md): five times as many cost 5% of the throughput, and make
  // those wait longer who wait for a checkpoint.
  KC_RETURN_IF_ERROR(Execute(writer, "PRAGMA wal_autocheckpoint=400"));
  KC_ASSIGN_OR_RETURN(Statement version, Prepare(writer, "PRAGMA user_version"));
  if (sqlite3_step(version.get()) != SQLITE_ROW) return SqliteError(writer, "read version");
  const int found = sqlite3_column_int(version.get(), 0);
  version.reset();
  if (found > kSchemaVersion) {
    return absl::FailedPreconditionError(absl::StrCat("event log: ", path, " has schema version ",
                                                      found, "; this build knows up to ",
                                                      kSchemaVersion));
  }
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
                             "PRAGMA user_version=1;"
                             "COMMIT"));
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
        Prepare(reader,
                "SELECT sequence, payload FROM events WHERE request_id=? ORDER BY sequence"));
    KC_ASSIGN_OR_RETURN(impl->by_search,
                        Prepare(reader,
                                "SELECT sequence, payload FROM events WHERE search_id=? AND "
                                "sequence>=? ORDER BY sequence LIMIT ?"));
    KC_ASSIGN_OR_RETURN(impl->all, Prepare(reader,
                                           "SELECT sequence, payload FROM events WHERE "
                                           "sequence>=? ORDER BY sequence LIMIT ?"));
    KC_ASSIGN_OR_RETURN(impl->last, Prepare(reader, "SELECT MAX(sequence) FROM events"));
  }
  std::unique_ptr<SqliteEventStore> store(new SqliteEventStore(std::move(impl)));
  KC_ASSIGN_OR_RETURN(store->impl_->last_sequence, store->LastSequence());
  return store;
}

absl::StatusOr<uint64_t> SqliteEventStore::Append(std::span<const AppendEntry> entries) {
  sqlite3* writer = impl_->writer.get();
  KC_RETURN_IF_ERROR(Step(writer, impl_->begin.get(), "begin"));
  uint64_t sequence = impl_->last_sequence;
  std::string payload;
  for (const AppendEntry& entry : entries) {
    EncodeEvent(*entry.event, payload);
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
  return first;
}

absl::Status SqliteEventStore::Replay(uint64_t from_sequence, const Visitor& visit) const {
  std::lock_guard lock(impl_->reader_mutex);
  sqlite3_stmt* statement = impl_->all.get();
  ResetAtEnd reset(statement);
  sqlite3_bind_int64(statement, 1, static_cast<int64_t>(from_sequence));
  sqlite3_bind_int64(statement, 2, -1);
  return ReadRows(impl_->reader.get(), statement, visit);
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
  sqlite3_bind_int64(statement, index++, static_cast<int64_t>(from_sequence));
  sqlite3_bind_int64(statement, index, static_cast<int64_t>(limit));
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
