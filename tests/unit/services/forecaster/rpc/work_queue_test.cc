#include "services/forecaster/rpc/work_queue.h"

#include <catch2/catch.hpp>
#include <future>
#include <vector>

namespace kernelcast::forecaster {
namespace {

TEST_CASE("Work is done in order and completes before shutdown", "[forecaster][work_queue]") {
  std::vector<int> done;
  {
    WorkQueue queue(100);
    for (int i = 0; i < 20; ++i) CHECK(queue.Submit([&done, i] { done.push_back(i); }));
  }
  REQUIRE(done.size() == 20);
  for (int i = 0; i < 20; ++i) CHECK(done[i] == i);
}

TEST_CASE("A full queue refuses work", "[forecaster][work_queue]") {
  std::promise<void> started;
  std::promise<void> release;
  WorkQueue queue(1);
  REQUIRE(queue.Submit([&] {
    started.set_value();
    release.get_future().wait();
  }));
  started.get_future().wait();
  CHECK(queue.Submit([] {}));
  CHECK_FALSE(queue.Submit([] {}));
  release.set_value();
}

}  // namespace
}  // namespace kernelcast::forecaster
