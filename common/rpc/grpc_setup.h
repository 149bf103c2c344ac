#ifndef KERNELCAST_COMMON_RPC_GRPC_SETUP_H_
#define KERNELCAST_COMMON_RPC_GRPC_SETUP_H_

namespace kernelcast {

// What this process needs once before it uses gRPC: gRPC's log goes through ours, servers have
// health and reflection, and the library stays up until the process ends. Servers and channels of
// common/rpc call it themselves. Safe to call again, from any thread.
void SetUpGrpc();

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_GRPC_SETUP_H_
