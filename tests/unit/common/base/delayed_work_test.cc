#include "common/base/delayed_work.h"

#include <catch2/catch.hpp>
#include <future>
#include <vector>

namespace kernelcast {

TEST_CASE("Delayed work runs in the order of its times", "[work]") {
  std::vector<int> order;
  std::promise<void> done;
  DelayedWork delayed;
  delayed.Submit(30'000'000, [&] {
    order.push_back(2);
    done.set_value();
  });
  delayed.Submit(1'000'000, [&] {
    order.push_back(1);
    // Work may submit work.
    delayed.Submit(0, [&] { order.push_back(3); });
  });
  REQUIRE(done.get_future().wait_for(std::chrono::seconds(60)) == std::future_status::ready);
  CHECK(order.front() == 1);
}

TEST_CASE("Delayed work that is not due is dropped with its queue", "[work]") {
  bool ran = false;
  {
    DelayedWork delayed;
    delayed.Submit(int64_t{3600} * 1'000'000'000, [&] { ran = true; });
  }
  CHECK_FALSE(ran);
}

}  // namespace kernelcast
