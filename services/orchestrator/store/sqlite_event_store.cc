#include "services/orchestrator/store/sqlite_event_store.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/descriptor.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/sqlite/sqlite.h"
#include "services/orchestrator/store/event_codec.h"
#include "services/orchestrator/store/high_water_mark.h"
#include "services/orchestrator/store/sqlite_log.h"

namespace kernelcast::orchestrator {
namespace {

// SQLite's integers are signed: a number beyond them would become a negative one.
int64_t Bounded(uint64_t number) {
  return static_cast<int64_t>(std::min<uint64_t>(number, INT64_MAX));
}

constexpr char kLast[] = "SELECT MAX(sequence) FROM events";  // reads as 0 if there is none

absl::Status CheckVersion(const std::string& path, int64_t found) {
  if (found == 0 || found == kSqliteSchemaVersion || found == kSqliteKeptSchemaVersion) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("event log: ", path, " has schema version ", found, "; this build knows ",
                   kSqliteSchemaVersion, " and ", kSqliteKeptSchemaVersion,
                   found < kSqliteSchemaVersion
                       ? ". Export it with the release that wrote it, and start with an "
                         "empty folder"
                       : ""));
}

absl::Status ReadRows(sqlite::Statement& statement, const EventStore::Visitor& visit) {
  return ForEachEventRow(statement, [&visit](const EventRow& row) -> absl::Status {
    KC_ASSIGN_OR_RETURN(StoredEvent stored, DecodeEvent(row));
    return visit(std::move(stored));
  });
}

}  // namespace

struct SqliteEventStore::Impl {
  absl::Status OpenForReading();
  absl::Status PrepareReader() ABSL_EXCLUSIVE_LOCKS_REQUIRED(reader_mutex);
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
  Descriptor lock_file;  // closed after the databases

  // Used by Append only. Closed after the reader, so that it checkpoints the write-ahead log.
  sqlite::Database writer{SqliteLogError};
  sqlite::Statement insert;
  uint64_t last_sequence = 0;
  std::unique_ptr<HighWaterMark> mark;

  uint64_t first_unseen = 1;  // the event after those that Open found; then constant

  mutable std::mutex reader_mutex;
  sqlite::Database reader ABSL_GUARDED_BY(reader_mutex){SqliteLogError};
  sqlite::Statement by_request ABSL_GUARDED_BY(reader_mutex);
  sqlite::Statement by_search ABSL_GUARDED_BY(reader_mutex);
  sqlite::Statement all ABSL_GUARDED_BY(reader_mutex);
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
  if (options.read_only) {
    KC_RETURN_IF_ERROR(impl->OpenForReading());
    return std::unique_ptr<SqliteEventStore>(new SqliteEventStore(std::move(impl)));
  }
  const std::string lock_path = path + ".lock";
  impl->lock_file.reset(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (impl->lock_file.get() < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("event log: open ", lock_path));
  }
  if (flock(impl->lock_file.get(), LOCK_EX | LOCK_NB) != 0) {
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
  sqlite::Database& writer = impl->writer;
  KC_RETURN_IF_ERROR(writer.Open(path));
  sqlite3_busy_timeout(writer.get(), kBusyTimeoutMs);
  KC_RETURN_IF_ERROR(writer.Execute(kSqlitePageSize));  // for new files
  // Nothing in the file is changed, not even on close, until the log is known to be complete.
  sqlite3_db_config(writer.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  KC_RETURN_IF_ERROR(writer.Execute("PRAGMA journal_mode=WAL"));
  KC_RETURN_IF_ERROR(writer.Execute("PRAGMA synchronous=FULL"));
  // In pages. Five times as many cost 5% of the throughput and make callers wait longer for a
  // checkpoint (docs/decisions/event-log-checkpoints.md).
  KC_RETURN_IF_ERROR(writer.Execute("PRAGMA wal_autocheckpoint=400"));
  KC_ASSIGN_OR_RETURN(const int64_t found, writer.QueryInteger("PRAGMA user_version"));
  KC_RETURN_IF_ERROR(CheckVersion(path, found));
  if (found == 0) KC_RETURN_IF_ERROR(writer.Execute(kSqliteLogSchema));
  KC_RETURN_IF_ERROR(impl->insert.Prepare(writer, kInsertEvent));
  {
    std::lock_guard lock(impl->reader_mutex);
    sqlite::Database& reader = impl->reader;
    KC_RETURN_IF_ERROR(reader.Open(path, SQLITE_OPEN_READONLY));
    KC_RETURN_IF_ERROR(impl->PrepareReader());
  }
  std::unique_ptr<SqliteEventStore> store(new SqliteEventStore(std::move(impl)));
  KC_RETURN_IF_ERROR(store->impl_->CheckAgainst(acknowledged, options));
  sqlite3_db_config(writer.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
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

absl::Status SqliteEventStore::Impl::PrepareReader() {
  sqlite3_busy_timeout(reader.get(), kBusyTimeoutMs);
  KC_RETURN_IF_ERROR(by_request.Prepare(
      reader, absl::StrCat(kSelectEvent, " WHERE request_id=? ORDER BY sequence").c_str()));
  KC_RETURN_IF_ERROR(by_search.Prepare(
      reader,
      absl::StrCat(kSelectEvent, " WHERE search_id=? AND sequence>=? ORDER BY sequence LIMIT ?")
          .c_str()));
  return all.Prepare(
      reader, absl::StrCat(kSelectEvent, " WHERE sequence>=? ORDER BY sequence LIMIT ?").c_str());
}

absl::Status SqliteEventStore::Impl::OpenForReading() {
  std::lock_guard lock(reader_mutex);
  std::error_code missing;
  if (std::filesystem::file_size(path, missing) == 0 || missing) {
    KC_RETURN_IF_ERROR(reader.Open(":memory:"));
    KC_RETURN_IF_ERROR(reader.Execute(kSqliteLogSchema));
    return PrepareReader();
  }
  KC_RETURN_IF_ERROR(reader.Open(path, SQLITE_OPEN_READONLY));
  KC_ASSIGN_OR_RETURN(const int64_t found, reader.QueryInteger("PRAGMA user_version"));
  // Another process is about to make the tables.
  if (found == 0) return absl::UnavailableError(absl::StrCat("event log: ", path, " is empty"));
  KC_RETURN_IF_ERROR(CheckVersion(path, found));
  return PrepareReader();
}

absl::StatusOr<HighWaterMark::Value> SqliteEventStore::Impl::Newest() {
  KC_ASSIGN_OR_RETURN(const int64_t last, reader.QueryInteger(kLast));
  if (last == 0) return HighWaterMark::Value{};
  const auto sequence = static_cast<uint64_t>(last);
  KC_ASSIGN_OR_RETURN(const uint32_t checksum, ChecksumOf(sequence));
  return HighWaterMark::Value{sequence, checksum};
}

absl::StatusOr<uint32_t> SqliteEventStore::Impl::ChecksumOf(uint64_t sequence) {
  all.BindInteger(1, static_cast<int64_t>(sequence));
  all.BindInteger(2, 1);
  uint32_t checksum = 0;
  bool is_there = false;
  KC_RETURN_IF_ERROR(ForEachEventRow(all, [&](const EventRow& row) {
    is_there = row.sequence == sequence;
    checksum = StoredChecksum(row.payload);
    return absl::OkStatus();
  }));
  if (!is_there) return MissingEventError(sequence);
  return checksum;
}

absl::StatusOr<HighWaterMark::Value> SqliteEventStore::Impl::CutAfterFirstLoss(
    HighWaterMark::Value newest, const std::optional<HighWaterMark::Value>& acknowledged) {
  KC_ASSIGN_OR_RETURN(const KeptEvents kept, ReadKeptEvents(reader));
  HighWaterMark::Value whole;
  all.BindInteger(1, 0);
  all.BindInteger(2, -1);
  absl::Status loss = ForEachEventRow(all, [&](const EventRow& row) -> absl::Status {
    const uint64_t next = std::max(whole.sequence, kept.through) + 1;
    if (row.sequence > kept.through && row.sequence != next) return MissingEventError(next);
    KC_RETURN_IF_ERROR(CheckRow(row));
    whole = {row.sequence, StoredChecksum(row.payload)};
    return absl::OkStatus();
  });
  const uint64_t expected =
      std::max(newest.sequence, acknowledged.has_value() ? acknowledged->sequence : 0);
  if (newest.sequence > whole.sequence) {
    KC_RETURN_IF_ERROR(writer.Execute(
        absl::StrCat("DELETE FROM events WHERE sequence > ", whole.sequence).c_str()));
  }
  uint64_t lost = expected > whole.sequence ? expected - whole.sequence : 0;
  KC_ASSIGN_OR_RETURN(const KeptEvents found,
                      CountKeptEvents(reader, std::min(kept.through, whole.sequence)));
  if (found != kept) {
    // Numbers up to there have gaps, so only the count of missing events is known.
    if (found.through == kept.through) lost += kept.events - found.events;
    sqlite::Transaction transaction(writer);
    KC_RETURN_IF_ERROR(transaction.Begin());
    KC_RETURN_IF_ERROR(WriteKeptEvents(writer, found));
    KC_RETURN_IF_ERROR(transaction.Commit());
  } else if (lost == 0) {
    return whole;
  }
  Log(LogLevel::kWarning, "the loss of events is accepted",
      {{"log", path},
       {"events_kept", whole.sequence},
       {"events_lost", lost},
       {"reason", std::string(loss.message())}});
  return whole;
}

absl::StatusOr<uint64_t> SqliteEventStore::Append(std::span<const AppendEntry> entries) {
  if (impl_->mark == nullptr) {
    return absl::FailedPreconditionError("event log: it is open for reading only");
  }
  sqlite::Transaction transaction(impl_->writer);
  KC_RETURN_IF_ERROR(transaction.Begin());
  uint64_t sequence = impl_->last_sequence;
  HighWaterMark::Value newest;
  std::string payload;
  sqlite::Statement& insert = impl_->insert;
  for (const AppendEntry& entry : entries) {
    newest.checksum = EncodeEvent(sequence + 1, entry, payload);
    insert.BindInteger(1, static_cast<int64_t>(++sequence));
    if (!entry.request_id.empty()) insert.BindText(2, entry.request_id);
    if (!entry.search_id.empty()) insert.BindText(3, entry.search_id);
    insert.BindBlob(4, payload);
    KC_RETURN_IF_ERROR(insert.Run());
  }
  KC_RETURN_IF_ERROR(transaction.Commit());
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
  // One snapshot, although an orchestrator may move events to an archive meanwhile.
  KC_RETURN_IF_ERROR(impl_->reader.Execute("BEGIN"));
  const absl::Cleanup end = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    (void)impl_->reader.Execute("COMMIT");
  };
  return ReplaySqliteLog(impl_->reader, from_sequence, impl_->first_unseen, visit);
}

absl::StatusOr<std::vector<StoredEvent>> SqliteEventStore::ReadEvaluation(
    std::string_view request_id) const {
  std::vector<StoredEvent> events;
  std::lock_guard lock(impl_->reader_mutex);
  impl_->by_request.BindText(1, request_id);
  KC_RETURN_IF_ERROR(ReadRows(impl_->by_request, [&](StoredEvent stored) {
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
  sqlite::Statement& statement = search_id.empty() ? impl_->all : impl_->by_search;
  int index = 1;
  if (!search_id.empty()) statement.BindText(index++, search_id);
  statement.BindInteger(index++, Bounded(from_sequence));
  statement.BindInteger(index, Bounded(limit));
  KC_RETURN_IF_ERROR(ReadRows(statement, [&](StoredEvent stored) {
    events.push_back(std::move(stored));
    return absl::OkStatus();
  }));
  return events;
}

absl::StatusOr<uint64_t> SqliteEventStore::LastSequence() const {
  std::lock_guard lock(impl_->reader_mutex);
  KC_ASSIGN_OR_RETURN(const int64_t last, impl_->reader.QueryInteger(kLast));
  return static_cast<uint64_t>(last);
}

}  // namespace kernelcast::orchestrator
