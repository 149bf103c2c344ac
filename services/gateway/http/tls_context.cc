#include "services/gateway/http/tls_context.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/rpc/credentials.h"

namespace kernelcast::gateway {

void FreeTls::operator()(ssl_st* connection) const { SSL_free(connection); }

absl::StatusOr<std::unique_ptr<TlsContext>> TlsContext::Create(const TlsOptions& tls) {
  KC_ASSIGN_OR_RETURN(Loaded loaded, Load(tls));
  return std::unique_ptr<TlsContext>(new TlsContext(tls, std::move(loaded)));
}

TlsContext::TlsContext(const TlsOptions& tls, Loaded loaded)
    : tls_(tls), loaded_(std::move(loaded)) {
  std::vector<std::string> paths = {tls.certificate_file, tls.key_file};
  if (!tls.ca_file.empty()) paths.push_back(tls.ca_file);
  watch_ = std::make_unique<FileWatch>(paths, tls.reload_interval, [this] { Reload(); });
}

absl::StatusOr<TlsContext::Loaded> TlsContext::Load(const TlsOptions& tls) {
  KC_RETURN_IF_ERROR(CheckTlsFiles(tls).status());
  Loaded loaded(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
  const bool good =
      loaded != nullptr && SSL_CTX_set_min_proto_version(loaded.get(), TLS1_2_VERSION) == 1 &&
      SSL_CTX_use_certificate_chain_file(loaded.get(), tls.certificate_file.c_str()) == 1 &&
      SSL_CTX_use_PrivateKey_file(loaded.get(), tls.key_file.c_str(), SSL_FILETYPE_PEM) == 1 &&
      (tls.ca_file.empty() ||
       SSL_CTX_load_verify_locations(loaded.get(), tls.ca_file.c_str(), nullptr) == 1);
  ERR_clear_error();
  if (!good) {
    return absl::InvalidArgumentError(
        absl::StrCat("OpenSSL cannot use ", tls.certificate_file, " and ", tls.key_file));
  }
  // Each connection has one request, so sessions are not resumed.
  SSL_CTX_set_session_cache_mode(loaded.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(loaded.get(), SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_num_tickets(loaded.get(), 0);
  if (!tls.ca_file.empty()) {
    SSL_CTX_set_verify(loaded.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  return loaded;
}

void TlsContext::Reload() {
  absl::StatusOr<Loaded> loaded = Load(tls_);
  if (!loaded.ok()) return;  // CertificateExpiry logs it
  const std::lock_guard lock(mutex_);
  loaded_ = *std::move(loaded);
}

TlsConnection TlsContext::NewConnection() {
  const std::lock_guard lock(mutex_);
  return TlsConnection(SSL_new(loaded_.get()));
}

}  // namespace kernelcast::gateway
