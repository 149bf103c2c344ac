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

// One shard of a log in PostgreSQL, for the holder of its lease (PostgresqlLeases).
//
// An append is one statement. It writes only if the shard's row still names this store as its
// writer and no other has written since. So an orchestrator that has lost the shard can never write
// to it again, however late it notices. An append is durable when the server confirms it
// (synchronous_commit is on).
//
// If the connection is lost during an append, its outcome is unknown. The store then reconnects and
// registers itself as the writer again, which cancels pending statements of the old connection. The
// shard's newest sequence number then shows whether the append was written; if not, the append is
// repeated. Nothing is lost or written twice; the caller only sees a delay. Reads are simply
// repeated.
class PostgresqlEventStore final : public EventStore {
 public:
  // `writer` is the value that the lease was granted for. UNAVAILABLE: the server is unavailable.
  // DATA_LOSS: the shard has fewer events than its row acknowledges. FAILED_PRECONDITION: another
  // orchestrator has the shard.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<PostgresqlEventStore>> Open(
      const PostgresqlOptions& options, int shard, const std::string& writer);
  ~PostgresqlEventStore() override;

  // FAILED_PRECONDITION: another orchestrator has taken the shard; nothing was or will be written.
  // After any error the store can only be read.
  absl::StatusOr<uint64_t> Append(std::span<const AppendEntry> entries) override;
  // Memory use is bounded by one event.
  absl::Status Replay(uint64_t from_sequence, const Visitor& visit) const override;
  absl::StatusOr<std::vector<StoredEvent>> ReadEvaluation(
      std::string_view request_id) const override;
  absl::StatusOr<std::vector<StoredEvent>> ReadSearch(std::string_view search_id,
                                                      uint64_t from_sequence,
                                                      size_t limit) const override;
  absl::StatusOr<uint64_t> LastSequence() const override;

  // Ends calls that wait for the server with CANCELLED, now and in the future. Thread-safe.
  void Stop();

 private:
  struct Impl;
  explicit PostgresqlEventStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_STORE_POSTGRESQL_EVENT_STORE_H_
