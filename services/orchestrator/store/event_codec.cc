#include "services/orchestrator/store/event_codec.h"

#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "services/orchestrator/convert/convert.h"

namespace kernelcast::orchestrator {

void EncodeEvent(const Event& event, std::string& payload) {
  ToProto(event).SerializeToString(&payload);
}

absl::StatusOr<StoredEvent> DecodeEvent(uint64_t sequence, std::string_view payload) {
  v1::Event message;
  if (payload.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !message.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return absl::DataLossError(absl::StrCat("event log: event ", sequence, " cannot be read"));
  }
  absl::StatusOr<Event> event = FromProto(message);
  if (!event.ok()) {
    return absl::DataLossError(
        absl::StrCat("event log: event ", sequence, ": ", std::string(event.status().message())));
  }
  return StoredEvent{sequence, *std::move(event)};
}

}  // namespace kernelcast::orchestrator
