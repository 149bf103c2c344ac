#include "common/rpc/grpc_setup.h"

#include <grpc/grpc.h>
#include <grpc/support/cpu.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <openssl/crypto.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

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

// A call that fails at once, on a channel without a server.
struct NoCall {
  explicit NoCall(std::function<void(const grpc::Status&)> done) {
    stub.UnaryCall(&context, "/none/None", grpc::StubOptions(), &request, &response,
                   std::move(done));
  }
  grpc::GenericStub stub{grpc::CreateChannel("", nullptr)};
  grpc::ClientContext context;
  const grpc::Slice nothing;
  grpc::ByteBuffer request{&nothing, 1};
  grpc::ByteBuffer response;
};

std::vector<std::unique_ptr<NoCall>>& CallsForEver() {
  static auto* const calls = new std::vector<std::unique_ptr<NoCall>>;
  return *calls;
}

// gRPC's callback threads end with the last channel or server that uses them, and the thread that
// drops it joins them. Call states hold channels and are dropped in callbacks, so a callback thread
// could join itself and use freed memory. One unused channel therefore keeps the threads forever.
void KeepCallbackThreads() {
  CallsForEver().push_back(std::make_unique<NoCall>([](const grpc::Status&) {}));
}

// Callback threads take turns at polling: for each event, one wakes another to poll in its place.
// More threads spend more CPU time on that: on 16 cores, a candidate cost twice as much with gRPC's
// default as with two threads (docs/decisions/grpc-callback-threads.md). The surplus threads are
// blocked forever.
void ParkCallbackThreads() {
  // gRPC 1.51 starts this many threads. Skip other versions, because blocking all threads would
  // stop every callback.
  if (grpc::Version().rfind("1.51.", 0) != 0) return;
  const unsigned threads = std::clamp(gpr_cpu_num_cores() / 2, 2U, 16U);
  for (unsigned i = ActiveCallbackThreads(gpr_cpu_num_cores()); i < threads; ++i) {
    CallsForEver().push_back(std::make_unique<NoCall>([](const grpc::Status&) {
      while (true) pause();
    }));
  }
}

}  // namespace

unsigned ActiveCallbackThreads(unsigned cores) { return cores < 4 ? 1 : 2; }

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
    ParkCallbackThreads();
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

}  // namespace kernelcast
