// Tests unary and streaming reactors behind a real server with real clients.

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "common/convert/batch_protocols.h"
#include "common/rpc/batch_stream.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "common/rpc/stream_writer.h"
#include "common/rpc/unary_reactor.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "kernelcast/v1/worker.grpc.pb.h"
#include "tests/support/one_by_one.h"
#include "tests/unit/common/rpc/event.h"

namespace kernelcast::reactor_test {
namespace {

using testing::OneByOne;

using CompileSender = BatchSender<CompileBatches>;
using EventSender = StreamSender<v1::SearchEvent>;

v1::CompileReply Answer(const std::string& request_id, size_t padding = 0) {
  v1::CompileReply reply;
  reply.set_request_id(request_id);
  if (padding > 0) {
    reply.mutable_compile_error()->set_log(std::string(padding, 'x'));
  }
  return reply;
}

v1::CompileRequest Request(int id) {
  v1::CompileRequest request;
  request.set_request_id(std::to_string(id));
  return request;
}

v1::SearchEvent Sequenced(uint64_t sequence) {
  v1::SearchEvent event;
  event.set_sequence(sequence);
  return event;
}

// The events of a test's streams, and their handling of requests.
struct StreamPlan {
  size_t max_in_flight = 16;
  std::function<void(const CompileSender&, const v1::CompileRequest&)> on_request;
  Event requests;
  Event cancelled;
  Event destroyed;
};

class PlannedStream final : public BatchStream<CompileBatches> {
 public:
  PlannedStream(grpc::CallbackServerContext* context, StreamPlan& plan)
      : BatchStream(context, plan.max_in_flight), plan_(plan) {}

 private:
  ~PlannedStream() override { plan_.destroyed.Notify(); }
  void OnRequests(const v1::CompileStreamRequest& message) override {
    for (const v1::CompileRequest& request : message.requests()) {
      plan_.on_request(sender(), request);
      plan_.requests.Notify();
    }
  }
  void OnCancelled() override { plan_.cancelled.Notify(); }

  StreamPlan& plan_;
};

struct UnaryPlan {
  std::function<void(const UnaryReply<v1::CompileReply>&)> on_call;
  Event calls;
  Event cancelled;
};

class TestWorker final : public v1::Worker::CallbackService {
 public:
  StreamPlan stream;
  UnaryPlan unary;

  grpc::ServerUnaryReactor* Compile(grpc::CallbackServerContext* context,
                                    const v1::CompileRequest* request,
                                    v1::CompileReply* reply) override {
    if (request->request_id() == "invalid") {
      return FinishNow(context, absl::InvalidArgumentError("request_id: 'invalid'"));
    }
    auto* const call = new AsyncUnary<v1::CompileReply>(context, reply);
    call->set_on_cancel([this] { unary.cancelled.Notify(); });
    unary.on_call(call->reply());
    unary.calls.Notify();
    return call;
  }
  grpc::ServerBidiReactor<v1::CompileStreamRequest, v1::CompileStreamReply>* CompileStream(
      grpc::CallbackServerContext* context) override {
    return new PlannedStream(context, stream);
  }
};

struct WatchPlan {
  std::function<void(const EventSender&)> on_open = [](const EventSender&) {};
  std::function<void(const EventSender&)> on_writable = [](const EventSender&) {};
  Event opened;
  Event cancelled;
  Event destroyed;
  std::atomic<bool> overlapped = false;
};

class PlannedWatch final : public WriteStream<v1::SearchEvent> {
 public:
  PlannedWatch(grpc::CallbackServerContext* context, WatchPlan& plan)
      : WriteStream(context), plan_(plan) {
    plan_.on_open(sender());
    plan_.opened.Notify();
  }

 private:
  ~PlannedWatch() override { plan_.destroyed.Notify(); }
  void OnWritable() override {
    if (inside_.exchange(true)) {
      plan_.overlapped = true;
    }
    plan_.on_writable(sender());
    inside_ = false;
  }
  void OnCancelled() override { plan_.cancelled.Notify(); }

  WatchPlan& plan_;
  std::atomic<bool> inside_ = false;
};

class TestOrchestrator final : public v1::Orchestrator::CallbackService {
 public:
  WatchPlan watch;
  grpc::ServerWriteReactor<v1::SearchEvent>* WatchSearch(grpc::CallbackServerContext* context,
                                                         const v1::WatchSearchRequest*) override {
    return new PlannedWatch(context, watch);
  }
};

// A server with both services and a client's stubs. Members are destroyed in reverse: the stubs,
// then the server, then what its reactors refer to.
struct Fixture {
  TestWorker worker;
  TestOrchestrator orchestrator;
  std::unique_ptr<RpcServer> server;
  std::unique_ptr<v1::Worker::Stub> worker_stub;
  std::unique_ptr<v1::Orchestrator::Stub> orchestrator_stub;

  Fixture() {
    auto started = RpcServer::Start({}, {&worker, &orchestrator}, nullptr);
    REQUIRE(started.ok());
    server = *std::move(started);
    const auto channel = MakeChannel(server->address());
    REQUIRE(channel.ok());
    worker_stub = v1::Worker::NewStub(*channel);
    orchestrator_stub = v1::Orchestrator::NewStub(*channel);
  }
};

// Answers from its own threads in random order.
class Answerers {
 public:
  explicit Answerers(int threads) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this, i] { Run(static_cast<uint64_t>(i)); });
    }
  }
  ~Answerers() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      changed_.notify_all();
    }
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }
  void Add(std::function<void()> answer) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(answer));
    changed_.notify_one();
  }

 private:
  void Run(uint64_t seed) {
    std::mt19937_64 random(seed);
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
      if (waiting_.empty()) {
        return;
      }
      std::swap(waiting_[random() % waiting_.size()], waiting_.back());
      const std::function<void()> answer = std::move(waiting_.back());
      waiting_.pop_back();
      lock.unlock();
      answer();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> waiting_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

TEST_CASE("A unary call is answered once from another thread", "[unary]") {
  Fixture f;
  std::atomic<int> answers = 0, open_after = 0;
  {
    Answerers threads(1);
    f.worker.unary.on_call = [&](const UnaryReply<v1::CompileReply>& reply) {
      threads.Add([&, reply] {
        v1::CompileReply message;
        message.set_request_id("answered");
        answers += reply.Send(message);
        answers += reply.Send(message);
        answers += reply.Fail(absl::InternalError("late"));
        open_after += reply.open();
      });
    };
    for (int i = 0; i < 100; ++i) {
      grpc::ClientContext context;
      SetTimeout(context, absl::Seconds(30));
      v1::CompileReply reply;
      REQUIRE(f.worker_stub->Compile(&context, {}, &reply).ok());
      REQUIRE(reply.request_id() == "answered");
    }
  }
  CHECK(f.worker.unary.cancelled.count() == 0);
  CHECK(answers == 100);
  CHECK(open_after == 0);
}

TEST_CASE("A unary call may be answered before its handler returns", "[unary]") {
  Fixture f;
  f.worker.unary.on_call = [](const UnaryReply<v1::CompileReply>& reply) {
    reply.Finish(v1::CompileReply());
  };
  grpc::ClientContext context;
  v1::CompileReply reply;
  CHECK(f.worker_stub->Compile(&context, {}, &reply).ok());
}

TEST_CASE("A refused unary call returns its status and retry hint", "[unary]") {
  Fixture f;
  f.worker.unary.on_call = [](const UnaryReply<v1::CompileReply>& reply) {
    reply.Finish(OverloadedError("full", absl::Milliseconds(70)));
  };
  {
    grpc::ClientContext context;
    v1::CompileReply reply;
    const absl::Status status = FromGrpc(f.worker_stub->Compile(&context, {}, &reply), context);
    CHECK(status.code() == absl::StatusCode::kResourceExhausted);
    CHECK(RetryAfter(status) == absl::Milliseconds(70));
  }
  grpc::ClientContext context;
  v1::CompileRequest request;
  request.set_request_id("invalid");
  v1::CompileReply reply;
  const absl::Status status = FromGrpc(f.worker_stub->Compile(&context, request, &reply), context);
  CHECK(status == absl::InvalidArgumentError("request_id: 'invalid'"));
  CHECK(RetryAfter(status) == std::nullopt);
}

TEST_CASE("A unary call ends when its client leaves or its deadline passes", "[unary]") {
  Fixture f;
  std::mutex mutex;
  std::vector<UnaryReply<v1::CompileReply>> held;
  f.worker.unary.on_call = [&](const UnaryReply<v1::CompileReply>& reply) {
    const std::lock_guard lock(mutex);
    held.push_back(reply);
  };
  grpc::ClientContext context;
  v1::CompileReply message;
  grpc::StatusCode expected = grpc::StatusCode::CANCELLED;
  std::thread canceller;
  bool called = true;
  SECTION("client leaves") {
    canceller = std::thread([&] {
      called = f.worker.unary.calls.Wait();
      context.TryCancel();
    });
  }
  SECTION("deadline") {
    SetTimeout(context, absl::Milliseconds(50));
    expected = grpc::StatusCode::DEADLINE_EXCEEDED;
  }
  CHECK(f.worker_stub->Compile(&context, {}, &message).error_code() == expected);
  if (canceller.joinable()) {
    canceller.join();
  }
  CHECK(called);
  if (f.worker.unary.calls.count() == 1) {  // a deadline may pass before the handler is reached
    CHECK(f.worker.unary.cancelled.Wait());
    f.server->Shutdown(absl::ZeroDuration());
    // The call is gone, but code working on it may not know yet.
    CHECK_FALSE(held[0].open());
    CHECK_FALSE(held[0].Send(v1::CompileReply()));
    CHECK_FALSE(held[0].Fail(absl::InternalError("late")));
  }
}

TEST_CASE("Stream requests are answered in any order and half-close ends the stream", "[bidi]") {
  Fixture f;
  Answerers threads(3);
  f.worker.stream.on_request = [&](const CompileSender& sender, const v1::CompileRequest& request) {
    threads.Add([sender, id = request.request_id()] { sender.Send(Answer(id)); });
  };
  grpc::ClientContext context;
  const auto stream = OneByOne(f.worker_stub->CompileStream(&context));
  for (int i = 0; i < 100; ++i) {
    REQUIRE(stream->Write(Request(i)));
  }
  REQUIRE(stream->WritesDone());
  std::set<std::string> answered;
  v1::CompileReply reply;
  while (stream->Read(&reply)) {
    CHECK(answered.insert(reply.request_id()).second);
  }
  CHECK(stream->Finish().ok());
  CHECK(answered.size() == 100);
  CHECK(f.worker.stream.destroyed.Wait());
  CHECK(f.worker.stream.cancelled.count() == 0);
}

TEST_CASE("A stream without requests ends with OK", "[bidi]") {
  Fixture f;
  grpc::ClientContext context;
  const auto stream = OneByOne(f.worker_stub->CompileStream(&context));
  REQUIRE(stream->WritesDone());
  CHECK(stream->Finish().ok());
}

TEST_CASE("Ten thousand messages pass through a stream, inline or not", "[bidi]") {
  Fixture f;
  Answerers threads(2);
  const bool inline_answers = GENERATE(true, false);
  f.worker.stream.max_in_flight = 64;
  f.worker.stream.on_request = [&](const CompileSender& sender, const v1::CompileRequest& request) {
    if (inline_answers) {
      sender.Send(Answer(request.request_id()));
    } else {
      threads.Add([sender, id = request.request_id()] { sender.Send(Answer(id)); });
    }
  };
  grpc::ClientContext context;
  const auto stream = OneByOne(f.worker_stub->CompileStream(&context));
  std::thread writer([&] {
    for (int i = 0; i < 10'000; ++i) {
      stream->Write(Request(i));
    }
    stream->WritesDone();
  });
  int answered = 0;
  v1::CompileReply reply;
  while (stream->Read(&reply)) {
    ++answered;
  }
  writer.join();
  CHECK(stream->Finish().ok());
  CHECK(answered == 10'000);
}

TEST_CASE("The number of unanswered requests never exceeds the limit", "[bidi]") {
  Fixture f;
  f.worker.stream.max_in_flight = 4;
  std::mutex mutex;
  std::vector<std::pair<CompileSender, std::string>> held;
  size_t most = 0;
  // Answers one whenever four are held: a fifth could arrive only if a read started too early.
  f.worker.stream.on_request = [&](const CompileSender& sender, const v1::CompileRequest& request) {
    const std::lock_guard lock(mutex);
    held.emplace_back(sender, request.request_id());
    most = std::max(most, held.size());
    if (held.size() >= 4) {
      held.front().first.Send(Answer(held.front().second));
      held.erase(held.begin());
    }
  };
  grpc::ClientContext context;
  const auto stream = OneByOne(f.worker_stub->CompileStream(&context));
  for (int i = 0; i < 200; ++i) {
    REQUIRE(stream->Write(Request(i)));
  }
  REQUIRE(stream->WritesDone());
  v1::CompileReply reply;
  for (int i = 0; i < 197; ++i) {
    REQUIRE(stream->Read(&reply));
  }
  {
    const std::lock_guard lock(mutex);
    REQUIRE(held.size() == 3);
    for (const auto& [sender, id] : held) {
      sender.Send(Answer(id));
    }
  }
  while (stream->Read(&reply)) {
  }
  CHECK(stream->Finish().ok());
  CHECK(most == 4);
}

TEST_CASE("A client that does not read blocks the requests and loses nothing", "[bidi]") {
  Fixture f;
  constexpr int kRequests = 200;
  f.worker.stream.max_in_flight = 4;
  std::atomic<bool> reading = false;
  std::atomic<int> taken_unread = 0;
  f.worker.stream.on_request = [&](const CompileSender& sender, const v1::CompileRequest& request) {
    if (!reading) {
      ++taken_unread;
    }
    sender.Send(Answer(request.request_id(), size_t{256} << 10));
  };
  grpc::ClientContext context;
  const auto stream = OneByOne(f.worker_stub->CompileStream(&context));
  for (int i = 0; i < kRequests; ++i) {  // small: they fit the connection's window, read or not
    REQUIRE(stream->Write(Request(i)));
  }
  REQUIRE(stream->WritesDone());
  REQUIRE(f.worker.stream.requests.Wait(4));
  reading = true;
  int answered = 0;
  v1::CompileReply reply;
  while (stream->Read(&reply)) {
    ++answered;
  }
  CHECK(stream->Finish().ok());
  CHECK(answered == kRequests);
  // Four in flight, plus the transport's buffers.
  CHECK(taken_unread < kRequests / 2);
}

TEST_CASE("Answers after the client has left are dropped safely", "[bidi]") {
  Fixture f;
  std::mutex mutex;
  std::vector<CompileSender> held;
  f.worker.stream.on_request = [&](const CompileSender& sender, const v1::CompileRequest&) {
    const std::lock_guard lock(mutex);
    held.push_back(sender);
  };
  {
    grpc::ClientContext context;
    const auto stream = OneByOne(f.worker_stub->CompileStream(&context));
    for (int i = 0; i < 5; ++i) {
      REQUIRE(stream->Write(Request(i)));
    }
    REQUIRE(f.worker.stream.requests.Wait(5));
    const bool half_closed = GENERATE(false, true);
    if (half_closed) {
      REQUIRE(stream->WritesDone());
    }
    context.TryCancel();
    CHECK(stream->Finish().error_code() == grpc::StatusCode::CANCELLED);
  }
  CHECK(f.worker.stream.cancelled.Wait());
  held[0].Send(Answer("just after"));
  CHECK(f.worker.stream.destroyed.Wait());
  for (const CompileSender& sender : held) {
    CHECK_FALSE(sender.open());
    sender.Send(Answer("long after"));
  }
  CHECK(f.worker.stream.cancelled.count() == 1);
}

TEST_CASE("A stream ends when its deadline passes", "[bidi]") {
  Fixture f;
  f.worker.stream.on_request = [](const CompileSender&, const v1::CompileRequest&) {};
  grpc::ClientContext context;
  const auto stream = OneByOne(f.worker_stub->CompileStream(&context));
  stream->Write(Request(1));
  REQUIRE(f.worker.stream.requests.Wait());

  grpc::ClientContext bounded;
  SetTimeout(bounded, absl::Milliseconds(100));
  const auto late = OneByOne(f.worker_stub->CompileStream(&bounded));
  late->Write(Request(2));
  CHECK(late->Finish().error_code() == grpc::StatusCode::DEADLINE_EXCEEDED);
  context.TryCancel();
  CHECK(stream->Finish().error_code() == grpc::StatusCode::CANCELLED);
}

TEST_CASE("A stream ends with too many requests in one message, after the answers to earlier ones",
          "[bidi]") {
  Fixture f;
  std::mutex mutex;
  std::vector<std::pair<CompileSender, std::string>> held;
  f.worker.stream.on_request = [&](const CompileSender& sender, const v1::CompileRequest& request) {
    const std::lock_guard lock(mutex);
    held.emplace_back(sender, request.request_id());
  };
  grpc::ClientContext context;
  const auto stream = OneByOne(f.worker_stub->CompileStream(&context));
  for (int i = 0; i < 3; ++i) {
    REQUIRE(stream->Write(Request(i)));
  }
  v1::CompileStreamRequest too_many;
  for (size_t i = 0; i <= rpc_internal::kMostRequestsPerMessage; ++i) too_many.add_requests();
  REQUIRE(stream->stream().Write(too_many));
  REQUIRE(f.worker.stream.requests.Wait(3));
  for (const auto& [sender, id] : held) {
    sender.Send(Answer(id));
  }
  int answered = 0;
  v1::CompileReply reply;
  while (stream->Read(&reply)) {
    ++answered;
  }
  CHECK(answered == 3);
  const absl::Status status = FromGrpc(stream->Finish(), context);
  CHECK(status == absl::InvalidArgumentError(
                      "requests: has 4097 entries; at most 4096 are allowed in one message"));
  CHECK(f.worker.stream.requests.count() == 3);
}

TEST_CASE("Clients may leave at any moment of a busy stream", "[bidi]") {
  Fixture f;
  Answerers threads(2);
  f.worker.stream.on_request = [&](const CompileSender& sender, const v1::CompileRequest& request) {
    threads.Add([sender, id = request.request_id()] { sender.Send(Answer(id)); });
  };
  std::mt19937_64 random(1);
  constexpr int kStreams = 200;
  for (int i = 0; i < kStreams; ++i) {
    grpc::ClientContext context;
    const auto stream = OneByOne(f.worker_stub->CompileStream(&context));
    std::thread writer([&] {
      for (int j = 0; j < 50 && stream->Write(Request(j)); ++j) {
      }
      stream->WritesDone();
    });
    v1::CompileReply reply;
    for (auto reads = random() % 50; reads > 0 && stream->Read(&reply); --reads) {
    }
    context.TryCancel();
    writer.join();
    while (stream->Read(&reply)) {
    }
    static_cast<void>(stream->Finish());
  }
  f.server->Shutdown(absl::ZeroDuration());
  CHECK(f.worker.stream.destroyed.count() <= kStreams);
}

TEST_CASE("A producer is asked for more once everything is written", "[write]") {
  Fixture f;
  uint64_t next = 0;
  f.orchestrator.watch.on_writable = [&](const EventSender& sender) {
    for (int i = 0; i < 10; ++i) {
      sender.Send(Sequenced(next++));
    }
    if (next == 10'000) {
      sender.FinishWith(absl::OkStatus());
    }
  };
  grpc::ClientContext context;
  const auto stream = f.orchestrator_stub->WatchSearch(&context, {});
  v1::SearchEvent event;
  uint64_t expected = 0;
  while (stream->Read(&event)) {
    REQUIRE(event.sequence() == expected++);
  }
  CHECK(stream->Finish().ok());
  CHECK(expected == 10'000);
  CHECK_FALSE(f.orchestrator.watch.overlapped);
}

TEST_CASE("A producer waits for a client that does not read", "[write]") {
  Fixture f;
  std::atomic<bool> reading = false;
  std::atomic<int> unread = 0;
  int produced = 0;
  f.orchestrator.watch.on_writable = [&](const EventSender& sender) {
    v1::SearchEvent event;
    event.set_search_id(std::string(256 << 10, 'x'));
    sender.Send(event);
    unread += reading ? 0 : 1;
    if (++produced == 200) {
      sender.FinishWith(absl::OkStatus());
    }
  };
  grpc::ClientContext context;
  const auto stream = f.orchestrator_stub->WatchSearch(&context, {});
  REQUIRE(f.orchestrator.watch.opened.Wait());
  reading = true;
  int got = 0;
  v1::SearchEvent event;
  while (stream->Read(&event)) {
    ++got;
  }
  CHECK(got == 200);
  CHECK(unread < 100);
}

TEST_CASE("Other threads may send and finish a stream", "[write]") {
  Fixture f;
  std::mutex mutex;
  std::optional<EventSender> last;
  Answerers threads(2);
  f.orchestrator.watch.on_open = [&](const EventSender& sender) {
    for (uint64_t i = 0; i < 1'000; ++i) {
      threads.Add([sender, i] { sender.Send(Sequenced(i)); });
    }
  };
  f.orchestrator.watch.on_writable = [&](const EventSender& sender) {
    const std::lock_guard lock(mutex);
    last = sender;
  };
  grpc::ClientContext context;
  const auto stream = f.orchestrator_stub->WatchSearch(&context, {});
  v1::SearchEvent event;
  for (int i = 0; i < 1'000; ++i) {
    REQUIRE(stream->Read(&event));
  }
  threads.Add([&] {
    while (true) {
      const std::lock_guard lock(mutex);
      if (last.has_value()) {
        last->Send(Sequenced(7'777));
        last->FinishWith(absl::NotFoundError("search forgotten"));
        return;
      }
    }
  });
  REQUIRE(stream->Read(&event));
  CHECK(event.sequence() == 7'777);
  CHECK_FALSE(stream->Read(&event));
  CHECK(FromGrpc(stream->Finish()) == absl::NotFoundError("search forgotten"));
  CHECK_FALSE(f.orchestrator.watch.overlapped);
}

TEST_CASE("A stream may be refused before it starts", "[write]") {
  Fixture f;
  f.orchestrator.watch.on_open = [](const EventSender& sender) {
    sender.FinishWith(absl::NotFoundError("no such search"));
  };
  std::atomic<int> asked = 0;
  f.orchestrator.watch.on_writable = [&](const EventSender&) { ++asked; };
  grpc::ClientContext context;
  const auto stream = f.orchestrator_stub->WatchSearch(&context, {});
  v1::SearchEvent event;
  CHECK_FALSE(stream->Read(&event));
  CHECK(FromGrpc(stream->Finish()) == absl::NotFoundError("no such search"));
  CHECK(asked == 0);
}

TEST_CASE("A client that leaves ends an endless stream", "[write]") {
  Fixture f;
  f.orchestrator.watch.on_writable = [](const EventSender& sender) { sender.Send(Sequenced(1)); };
  for (int i = 1; i <= 50; ++i) {
    grpc::ClientContext context;
    const auto stream = f.orchestrator_stub->WatchSearch(&context, {});
    v1::SearchEvent event;
    for (int j = 0; j < i; ++j) {
      REQUIRE(stream->Read(&event));
    }
    context.TryCancel();
    while (stream->Read(&event)) {
    }
    CHECK(stream->Finish().error_code() == grpc::StatusCode::CANCELLED);
    REQUIRE(f.orchestrator.watch.destroyed.Wait(i));
    CHECK(f.orchestrator.watch.cancelled.count() == i);
  }
}

TEST_CASE("A server shuts down under open calls and streams", "[server]") {
  Fixture f;
  f.worker.unary.on_call = [](const UnaryReply<v1::CompileReply>&) {};
  f.worker.stream.on_request = [](const CompileSender&, const v1::CompileRequest&) {};
  grpc::ClientContext bidi_context;
  const auto bidi = OneByOne(f.worker_stub->CompileStream(&bidi_context));
  REQUIRE(bidi->Write(Request(1)));
  grpc::ClientContext idle_context;
  const auto idle = OneByOne(f.worker_stub->CompileStream(&idle_context));
  grpc::ClientContext watch_context;
  const auto watch = f.orchestrator_stub->WatchSearch(&watch_context, {});
  grpc::Status unary_status;
  std::thread unary([&] {
    grpc::ClientContext context;
    v1::CompileReply reply;
    unary_status = f.worker_stub->Compile(&context, {}, &reply);
  });
  REQUIRE(f.worker.stream.requests.Wait());
  REQUIRE(f.worker.unary.calls.Wait());
  REQUIRE(f.orchestrator.watch.opened.Wait());

  f.server->Shutdown(absl::Milliseconds(10));

  unary.join();
  CHECK_FALSE(unary_status.ok());
  CHECK_FALSE(bidi->Finish().ok());
  CHECK_FALSE(idle->Finish().ok());
  CHECK_FALSE(watch->Finish().ok());
  CHECK(f.worker.stream.destroyed.Wait());
  CHECK(f.orchestrator.watch.destroyed.Wait());
}

TEST_CASE("A shutdown lets active calls finish within the grace period", "[server]") {
  Fixture f;
  std::mutex mutex;
  std::optional<UnaryReply<v1::CompileReply>> held;
  f.worker.unary.on_call = [&](const UnaryReply<v1::CompileReply>& reply) {
    const std::lock_guard lock(mutex);
    held = reply;
  };
  grpc::Status status;
  std::thread client([&] {
    grpc::ClientContext context;
    v1::CompileReply reply;
    status = f.worker_stub->Compile(&context, {}, &reply);
  });
  REQUIRE(f.worker.unary.calls.Wait());
  std::thread stopper([&] { f.server->Shutdown(absl::Minutes(1)); });
  {
    const std::lock_guard lock(mutex);
    held->Send(v1::CompileReply());
  }
  client.join();
  stopper.join();
  CHECK(status.ok());
}

}  // namespace kernelcast::reactor_test
