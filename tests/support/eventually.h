#ifndef KERNELCAST_TESTS_SUPPORT_EVENTUALLY_H_
#define KERNELCAST_TESTS_SUPPORT_EVENTUALLY_H_

#include <chrono>
#include <thread>

namespace kernelcast::testing {

// Until `holds()` is true of what tells nobody when it changes, such as another process's metrics;
// false once `limit` is over. From any thread.
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
