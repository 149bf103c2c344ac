#ifndef KERNELCAST_COMMON_CONFIG_SERVICE_HOST_H_
#define KERNELCAST_COMMON_CONFIG_SERVICE_HOST_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/config/service_flags.h"
#include "common/metrics/metrics.h"
#include "common/otlp/process_tracing.h"
#include "common/rpc/server.h"

namespace kernelcast {

// Handles signals, metrics, tracing, the ready file and shutdown of a service. Create it before any
// thread starts, and destroy it after everything that it serves. Not thread-safe.
class ServiceHost {
 public:
  // `name` is the service in traces, such as "kernelcast-worker", and `instance` this process.
  // `flags` must outlive the result. Errors as ProcessTracing::Start.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ServiceHost>> Start(
      const ServiceFlags& flags, const std::string& name, const std::string& instance);
  ServiceHost(const ServiceHost&) = delete;
  ServiceHost& operator=(const ServiceHost&) = delete;

  MetricsRegistry& metrics() { return metrics_; }
  TerminationSignal& termination() { return termination_; }

  // Serves metrics, writes the ready file and logs "serving" with `fields`. Call it when the
  // service accepts requests at these addresses. Adds the address of metrics. Errors as
  // MetricsRegistry::Serve and WriteReadyFile.
  [[nodiscard]] absl::Status AnnounceReady(ServedAddresses served,
                                           std::vector<LogField> fields = {});

  // Waits for a termination signal.
  void Wait();

  // Shuts down a gRPC server: refuses new calls, and gives those in flight this time to finish.
  template <class Service>
  void Drain(RpcServer& server, Service& service, absl::Duration grace) {
    server.BeginDrain();
    service.BeginDrain();
    server.Shutdown(grace);
  }
  absl::Duration grace() const { return absl::Seconds(flags_.drain_seconds); }

  // Serves gRPC until a termination signal, then drains.
  template <class Service>
  [[nodiscard]] absl::Status Serve(Service& service, std::vector<LogField> fields) {
    KC_ASSIGN_OR_RETURN(const auto server, RpcServer::Start(flags_.server, {&service}, &metrics_));
    KC_RETURN_IF_ERROR(AnnounceReady(
        {.grpc = server->address(), .health = server->health_address()}, std::move(fields)));
    Wait();
    Drain(*server, service, grace());
    return absl::OkStatus();
  }

 private:
  explicit ServiceHost(const ServiceFlags& flags);

  const ServiceFlags& flags_;
  TerminationSignal termination_;
  MetricsRegistry& metrics_;
  std::unique_ptr<ProcessTracing> tracing_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_CONFIG_SERVICE_HOST_H_
