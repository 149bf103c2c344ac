#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CONVERT_EVENT_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CONVERT_EVENT_H_

#include "absl/status/statusor.h"
#include "kernelcast/v1/event.pb.h"
#include "services/orchestrator/core/event.h"

namespace kernelcast::orchestrator {

// Converts between events and the messages of event.proto, which logs store.

v1::Event ToProto(const Event& event);
// DATA_LOSS: not a valid event of this version.
[[nodiscard]] absl::StatusOr<Event> FromProto(const v1::Event& event);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CONVERT_EVENT_H_
