#ifndef KERNELCAST_COMMON_RPC_PROTOCOL_VERSION_H_
#define KERNELCAST_COMMON_RPC_PROTOCOL_VERSION_H_

#include <cstdint>

#include "absl/status/status.h"

namespace kernelcast {

// Version of the protocol between services. A release that changes the protocol increments it and
// still supports the previous version, so that services can be upgraded one after another.
// docs/reference/protocol.md lists the changes of each version.
inline constexpr uint32_t kProtocolVersion = 1;

// Checks that a peer with this version is compatible: at most one version older or newer than
// `own`. FAILED_PRECONDITION names both versions and the one to upgrade, or says that the peer
// reports none (0).
[[nodiscard]] absl::Status CheckProtocolVersion(uint32_t version, uint32_t own = kProtocolVersion);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_PROTOCOL_VERSION_H_
