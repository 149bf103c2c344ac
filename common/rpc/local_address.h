#ifndef KERNELCAST_COMMON_RPC_LOCAL_ADDRESS_H_
#define KERNELCAST_COMMON_RPC_LOCAL_ADDRESS_H_

#include <string_view>

namespace kernelcast {

// Whether traffic to an address, or to a server listening on it, stays on this machine: a Unix
// socket, an address of the loopback interface, or "localhost". Decided by the text alone; other
// names are not resolved and count as remote. `address` has the form that gRPC accepts, with or
// without a scheme and a port.
bool IsLocalAddress(std::string_view address);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_LOCAL_ADDRESS_H_
