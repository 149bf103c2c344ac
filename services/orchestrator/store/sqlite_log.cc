#include "services/orchestrator/store/sqlite_log.h"

#include <sqlite3.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"

namespace kernelcast::orchestrator {

const char kSqliteLogSchema[] =
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
    "COMMIT";

absl::Status SqliteLogError(int code, const std::string& message) {
  const std::string full = absl::StrCat("event log: ", message);
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) {
    return absl::DataLossError(
        absl::StrCat(full,
                     ". Restore a backup, or recover the file with sqlite3 and start once with "
                     "--accept-loss"));
  }
  if (code == SQLITE_FULL) return absl::ResourceExhaustedError(full);
  return absl::UnavailableError(full);
}

absl::Status ForEachEventRow(sqlite::Statement& statement,
                             absl::FunctionRef<absl::Status(const EventRow&)> visit) {
  return statement.ForEachRow([&]() -> absl::Status {
    return visit(EventRow{static_cast<uint64_t>(statement.Integer(0)), statement.View(1),
                          statement.View(2), statement.View(3)});
  });
}

void KeptEvents::Add(const EventRow& row) {
  if (row.sequence > through) return;
  ++events;
  char numbers[12];
  char* at = numbers;
  for (int shift = 0; shift < 64; shift += 8) *at++ = static_cast<char>(row.sequence >> shift);
  const uint32_t stored = StoredChecksum(row.payload);
  for (int shift = 0; shift < 32; shift += 8) *at++ = static_cast<char>(stored >> shift);
  checksum = Crc32c(std::string_view(numbers, sizeof numbers), checksum);
}

absl::StatusOr<KeptEvents> ReadKeptEvents(sqlite::Database& database) {
  KeptEvents kept;
  KC_ASSIGN_OR_RETURN(const int64_t version, database.QueryInteger("PRAGMA user_version"));
  if (version != kSqliteKeptSchemaVersion) return kept;
  sqlite::Statement statement;
  KC_RETURN_IF_ERROR(statement.Prepare(database, "SELECT through, events, checksum FROM kept"));
  KC_RETURN_IF_ERROR(statement.ForEachRow([&] {
    kept.through = static_cast<uint64_t>(statement.Integer(0));
    kept.events = static_cast<uint64_t>(statement.Integer(1));
    kept.checksum = static_cast<uint32_t>(statement.Integer(2));
    return absl::OkStatus();
  }));
  return kept;
}

absl::StatusOr<KeptEvents> CountKeptEvents(sqlite::Database& database, uint64_t through) {
  KeptEvents kept{.through = through};
  sqlite::Statement statement;
  KC_RETURN_IF_ERROR(statement.Prepare(
      database, absl::StrCat(kSelectEvent, " WHERE sequence<=? ORDER BY sequence").c_str()));
  statement.BindInteger(1, static_cast<int64_t>(through));
  KC_RETURN_IF_ERROR(ForEachEventRow(statement, [&kept](const EventRow& row) {
    kept.Add(row);
    return absl::OkStatus();
  }));
  return kept;
}

absl::Status WriteKeptEvents(sqlite::Database& database, const KeptEvents& kept) {
  return database.Execute(absl::StrCat("CREATE TABLE IF NOT EXISTS kept(through INTEGER NOT NULL,"
                                       " events INTEGER NOT NULL, checksum INTEGER NOT NULL);"
                                       "DELETE FROM kept;"
                                       "INSERT INTO kept VALUES(",
                                       kept.through, ",", kept.events, ",", kept.checksum,
                                       ");PRAGMA user_version=", kSqliteKeptSchemaVersion)
                              .c_str());
}

absl::Status ReplaySqliteLog(sqlite::Database& database, uint64_t from_sequence,
                             uint64_t first_unseen, const EventStore::Visitor& visit) {
  KC_ASSIGN_OR_RETURN(const KeptEvents kept, ReadKeptEvents(database));
  sqlite::Statement all;
  KC_RETURN_IF_ERROR(all.Prepare(
      database, absl::StrCat(kSelectEvent, " WHERE sequence>=? ORDER BY sequence").c_str()));
  all.BindInteger(1, static_cast<int64_t>(std::min<uint64_t>(from_sequence, INT64_MAX)));
  // Only a replay from the beginning sees all events that remain.
  const bool counts = from_sequence <= 1;
  KeptEvents found{.through = kept.through};
  const auto check = [&] {
    return !counts || found == kept
               ? absl::OkStatus()
               : LossError(absl::StrCat("events are missing: of the first ", kept.through, ", ",
                                        kept.events, " must be there, and ", found.events, " are"));
  };
  uint64_t next = std::max<uint64_t>(kept.through + 1, from_sequence);
  bool checked = false;
  const absl::Status replayed = ForEachEventRow(all, [&](const EventRow& row) -> absl::Status {
    if (row.sequence <= kept.through) {
      found.Add(row);
    } else {
      if (!std::exchange(checked, true)) KC_RETURN_IF_ERROR(check());
      if (row.sequence != next) return MissingEventError(next);
      ++next;
    }
    KC_ASSIGN_OR_RETURN(StoredEvent stored, DecodeEvent(row));
    return visit(std::move(stored));
  });
  KC_RETURN_IF_ERROR(replayed);
  if (!checked) KC_RETURN_IF_ERROR(check());
  return next < first_unseen ? MissingEventError(next) : absl::OkStatus();
}

}  // namespace kernelcast::orchestrator
