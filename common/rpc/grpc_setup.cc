#include "common/rpc/grpc_setup.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <openssl/crypto.h>

#include <mutex>
#include <string_view>

#include "absl/synchronization/mutex.h"
#include "common/base/log.h"

namespace kernelcast {
namespace {

LogLevel Level(gpr_log_severity severity) {
  switch (severity) {
    case GPR_LOG_SEVERITY_DEBUG: return LogLevel::kDebug;
    case GPR_LOG_SEVERITY_INFO: return LogLevel::kInfo;
    case GPR_LOG_SEVERITY_ERROR: return LogLevel::kError;
  }
  return LogLevel::kError;
}

void Write(gpr_log_func_args* args) {
  const std::string_view file = args->file;
  Log(Level(args->severity), args->message,
      {{"source", "grpc"}, {"file", file.substr(file.rfind('/') + 1)}, {"line", args->line}});
}

// gRPC's callback threads end with the last channel or server that uses them, and the thread that
// drops it joins them. Call states hold channels and are dropped in callbacks, so a callback thread
// could join itself and use freed memory. A channel without a server, which is never deleted, keeps
// the threads: it uses them from its first call, which fails at once.
void KeepCallbackThreads() {
  struct NoCall {
    grpc::GenericStub stub{grpc::CreateChannel("", nullptr)};
    grpc::ClientContext context;
    const grpc::Slice nothing;
    grpc::ByteBuffer request{&nothing, 1};
    grpc::ByteBuffer response;
  };
  static auto* const call = new NoCall;
  call->stub.UnaryCall(&call->context, "/none/None", grpc::StubOptions(), &call->request,
                       &call->response, [](const grpc::Status&) {});
}

}  // namespace

void SetUpGrpc() {
  static std::once_flag once;
  std::call_once(once, [] {
    gpr_set_log_function(&Write);
    // If abseil is built with assertions, it checks the order of all of gRPC's locks under one
    // global lock, on which all calls would contend.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    // Like gRPC below: its threads may be in a handshake when the process exits, and OpenSSL must
    // not be cleaned up under them.
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
    // Never shut down: with its last user gone, the library joins a thread that may poll for
    // another 10 s, which would delay the exit of the process.
    grpc_init();
    KeepCallbackThreads();
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

}  // namespace kernelcast
