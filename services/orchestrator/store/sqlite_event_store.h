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

struct SqliteOptions {
  // Opens a log that has lost events, keeping those before the first loss.
  bool accept_loss = false;
  // Reads the log without the lock, also while an orchestrator uses it. Append gets
  // FAILED_PRECONDITION. A missing file is an empty log, and none is made.
  bool read_only = false;
};

// The log in one SQLite file: write-ahead log, synchronous=FULL, one transaction per append. The
// file is locked, so a second orchestrator cannot open it. FILE.mark records how far the log was
// acknowledged. A log with fewer or different events is rejected and left unchanged.
class SqliteEventStore final : public EventStore {
 public:
  // Creates the file if neither the file nor the mark exists. FAILED_PRECONDITION: another process
  // has it open, or it was written by another version. DATA_LOSS: it is not a database, is damaged,
  // or has fewer events than were acknowledged. UNAVAILABLE: it cannot be opened.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<SqliteEventStore>> Open(
      const std::string& path, const SqliteOptions& options = {});
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
