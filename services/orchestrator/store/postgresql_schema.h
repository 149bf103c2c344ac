#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_STORE_POSTGRESQL_SCHEMA_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_STORE_POSTGRESQL_SCHEMA_H_

#include "absl/status/statusor.h"
#include "services/orchestrator/store/postgresql_connection.h"

namespace kernelcast::orchestrator {

inline constexpr int kMaxShards = 256;

// The tables of the log, in the schema that the connection's search_path begins with:
//
//   kernelcast_log       one row: version of the tables, number of shards
//   kernelcast_shards    a row a shard: its newest sequence number, who writes it, until when
//   kernelcast_events    the events, by shard and sequence number
//   kernelcast_problems  problems by id, for shards that come to need them
//   kernelcast_replicas  the orchestrators that are alive
//
// Makes what is missing, with `shards` shards (1 to kMaxShards), and returns how many there are: a
// log keeps the number that it was made with. FAILED_PRECONDITION: written by a newer version.
[[nodiscard]] absl::StatusOr<int> EnsureSchema(PostgresqlConnection& connection, int shards);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_STORE_POSTGRESQL_SCHEMA_H_
