#ifndef KERNELCAST_COMMON_RPC_METHOD_METRICS_H_
#define KERNELCAST_COMMON_RPC_METHOD_METRICS_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/server_interceptor.h>

#include <array>
#include <memory>
#include <string>
#include <unordered_map>

#include "common/metrics/metrics.h"

namespace kernelcast {

// Counts and times the calls that a server handles:
//
//   kernelcast_grpc_server_handled_total{grpc_service, grpc_method, grpc_code}
//   kernelcast_grpc_server_handling_seconds{grpc_service, grpc_method}
//
// Labels are bounded: methods that the server does not have count as method "unknown" of service
// "unknown".
class MethodMetrics {
 public:
  explicit MethodMetrics(MetricsRegistry* metrics);

  // Creates the instruments of one service's methods. Call before the server accepts calls.
  // `service` is a full name such as "kernelcast.v1.Worker". Services without a linked-in
  // descriptor count as unknown.
  void AddService(const std::string& service);

  // For a server's builder. Refers to this object.
  std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeInterceptorFactory();

  static constexpr int kCodes = grpc::StatusCode::UNAUTHENTICATED + 1;
  struct Method {
    std::array<prometheus::Counter*, kCodes> handled{};
    prometheus::Histogram* seconds = nullptr;

    void Record(grpc::StatusCode code, double elapsed_seconds) const;
  };

  // `path` has the form "/kernelcast.v1.Worker/Compile".
  const Method& Find(const std::string& path) const;

 private:
  Method MakeMethod(const std::string& service, const std::string& method);
  void AddMethod(const std::string& service, const std::string& method);

  MetricsRegistry* const metrics_;
  // Constant once the server accepts calls. Keys are paths: "/package.Service/Method".
  std::unordered_map<std::string, Method> methods_;
  Method unknown_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_METHOD_METRICS_H_
