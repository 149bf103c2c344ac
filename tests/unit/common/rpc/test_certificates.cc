#include "tests/unit/common/rpc/test_certificates.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <catch2/catch.hpp>

namespace kernelcast {
namespace {

template <class Write>
std::string Pem(const Write& write) {
  BIO* const memory = BIO_new(BIO_s_mem());
  REQUIRE(write(memory) == 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory, &data);
  const std::string text(data, static_cast<size_t>(size));
  BIO_free(memory);
  return text;
}

void AddExtension(X509* certificate, X509* issuer, int id, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, id, value);
  REQUIRE(extension != nullptr);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

// Null issuer: a self-signed authority.
PemPair Make(const std::string& name, const PemPair* authority, long seconds) {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  REQUIRE(key != nullptr);
  X509* issuer = nullptr;
  EVP_PKEY* issuer_key = nullptr;
  if (authority != nullptr) {
    BIO* memory = BIO_new_mem_buf(authority->certificate.data(), -1);
    issuer = PEM_read_bio_X509(memory, nullptr, nullptr, nullptr);
    BIO_free(memory);
    memory = BIO_new_mem_buf(authority->key.data(), -1);
    issuer_key = PEM_read_bio_PrivateKey(memory, nullptr, nullptr, nullptr);
    BIO_free(memory);
  }

  X509* const certificate = X509_new();
  X509_set_version(certificate, 2);
  uint32_t serial = 0;
  RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), static_cast<long>(serial));
  X509_gmtime_adj(X509_getm_notBefore(certificate), -86400);
  X509_gmtime_adj(X509_getm_notAfter(certificate), seconds);
  X509_set_pubkey(certificate, key);
  X509_NAME* const subject = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509* const signer = issuer != nullptr ? issuer : certificate;
  X509_set_issuer_name(certificate, X509_get_subject_name(signer));
  AddExtension(certificate, signer, NID_basic_constraints,
               issuer == nullptr ? "critical,CA:TRUE" : "CA:FALSE");
  if (issuer != nullptr) {
    AddExtension(certificate, signer, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
  }
  REQUIRE(X509_sign(certificate, issuer_key != nullptr ? issuer_key : key, EVP_sha256()) > 0);

  PemPair pair;
  pair.certificate = Pem([&](BIO* out) { return PEM_write_bio_X509(out, certificate); });
  pair.key = Pem([&](BIO* out) {
    return PEM_write_bio_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
  X509_free(certificate);
  X509_free(issuer);
  EVP_PKEY_free(issuer_key);
  EVP_PKEY_free(key);
  return pair;
}

}  // namespace

PemPair MakeAuthority(const std::string& name) { return Make(name, nullptr, 3600); }

PemPair MakeCertificate(const PemPair& authority, const std::string& name, long seconds) {
  return Make(name, &authority, seconds);
}

}  // namespace kernelcast
