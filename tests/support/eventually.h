#ifndef KERNELCAST_TESTS_SUPPORT_EVENTUALLY_H_
#define KERNELCAST_TESTS_SUPPORT_EVENTUALLY_H_

#include <chrono>
#include <thread>

namespace kernelcast::testing {

// Polls until `holds()` is true, for conditions without notification such as another process's
// metrics. Returns false after `limit`. Callable from any thread.
template <class Condition>
[[nodiscard]] bool Eventually(const Condition& holds,
                              std::chrono::seconds limit = std::chrono::seconds(50)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_SUPPORT_EVENTUALLY_H_
