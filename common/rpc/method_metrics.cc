#include "common/rpc/method_metrics.h"

#include <google/protobuf/descriptor.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"

namespace kernelcast {
namespace {

constexpr char kHealthService[] = "grpc.health.v1.Health";

class MetricsInterceptor final : public grpc::experimental::Interceptor {
 public:
  explicit MetricsInterceptor(const MethodMetrics::Method& method)
      : method_(method), start_ns_(Clock::Real().MonotonicNs()) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            grpc::experimental::InterceptionHookPoints::PRE_SEND_STATUS)) {
      const auto elapsed_ns = static_cast<double>(Clock::Real().MonotonicNs() - start_ns_);
      method_.Record(methods->GetSendStatus().error_code(), elapsed_ns * 1e-9);
    }
    methods->Proceed();
  }

 private:
  const MethodMetrics::Method& method_;
  const int64_t start_ns_;
};

class MetricsInterceptorFactory final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit MetricsInterceptorFactory(const MethodMetrics* metrics) : metrics_(metrics) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    return new MetricsInterceptor(metrics_->Find(info->method()));
  }

 private:
  const MethodMetrics* const metrics_;
};

}  // namespace

MethodMetrics::MethodMetrics(MetricsRegistry* metrics)
    : metrics_(metrics), unknown_(MakeMethod("unknown", "unknown")) {}

MethodMetrics::Method MethodMetrics::MakeMethod(const std::string& service,
                                                const std::string& method) {
  Method made;
  for (int code = 0; code < kCodes; ++code) {
    made.handled[code] = &metrics_->Counter(
        "kernelcast_grpc_server_handled_total", "Calls handled by the server, by status.",
        {{"grpc_service", service},
         {"grpc_method", method},
         {"grpc_code", absl::StatusCodeToString(static_cast<absl::StatusCode>(code))}});
  }
  made.seconds = &metrics_->Histogram(
      "kernelcast_grpc_server_handling_seconds", "Time from a call's arrival to its status.",
      MetricsRegistry::DurationBounds(), {{"grpc_service", service}, {"grpc_method", method}});
  return made;
}

void MethodMetrics::AddMethod(const std::string& service, const std::string& method) {
  methods_.emplace(absl::StrCat("/", service, "/", method), MakeMethod(service, method));
}

void MethodMetrics::AddService(const std::string& service) {
  if (service == kHealthService) {  // implemented by gRPC without a descriptor
    AddMethod(service, "Check");
    AddMethod(service, "Watch");
    return;
  }
  const google::protobuf::ServiceDescriptor* const descriptor =
      google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(service);
  for (int i = 0; descriptor != nullptr && i < descriptor->method_count(); ++i) {
    AddMethod(service, descriptor->method(i)->name());
  }
}

const MethodMetrics::Method& MethodMetrics::Find(const std::string& path) const {
  const auto found = methods_.find(path);
  return found != methods_.end() ? found->second : unknown_;
}

void MethodMetrics::Method::Record(grpc::StatusCode code, double elapsed_seconds) const {
  const int index = code >= 0 && code < kCodes ? code : int{grpc::StatusCode::UNKNOWN};
  handled[index]->Increment();
  seconds->Observe(elapsed_seconds);
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
MethodMetrics::MakeInterceptorFactory() {
  return std::make_unique<MetricsInterceptorFactory>(this);
}

}  // namespace kernelcast
