#ifndef KERNELCAST_TESTS_SUPPORT_SANITIZED_H_
#define KERNELCAST_TESTS_SUPPORT_SANITIZED_H_

namespace kernelcast::testing {

// Under a sanitizer everything is several times slower and memory use is meaningless.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_SUPPORT_SANITIZED_H_
