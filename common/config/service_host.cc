#include "common/config/service_host.h"

#include <utility>

namespace kernelcast {

ServiceHost::ServiceHost(const ServiceFlags& flags) : flags_(flags), metrics_(ProcessMetrics()) {}

absl::StatusOr<std::unique_ptr<ServiceHost>> ServiceHost::Start(const ServiceFlags& flags,
                                                                const std::string& name,
                                                                const std::string& instance) {
  std::unique_ptr<ServiceHost> host(new ServiceHost(flags));
  KC_ASSIGN_OR_RETURN(host->tracing_,
                      ProcessTracing::Start(flags.tracing, name, instance, &host->metrics_));
  return host;
}

absl::Status ServiceHost::AnnounceReady(ServedAddresses served, std::vector<LogField> fields) {
  if (!flags_.metrics_address.empty()) {
    KC_RETURN_IF_ERROR(metrics_.Serve(flags_.metrics_address));
  }
  served.metrics_port = metrics_.port();
  KC_RETURN_IF_ERROR(WriteReadyFile(flags_, served));
  fields.insert(fields.begin(), {{"address", served.http.empty() ? served.grpc : served.http},
                                 {"metrics_port", served.metrics_port}});
  Log(LogLevel::kInfo, "serving", fields);
  return absl::OkStatus();
}

void ServiceHost::Wait() {
  const int signal_number = termination_.Wait();
  Log(LogLevel::kInfo, "draining", {{"signal", signal_number}});
}

}  // namespace kernelcast
