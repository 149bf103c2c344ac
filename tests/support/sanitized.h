#ifndef KERNELCAST_TESTS_SUPPORT_SANITIZED_H_
#define KERNELCAST_TESTS_SUPPORT_SANITIZED_H_

namespace kernelcast::testing {

// Under a sanitizer everything is several times slower and memory use is meaningless.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kAddressSanitized = true;  // and UndefinedBehaviorSanitizer
#else
inline constexpr bool kAddressSanitized = false;
#endif
#ifdef KERNELCAST_SANITIZE_THREAD
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif
inline constexpr bool kSanitized = kAddressSanitized || kThreadSanitized;

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_SUPPORT_SANITIZED_H_
