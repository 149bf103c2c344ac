#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_STORE_SQLITE_LOG_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_STORE_SQLITE_LOG_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/sqlite/sqlite.h"
#include "services/orchestrator/core/event_store.h"
#include "services/orchestrator/store/event_codec.h"

namespace kernelcast::orchestrator {

// The tables of a log in an SQLite file. Version 3 has one more, `kept`, and exists only once
// settled evaluations have left the log.
inline constexpr int64_t kSqliteSchemaVersion = 2;
inline constexpr int64_t kSqliteKeptSchemaVersion = 3;
extern const char kSqliteLogSchema[];
inline constexpr int kBusyTimeoutMs = 5000;
// In bytes. Two candidates with their sources rarely fit into the default page of 4 KiB.
inline constexpr char kSqlitePageSize[] = "PRAGMA page_size=8192";

// The columns of an EventRow.
inline constexpr char kSelectEvent[] =
    "SELECT sequence, request_id, search_id, payload FROM events";
inline constexpr char kInsertEvent[] =
    "INSERT INTO events(sequence, request_id, search_id, payload) VALUES(?,?,?,?)";

// The error of a connection to a log, with instructions for the operator where it is damaged.
absl::Status SqliteLogError(int code, const std::string& message);

// Visits the rows of a statement that selects the columns of kSelectEvent. A row is valid during
// the call.
absl::Status ForEachEventRow(sqlite::Statement& statement,
                             absl::FunctionRef<absl::Status(const EventRow&)> visit);

// What remains of the events up to `through`, since settled evaluations have left the log. Numbers
// up to `through` may have gaps, so the log says how many events must be there.
struct KeptEvents {
  uint64_t through = 0;  // 0: nothing has left
  uint64_t events = 0;
  uint32_t checksum = 0;  // CRC-32C of their numbers and checksums, in order

  // Adds an event that is there. Does nothing for one beyond `through`.
  void Add(const EventRow& row);
  friend bool operator==(const KeptEvents&, const KeptEvents&) = default;
};
[[nodiscard]] absl::StatusOr<KeptEvents> ReadKeptEvents(sqlite::Database& database);
// Counts the events up to `through`.
[[nodiscard]] absl::StatusOr<KeptEvents> CountKeptEvents(sqlite::Database& database,
                                                         uint64_t through);
// Call it in a transaction.
[[nodiscard]] absl::Status WriteKeptEvents(sqlite::Database& database, const KeptEvents& kept);

// Visits all events from a number on, in order. Call it in a transaction. DATA_LOSS: an event is
// damaged, or one that must be there is missing, below `first_unseen` or up to the last one.
absl::Status ReplaySqliteLog(sqlite::Database& database, uint64_t from_sequence,
                             uint64_t first_unseen, const EventStore::Visitor& visit);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_STORE_SQLITE_LOG_H_
