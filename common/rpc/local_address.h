#ifndef KERNELCAST_COMMON_RPC_LOCAL_ADDRESS_H_
#define KERNELCAST_COMMON_RPC_LOCAL_ADDRESS_H_

#include <string_view>

namespace kernelcast {

// Whether what is sent to an address, or to who listens on it, stays on this machine: a Unix
// socket, an address of the loopback interface, or "localhost". By its text alone: other names are
// not looked up, and count as elsewhere. `address` is as gRPC takes it, with or without a scheme
// and a port.
bool IsLocalAddress(std::string_view address);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_LOCAL_ADDRESS_H_
