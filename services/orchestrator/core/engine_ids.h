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

// Name of handling a stage's outcome, for the crash journal. Must not change between releases.
std::string HandlingName(Stage stage, const std::string& request_id);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ENGINE_IDS_H_
