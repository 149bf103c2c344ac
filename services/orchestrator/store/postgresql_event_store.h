#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_STORE_POSTGRESQL_EVENT_STORE_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_STORE_POSTGRESQL_EVENT_STORE_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/orchestrator/core/event_store.h"
#include "services/orchestrator/store/postgresql_connection.h"

namespace kernelcast::orchestrator {

// One shard of a log in PostgreSQL, for whom PostgresqlLeases has given it to.
//
// An append is one statement, which writes only where the shard's row still names this store as its
// writer, and no other wrote since: who lost the shard can never write to it again, however late it
// learns of it. It is durable when the server says so (synchronous_commit is on).
//
// A connection that is lost while an append is under way leaves it undecided. The store then
// connects again, names itself as the writer anew, which ends whatever of the old connection may
// still be on its way, and looks at the shard's newest sequence number: it tells whether the append
// is there. Only where it is not, it is made again. Nothing is lost and nothing written twice; the
// caller notices a delay. Reads are simply asked again.
class PostgresqlEventStore final : public EventStore {
 public:
  // `writer` is what the lease was given for. UNAVAILABLE: the server is away. DATA_LOSS: events
  // are missing. FAILED_PRECONDITION: somebody else has the shard.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<PostgresqlEventStore>> Open(
      const PostgresqlOptions& options, int shard, const std::string& writer);
  ~PostgresqlEventStore() override;

  // FAILED_PRECONDITION: another has taken the shard over; nothing was or will be written. After
  // this and every other error the store is of no use but for reading.
  absl::StatusOr<uint64_t> Append(std::span<const AppendEntry> entries) override;
  // Memory is bounded by one event.
  absl::Status Replay(uint64_t from_sequence, const Visitor& visit) const override;
  absl::StatusOr<std::vector<StoredEvent>> ReadEvaluation(
      std::string_view request_id) const override;
  absl::StatusOr<std::vector<StoredEvent>> ReadSearch(std::string_view search_id,
                                                      uint64_t from_sequence,
                                                      size_t limit) const override;
  absl::StatusOr<uint64_t> LastSequence() const override;

  // Calls that wait for the server end with CANCELLED, now and from now on. Any thread.
  void Stop();

 private:
  struct Impl;
  explicit PostgresqlEventStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_STORE_POSTGRESQL_EVENT_STORE_H_
