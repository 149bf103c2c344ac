#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_EVENT_STORE_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_EVENT_STORE_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/orchestrator/core/event.h"

namespace kernelcast::orchestrator {

struct StoredEvent {
  uint64_t sequence = 0;  // from 1; gaps where settled evaluations have left the log
  Event event;
};

// An event with the evaluation and search it belongs to, under which it can be read.
struct AppendEntry {
  const Event* event = nullptr;
  std::string request_id;
  std::string search_id;
};

// The event log. One thread calls Append. Any thread may call the read methods at the same time;
// they see whole appends only.
class EventStore {
 public:
  virtual ~EventStore() = default;

  // Writes all entries or none, and returns when they are durable. Returns the sequence number of
  // the first one. After an error the log is unchanged, and the caller must not continue with a
  // state to which these events were applied.
  [[nodiscard]] virtual absl::StatusOr<uint64_t> Append(std::span<const AppendEntry> entries) = 0;

  using Visitor = std::function<absl::Status(StoredEvent)>;

  // Visits all events from a sequence number on, in order. DATA_LOSS: an event cannot be read.
  [[nodiscard]] virtual absl::Status Replay(uint64_t from_sequence, const Visitor& visit) const = 0;

  // The events of one evaluation, in order. Empty if the log does not have it.
  [[nodiscard]] virtual absl::StatusOr<std::vector<StoredEvent>> ReadEvaluation(
      std::string_view request_id) const = 0;

  // At most `limit` events of one search from a sequence number on. An empty id means all searches.
  [[nodiscard]] virtual absl::StatusOr<std::vector<StoredEvent>> ReadSearch(
      std::string_view search_id, uint64_t from_sequence, size_t limit) const = 0;

  // Sequence number of the newest event. 0 for an empty log.
  [[nodiscard]] virtual absl::StatusOr<uint64_t> LastSequence() const = 0;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_EVENT_STORE_H_
