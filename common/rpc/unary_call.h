#ifndef KERNELCAST_COMMON_RPC_UNARY_CALL_H_
#define KERNELCAST_COMMON_RPC_UNARY_CALL_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/trace_context.h"
#include "common/rpc/call_trace.h"
#include "common/rpc/status_conversion.h"

namespace kernelcast {

struct UnaryCallOptions {
  absl::Duration timeout = absl::InfiniteDuration();
  // A stop request ends the call with CANCELLED.
  std::stop_token stop = {};
  // If not empty, the call has a span of this name, such as "kernelcast.v1.Worker/Measure", and
  // passes the trace on.
  std::string span = {};
  std::string address = {};
  TraceContext trace = {};
};

// Starts a unary call of `method`, a function of a stub's async interface. Calls `done` once, from
// a gRPC thread, with the reply, which it may move from.
template <class Async, class Request, class Reply>
void StartUnaryCall(std::type_identity_t<Async>* stub,
                    void (Async::*method)(grpc::ClientContext*, const Request*, Reply*,
                                          std::function<void(grpc::Status)>),
                    std::type_identity_t<Request> request, const UnaryCallOptions& options,
                    std::function<void(const absl::Status&, std::type_identity_t<Reply>&)> done) {
  struct Call {
    grpc::ClientContext context;
    Request request;
    Reply reply;
    Span span;
    std::function<void(const absl::Status&, Reply&)> done;
    std::optional<std::stop_callback<std::function<void()>>> on_stop;
  };
  auto call = std::make_shared<Call>();  // shared with gRPC's callback, which must be copyable
  SetTimeout(call->context, options.timeout);
  call->request = std::move(request);
  call->done = std::move(done);
  if (!options.span.empty()) {
    call->span = StartCallSpan(options.span, options.address, options.trace);
    PassTrace(call->span.context(), call->context);
  }
  // Cancelling a call before it starts cancels it when it does.
  call->on_stop.emplace(options.stop, [context = &call->context] { context->TryCancel(); });
  (stub->*method)(&call->context, &call->request, &call->reply, [call](const grpc::Status& ended) {
    call->on_stop.reset();
    const absl::Status status = FromGrpc(ended, call->context);
    EndCallSpan(call->span, status);
    call->done(status, call->reply);
  });
}

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_UNARY_CALL_H_
