#ifndef KERNELCAST_TESTS_INTEGRATION_COMMON_LLM_TLS_FRONT_H_
#define KERNELCAST_TESTS_INTEGRATION_COMMON_LLM_TLS_FRONT_H_

#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/process/child_process.h"

namespace kernelcast::testing {

// HTTP/2 and HTTP/1.1 over TLS in front of a plain server. Runs nghttpx with a newly created
// authority and a certificate for "localhost".
class TlsFront {
 public:
  // NOT_FOUND: nghttpx or openssl is not installed. UNAVAILABLE: it does not serve.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TlsFront>> Start(int backend_port);
  ~TlsFront();

  std::string url() const;
  std::string ca_file() const { return (folder_ / "ca.pem").string(); }
  // One line per request: "POST /v1/chat/completions HTTP/2 from PORT".
  std::string AccessLog() const;

 private:
  TlsFront() = default;
  absl::Status MakeCertificates();
  absl::Status Serve(int backend_port);

  std::filesystem::path folder_;
  int reserve_fd_ = -1;
  int port_ = 0;
  std::unique_ptr<ChildProcess> child_;
};

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_INTEGRATION_COMMON_LLM_TLS_FRONT_H_
