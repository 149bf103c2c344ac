#include "services/worker/rpc/job_queue.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <future>
#include <thread>
#include <vector>

#include "services/worker/rpc/credits.h"

namespace kernelcast::worker {
namespace {

TEST_CASE("One thread runs jobs in order and finishes all before it ends") {
  std::vector<int> order;
  int64_t least_waited_ns = INT64_MAX;
  {
    JobQueue queue(1);
    for (int i = 0; i < 100; ++i) {
      queue.Submit([&, i](int64_t waited_ns) {
        least_waited_ns = std::min(least_waited_ns, waited_ns);
        order.push_back(i);
      });
    }
  }
  REQUIRE(order.size() == 100);
  CHECK(least_waited_ns >= 0);
  CHECK(std::is_sorted(order.begin(), order.end()));
}

TEST_CASE("Several threads run jobs in parallel") {
  JobQueue queue(2);
  std::promise<void> first_runs;
  std::promise<void> second_ran;
  queue.Submit([&](int64_t) {
    first_runs.set_value();
    second_ran.get_future().wait();
  });
  first_runs.get_future().wait();
  std::promise<void> done;
  queue.Submit([&](int64_t) {
    second_ran.set_value();
    done.set_value();
  });
  done.get_future().wait();
}

TEST_CASE("A draining queue runs waiting and new jobs immediately, in parallel with running ones") {
  JobQueue queue(1);
  std::promise<void> runs;
  std::promise<void> end;
  std::promise<void> ended;
  queue.Submit([&](int64_t) {
    runs.set_value();
    end.get_future().wait();
    ended.set_value();
  });
  runs.get_future().wait();
  std::vector<std::thread::id> ran_on;
  const auto remember = [&](int64_t) { ran_on.push_back(std::this_thread::get_id()); };
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
    JobQueue queue(4);
    for (int i = 0; i < 2000; ++i) {
      queue.Submit([&](int64_t) {
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
