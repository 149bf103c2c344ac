#ifndef KERNELCAST_COMMON_RPC_CALL_TRACE_H_
#define KERNELCAST_COMMON_RPC_CALL_TRACE_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/client_interceptor.h>
#include <grpcpp/support/server_interceptor.h>

#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "common/base/trace_context.h"
#include "common/tracing/tracer.h"

namespace kernelcast {

// W3C Trace Context in gRPC metadata, and call spans following OpenTelemetry's conventions.

// Creates a span for every sampled call that a server handles, except health, reflection and
// Describe, which are called all the time. For servers of a process with tracing. IncomingTrace
// then returns the span's context.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
MakeTraceInterceptorFactory();

// The trace context of a call being served. Invalid if there is none.
TraceContext IncomingTrace(const grpc::ServerContextBase& context);

// Sends the trace context with a call. Call before it starts. Does nothing if the context is
// invalid.
void PassTrace(const TraceContext& trace, grpc::ClientContext& context);

// Sends the same trace context with every call of a channel.
std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface> MakeTraceSender(
    TraceContext trace);

// Starts the span of a call to another service. `method` has the form
// "kernelcast.v1.Worker/Compile".
Span StartCallSpan(std::string_view method, std::string_view address, const TraceContext& parent);
void EndCallSpan(Span& span, const absl::Status& status);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_CALL_TRACE_H_
