#ifndef KERNELCAST_COMMON_RPC_ACCEPT_GUARD_H_
#define KERNELCAST_COMMON_RPC_ACCEPT_GUARD_H_

namespace kernelcast {

// Keeps a server accepting connections when descriptors run out. gRPC 1.51 stops accepting on a
// listener forever after one failed accept, so a client that opens enough connections could disable
// a server.
//
// Programs that link this library use its accept4() in place of the C library's. After GuardAccept,
// it closes a connection at once if the connection's descriptor is among the last that the process
// may open (these stay free for files, pipes and children) or if none is left. It skips connections
// that are already gone. It logs the number of closed connections at most every 10 s. RpcServer
// calls GuardAccept.
void GuardAccept();

// Raises the descriptor limit of this process to its hard limit, at most 65536.
void RaiseDescriptorLimit();

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_ACCEPT_GUARD_H_
