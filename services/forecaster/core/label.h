#ifndef KERNELCAST_SERVICES_FORECASTER_CORE_LABEL_H_
#define KERNELCAST_SERVICES_FORECASTER_CORE_LABEL_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/domain/device_model.h"
#include "common/domain/facts.h"
#include "common/domain/label.h"

namespace kernelcast::forecaster {

// Key of calibrations and weights: target and device model.
std::string ScopeName(std::string_view target, std::string_view device_model);

inline constexpr size_t kMaxLabelIdBytes = 128;

// Checks everything but the candidate: id, facts if given, that the speedup is positive and finite,
// propensity and device model. INVALID_ARGUMENT names the field.
[[nodiscard]] absl::Status ValidateLabel(const Label& label);

// Facts may be absent (no schema, no values); otherwise their schema must be known.
// INVALID_ARGUMENT names `field`.
[[nodiscard]] absl::Status ValidateOptionalFacts(std::string_view field, const CompileFacts& facts);

// A device model must have 1 to kMaxDeviceModelBytes bytes of UTF-8. INVALID_ARGUMENT names
// `field`.
[[nodiscard]] absl::Status ValidateDeviceModel(std::string_view field, std::string_view model);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_LABEL_H_
