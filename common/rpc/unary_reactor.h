#ifndef KERNELCAST_COMMON_RPC_UNARY_REACTOR_H_
#define KERNELCAST_COMMON_RPC_UNARY_REACTOR_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/rpc/status_conversion.h"

namespace kernelcast {

// Ends a unary call from within its handler, e.g. for an invalid request.
inline grpc::ServerUnaryReactor* FinishNow(grpc::CallbackServerContext* context,
                                           const absl::Status& status) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(FinishStatus(context, status));
  return reactor;
}

template <class Response>
class AsyncUnary;

// Handle for answering one unary call. A copyable value that may be used on any thread and may
// outlive the call. The first answer wins. Answers have no effect once the client is gone.
template <class Response>
class UnaryReply {
 public:
  // Each returns whether this was the first answer.
  bool Send(Response response) const {
    return Answer([&](AsyncUnary<Response>& call) {
      *call.response_ = std::move(response);
      call.Finish(grpc::Status::OK);
    });
  }
  // `status` must not be OK.
  bool Fail(const absl::Status& status) const {
    return Answer(
        [&](AsyncUnary<Response>& call) { call.Finish(FinishStatus(call.context_, status)); });
  }
  bool Finish(absl::StatusOr<Response> result) const {
    return result.ok() ? Send(*std::move(result)) : Fail(result.status());
  }
  // False once the call is answered or its client is gone; further work is then useless.
  bool open() const { return !state_->answered; }

 private:
  friend class AsyncUnary<Response>;

  struct State {
    explicit State(AsyncUnary<Response>* c) : call(c) {}
    std::atomic<bool> answered = false;
    // Valid until `answered`, because gRPC calls OnDone only after Finish.
    AsyncUnary<Response>* const call;
  };

  explicit UnaryReply(AsyncUnary<Response>* call) : state_(std::make_shared<State>(call)) {}

  template <class F>
  bool Answer(const F& answer) const {
    if (state_->answered.exchange(true)) {
      return false;
    }
    answer(*state_->call);
    return true;
  }

  // Shared, because the call and the work on it end in any order.
  std::shared_ptr<State> state_;
};

// A unary call that is answered later:
//
//   grpc::ServerUnaryReactor* Compile(ctx, request, response) override {
//     auto* call = new AsyncUnary<v1::CompileReply>(ctx, response);
//     const int64_t job = pool_.Submit(Convert(*request), [reply = call->reply()](auto result) {
//       reply.Finish(std::move(result));
//     });
//     call->set_on_cancel([this, job] { pool_.Cancel(job); });
//     return call;
//   }
//
// Ends by itself when the client leaves or its deadline passes. The request lives as long as the
// call; work that may continue after the call needs a copy. Deletes itself.
template <class Response>
class AsyncUnary : public grpc::ServerUnaryReactor {
 public:
  AsyncUnary(grpc::CallbackServerContext* context, Response* response)
      : context_(context), response_(response), reply_(this) {}

  UnaryReply<Response> reply() const { return reply_; }

  // Set before the handler returns. Called at most once, if the client leaves or its deadline
  // passes before the call is answered. Must not block.
  void set_on_cancel(std::function<void()> on_cancel) { on_cancel_ = std::move(on_cancel); }

 protected:
  ~AsyncUnary() override = default;

 private:
  friend class UnaryReply<Response>;

  void OnCancel() final {
    if (!reply_.open()) {
      return;
    }
    if (on_cancel_) {
      on_cancel_();
    }
    reply_.Fail(CancellationStatus(*context_));
  }
  void OnDone() final { delete this; }

  grpc::CallbackServerContext* const context_;
  Response* const response_;  // written only by the first answer
  const UnaryReply<Response> reply_;
  std::function<void()> on_cancel_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_UNARY_REACTOR_H_
