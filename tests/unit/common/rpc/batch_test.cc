// Tests BatchCaller and BatchStream over a real connection.

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/convert/batch_protocols.h"
#include "common/rpc/batch_caller.h"
#include "common/rpc/batch_stream.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "kernelcast/v1/worker.grpc.pb.h"
#include "tests/unit/common/rpc/event.h"

namespace kernelcast::batch_test {
namespace {

using Caller = BatchCaller<CompileBatches>;
using Sender = BatchSender<CompileBatches>;

constexpr auto kLimit = std::chrono::seconds(20);
constexpr absl::Duration kTimeout = absl::Seconds(20);

struct Plan {
  std::function<void(const Sender&, const v1::CompileRequest&)> on_request;
  std::atomic<int> messages = 0;
  std::atomic<int> requests = 0;
  std::atomic<int64_t> time_left_ns = 0;
  Event opened;
  Event cancelled;
  Event destroyed;
};

v1::CompileReply Answer(const v1::CompileRequest& request) {
  v1::CompileReply reply;
  reply.set_request_id(request.request_id());
  reply.mutable_success()->set_log(request.problem_id());
  return reply;
}

class PlannedStream final : public BatchStream<CompileBatches> {
 public:
  PlannedStream(grpc::CallbackServerContext* context, Plan& plan, size_t max_in_flight)
      : BatchStream(context, max_in_flight), plan_(plan) {
    plan_.opened.Notify();
  }

 private:
  ~PlannedStream() override { plan_.destroyed.Notify(); }
  void OnRequests(const v1::CompileStreamRequest& message) override {
    ++plan_.messages;
    plan_.time_left_ns = absl::ToInt64Nanoseconds(CompileBatches::TimeLeft(message));
    for (const v1::CompileRequest& request : message.requests()) {
      ++plan_.requests;
      plan_.on_request(sender(), request);
    }
  }
  void OnCancelled() override { plan_.cancelled.Notify(); }

  Plan& plan_;
};

class TestWorker final : public v1::Worker::CallbackService {
 public:
  Plan plan;
  size_t max_in_flight = 1024;
  grpc::ServerBidiReactor<v1::CompileStreamRequest, v1::CompileStreamReply>* CompileStream(
      grpc::CallbackServerContext* context) override {
    return new PlannedStream(context, plan, max_in_flight);
  }
};

Caller::Open OpenOn(v1::Worker::Stub& stub) {
  return [&stub](grpc::ClientContext* context, auto* reactor) {
    stub.async()->CompileStream(context, reactor);
  };
}

std::unique_ptr<v1::Worker::Stub> StubOf(const RpcServer& server) {
  return v1::Worker::NewStub(MakeChannel(server.address(), ChannelOptions()).value());
}

struct Fixture {
  Fixture() {
    worker.plan.on_request = [](const Sender& sender, const v1::CompileRequest& request) {
      sender.Send(Answer(request));
    };
    server = RpcServer::Start(ServerOptions(), {&worker}, nullptr).value();
    stub = StubOf(*server);
    caller = std::make_unique<Caller>(OpenOn(*stub));
  }
  ~Fixture() {
    if (caller != nullptr) caller->Stop();
  }

  TestWorker worker;
  std::unique_ptr<RpcServer> server;
  std::unique_ptr<v1::Worker::Stub> stub;
  std::unique_ptr<Caller> caller;
};

// The results of calls, by their request.
class Ends {
 public:
  Caller::Done For(const std::string& asked) {
    return [this, asked](const absl::Status& status, v1::CompileReply* reply) {
      const std::lock_guard lock(mutex_);
      statuses_[asked].push_back(status);
      if (reply != nullptr && reply->success().log() != asked) ++mistaken_;
      ++count_;
      changed_.notify_all();
    };
  }
  bool Wait(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLimit, [&] { return count_ >= count; });
  }
  int mistaken() {
    const std::lock_guard lock(mutex_);
    return mistaken_;
  }
  // How often a call ended, and with what result.
  size_t TimesOf(const std::string& asked) {
    const std::lock_guard lock(mutex_);
    return statuses_[asked].size();
  }
  absl::StatusCode CodeOf(const std::string& asked) {
    const std::lock_guard lock(mutex_);
    return statuses_[asked].at(0).code();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::vector<absl::Status>> statuses_;
  int mistaken_ = 0;
  int count_ = 0;
};

v1::CompileRequest Ask(const std::string& what) {
  v1::CompileRequest request;
  request.set_problem_id(what);
  return request;
}

TEST_CASE("Thousands of calls from several threads each get their own answer in few messages") {
  Fixture f;
  Ends ends;
  constexpr int kThreads = 4;
  constexpr int kCalls = 2000;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kCalls; ++i) {
        const std::string asked = absl::StrCat(thread, "-", i);
        f.caller->Call(Ask(asked), kTimeout, ends.For(asked));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  REQUIRE(ends.Wait(kThreads * kCalls));
  CHECK(ends.mistaken() == 0);
  for (int thread = 0; thread < kThreads; ++thread) {
    for (int i = 0; i < kCalls; ++i) {
      const std::string asked = absl::StrCat(thread, "-", i);
      REQUIRE(ends.TimesOf(asked) == 1);
      REQUIRE(ends.CodeOf(asked) == absl::StatusCode::kOk);
    }
  }
  CHECK(f.worker.plan.requests == kThreads * kCalls);
  CHECK(f.worker.plan.messages < kThreads * kCalls / 2);
  CHECK(f.worker.plan.time_left_ns == absl::ToInt64Nanoseconds(kTimeout));
}

TEST_CASE("Answers arrive in any order and a slow one delays no other") {
  Fixture f;
  Ends ends;
  std::mutex mutex;
  std::vector<std::function<void()>> held;
  f.worker.plan.on_request = [&](const Sender& sender, const v1::CompileRequest& request) {
    if (request.problem_id() != "slow") return sender.Send(Answer(request));
    const std::lock_guard lock(mutex);
    held.emplace_back([sender, request] { sender.Send(Answer(request)); });
  };
  f.caller->Call(Ask("slow"), kTimeout, ends.For("slow"));
  for (int i = 0; i < 100; ++i) {
    f.caller->Call(Ask(absl::StrCat(i)), kTimeout, ends.For(absl::StrCat(i)));
  }
  REQUIRE(ends.Wait(100));
  CHECK(ends.TimesOf("slow") == 0);
  {
    const std::lock_guard lock(mutex);
    REQUIRE(held.size() == 1);
    held[0]();
  }
  REQUIRE(ends.Wait(101));
  CHECK(ends.CodeOf("slow") == absl::StatusCode::kOk);
}

TEST_CASE("Unanswered calls end at the deadline and the stream continues") {
  Fixture f;
  Ends ends;
  f.worker.plan.on_request = [](const Sender& sender, const v1::CompileRequest& request) {
    if (request.problem_id() != "lost") sender.Send(Answer(request));
  };
  f.caller->Call(Ask("lost"), absl::Milliseconds(10), ends.For("lost"));
  REQUIRE(ends.Wait(1));
  CHECK(ends.CodeOf("lost") == absl::StatusCode::kDeadlineExceeded);
  f.caller->Call(Ask("next"), kTimeout, ends.For("next"));
  REQUIRE(ends.Wait(2));
  CHECK(ends.CodeOf("next") == absl::StatusCode::kOk);
}

TEST_CASE("Destroying the caller cancels pending calls and waits for them") {
  Fixture f;
  Ends ends;
  f.worker.plan.on_request = [](const Sender&, const v1::CompileRequest&) {};
  f.caller->Call(Ask("a"), kTimeout, ends.For("a"));
  REQUIRE(f.worker.plan.opened.Wait());
  f.caller->Stop();
  REQUIRE(ends.TimesOf("a") == 1);
  CHECK(ends.CodeOf("a") == absl::StatusCode::kCancelled);
  CHECK(f.worker.plan.destroyed.Wait());
  f.caller->Call(Ask("late"), kTimeout, ends.For("late"));
  CHECK(ends.CodeOf("late") == absl::StatusCode::kCancelled);
}

TEST_CASE("A callback may destroy the caller") {
  Fixture f;
  Ends ends;
  Event destroyed;
  const Caller::Done tell = ends.For("a");
  f.caller->Call(Ask("a"), kTimeout, [&](const absl::Status& status, v1::CompileReply* end) {
    f.caller.reset();
    destroyed.Notify();
    tell(status, end);
  });
  CHECK(destroyed.Wait());
  REQUIRE(ends.Wait(1));
  CHECK(ends.CodeOf("a") == absl::StatusCode::kOk);
  CHECK(f.worker.plan.destroyed.Wait());
}

TEST_CASE("Cancelled calls end immediately and later calls proceed") {
  Fixture f;
  Ends ends;
  Event asked;
  f.worker.plan.on_request = [&](const Sender& sender, const v1::CompileRequest& request) {
    if (request.problem_id() != "silent") return sender.Send(Answer(request));
    asked.Notify();
  };
  f.caller->Call(Ask("silent"), kTimeout, ends.For("silent"));
  REQUIRE(asked.Wait());
  f.caller->CancelAll();
  REQUIRE(ends.Wait(1));
  CHECK(ends.CodeOf("silent") == absl::StatusCode::kCancelled);
  f.caller->Call(Ask("next"), kTimeout, ends.For("next"));
  REQUIRE(ends.Wait(2));
  CHECK(ends.CodeOf("next") == absl::StatusCode::kOk);
}

TEST_CASE("A lost server ends pending calls and is reconnected") {
  Fixture f;
  Ends ends;
  Event asked;
  f.worker.plan.on_request = [&](const Sender&, const v1::CompileRequest&) { asked.Notify(); };
  f.caller->Call(Ask("a"), kTimeout, ends.For("a"));
  REQUIRE(asked.Wait());
  const std::string address = f.server->address();
  f.server->Shutdown(absl::ZeroDuration());
  REQUIRE(ends.Wait(1));
  CHECK(ends.CodeOf("a") != absl::StatusCode::kOk);
  f.server.reset();

  TestWorker again;
  again.plan.on_request = [](const Sender& sender, const v1::CompileRequest& request) {
    sender.Send(Answer(request));
  };
  ServerOptions options;
  options.listen_address = address;
  const auto server = RpcServer::Start(options, {&again}, nullptr).value();
  // The first calls may still use the lost connection.
  const auto limit = std::chrono::steady_clock::now() + kLimit;
  std::string call;
  int calls = 0;
  do {
    call = absl::StrCat("again ", calls++);
    f.caller->Call(Ask(call), kTimeout, ends.For(call));
    REQUIRE(ends.Wait(1 + calls));
  } while (ends.CodeOf(call) != absl::StatusCode::kOk && std::chrono::steady_clock::now() < limit);
  CHECK(ends.CodeOf(call) == absl::StatusCode::kOk);
  f.caller->Stop();
}

TEST_CASE("Unused streams and renewed streams end") {
  Fixture f;
  Ends ends;
  f.caller->Call(Ask("a"), kTimeout, ends.For("a"));
  REQUIRE(ends.Wait(1));
  SECTION("an unused stream does not delay a draining server") {
    CHECK(f.worker.plan.destroyed.Wait());
  }
  SECTION("a renewed stream") {
    f.caller->Renew();
    CHECK(f.worker.plan.destroyed.Wait());
    f.caller->Call(Ask("b"), kTimeout, ends.For("b"));
    REQUIRE(ends.Wait(2));
    CHECK(ends.CodeOf("b") == absl::StatusCode::kOk);
  }
}

TEST_CASE("A full server stops reading until it has answered") {
  Fixture f;
  f.worker.max_in_flight = 4;
  Ends ends;
  std::mutex mutex;
  std::vector<std::function<void()>> held;
  std::atomic<int> most = 0;
  f.worker.plan.on_request = [&](const Sender& sender, const v1::CompileRequest& request) {
    const std::lock_guard lock(mutex);
    held.emplace_back([sender, request] { sender.Send(Answer(request)); });
    most = std::max(most.load(), static_cast<int>(held.size()));
  };
  constexpr int kCalls = 1000;
  std::atomic<bool> done = false;
  std::thread answering([&] {
    while (!done) {
      std::vector<std::function<void()>> now;
      {
        const std::lock_guard lock(mutex);
        now.swap(held);
      }
      for (const auto& answer : now) answer();
      std::this_thread::yield();
    }
  });
  for (int i = 0; i < kCalls; ++i) {
    f.caller->Call(Ask(absl::StrCat(i)), kTimeout, ends.For(absl::StrCat(i)));
  }
  const bool all = ends.Wait(kCalls);
  done = true;
  answering.join();
  REQUIRE(all);
  CHECK(ends.mistaken() == 0);
  // A message is read as a whole.
  CHECK(most < 4 + static_cast<int>(rpc_internal::kBatchEntries));
}

}  // namespace
}  // namespace kernelcast::batch_test
