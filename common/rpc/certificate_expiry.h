#ifndef KERNELCAST_COMMON_RPC_CERTIFICATE_EXPIRY_H_
#define KERNELCAST_COMMON_RPC_CERTIFICATE_EXPIRY_H_

#include <memory>
#include <string>

#include "common/metrics/metrics.h"
#include "common/rpc/file_watch.h"
#include "common/rpc/server.h"

namespace kernelcast {

// Exports the expiry time of a certificate as
//
//   kernelcast_tls_certificate_expiry_timestamp_seconds{use}
//
// with `use` "server" or "client", and follows renewals. If renewed files are unusable, logs an
// error and keeps the metric at the certificate in use. Exports nothing without a certificate.
class CertificateExpiry {
 public:
  // `metrics` must outlive this object. The files must have passed CheckTlsFiles.
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
