#include "common/rpc/credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace kernelcast {
namespace {

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

absl::StatusOr<Owned<BIO>> Open(const std::string& path) {
  Owned<BIO> file(BIO_new_file(path.c_str(), "r"));
  if (file == nullptr) {
    ERR_clear_error();
    return absl::InvalidArgumentError(absl::StrCat("cannot read ", path, ": ", strerror(errno)));
  }
  return file;
}

// Reads one or more certificates. A key belongs to the first one.
absl::StatusOr<std::vector<Owned<X509>>> ReadCertificates(const std::string& path) {
  KC_ASSIGN_OR_RETURN(const Owned<BIO> file, Open(path));
  std::vector<Owned<X509>> certificates;
  while (Owned<X509> certificate{PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr)}) {
    certificates.push_back(std::move(certificate));
  }
  ERR_clear_error();
  if (certificates.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " holds no PEM certificate"));
  }
  return certificates;
}

absl::StatusOr<absl::Time> FirstExpiry(const std::string& path,
                                       const std::vector<Owned<X509>>& certificates) {
  absl::Time first = absl::InfiniteFuture();
  for (const Owned<X509>& certificate : certificates) {
    std::tm time{};
    if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &time) != 1) {
      ERR_clear_error();
      return absl::InvalidArgumentError(absl::StrCat(path, " does not say when it expires"));
    }
    first = std::min(first, absl::FromTM(time, absl::UTCTimeZone()));
  }
  return first;
}

// Encrypted keys are rejected, because nobody can enter a password.
int NoPassword(char*, int, int, void*) { return -1; }

absl::Status CheckKey(const TlsOptions& tls, X509* certificate) {
  KC_ASSIGN_OR_RETURN(const Owned<BIO> file, Open(tls.key_file));
  const Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(file.get(), nullptr, &NoPassword, nullptr));
  const bool matches = key != nullptr && X509_check_private_key(certificate, key.get()) == 1;
  ERR_clear_error();
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(tls.key_file, " holds no PEM private key without a password"));
  }
  if (!matches) {
    return absl::InvalidArgumentError(
        absl::StrCat(tls.key_file, " is not the key of the certificate in ", tls.certificate_file));
  }
  return absl::OkStatus();
}

std::shared_ptr<grpc::experimental::CertificateProviderInterface> WatchFiles(
    const TlsOptions& tls) {
  const int64_t seconds = std::max<int64_t>(1, absl::ToInt64Seconds(tls.reload_interval));
  return std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      tls.key_file, tls.certificate_file, tls.ca_file, static_cast<unsigned int>(seconds));
}

// gRPC's insecure credentials cannot check calls, although the library below can.
class CheckedPlainCredentials final : public grpc::ServerCredentials {
 public:
  explicit CheckedPlainCredentials(std::shared_ptr<grpc::AuthMetadataProcessor> check)
      : check_(std::move(check)) {}

  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>& check) override {
    check_ = check;
  }

 private:
  using Check = std::shared_ptr<grpc::AuthMetadataProcessor>;

  int AddPortToServer(const std::string& address, grpc_server* server) override {
    grpc_server_credentials* const credentials = grpc_insecure_server_credentials_create();
    grpc_server_credentials_set_auth_metadata_processor(
        credentials,
        {&Process, [](void* check) { delete static_cast<Check*>(check); }, new Check(check_)});
    // The credentials delete it. NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks)
    const int port = grpc_server_add_http2_port(server, address.c_str(), credentials);
    grpc_server_credentials_release(credentials);
    return port;
  }

  static grpc::string_ref Text(const grpc_slice& slice) {
    return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice)};
  }

  static void Process(void* check, grpc_auth_context*, const grpc_metadata* metadata, size_t count,
                      grpc_process_auth_metadata_done_cb done, void* call) {
    grpc::AuthMetadataProcessor::InputMetadata input;
    for (size_t i = 0; i < count; ++i) {
      input.emplace(Text(metadata[i].key), Text(metadata[i].value));
    }
    grpc::AuthMetadataProcessor::OutputMetadata consumed;
    grpc::AuthMetadataProcessor::OutputMetadata response;
    const grpc::Status status =
        (*static_cast<Check*>(check))->Process(input, nullptr, &consumed, &response);
    std::vector<grpc_metadata> taken;
    for (const auto& [key, value] : consumed) {
      grpc_metadata item{};
      item.key = grpc_slice_from_copied_buffer(key.data(), key.size());
      item.value = grpc_slice_from_copied_buffer(value.data(), value.size());
      taken.push_back(item);
    }
    done(call, taken.data(), taken.size(), nullptr, 0,
         static_cast<grpc_status_code>(status.error_code()), status.error_message().c_str());
    for (const grpc_metadata& item : taken) {
      grpc_slice_unref(item.key);
      grpc_slice_unref(item.value);
    }
  }

  Check check_;
};

}  // namespace

// All files are read here first, because gRPC only logs unreadable files and then fails every
// handshake.
absl::StatusOr<absl::Time> CheckTlsFiles(const TlsOptions& tls) {
  if (tls.certificate_file.empty() != tls.key_file.empty()) {
    return absl::InvalidArgumentError("TLS needs both a certificate and its key, or neither");
  }
  absl::Time expiry = absl::InfiniteFuture();
  if (!tls.certificate_file.empty()) {
    KC_ASSIGN_OR_RETURN(const std::vector<Owned<X509>> chain,
                        ReadCertificates(tls.certificate_file));
    KC_RETURN_IF_ERROR(CheckKey(tls, chain.front().get()));
    KC_ASSIGN_OR_RETURN(expiry, FirstExpiry(tls.certificate_file, chain));
  }
  if (!tls.ca_file.empty()) {
    KC_RETURN_IF_ERROR(ReadCertificates(tls.ca_file).status());
  }
  return expiry;
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsOptions& tls, const std::shared_ptr<grpc::AuthMetadataProcessor>& check) {
  KC_RETURN_IF_ERROR(CheckTlsFiles(tls).status());
  if (tls.certificate_file.empty()) {
    if (!tls.ca_file.empty()) {
      return absl::InvalidArgumentError(
          "a server that verifies client certificates needs a certificate of its own");
    }
    if (check != nullptr) {
      return std::make_shared<CheckedPlainCredentials>(check);
    }
    return grpc::InsecureServerCredentials();
  }
  grpc::experimental::TlsServerCredentialsOptions options(WatchFiles(tls));
  options.watch_identity_key_cert_pairs();
  if (!tls.ca_file.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  std::shared_ptr<grpc::ServerCredentials> credentials =
      grpc::experimental::TlsServerCredentials(options);
  if (check != nullptr) {
    credentials->SetAuthMetadataProcessor(check);
  }
  return credentials;
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const TlsOptions& tls) {
  KC_RETURN_IF_ERROR(CheckTlsFiles(tls).status());
  if (tls.ca_file.empty()) {
    if (!tls.certificate_file.empty()) {
      return absl::InvalidArgumentError(
          "to show a certificate, a client needs an authority to check the server's against");
    }
    return grpc::InsecureChannelCredentials();
  }
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(WatchFiles(tls));
  options.watch_root_certs();
  if (!tls.certificate_file.empty()) {
    options.watch_identity_key_cert_pairs();
  }
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace kernelcast
