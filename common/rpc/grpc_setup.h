#ifndef KERNELCAST_COMMON_RPC_GRPC_SETUP_H_
#define KERNELCAST_COMMON_RPC_GRPC_SETUP_H_

namespace kernelcast {

// What this process needs once before it uses gRPC: gRPC's log goes through ours, servers have
// health and reflection, few threads run callbacks, and the library stays up until the process
// ends. Servers and channels of common/rpc call it themselves. Safe to call again, from any thread.
void SetUpGrpc();

// How many threads run gRPC's callbacks, all servers' and channels' of the process. A callback that
// blocks holds up that share of them; none may.
unsigned ActiveCallbackThreads(unsigned cores);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_GRPC_SETUP_H_
