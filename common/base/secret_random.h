#ifndef KERNELCAST_COMMON_BASE_SECRET_RANDOM_H_
#define KERNELCAST_COMMON_BASE_SECRET_RANDOM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

struct evp_cipher_ctx_st;

namespace kernelcast {

using SecretKey = std::array<unsigned char, 32>;

// A new key from the kernel's generator.
SecretKey NewSecretKey();

// The ChaCha20 key stream of a key and a purpose. Knowing part of a stream reveals nothing about
// the rest of it, or about the stream of another purpose or key. Not thread-safe.
class SecretRandom {
 public:
  SecretRandom(const SecretKey& key, std::string_view purpose);
  // Uses a new key.
  explicit SecretRandom(std::string_view purpose) : SecretRandom(NewSecretKey(), purpose) {}
  ~SecretRandom();
  SecretRandom(const SecretRandom&) = delete;
  SecretRandom& operator=(const SecretRandom&) = delete;

  uint64_t Next() {
    if (next_ == words_.size()) {
      Refill();
    }
    return words_[next_++];
  }
  // In [0, bound). 0 if bound is 0. The bias is below 2^-32 for bounds below 2^32.
  uint64_t Below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * bound) >> 64);
  }
  // In [0, 1).
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  // Puts values into an order of which all are equally likely.
  template <class T>
  void Shuffle(std::vector<T>& values) {
    for (size_t i = 0; i + 1 < values.size(); ++i) {
      std::swap(values[i], values[i + Below(values.size() - i)]);
    }
  }
  // The numbers below `count`, shuffled.
  std::vector<size_t> Order(size_t count) {
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), size_t{0});
    Shuffle(order);
    return order;
  }

 private:
  struct FreeContext {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  void Refill();

  std::unique_ptr<evp_cipher_ctx_st, FreeContext> context_;
  std::array<uint64_t, 256> words_ = {};
  size_t next_ = words_.size();
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_SECRET_RANDOM_H_
