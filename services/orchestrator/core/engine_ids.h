#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ENGINE_IDS_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ENGINE_IDS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "services/orchestrator/core/state.h"

namespace kernelcast::orchestrator {

// Whether a caller may use the id: 1 to 128 printable ASCII characters without blanks.
// INVALID_ARGUMENT names the field.
absl::Status CheckId(std::string_view field, const std::string& id);

// Id of one of the searches of a request for several device models: "ID@nvidia-h200".
std::string IdForDevice(std::string_view id, std::string_view device_model);
// The id from which such an id was made. Other ids are returned unchanged.
std::string_view IdOfSeveral(std::string_view search_id);

// Name of handling a stage's outcome, for the crash journal. Must not change between releases.
std::string HandlingName(Stage stage, const std::string& request_id);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ENGINE_IDS_H_
