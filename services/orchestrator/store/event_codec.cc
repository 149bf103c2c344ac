#include "services/orchestrator/store/event_codec.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "services/orchestrator/convert/convert.h"

namespace kernelcast::orchestrator {
namespace {

constexpr size_t kChecksumBytes = 4;

// Checksum of a row with this message.
uint32_t Checksum(uint64_t sequence, std::string_view request_id, std::string_view search_id,
                  std::string_view message) {
  // Includes the lengths, so that different rows have different bytes. Little-endian.
  char numbers[24];
  char* at = numbers;
  for (const uint64_t number :
       {sequence, uint64_t{request_id.size()}, uint64_t{search_id.size()}}) {
    for (int shift = 0; shift < 64; shift += 8) *at++ = static_cast<char>(number >> shift);
  }
  const uint32_t crc = Crc32c(std::string_view(numbers, sizeof numbers));
  return Crc32c(message, Crc32c(search_id, Crc32c(request_id, crc)));
}

}  // namespace

uint32_t EncodeEvent(uint64_t sequence, const AppendEntry& entry, std::string& payload) {
  payload.assign(kChecksumBytes, '\0');
  ToProto(*entry.event).AppendToString(&payload);
  const uint32_t crc = Checksum(sequence, entry.request_id, entry.search_id,
                                std::string_view(payload).substr(kChecksumBytes));
  for (size_t i = 0; i < kChecksumBytes; ++i) payload[i] = static_cast<char>(crc >> (8 * i));
  return crc;
}

uint32_t StoredChecksum(std::string_view payload) {
  if (payload.size() < kChecksumBytes) return 0;
  uint32_t crc = 0;
  for (size_t i = 0; i < kChecksumBytes; ++i) {
    crc |= static_cast<uint32_t>(static_cast<unsigned char>(payload[i])) << (8 * i);
  }
  return crc;
}

absl::Status CheckRow(const EventRow& row) {
  if (row.payload.size() < kChecksumBytes ||
      StoredChecksum(row.payload) != Checksum(row.sequence, row.request_id, row.search_id,
                                              row.payload.substr(kChecksumBytes))) {
    return LossError(
        absl::StrCat("event ", row.sequence, " is damaged: its checksum does not match"));
  }
  return absl::OkStatus();
}

absl::StatusOr<StoredEvent> DecodeEvent(const EventRow& row) {
  KC_RETURN_IF_ERROR(CheckRow(row));
  const std::string_view bytes = row.payload.substr(kChecksumBytes);
  v1::Event message;
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::DataLossError(absl::StrCat("event log: event ", row.sequence, " cannot be read"));
  }
  absl::StatusOr<Event> event = FromProto(message);
  if (!event.ok()) {
    return absl::DataLossError(absl::StrCat("event log: event ", row.sequence, ": ",
                                            std::string(event.status().message())));
  }
  return StoredEvent{row.sequence, *std::move(event)};
}

absl::Status LossError(const std::string& what) {
  return absl::DataLossError(absl::StrCat(
      "event log: ", what,
      ". Restore a backup, or start once with --accept-loss to keep the events before it"));
}

absl::Status MissingEventError(uint64_t sequence) {
  return LossError(absl::StrCat("event ", sequence, " is missing"));
}

}  // namespace kernelcast::orchestrator
