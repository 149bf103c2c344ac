#ifndef KERNELCAST_COMMON_RPC_GRPC_SETUP_H_
#define KERNELCAST_COMMON_RPC_GRPC_SETUP_H_

namespace kernelcast {

// Sets up gRPC for this process: sends gRPC's log to ours, gives servers health and reflection,
// limits the number of callback threads, and keeps the library initialised until the process ends.
// Servers and channels of common/rpc call it themselves. Idempotent and thread-safe.
void SetUpGrpc();

// Number of threads that run gRPC callbacks, for all servers and channels of the process. Callbacks
// must not block, because a blocked one stops that share of all callbacks.
unsigned ActiveCallbackThreads(unsigned cores);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_GRPC_SETUP_H_
