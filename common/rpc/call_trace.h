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

// W3C Trace Context in gRPC metadata, and spans of calls after OpenTelemetry's conventions.

// Makes a span of every call that is served and sampled, but for health, reflection and Describe,
// which are asked all the time. For servers of a process that traces; IncomingTrace then tells the
// span's context.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
MakeTraceInterceptorFactory();

// Where a call belongs that is being served; not valid: nowhere.
TraceContext IncomingTrace(const grpc::ServerContextBase& context);

// Sends the trace along with a call. Before it starts; nothing where the context is not valid.
void PassTrace(const TraceContext& trace, grpc::ClientContext& context);

// Passes one trace with every call of a channel.
std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface> MakeTraceSender(
    TraceContext trace);

// The span of a call to another service; `method` as "kernelcast.v1.Worker/Compile".
Span StartCallSpan(std::string_view method, std::string_view address, const TraceContext& parent);
void EndCallSpan(Span& span, const absl::Status& status);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_CALL_TRACE_H_
