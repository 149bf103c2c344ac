#ifndef KERNELCAST_COMMON_LLM_CURL_TRANSPORT_H_
#define KERNELCAST_COMMON_LLM_CURL_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/llm/endpoint_config.h"
#include "common/llm/transport.h"

namespace kernelcast::llm {

// Exchanges over libcurl's multi_socket interface on one epoll instance. HTTP/2 over TLS if the
// endpoint supports it, otherwise HTTP/1.1; plaintext connections are never upgraded. Idle
// connections are closed after 4 s, before the usual servers close them. Wake is thread-safe; all
// other methods are used from one thread.
class CurlTransport final : public Transport {
 public:
  // The configuration must be valid. `config` and `clock` must outlive the transport. UNAVAILABLE:
  // out of descriptors or memory.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CurlTransport>> Create(
      const LlmConfig& config, const Clock& clock);
  // Closes everything. Sinks get no further calls.
  ~CurlTransport() override;

  TransferId Start(int endpoint, std::string body, TransferSink* sink) override;
  void Cancel(TransferId transfer) override;
  void Drain(TransferId transfer) override;

  // Waits for the network until `wake_ns` (Clock::MonotonicNs) or Wake, and calls the sinks.
  void Poll(int64_t wake_ns);
  void Wake();

 private:
  struct Impl;
  explicit CurlTransport(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

// Call before the first use of libcurl. Thread-safe. UNAVAILABLE: libcurl failed to initialise.
[[nodiscard]] absl::Status InitializeCurl();

// Sets the options on `curl_easy`, a CURL*, that every exchange with the endpoint needs, except
// URL, headers and callbacks.
void ConfigureCurlHandle(void* curl_easy, const EndpointConfig& endpoint,
                         int64_t connect_timeout_ns);

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_CURL_TRANSPORT_H_
