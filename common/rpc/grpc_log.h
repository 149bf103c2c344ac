#ifndef KERNELCAST_COMMON_RPC_GRPC_LOG_H_
#define KERNELCAST_COMMON_RPC_GRPC_LOG_H_

namespace kernelcast {

// Makes gRPC write its log through ours. Safe to call again, from any thread.
void CaptureGrpcLog();

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_GRPC_LOG_H_
