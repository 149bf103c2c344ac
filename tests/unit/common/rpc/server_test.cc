#include "common/rpc/server.h"

#include <grpcpp/generic/generic_stub.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "common/rpc/channel.h"
#include "common/rpc/unary_reactor.h"
#include "kernelcast/v1/worker.grpc.pb.h"
#include "tests/unit/common/rpc/health_client.h"

namespace kernelcast::server_test {
namespace {

// Answers a Compile with its request's size and a log of the length given by the request id.
class EchoWorker final : public v1::Worker::CallbackService {
  grpc::ServerUnaryReactor* Compile(grpc::CallbackServerContext* context,
                                    const v1::CompileRequest* request,
                                    v1::CompileReply* reply) override {
    remaining_ = RemainingTime(*context);
    if (request->request_id() == "fail") {
      return FinishNow(context, absl::NotFoundError("no such problem"));
    }
    const auto size = static_cast<size_t>(std::atol(request->request_id().c_str()));
    reply->mutable_success()->set_log(std::string(size, 'x'));
    reply->set_request_id(std::to_string(request->candidate().source().size()));
    return FinishNow(context, absl::OkStatus());
  }

 public:
  std::atomic<absl::Duration> remaining_ = absl::ZeroDuration();
};

std::unique_ptr<RpcServer> MustStart(const ServerOptions& options, grpc::Service* service,
                                     MetricsRegistry* metrics = nullptr) {
  auto server = RpcServer::Start(options, {service}, metrics);
  INFO(server.status().ToString());
  REQUIRE(server.ok());
  return *std::move(server);
}

std::shared_ptr<grpc::Channel> Connect(const RpcServer& server,
                                       const ChannelOptions& options = {}) {
  auto channel = MakeChannel(server.address(), options);
  REQUIRE(channel.ok());
  return *channel;
}

struct Result {
  absl::Status status;
  v1::CompileReply reply;
};

Result Compile(const std::shared_ptr<grpc::Channel>& channel,
               const v1::CompileRequest& request = {}, absl::Duration timeout = absl::Seconds(30)) {
  Result result;
  grpc::ClientContext context;
  SetTimeout(context, timeout);
  result.status =
      FromGrpc(v1::Worker::NewStub(channel)->Compile(&context, request, &result.reply), context);
  return result;
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    char pattern[] = "/tmp/kernelcast_test_XXXXXX";
    REQUIRE(mkdtemp(pattern) != nullptr);
    path_ = pattern;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("A server picks a port and answers on its address", "[server]") {
  EchoWorker worker;
  const auto server = MustStart({}, &worker);
  CHECK(server->port() > 0);
  CHECK(server->address() == "127.0.0.1:" + std::to_string(server->port()));
  CHECK(Compile(Connect(*server)).status.ok());
}

TEST_CASE("A server on all interfaces reports an address for this machine", "[server]") {
  EchoWorker worker;
  ServerOptions options;
  options.listen_address = "0.0.0.0:0";
  const auto server = MustStart(options, &worker);
  CHECK(server->address() == "127.0.0.1:" + std::to_string(server->port()));
  CHECK(Compile(Connect(*server)).status.ok());
}

TEST_CASE("Two servers cannot share one port", "[server]") {
  EchoWorker worker;
  const auto first = MustStart({}, &worker);
  EchoWorker other;
  ServerOptions options;
  options.listen_address = first->address();
  const absl::Status status = RpcServer::Start(options, {&other}, nullptr).status();
  CHECK(status.code() == absl::StatusCode::kUnavailable);
  CHECK(Contains(std::string(status.message()), first->address()));
}

TEST_CASE("An invalid address is refused", "[server]") {
  EchoWorker worker;
  for (const char* address : {"", ":80", "localhost", "127.0.0.1:x", "127.0.0.1:65536",
                              "127.0.0.1:-1", "::1:80", "[]:80", "unix:"}) {
    ServerOptions options;
    options.listen_address = address;
    const absl::Status status = RpcServer::Start(options, {&worker}, nullptr).status();
    INFO(address);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(Contains(std::string(status.message()), std::string("'") + address + "'"));
  }
}

TEST_CASE("A Unix socket serves one server at a time, and a stale file is replaced", "[server]") {
  const TemporaryFolder folder;
  ServerOptions options;
  options.listen_address = "unix:" + folder.path() + "/socket";
  {
    // As left by a killed server.
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, (folder.path() + "/socket").c_str());
    REQUIRE(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    close(fd);
  }
  EchoWorker worker;
  const auto server = MustStart(options, &worker);
  CHECK(server->port() == 0);
  CHECK(server->address() == options.listen_address);
  CHECK(Compile(Connect(*server)).status.ok());

  EchoWorker other;
  CHECK(RpcServer::Start(options, {&other}, nullptr).status().code() ==
        absl::StatusCode::kUnavailable);
  CHECK(Compile(Connect(*server)).status.ok());

  server->Shutdown(absl::ZeroDuration());
  EchoWorker next;
  const auto again = MustStart(options, &next);
  CHECK(Compile(Connect(*again)).status.ok());
}

TEST_CASE("Health reports the serving services and that a draining server does not serve",
          "[server]") {
  EchoWorker worker;
  const auto server = MustStart({}, &worker);
  const auto channel = Connect(*server);
  const auto check = [&](const std::string& service) {
    return CheckHealthBlocking(channel, service, absl::Seconds(30)).code();
  };
  for (const char* service : {"", "readiness", "liveness", "kernelcast.v1.Worker"}) {
    CHECK(check(service) == absl::StatusCode::kOk);
  }
  CHECK(check("no.such.Service") == absl::StatusCode::kNotFound);

  server->BeginDrain();
  for (const char* service : {"", "readiness", "kernelcast.v1.Worker"}) {
    CHECK(check(service) == absl::StatusCode::kUnavailable);
  }
  CHECK(check("liveness") == absl::StatusCode::kOk);
  CHECK(Compile(channel).status.ok());  // active calls continue
}

TEST_CASE("Waiting for a server ends when it serves, or at the deadline", "[server]") {
  const TemporaryFolder folder;
  ServerOptions options;
  options.listen_address = "unix:" + folder.path() + "/socket";
  const auto channel = MakeChannel(options.listen_address);
  REQUIRE(channel.ok());
  CHECK(WaitUntilServing(*channel, "", absl::Milliseconds(100)).code() ==
        absl::StatusCode::kDeadlineExceeded);
  EchoWorker worker;
  const auto server = MustStart(options, &worker);
  CHECK(WaitUntilServing(*channel, "", absl::Seconds(30)).ok());
}

TEST_CASE("Reflection lists the services", "[server]") {
  EchoWorker worker;
  const auto server = MustStart({}, &worker);
  grpc::GenericStub stub(Connect(*server));
  grpc::ClientContext context;
  SetTimeout(context, absl::Seconds(30));
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(
      &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  void* tag = nullptr;
  bool ok = false;
  const auto step = [&] { return queue.Next(&tag, &ok) && ok; };
  call->StartCall(nullptr);
  REQUIRE(step());
  const grpc::Slice list_services(std::string("\x3A\x01*"));  // field 7: "*"
  call->Write(grpc::ByteBuffer(&list_services, 1), nullptr);
  REQUIRE(step());
  grpc::ByteBuffer answer;
  call->Read(&answer, nullptr);
  REQUIRE(step());
  grpc::Slice slice;
  REQUIRE(answer.DumpToSingleSlice(&slice).ok());
  const std::string text(reinterpret_cast<const char*>(slice.begin()), slice.size());
  CHECK(Contains(text, "kernelcast.v1.Worker"));
  CHECK(Contains(text, "grpc.health.v1.Health"));
  call->WritesDone(nullptr);
  REQUIRE(step());
  grpc::Status status;
  call->Finish(&status, nullptr);
  REQUIRE(step());
  CHECK(status.ok());
}

TEST_CASE("Handled calls are counted by method and code, and unknown methods as unknown",
          "[server]") {
  MetricsRegistry metrics;
  EchoWorker worker;
  const auto server = MustStart({}, &worker, &metrics);
  const auto channel = Connect(*server);
  const auto count = [&](const std::string& service, const std::string& method,
                         const std::string& code) {
    return metrics
        .Counter("kernelcast_grpc_server_handled_total", "",
                 {{"grpc_service", service}, {"grpc_method", method}, {"grpc_code", code}})
        .Value();
  };
  const std::string worker_name = "kernelcast.v1.Worker";
  // Exposed as zero from the start.
  CHECK(Contains(metrics.Text(),
                 "kernelcast_grpc_server_handled_total{grpc_code=\"OK\",grpc_method=\"Measure\","
                 "grpc_service=\"kernelcast.v1.Worker\"} 0\n"));

  v1::CompileRequest request;
  REQUIRE(Compile(channel, request).status.ok());
  REQUIRE(Compile(channel, request).status.ok());
  request.set_request_id("fail");
  REQUIRE(Compile(channel, request).status.code() == absl::StatusCode::kNotFound);
  grpc::ClientContext context;
  v1::MeasureReply reply;
  REQUIRE(v1::Worker::NewStub(channel)->Measure(&context, {}, &reply).error_code() ==
          grpc::StatusCode::UNIMPLEMENTED);
  REQUIRE(CheckHealthBlocking(channel, "", absl::Seconds(30)).ok());
  for (int i = 0; i < 3; ++i) {
    grpc::GenericStub stub(channel);
    grpc::ClientContext unknown;
    grpc::CompletionQueue queue;
    const grpc::ByteBuffer empty;
    grpc::ByteBuffer answer;
    const auto call =
        stub.PrepareUnaryCall(&unknown, "/made.up/Method" + std::to_string(i), empty, &queue);
    call->StartCall();
    grpc::Status status;
    call->Finish(&answer, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    REQUIRE(queue.Next(&tag, &ok));
    CHECK(status.error_code() == grpc::StatusCode::UNIMPLEMENTED);
  }
  server->Shutdown(absl::Seconds(30));

  CHECK(count(worker_name, "Compile", "OK") == 2);
  CHECK(count(worker_name, "Compile", "NOT_FOUND") == 1);
  CHECK(count(worker_name, "Measure", "UNIMPLEMENTED") == 1);
  CHECK(count("grpc.health.v1.Health", "Check", "OK") == 1);
  CHECK(count("unknown", "unknown", "UNIMPLEMENTED") == 3);
  CHECK_FALSE(Contains(metrics.Text(), "made.up"));
  CHECK(Contains(metrics.Text(),
                 "kernelcast_grpc_server_handling_seconds_count{grpc_method=\"Compile\","
                 "grpc_service=\"kernelcast.v1.Worker\"} 3\n"));
}

TEST_CASE("Messages beyond gRPC's default limit pass, but not beyond ours", "[server]") {
  EchoWorker worker;
  const auto server = MustStart({}, &worker);
  const auto channel = Connect(*server);
  v1::CompileRequest request;
  request.mutable_candidate()->set_source(std::string(6 << 20, 'x'));
  request.set_request_id(std::to_string(6 << 20));
  const Result large = Compile(channel, request);
  REQUIRE(large.status.ok());
  CHECK(large.reply.request_id() == std::to_string(6 << 20));
  CHECK(large.reply.success().log().size() == 6 << 20);

  EchoWorker small_worker;
  ServerOptions small;
  small.max_message_bytes = 1 << 20;
  const auto small_server = MustStart(small, &small_worker);
  CHECK(Compile(Connect(*small_server), request).status.code() ==
        absl::StatusCode::kResourceExhausted);
}

TEST_CASE("A handler sees the caller's remaining deadline", "[server]") {
  EchoWorker worker;
  const auto server = MustStart({}, &worker);
  const auto channel = Connect(*server);
  REQUIRE(Compile(channel, {}, absl::Seconds(30)).status.ok());
  CHECK(worker.remaining_.load() <= absl::Seconds(31));  // gRPC rounds up on the wire
  CHECK(worker.remaining_.load() > absl::Seconds(5));
  REQUIRE(Compile(channel, {}, absl::InfiniteDuration()).status.ok());
  CHECK(worker.remaining_.load() == absl::InfiniteDuration());
}

TEST_CASE("A client reconnects to a server that restarts on the same port", "[server]") {
  EchoWorker worker;
  auto server = MustStart({}, &worker);
  const auto channel = Connect(*server);
  REQUIRE(Compile(channel).status.ok());
  ServerOptions options;
  options.listen_address = server->address();
  server.reset();
  CHECK(Compile(channel).status.code() == absl::StatusCode::kUnavailable);
  EchoWorker next;
  server = MustStart(options, &next);
  CHECK(WaitUntilServing(channel, "", absl::Seconds(30)).ok());
  CHECK(Compile(channel).status.ok());
}

TEST_CASE("Shutdown may be requested twice and drains immediately when idle", "[server]") {
  EchoWorker worker;
  const auto server = MustStart({}, &worker);
  server->Shutdown(absl::Minutes(1));
  server->Shutdown(absl::Minutes(1));
  SUCCEED("returned");
}

}  // namespace kernelcast::server_test
