#include "services/worker/rpc/measure_queue.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "common/base/clock.h"

namespace kernelcast::worker {
namespace {

using Waiting = MeasureQueue::Waiting;
constexpr size_t kNoLane = MeasureQueue::kNoLane;

const MeasureLane kH200 = {"cuda", "NVIDIA H200", "sm_90a"};
const MeasureLane kA100 = {"cuda", "NVIDIA A100", "sm_80"};
const MeasureLane kCpu = {"cpu", "a processor", "x86-64"};

Waiting Of(const std::string& problem, int overtaken = 0, const std::string& model = "",
           const std::string& target = "cuda") {
  return {{target, model, "", problem}, nullptr, 0, overtaken};
}

MeasureWish Cuda(const std::string& problem) { return {"cuda", "", "", problem}; }

TEST_CASE("A lane keeps its problem, then takes an unclaimed one, then the oldest") {
  const std::deque<Waiting> waiting = {Of("a"), Of("b"), Of("c"), Of("b")};
  CHECK(MeasureQueue::Choose(waiting, kH200, "b", {}) == 1);
  CHECK(MeasureQueue::Choose(waiting, kH200, "x", {}) == 0);
  CHECK(MeasureQueue::Choose(waiting, kH200, "x", {"a"}) == 1);
  CHECK(MeasureQueue::Choose(waiting, kH200, "x", {"a", "b", "c"}) == 0);
  CHECK(MeasureQueue::Choose({}, kH200, "x", {}) == kNoLane);
}

TEST_CASE("A job that was overtaken often enough goes next") {
  const std::deque<Waiting> waiting = {Of("a", MeasureQueue::kMaxOvertaken), Of("b")};
  CHECK(MeasureQueue::Choose(waiting, kH200, "b", {}) == 0);
}

TEST_CASE("A lane leaves jobs that another lane loads, unless it has no others") {
  std::deque<Waiting> waiting = {Of("a"), Of("a"), Of("a"), Of("b")};
  waiting[0].wish.loaded_by = 1;
  waiting[1].wish.loaded_by = 1;
  waiting[2].wish.loaded_by = 0;
  CHECK(MeasureQueue::Choose(waiting, kH200, "a", {}, 0) == 2);
  CHECK(MeasureQueue::Choose(waiting, kH200, "a", {}, 1) == 0);
  CHECK(MeasureQueue::Choose(waiting, kH200, "a", {}, 2) == 3);
  // The lane that loads it may have failed.
  waiting[0].overtaken = MeasureQueue::kMaxOvertaken;
  CHECK(MeasureQueue::Choose(waiting, kH200, "a", {}, 0) == 0);
  waiting[0].overtaken = 0;
  // The newest is the least likely to be loaded.
  waiting.pop_back();
  waiting.pop_back();
  CHECK(MeasureQueue::Choose(waiting, kH200, "a", {}, 0) == 1);
}

TEST_CASE("A lane takes only jobs of its target, model and architecture") {
  std::deque<Waiting> waiting = {Of("a", 0, "", "cpu"), Of("b", 0, "NVIDIA A100"), Of("c")};
  CHECK(MeasureQueue::Choose(waiting, kH200, "", {}) == 2);
  CHECK(MeasureQueue::Choose(waiting, kA100, "", {}) == 1);
  CHECK(MeasureQueue::Choose(waiting, kCpu, "", {}) == 0);
  waiting[2].wish.architecture = "sm_80";
  CHECK(MeasureQueue::Choose(waiting, kH200, "", {}) == kNoLane);
}

TEST_CASE("Interleaved problems run in groups and none starves") {
  std::vector<std::string> order;
  std::promise<void> all_wait;
  {
    MeasureQueue queue({kH200}, nullptr);
    queue.Submit(Cuda("first"), [&](size_t, int64_t) { all_wait.get_future().wait(); });
    queue.Submit(Cuda("late"), [&](size_t, int64_t) { order.emplace_back("late"); });
    for (int i = 0; i < 3 * MeasureQueue::kMaxOvertaken; ++i) {
      queue.Submit(Cuda(i % 2 == 0 ? "first" : "second"), [&, i](size_t, int64_t) {
        order.emplace_back(i % 2 == 0 ? "first" : "second");
      });
    }
    all_wait.set_value();
  }
  REQUIRE(order.size() == 3 * MeasureQueue::kMaxOvertaken + 1);
  // The lane worked on "first".
  for (int i = 0; i < MeasureQueue::kMaxOvertaken; ++i) CHECK(order[i] == "first");
  CHECK(order[MeasureQueue::kMaxOvertaken] == "late");
  size_t changes = 0;
  for (size_t i = 1; i < order.size(); ++i) changes += order[i] != order[i - 1] ? 1 : 0;
  CHECK(changes <= 6);
}

TEST_CASE("A problem whose candidates take long lets others go first") {
  constexpr int64_t kLongNs = 2 * MeasureQueue::kAheadNs;
  FakeClock clock;
  std::vector<std::string> order;
  std::map<std::string, int64_t> waited_ns;
  std::promise<void> all_wait;
  {
    MeasureQueue queue({kH200}, nullptr, MeasureQueue::kReviveAfterNs, clock);
    const auto submit = [&](const std::string& problem, const std::string& name, int64_t takes_ns) {
      queue.Submit(Cuda(problem), [&, name, takes_ns](size_t, int64_t waited) {
        waited_ns[name] = waited;
        order.push_back(name);
        clock.Advance(takes_ns);
      });
    };
    queue.Submit(Cuda("slow"), [&](size_t, int64_t) {
      all_wait.get_future().wait();
      clock.Advance(kLongNs);
    });
    for (int i = 0; i < 6; ++i) submit("slow", "slow", kLongNs);
    submit("honest", "honest", 100);
    submit("honest", "honest again", 100);
    submit("other", "other", 100);
    all_wait.set_value();
  }
  REQUIRE(order.size() == 9);
  CHECK(order[0] == "honest");
  CHECK(order[1] == "honest again");
  CHECK(order[2] == "other");
  CHECK(waited_ns["other"] <= kLongNs + 1000);
}

TEST_CASE("Two problems whose candidates take long take turns") {
  constexpr int64_t kLongNs = 2 * MeasureQueue::kAheadNs;
  FakeClock clock;
  std::string order;
  std::promise<void> all_wait;
  {
    MeasureQueue queue({kH200}, nullptr, MeasureQueue::kReviveAfterNs, clock);
    queue.Submit(Cuda("a"), [&](size_t, int64_t) { all_wait.get_future().wait(); });
    for (int i = 0; i < 8; ++i) {
      const char problem = i < 4 ? 'a' : 'b';
      queue.Submit(Cuda(std::string(1, problem)), [&, problem](size_t, int64_t) {
        order.push_back(problem);
        clock.Advance(kLongNs);
      });
    }
    all_wait.set_value();
  }
  // As often as each other, up to the allowance.
  int a = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    a += order[i] == 'a' ? 1 : 0;
    CHECK(std::abs(static_cast<int>(2 * a) - static_cast<int>(i + 1)) <= 2);
  }
}

TEST_CASE("A job whose problem is ahead runs where no other waits, and is not overtaken for ever") {
  std::deque<Waiting> waiting = {Of("a"), Of("b")};
  waiting[0].ahead = true;
  CHECK(MeasureQueue::Choose(waiting, kH200, "a", {}) == 1);
  waiting[1].wish.target = "cpu";
  CHECK(MeasureQueue::Choose(waiting, kH200, "a", {}) == 0);
  waiting[1].wish.target = "cuda";
  waiting[0].overtaken = MeasureQueue::kMaxOvertaken;
  CHECK(MeasureQueue::Choose(waiting, kH200, "b", {}) == 0);
}

TEST_CASE("Lanes run in parallel, also on one problem") {
  std::mutex mutex;
  std::set<size_t> lanes;
  std::promise<void> all_run;
  std::shared_future<void> go = all_run.get_future().share();
  std::atomic<int> running = 0;
  std::vector<std::promise<void>> done(4);
  MeasureQueue queue({kH200, kH200, kH200, kH200}, nullptr);
  for (int i = 0; i < 4; ++i) {
    queue.Submit(Cuda("one"), [&, i](size_t lane, int64_t) {
      {
        const std::lock_guard lock(mutex);
        lanes.insert(lane);
      }
      if (++running == 4) all_run.set_value();
      go.wait();
      done[static_cast<size_t>(i)].set_value();
    });
  }
  for (auto& end : done) end.get_future().wait();
  CHECK(lanes.size() == 4);
}

TEST_CASE("A closed lane's jobs move to other lanes, or end when there are none") {
  MeasureQueue queue({kH200, kA100}, [](size_t) { return false; });
  queue.Close(0);
  std::promise<size_t> any;
  queue.Submit(Cuda("one"), [&](size_t lane, int64_t) { any.set_value(lane); });
  CHECK(any.get_future().get() == 1);
  std::promise<size_t> named;
  queue.Submit({"cuda", "NVIDIA H200", "", "one"},
               [&](size_t lane, int64_t) { named.set_value(lane); });
  CHECK(named.get_future().get() == kNoLane);
  // Waiting jobs end as soon as the last lane closes.
  std::promise<void> runs;
  std::promise<void> end;
  queue.Submit(Cuda("one"), [&](size_t, int64_t) {
    runs.set_value();
    end.get_future().wait();
  });
  runs.get_future().wait();
  size_t waited_for = 0;
  queue.Submit(Cuda("one"), [&](size_t lane, int64_t) { waited_for = lane; });
  queue.Close(1);
  CHECK(waited_for == kNoLane);
  end.set_value();
}

TEST_CASE("Opening a closed lane is retried until it succeeds") {
  std::atomic<int> tries = 0;
  std::promise<void> revived;
  MeasureQueue queue(
      {kH200},
      [&](size_t) {
        if (++tries < 3) return false;
        revived.set_value();
        return true;
      },
      1'000'000);
  queue.Close(0);
  revived.get_future().wait();
  // The lane opens afterwards.
  std::atomic<size_t> lane = kNoLane;
  while (lane == kNoLane) {
    std::promise<size_t> ran;
    queue.Submit(Cuda("one"), [&](size_t at, int64_t) { ran.set_value(at); });
    lane = ran.get_future().get();
  }
  CHECK(lane == 0);
}

TEST_CASE("A draining queue ends waiting and new jobs immediately, in parallel with running ones") {
  // They outlive the queue, whose thread uses them.
  std::promise<void> runs;
  std::promise<void> end;
  MeasureQueue queue({kH200}, nullptr);
  queue.Submit(Cuda("one"), [&](size_t, int64_t) {
    runs.set_value();
    end.get_future().wait();
  });
  runs.get_future().wait();
  std::vector<size_t> lanes;
  const auto remember = [&](size_t lane, int64_t) { lanes.push_back(lane); };
  queue.Submit(Cuda("one"), remember);
  CHECK(lanes.empty());
  queue.Drain();
  queue.Submit(Cuda("one"), remember);
  CHECK(lanes == std::vector<size_t>{kNoLane, kNoLane});
  end.set_value();
}

}  // namespace
}  // namespace kernelcast::worker
