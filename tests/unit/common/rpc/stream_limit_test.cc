#include "common/rpc/stream_limit.h"

#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "common/convert/batch_protocols.h"
#include "common/rpc/batch_stream.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "common/rpc/status_conversion.h"
#include "kernelcast/v1/worker.grpc.pb.h"
#include "tests/support/eventually.h"

namespace kernelcast::stream_limit_test {
namespace {

class SilentStream final : public BatchStream<CompileBatches> {
 public:
  explicit SilentStream(grpc::CallbackServerContext* context) : BatchStream(context, 1) {}

 private:
  void OnRequests(const v1::CompileStreamRequest&) override { sender().Send({}); }
};

class SilentWorker final : public v1::Worker::CallbackService {
 public:
  grpc::ServerBidiReactor<v1::CompileStreamRequest, v1::CompileStreamReply>* CompileStream(
      grpc::CallbackServerContext* context) override {
    return new SilentStream(context);
  }
};

// A client stream; if it is open, it has been answered once.
struct ClientStream {
  explicit ClientStream(v1::Worker::Stub& stub) : stream(stub.CompileStream(&context)) {
    v1::CompileStreamRequest request;
    request.add_requests();
    stream->Write(request);
    v1::CompileStreamReply reply;
    is_open = stream->Read(&reply);
  }
  absl::Status Finish() {
    stream->WritesDone();
    return FromGrpc(stream->Finish(), context);
  }

  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<v1::CompileStreamRequest, v1::CompileStreamReply>>
      stream;
  bool is_open = false;
};

class Limits {
 public:
  explicit Limits(StreamLimits limits) { StreamLimiter::Process().set_limits(limits); }
  ~Limits() { StreamLimiter::Process().set_limits(StreamLimits()); }
};

TEST_CASE("Open streams are limited per connection, per caller and in total", "[streams]") {
  StreamLimiter limiter({.per_connection = 2, .per_caller = 3, .per_process = 4});
  CHECK(limiter.Open("a1", "a").ok());
  CHECK(limiter.Open("a1", "a").ok());
  const absl::Status third = limiter.Open("a1", "a");
  CHECK(third.code() == absl::StatusCode::kResourceExhausted);
  CHECK(RetryAfter(third).has_value());
  CHECK(limiter.Open("a2", "a").ok());
  CHECK_FALSE(limiter.Open("a3", "a").ok());
  CHECK(limiter.Open("b1", "b").ok());
  CHECK_FALSE(limiter.Open("c1", "c").ok());
  limiter.Close("a1", "a");
  CHECK(limiter.Open("c1", "c").ok());
  CHECK_FALSE(limiter.Open("c1", "c").ok());
  CHECK(limiter.open() == 4);
}

TEST_CASE("A stream beyond the limit ends with a retry delay and earlier ones continue",
          "[streams]") {
  const Limits limits({.per_connection = 3, .per_caller = 100, .per_process = 100});
  SilentWorker worker;
  auto server = RpcServer::Start({}, {&worker}, nullptr);
  REQUIRE(server.ok());
  const auto channel = MakeChannel((*server)->address());
  REQUIRE(channel.ok());
  const auto stub = v1::Worker::NewStub(*channel);
  std::vector<std::unique_ptr<ClientStream>> open;
  for (int i = 0; i < 3; ++i) {
    open.push_back(std::make_unique<ClientStream>(*stub));
    CHECK(open.back()->is_open);
  }
  for (int i = 0; i < 20; ++i) {
    ClientStream refused(*stub);
    CHECK_FALSE(refused.is_open);
    const absl::Status status = refused.Finish();
    CHECK(status.code() == absl::StatusCode::kResourceExhausted);
    CHECK(RetryAfter(status).has_value());
  }
  CHECK(StreamLimiter::Process().open() == 3);
  CHECK(open.back()->Finish().ok());
  open.pop_back();
  CHECK(testing::Eventually([] { return StreamLimiter::Process().open() == 2; }));
  ClientStream next(*stub);
  CHECK(next.is_open);
  CHECK(next.Finish().ok());
  for (const auto& stream : open) CHECK(stream->Finish().ok());
  CHECK(testing::Eventually([] { return StreamLimiter::Process().open() == 0; }));
}

}  // namespace
}  // namespace kernelcast::stream_limit_test
