#include "services/orchestrator/store/postgresql_schema.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace kernelcast::orchestrator {
namespace {

constexpr int kSchemaVersion = 2;

// Serialises replicas that start together while they create the tables.
constexpr char kLock[] = "SELECT pg_advisory_xact_lock(7741528618905100)";

constexpr char kTables[] = R"(
CREATE TABLE kernelcast_log(
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  version integer NOT NULL,
  shards integer NOT NULL);
CREATE TABLE kernelcast_shards(
  shard integer PRIMARY KEY,
  last_sequence bigint NOT NULL DEFAULT 0,
  writer text NOT NULL DEFAULT '',
  holder text,
  address text,
  epoch bigint NOT NULL DEFAULT 0,
  expires_at timestamptz) WITH (fillfactor = 50);
CREATE TABLE kernelcast_events(
  shard integer NOT NULL,
  sequence bigint NOT NULL,
  request_id text COLLATE "C",
  search_id text COLLATE "C",
  payload bytea NOT NULL,
  PRIMARY KEY (shard, sequence));
CREATE INDEX kernelcast_events_by_request ON kernelcast_events(shard, request_id, sequence)
  WHERE request_id IS NOT NULL;
CREATE INDEX kernelcast_events_by_search ON kernelcast_events(shard, search_id, sequence)
  WHERE search_id IS NOT NULL;
CREATE TABLE kernelcast_problems(
  problem_id text COLLATE "C" PRIMARY KEY,
  payload bytea NOT NULL);
CREATE TABLE kernelcast_replicas(
  holder text PRIMARY KEY,
  address text NOT NULL,
  leaving boolean NOT NULL,
  expires_at timestamptz NOT NULL);
)";

absl::StatusOr<int> ReadShards(PostgresqlConnection& connection) {
  KC_ASSIGN_OR_RETURN(PostgresqlRows rows,
                      connection.Execute("SELECT version, shards FROM kernelcast_log"));
  if (rows.count() != 1) return absl::DataLossError("event log: kernelcast_log has no row");
  if (rows.Int(0, 0) != kSchemaVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "event log: the database has schema version ", rows.Int(0, 0), "; this build knows ",
        kSchemaVersion,
        rows.Int(0, 0) < kSchemaVersion ? ". Export it with the release that wrote it, and start "
                                          "with an empty database"
                                        : ""));
  }
  return static_cast<int>(rows.Int(0, 1));
}

absl::StatusOr<bool> Exists(PostgresqlConnection& connection) {
  // Queries pg_class, because to_regclass may not see tables that another session has just created.
  KC_ASSIGN_OR_RETURN(PostgresqlRows rows,
                      connection.Execute("SELECT EXISTS (SELECT FROM pg_class WHERE relname ="
                                         " 'kernelcast_log' AND pg_table_is_visible(oid))"));
  return rows.Bool(0, 0);
}

}  // namespace

absl::StatusOr<int> EnsureSchema(PostgresqlConnection& connection, int shards) {
  if (shards < 1 || shards > kMaxShards) {
    return absl::InvalidArgumentError(
        absl::StrCat("event log: ", shards, " shards; 1 to ", kMaxShards, " are allowed"));
  }
  KC_ASSIGN_OR_RETURN(bool exists, Exists(connection));
  if (exists) return ReadShards(connection);
  KC_RETURN_IF_ERROR(connection.Script("BEGIN"));
  absl::Status made = connection.Script(kLock);
  if (made.ok()) {
    absl::StatusOr<bool> meanwhile = Exists(connection);
    made = meanwhile.status();
    if (made.ok() && !*meanwhile) {
      made = connection.Script(absl::StrCat(
          kTables, "INSERT INTO kernelcast_log(version, shards) VALUES (", kSchemaVersion, ", ",
          shards, "); INSERT INTO kernelcast_shards(shard) SELECT generate_series(0, ", shards - 1,
          ")"));
    }
  }
  if (!made.ok()) {
    if (connection.usable()) connection.Script("ROLLBACK").IgnoreError();
    return made;
  }
  KC_RETURN_IF_ERROR(connection.Script("COMMIT"));
  return ReadShards(connection);
}

}  // namespace kernelcast::orchestrator
