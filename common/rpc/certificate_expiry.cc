#include "common/rpc/certificate_expiry.h"

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/log.h"
#include "common/rpc/credentials.h"

namespace kernelcast {

CertificateExpiry::CertificateExpiry(const std::string& use, const TlsOptions& tls,
                                     MetricsRegistry* metrics)
    : use_(use), tls_(tls) {
  if (tls.certificate_file.empty()) {
    return;
  }
  gauge_ = &metrics->Gauge("kernelcast_tls_certificate_expiry_timestamp_seconds",
                           "Expiry time of the first certificate in the chain, since the epoch.",
                           {{"use", use}});
  Read();
  std::vector<std::string> paths = {tls.certificate_file, tls.key_file};
  if (!tls.ca_file.empty()) {
    paths.push_back(tls.ca_file);
  }
  watch_ = std::make_unique<FileWatch>(paths, tls.reload_interval, [this] { Read(); });
}

void CertificateExpiry::Read() {
  absl::StatusOr<absl::Time> expiry = CheckTlsFiles(tls_);
  if (!expiry.ok()) {
    Log(LogLevel::kError, "TLS files cannot be used; new connections will fail until they can",
        {{"use", use_}, {"error", std::string(expiry.status().message())}});
    return;
  }
  gauge_->Set(static_cast<double>(absl::ToUnixSeconds(*expiry)));
}

}  // namespace kernelcast
