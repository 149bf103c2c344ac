#include "services/worker/rpc/credits.h"

#include <atomic>
#include <catch2/catch.hpp>

#include "common/base/work_queue.h"

namespace kernelcast::worker {
namespace {

TEST_CASE("Credits are granted up to the limit and return") {
  Credits credits(2);
  auto first = credits.Take();
  auto second = credits.Take();
  CHECK(first != nullptr);
  CHECK(second != nullptr);
  CHECK(credits.Take() == nullptr);
  CHECK(credits.in_flight() == 2);
  first.reset();
  CHECK(credits.in_flight() == 1);
  CHECK(credits.Take() != nullptr);
  CHECK(credits.in_flight() == 1);
}

TEST_CASE("Credits are never granted twice") {
  Credits credits(3);
  std::atomic<int> most = 0;
  {
    WorkQueue queue(4);
    for (int i = 0; i < 2000; ++i) {
      queue.Submit([&] {
        if (const auto held = credits.Take()) {
          const int now = static_cast<int>(credits.in_flight());
          int seen = most.load();
          while (now > seen && !most.compare_exchange_weak(seen, now)) {
          }
        }
      });
    }
  }
  CHECK(most <= 3);
  CHECK(credits.in_flight() == 0);
}

}  // namespace
}  // namespace kernelcast::worker
