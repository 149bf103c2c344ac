#ifndef KERNELCAST_COMMON_BASE_HASH_H_
#define KERNELCAST_COMMON_BASE_HASH_H_

#include <memory>
#include <string>
#include <string_view>

namespace kernelcast {

// Names content: SHA-256 over length-prefixed fields, so that no two different field lists collide
// by concatenation. Not thread-safe; one instance a hash.
class ContentHasher {
 public:
  ContentHasher();
  ~ContentHasher();
  ContentHasher(const ContentHasher&) = delete;
  ContentHasher& operator=(const ContentHasher&) = delete;

  ContentHasher& Add(std::string_view field);
  ContentHasher& Add(const std::string& field) { return Add(std::string_view(field)); }
  ContentHasher& Add(const char* field) { return Add(std::string_view(field)); }
  ContentHasher& Add(double field);
  ContentHasher& Add(long long field);

  // First 128 bits as 32 lower-case hex digits. May be called once.
  std::string Hex128();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_HASH_H_
