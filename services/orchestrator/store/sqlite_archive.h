#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_STORE_SQLITE_ARCHIVE_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_STORE_SQLITE_ARCHIVE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/orchestrator/store/sqlite_event_store.h"

namespace kernelcast::orchestrator {

struct ArchivedEvents {
  std::string folder;  // empty: nothing was old enough, and there is no archive
  uint64_t events = 0;
  uint64_t searches = 0;
  uint64_t evaluations = 0;  // outside searches
};

// Moves what was settled before a time from the log in `path` to a new folder in `archives`:
//
// - searches, as a whole, that have ended, with all of their evaluations settled
// - evaluations outside searches
//
// unless a forecaster has not acknowledged one of their labels. Searches of one request on several
// device models leave together. Problems and references stay in the log, and are copied.
//
// FOLDER/orchestrator/orchestrator.db is a log with these events under their numbers. It has no
// mark, so that no orchestrator continues it; one with --read-only reads it.
//
// The archive is on disk before an event leaves the log, and the events leave together or not at
// all. Before they leave, the rest of the log is replayed. A crash leaves the log as it was, and
// perhaps an archive of events that are still in the log, or a folder *.partial, which the next
// call deletes.
//
// `store` must be open on `path`, and nothing may be appended meanwhile. After an error the log is
// unchanged. RESOURCE_EXHAUSTED: the disk of the archive or of the log is full. DATA_LOSS as for
// EventStore::Replay. FAILED_PRECONDITION: the rest does not replay (a bug).
[[nodiscard]] absl::StatusOr<ArchivedEvents> ArchiveSettled(const SqliteEventStore& store,
                                                            const std::string& path,
                                                            int64_t before_ns,
                                                            const std::string& archives);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_STORE_SQLITE_ARCHIVE_H_
