#include "common/base/secret_random.h"

#include <openssl/evp.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/base/id.h"

namespace kernelcast {
namespace {

void Must(bool ok, const char* what) {
  if (!ok) {
    std::fprintf(stderr, "kernelcast: OpenSSL: %s failed\n", what);
    std::abort();
  }
}

}  // namespace

SecretKey NewSecretKey() {
  SecretKey key;
  for (size_t at = 0; at < key.size(); at += sizeof(uint64_t)) {
    const uint64_t word = SecretSeed();
    std::memcpy(key.data() + at, &word, sizeof(word));
  }
  return key;
}

void SecretRandom::FreeContext::operator()(evp_cipher_ctx_st* context) const {
  EVP_CIPHER_CTX_free(context);
}

SecretRandom::SecretRandom(const SecretKey& key, std::string_view purpose)
    : context_(EVP_CIPHER_CTX_new()) {
  Must(context_ != nullptr, "EVP_CIPHER_CTX_new");
  // The key for this purpose is SHA-256 over key and purpose.
  std::array<unsigned char, 32> derived;
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> hash(EVP_MD_CTX_new(),
                                                                     &EVP_MD_CTX_free);
  unsigned int length = 0;
  Must(hash != nullptr && EVP_DigestInit_ex(hash.get(), EVP_sha256(), nullptr) == 1 &&
           EVP_DigestUpdate(hash.get(), key.data(), key.size()) == 1 &&
           EVP_DigestUpdate(hash.get(), purpose.data(), purpose.size()) == 1 &&
           EVP_DigestFinal_ex(hash.get(), derived.data(), &length) == 1 && length == derived.size(),
       "SHA-256");
  const std::array<unsigned char, 16> counter_and_nonce = {};
  Must(EVP_EncryptInit_ex(context_.get(), EVP_chacha20(), nullptr, derived.data(),
                          counter_and_nonce.data()) == 1,
       "EVP_EncryptInit_ex");
}

SecretRandom::~SecretRandom() = default;

void SecretRandom::Refill() {
  static constexpr std::array<unsigned char, sizeof(words_)> kZeros = {};
  int written = 0;
  Must(EVP_EncryptUpdate(context_.get(), reinterpret_cast<unsigned char*>(words_.data()), &written,
                         kZeros.data(), static_cast<int>(kZeros.size())) == 1 &&
           written == static_cast<int>(sizeof(words_)),
       "EVP_EncryptUpdate");
  next_ = 0;
}

}  // namespace kernelcast
