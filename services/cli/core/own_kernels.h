#ifndef KERNELCAST_SERVICES_CLI_CORE_OWN_KERNELS_H_
#define KERNELCAST_SERVICES_CLI_CORE_OWN_KERNELS_H_

#include <string_view>

#include "common/domain/candidate.h"

namespace kernelcast::cli {

// The text that results show if OnlyCallsPyTorch returns true for the candidate.
inline constexpr std::string_view kOnlyCallsPyTorchText =
    "only calls PyTorch: it has no kernel of its own";

// Whether a Python candidate imports nothing but PyTorch and modules of Python that hold no
// kernels, and names no function of PyTorch that compiles code. Reads the text only: false where
// that is not sure, as for a solution in JSON, or a source that imports by name or runs a text.
bool OnlyCallsPyTorch(const Candidate& candidate);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_OWN_KERNELS_H_
