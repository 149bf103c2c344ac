#ifndef KERNELCAST_COMMON_RPC_GRPC_SETUP_H_
#define KERNELCAST_COMMON_RPC_GRPC_SETUP_H_

namespace kernelcast {

// Sets up gRPC for this process: sends gRPC's log to ours, gives servers health and reflection, and
// keeps the library and its callback threads until the process ends. Servers and channels of
// common/rpc call it themselves. Idempotent and thread-safe.
//
// gRPC runs the callbacks of all servers and channels of a process on one thread for each two
// cores, at least 2 and at most 16. Callbacks must not block, because a blocked one stops that
// share of all callbacks.
void SetUpGrpc();

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_GRPC_SETUP_H_
