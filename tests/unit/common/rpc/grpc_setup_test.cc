#include "common/rpc/grpc_setup.h"

#include <grpc/support/cpu.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "common/rpc/unary_reactor.h"
#include "kernelcast/v1/worker.grpc.pb.h"

namespace kernelcast {
namespace {

// Records the threads it is called on.
class Worker final : public v1::Worker::CallbackService {
 public:
  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const v1::WorkerDescribeRequest*,
                                     v1::WorkerDescription*) override {
    {
      const std::lock_guard lock(mutex_);
      threads_.insert(std::this_thread::get_id());
    }
    return FinishNow(context, absl::OkStatus());
  }
  size_t threads() const {
    const std::lock_guard lock(mutex_);
    return threads_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::thread::id> threads_;
};

TEST_CASE("Few threads run callbacks, and more where there are spare cores") {
  CHECK(ActiveCallbackThreads(1) == 1);
  CHECK(ActiveCallbackThreads(2) == 1);
  CHECK(ActiveCallbackThreads(4) == 2);
  CHECK(ActiveCallbackThreads(64) == 2);
}

TEST_CASE("No more threads than the limit run callbacks, whatever the number of calls") {
  Worker worker;
  auto server = RpcServer::Start(ServerOptions(), {&worker}, nullptr);
  REQUIRE(server.ok());
  auto channel = MakeChannel((*server)->address(), ChannelOptions());
  REQUIRE(channel.ok());
  auto stub = v1::Worker::NewStub(*channel);
  struct Call {
    grpc::ClientContext context;
    v1::WorkerDescribeRequest request;
    v1::WorkerDescription reply;
  };
  constexpr int kCalls = 500;
  std::vector<Call> calls(kCalls);
  std::atomic<int> left = kCalls;
  std::atomic<int> failed = 0;
  std::promise<void> ended;
  for (Call& call : calls) {
    stub->async()->Describe(&call.context, &call.request, &call.reply,
                            [&](const grpc::Status& status) {
                              if (!status.ok()) ++failed;
                              if (--left == 0) ended.set_value();
                            });
  }
  ended.get_future().wait();
  CHECK(failed == 0);
  CHECK(worker.threads() >= 1);
  CHECK(worker.threads() <= ActiveCallbackThreads(gpr_cpu_num_cores()));
}

}  // namespace
}  // namespace kernelcast
