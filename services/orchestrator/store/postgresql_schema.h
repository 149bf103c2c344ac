#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_STORE_POSTGRESQL_SCHEMA_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_STORE_POSTGRESQL_SCHEMA_H_

#include "absl/status/statusor.h"
#include "services/orchestrator/store/postgresql_connection.h"

namespace kernelcast::orchestrator {

inline constexpr int kMaxShards = 256;

// Creates the missing tables of the log in the first schema of the connection's search_path:
//
//   kernelcast_log       one row: version of the tables, number of shards
//   kernelcast_shards    one row per shard: newest sequence number, writer, expiry of the lease
//   kernelcast_events    the events, by shard and sequence number
//   kernelcast_problems  problems by id, for every shard that needs them
//   kernelcast_replicas  the orchestrators that are alive
//
// A new log gets `shards` shards (1 to kMaxShards). Returns the log's number of shards, which never
// changes. FAILED_PRECONDITION: written by a newer version.
[[nodiscard]] absl::StatusOr<int> EnsureSchema(PostgresqlConnection& connection, int shards);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_STORE_POSTGRESQL_SCHEMA_H_
