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
inline constexpr std::string_view kEmbeddedFailureSchemaId = "embedded-cuda-failures/2";

std::span<const std::string> FailureRowNames();

// Features that need simulations are NaN without them. Both facts must be valid and use
// kCudaPtxSchemaId.
std::vector<float> FailureRow(const CompileFacts& candidate, const CompileFacts& reference,
                              std::string_view device_model);

// Whether the simulation found a fault, for any GPU.
bool HasFindings(const CompileFacts& facts);

// Whether simulated outputs differ from the oracle's, on any GPU.
bool HasWrongOutputs(const CompileFacts& facts);
// Whether simulated outputs were compared with the oracle's, and agreed.
bool HasAgreedOutputs(const CompileFacts& facts);

// Whether the launches store fewer bytes to global memory than the outputs hold, at any bench
// shape. Such a candidate leaves elements unwritten. `output_bytes` has the size of all outputs by
// bench shape. False if a launch was not simulated, or if only a sample of its warps or of the
// iterations of its loops was executed, because the others may write the rest.
bool LeavesOutputsUnwritten(const CompileFacts& facts, std::string_view device_model,
                            std::span<const double> output_bytes);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_FAILURE_FEATURES_H_
