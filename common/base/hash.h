#ifndef KERNELCAST_COMMON_BASE_HASH_H_
#define KERNELCAST_COMMON_BASE_HASH_H_

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace kernelcast {

// Computes content ids: SHA-256 over fields prefixed by type and length, so that different field
// lists cannot collide by concatenation. Ids are stored, so the hash of a field list must never
// change. Not thread-safe. Use one instance per hash.
class ContentHasher {
 public:
  ContentHasher();
  ~ContentHasher();
  ContentHasher(const ContentHasher&) = delete;
  ContentHasher& operator=(const ContentHasher&) = delete;

  ContentHasher& Add(std::string_view field);
  ContentHasher& Add(const std::string& field) { return Add(std::string_view(field)); }
  ContentHasher& Add(const char* field) { return Add(std::string_view(field)); }
  // By value: 0.0 equals -0.0, and all NaNs are equal.
  ContentHasher& Add(double field);
  // By value, regardless of the type: 3, 3u and int64_t{3} are equal.
  template <std::integral T>
  ContentHasher& Add(T field) {
    const bool negative = field < T{0};
    return AddInteger(static_cast<uint64_t>(field), negative);
  }

  // The first 128 bits as 32 lower-case hex digits. May be called once.
  std::string Hex128();

 private:
  struct Context;

  // Two's complement in 64 bits plus the sign, which distinguishes -1 from the largest unsigned
  // value.
  ContentHasher& AddInteger(uint64_t bits, bool negative);
  void AddField(char type, std::string_view bytes);

  std::unique_ptr<Context> context_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_HASH_H_
