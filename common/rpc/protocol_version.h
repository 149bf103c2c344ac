#ifndef KERNELCAST_COMMON_RPC_PROTOCOL_VERSION_H_
#define KERNELCAST_COMMON_RPC_PROTOCOL_VERSION_H_

#include <cstdint>

#include "absl/status/status.h"

namespace kernelcast {

// What both sides of a call between services have to agree on. A release that changes it counts it
// up by one, and understands the one before: services are upgraded one after the other.
// docs/protocol.md lists what each version brought.
inline constexpr uint32_t kProtocolVersion = 2;

// Whether a peer that told `version` in its description can be worked with: one that is at most one
// version older or newer than `own`. 0, from releases that did not tell, counts as 1.
// FAILED_PRECONDITION names both versions and which of the two is to be upgraded.
[[nodiscard]] absl::Status CheckProtocolVersion(uint32_t version, uint32_t own = kProtocolVersion);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_PROTOCOL_VERSION_H_
