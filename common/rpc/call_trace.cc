#include "common/rpc/call_trace.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/base/host_and_port.h"

namespace kernelcast {
namespace {

using Metadata = std::multimap<grpc::string_ref, grpc::string_ref>;

constexpr char kTraceparent[] = "traceparent";
constexpr char kTracestate[] = "tracestate";
// Metadata key by which the interceptor passes the span's context to the handler. Never sent;
// values from clients are removed.
constexpr char kServerSpan[] = "kernelcast-server-span";

std::string_view View(const grpc::string_ref& text) { return {text.data(), text.size()}; }

std::optional<TraceContext> Read(const Metadata& metadata, const char* traceparent) {
  const auto parent = metadata.find(traceparent);
  if (parent == metadata.end()) return std::nullopt;
  // A list may be split over several headers.
  std::string state;
  const auto [first, last] = metadata.equal_range(kTracestate);
  for (auto entry = first; entry != last; ++entry) {
    if (!state.empty()) state += ',';
    state += View(entry->second);
  }
  return ParseTraceparent(View(parent->second), state);
}

struct Names {
  std::string_view service;
  std::string_view method;
};

// Splits "kernelcast.v1.Worker/Compile".
Names Split(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? Names{path, ""}
                            : Names{path.substr(0, slash), path.substr(slash + 1)};
}

void SetNames(Span& span, const Names& names) {
  if (!span.recording()) return;
  span.Set("rpc.system", "grpc");
  span.Set("rpc.service", std::string(names.service));
  span.Set("rpc.method", std::string(names.method));
}

class TraceInterceptor final : public grpc::experimental::Interceptor {
 public:
  explicit TraceInterceptor(std::string_view path) : path_(path) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using Point = grpc::experimental::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(Point::POST_RECV_INITIAL_METADATA)) {
      Begin(*methods->GetRecvInitialMetadata());
    }
    if (span_.recording() && methods->QueryInterceptionHookPoint(Point::PRE_SEND_STATUS)) {
      const grpc::Status status = methods->GetSendStatus();
      span_.Set("rpc.grpc.status_code", int64_t{status.error_code()});
      if (IsServersFault(status.error_code())) span_.Fail(status.error_message());
      span_.End();
    }
    methods->Proceed();
  }

 private:
  // OpenTelemetry's convention for servers: errors caused by the client are not failures.
  static bool IsServersFault(grpc::StatusCode code) {
    switch (code) {
      case grpc::StatusCode::UNKNOWN:
      case grpc::StatusCode::DEADLINE_EXCEEDED:
      case grpc::StatusCode::UNIMPLEMENTED:
      case grpc::StatusCode::INTERNAL:
      case grpc::StatusCode::UNAVAILABLE:
      case grpc::StatusCode::DATA_LOSS: return true;
      default: return false;
    }
  }

  void Begin(Metadata& metadata) {
    metadata.erase(kServerSpan);
    const std::optional<TraceContext> parent = Read(metadata, kTraceparent);
    span_ = StartSpan(path_, SpanKind::kServer, parent ? &*parent : nullptr, /*may_begin=*/true);
    SetNames(span_, Split(path_));
    traceparent_ = FormatTraceparent(span_.context());
    metadata.emplace(kServerSpan, traceparent_);
  }

  // Without the leading slash. Owned by gRPC, valid for the call's lifetime.
  const std::string_view path_;
  Span span_;
  std::string traceparent_;
};

class TraceInterceptorFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    std::string_view path = info->method();
    if (path.starts_with('/')) path.remove_prefix(1);
    if (!path.starts_with("kernelcast.") || path.ends_with("/Describe")) return nullptr;
    return new TraceInterceptor(path);
  }
};

class Sender final : public grpc::experimental::Interceptor {
 public:
  explicit Sender(const TraceContext& trace)
      : traceparent_(FormatTraceparent(trace)), tracestate_(trace.state) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            grpc::experimental::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      auto* const metadata = methods->GetSendInitialMetadata();
      metadata->insert({kTraceparent, traceparent_});
      if (!tracestate_.empty()) metadata->insert({kTracestate, tracestate_});
    }
    methods->Proceed();
  }

 private:
  const std::string traceparent_;
  const std::string tracestate_;
};

class SenderFactory final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit SenderFactory(TraceContext trace) : trace_(std::move(trace)) {}
  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo*) override {
    return new Sender(trace_);
  }

 private:
  const TraceContext trace_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface> MakeTraceSender(
    TraceContext trace) {
  return std::make_unique<SenderFactory>(std::move(trace));
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
MakeTraceInterceptorFactory() {
  return std::make_unique<TraceInterceptorFactory>();
}

TraceContext IncomingTrace(const grpc::ServerContextBase& context) {
  const Metadata& metadata = context.client_metadata();
  // Only if this process traces has the interceptor removed client values of this key.
  std::optional<TraceContext> trace;
  if (ActiveTracer() != nullptr) trace = Read(metadata, kServerSpan);
  if (!trace) trace = Read(metadata, kTraceparent);
  return trace.value_or(TraceContext());
}

void PassTrace(const TraceContext& trace, grpc::ClientContext& context) {
  if (!trace.valid()) return;
  context.AddMetadata(kTraceparent, FormatTraceparent(trace));
  if (!trace.state.empty()) context.AddMetadata(kTracestate, trace.state);
}

Span StartCallSpan(std::string_view method, std::string_view address, const TraceContext& parent) {
  Span span = StartSpan(method, SpanKind::kClient, &parent);
  SetNames(span, Split(method));
  if (span.recording()) {
    if (const auto split = SplitHostAndPort(address); split.has_value()) {
      span.Set("server.address", split->host);
      span.Set("server.port", int64_t{split->port});
    } else {
      span.Set("server.address", std::string(address));
    }
  }
  return span;
}

void EndCallSpan(Span& span, const absl::Status& status) {
  if (!span.recording()) return;
  span.Set("rpc.grpc.status_code", static_cast<int64_t>(status.code()));
  if (!status.ok()) {
    span.Fail(std::string_view(status.message().data(), status.message().size()));
  }
  span.End();
}

}  // namespace kernelcast
