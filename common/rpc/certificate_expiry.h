#ifndef KERNELCAST_COMMON_RPC_CERTIFICATE_EXPIRY_H_
#define KERNELCAST_COMMON_RPC_CERTIFICATE_EXPIRY_H_

#include <memory>
#include <string>

#include "common/metrics/metrics.h"
#include "common/rpc/file_watch.h"
#include "common/rpc/server.h"

namespace kernelcast {

// Exposes until when a certificate is good, as
//   kernelcast_tls_certificate_expiry_timestamp_seconds{use}
// with `use` "server" or "client", and follows its renewal. Files that are renewed such that they
// cannot be used are logged as an error, and the metric stays at what was good. Nothing is exposed
// without a certificate.
class CertificateExpiry {
 public:
  // `metrics` must outlive it. The files have been checked by who made credentials of them.
  CertificateExpiry(const std::string& use, const TlsOptions& tls, MetricsRegistry* metrics);
  CertificateExpiry(const CertificateExpiry&) = delete;
  CertificateExpiry& operator=(const CertificateExpiry&) = delete;

 private:
  void Read();

  const std::string use_;
  const TlsOptions tls_;
  prometheus::Gauge* gauge_ = nullptr;
  std::unique_ptr<FileWatch> watch_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_CERTIFICATE_EXPIRY_H_
