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

// A call that fails at once, on a channel that leads nowhere.
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

// gRPC's callback threads end with the last channel or server that uses them, and whoever drops
// that joins them. Call states hold channels and are dropped in callbacks: such a thread would join
// itself and free what it still uses. So one channel, which leads nowhere, uses them for ever.
void KeepCallbackThreads() {
  CallsForEver().push_back(std::make_unique<NoCall>([](const grpc::Status&) {}));
}

// They take turns at polling: with each event that one takes it wakes another to poll in its stead.
// The more there are, the more of the processors' time goes into that: with all that gRPC has, on
// 16 cores, a candidate cost twice as much as with two (docs/benchmarks.md). So the others wait for
// ever.
void ParkCallbackThreads() {
  // So many has gRPC 1.51. Of another version it is not known, and to park all would be the end.
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
    // Where abseil is built with assertions it watches the order of all of gRPC's locks, under one
    // lock of its own, for which all calls meet.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    // As gRPC itself, below: its threads may be in a handshake when the process ends, and OpenSSL
    // would be taken from under them.
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
    // Never undone: when its last user goes, the library joins a thread that may be polling for
    // another 10 s, which is how long a process would then take to end.
    grpc_init();
    KeepCallbackThreads();
    ParkCallbackThreads();
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

}  // namespace kernelcast
