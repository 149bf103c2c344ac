#include "common/base/hash.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

namespace kernelcast {
namespace {

// Fails only when memory is exhausted or Hex128 is called twice.
void Require(bool ok) {
  if (!ok) {
    std::fputs("kernelcast: SHA-256 failed\n", stderr);
    std::abort();
  }
}

std::array<char, 8> LittleEndian(uint64_t value) {
  std::array<char, 8> bytes;
  for (char& byte : bytes) {
    byte = static_cast<char>(value & 0xFF);
    value >>= 8;
  }
  return bytes;
}

}  // namespace

struct ContentHasher::Context {
  EVP_MD_CTX* digest = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(digest); }
};

ContentHasher::ContentHasher() : context_(std::make_unique<Context>()) {
  // Fetched once: EVP_sha256() would make OpenSSL search for a provider at every use.
  static const EVP_MD* const kSha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  Require(kSha256 != nullptr && context_->digest != nullptr &&
          EVP_DigestInit_ex(context_->digest, kSha256, nullptr) == 1);
}

ContentHasher::~ContentHasher() = default;

void ContentHasher::AddField(char type, std::string_view bytes) {
  Require(context_ != nullptr);
  const std::array<char, 8> length = LittleEndian(bytes.size());
  std::array<char, 9> header = {type};
  std::copy(length.begin(), length.end(), header.begin() + 1);
  Require(EVP_DigestUpdate(context_->digest, header.data(), header.size()) == 1);
  Require(EVP_DigestUpdate(context_->digest, bytes.data(), bytes.size()) == 1);
}

ContentHasher& ContentHasher::Add(std::string_view field) {
  AddField('s', field);
  return *this;
}

ContentHasher& ContentHasher::Add(double field) {
  if (field == 0) {
    field = 0;  // also -0.0
  } else if (std::isnan(field)) {
    field = std::numeric_limits<double>::quiet_NaN();
  }
  const std::array<char, 8> bytes = LittleEndian(std::bit_cast<uint64_t>(field));
  AddField('d', std::string_view(bytes.data(), bytes.size()));
  return *this;
}

ContentHasher& ContentHasher::AddInteger(uint64_t bits, bool negative) {
  const std::array<char, 8> bytes = LittleEndian(bits);
  AddField(negative ? 'n' : 'i', std::string_view(bytes.data(), bytes.size()));
  return *this;
}

std::string ContentHasher::Hex128() {
  Require(context_ != nullptr);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  Require(EVP_DigestFinal_ex(context_->digest, digest.data(), nullptr) == 1);
  context_.reset();
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (int i = 0; i < 16; ++i) {
    hex += kDigits[digest[i] >> 4];
    hex += kDigits[digest[i] & 15];
  }
  return hex;
}

}  // namespace kernelcast
