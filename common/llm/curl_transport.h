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

// Exchanges over libcurl's multi_socket interface on one epoll instance. HTTP/2 over TLS where the
// endpoint offers it, else HTTP/1.1; never an upgrade of plain text. Connections are kept for 4 s
// at most when idle, which is less than the usual servers do. Wake is thread-safe; everything else
// is used from one thread.
class CurlTransport final : public Transport {
 public:
  // The configuration has been validated; config and clock are borrowed. UNAVAILABLE: no
  // descriptors or memory.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CurlTransport>> Create(
      const LlmConfig& config, const Clock& clock);
  // Closes everything; sinks are told nothing.
  ~CurlTransport() override;

  TransferId Start(int endpoint, std::string body, TransferSink* sink) override;
  void Cancel(TransferId transfer) override;
  void Drain(TransferId transfer) override;

  // Waits for the network until `wake_ns` (Clock::MonotonicNs) or Wake, and tells the sinks.
  void Poll(int64_t wake_ns);
  void Wake();

 private:
  struct Impl;
  explicit CurlTransport(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

// Before the first use of libcurl; thread-safe. UNAVAILABLE: it does not start.
[[nodiscard]] absl::Status InitializeCurl();

// Sets on `curl_easy`, a CURL*, what every exchange with the endpoint needs, but URL, headers and
// callbacks.
void ConfigureCurlHandle(void* curl_easy, const EndpointConfig& endpoint,
                         int64_t connect_timeout_ns);

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_CURL_TRANSPORT_H_
