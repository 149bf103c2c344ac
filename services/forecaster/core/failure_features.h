#ifndef KERNELCAST_SERVICES_FORECASTER_CORE_FAILURE_FEATURES_H_
#define KERNELCAST_SERVICES_FORECASTER_CORE_FAILURE_FEATURES_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/domain/facts.h"

namespace kernelcast::forecaster {

// Features that indicate a wrong result of a device CUDA candidate: how much more or less than the
// reference it loads, stores, computes and synchronises, how narrow its types are, and its share of
// control instructions. A change of names, order or meaning requires a new id.
inline constexpr std::string_view kEmbeddedFailureSchemaId = "embedded-cuda-failures/1";

std::span<const std::string> FailureRowNames();

// Features that need simulations are NaN without them. Both facts must be valid and use
// kCudaPtxSchemaId.
std::vector<float> FailureRow(const CompileFacts& candidate, const CompileFacts& reference,
                              std::string_view device_model);

// Whether the simulation found a fault, for any GPU.
bool HasFindings(const CompileFacts& facts);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_FAILURE_FEATURES_H_
