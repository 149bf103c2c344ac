#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_STORE_EVENT_CODEC_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_STORE_EVENT_CODEC_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/orchestrator/core/event_store.h"

namespace kernelcast::orchestrator {

// An event as stored. The payload is a CRC-32C of the whole row in four bytes, little-endian,
// followed by a message of event.proto.
struct EventRow {
  uint64_t sequence = 0;
  std::string_view request_id;
  std::string_view search_id;
  std::string_view payload;
};

// Encodes the payload of an event. Returns its checksum.
uint32_t EncodeEvent(uint64_t sequence, const AppendEntry& entry, std::string& payload);

// DATA_LOSS, with the event's number: the row has changed since it was written.
[[nodiscard]] absl::Status CheckRow(const EventRow& row);
// Decodes a row. DATA_LOSS as for CheckRow, or the message cannot be parsed.
[[nodiscard]] absl::StatusOr<StoredEvent> DecodeEvent(const EventRow& row);

// The checksum at the start of the payload, or 0 if it is too short.
uint32_t StoredChecksum(std::string_view payload);

// DATA_LOSS, with instructions for the operator.
absl::Status LossError(const std::string& what);
absl::Status MissingEventError(uint64_t sequence);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_STORE_EVENT_CODEC_H_
