#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_STORE_EVENT_CODEC_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_STORE_EVENT_CODEC_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "services/orchestrator/core/event_store.h"

namespace kernelcast::orchestrator {

// An event as every store keeps it: a message of event.proto.
void EncodeEvent(const Event& event, std::string& payload);

// DATA_LOSS, with the event's number: it cannot be read.
[[nodiscard]] absl::StatusOr<StoredEvent> DecodeEvent(uint64_t sequence, std::string_view payload);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_STORE_EVENT_CODEC_H_
