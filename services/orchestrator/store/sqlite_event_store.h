#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_STORE_SQLITE_EVENT_STORE_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_STORE_SQLITE_EVENT_STORE_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/orchestrator/core/event_store.h"

namespace kernelcast::orchestrator {

// The log in one SQLite file: write-ahead log, synchronous=FULL, one transaction an append. The
// file is locked for this process; a second orchestrator on it is refused.
class SqliteEventStore final : public EventStore {
 public:
  // Creates the file if it is missing. FAILED_PRECONDITION: another process has it, or it was
  // written by a newer version. DATA_LOSS: it is not a database or damaged. UNAVAILABLE: it cannot
  // be opened.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<SqliteEventStore>> Open(
      const std::string& path);
  ~SqliteEventStore() override;

  absl::StatusOr<uint64_t> Append(std::span<const AppendEntry> entries) override;
  absl::Status Replay(uint64_t from_sequence, const Visitor& visit) const override;
  absl::StatusOr<std::vector<StoredEvent>> ReadEvaluation(
      std::string_view request_id) const override;
  absl::StatusOr<std::vector<StoredEvent>> ReadSearch(std::string_view search_id,
                                                      uint64_t from_sequence,
                                                      size_t limit) const override;
  absl::StatusOr<uint64_t> LastSequence() const override;

 private:
  struct Impl;
  explicit SqliteEventStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_STORE_SQLITE_EVENT_STORE_H_
