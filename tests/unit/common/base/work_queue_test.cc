#include "common/base/work_queue.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <future>
#include <thread>
#include <vector>

namespace kernelcast {
namespace {

TEST_CASE("One thread runs work in order and finishes all before it ends") {
  std::vector<int> order;
  {
    WorkQueue queue;
    for (int i = 0; i < 100; ++i) {
      queue.Submit([&order, i] { order.push_back(i); });
    }
  }
  REQUIRE(order.size() == 100);
  CHECK(std::is_sorted(order.begin(), order.end()));
}

TEST_CASE("Several threads run work in parallel") {
  std::promise<void> first_runs;
  std::promise<void> second_ran;
  std::promise<void> done;
  WorkQueue queue(2);  // ends before the promises that its threads use
  queue.Submit([&] {
    first_runs.set_value();
    second_ran.get_future().wait();
  });
  first_runs.get_future().wait();
  queue.Submit([&] {
    second_ran.set_value();
    done.set_value();
  });
  done.get_future().wait();
}

TEST_CASE("A draining queue runs waiting and new work immediately, in parallel with running ones") {
  std::promise<void> runs;
  std::promise<void> end;
  std::promise<void> ended;
  WorkQueue queue;
  queue.Submit([&] {
    runs.set_value();
    end.get_future().wait();
    ended.set_value();
  });
  runs.get_future().wait();
  std::vector<std::thread::id> ran_on;
  const auto remember = [&] { ran_on.push_back(std::this_thread::get_id()); };
  queue.Submit(remember);
  queue.Submit(remember);
  CHECK(ran_on.empty());
  queue.Drain();
  CHECK(ran_on.size() == 2);
  queue.Submit(remember);
  CHECK(ran_on == std::vector<std::thread::id>(3, std::this_thread::get_id()));
  end.set_value();
  ended.get_future().wait();
}

TEST_CASE("A full queue refuses work") {
  std::promise<void> started;
  std::promise<void> release;
  WorkQueue queue(1, 1);
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
}  // namespace kernelcast
