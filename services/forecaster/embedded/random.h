#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_RANDOM_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_RANDOM_H_

#include <cstdint>
#include <string_view>

namespace kernelcast::forecaster {

// SplitMix64: small, and identical with every standard library, unlike the distributions of
// <random>. It must not change, because recorded forecasts must stay reproducible. The worker's
// generator, from which inputs of kernels are drawn, is another one for the same reason.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // In [0, bound). The bias is below 2^-32 for 32-bit bounds.
  uint64_t Below(uint64_t bound) { return (Next() >> 32) * bound >> 32; }
  // In [0, 1).
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

// Derives a named seed from a seed.
inline uint64_t DeriveSeed(uint64_t seed, std::string_view name, uint64_t number) {
  uint64_t hash = 0xcbf29ce484222325u ^ seed;
  for (const char c : name) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3u;
  }
  Random random(hash ^ (number * 0x9e3779b97f4a7c15u));
  return random.Next();
}

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_RANDOM_H_
