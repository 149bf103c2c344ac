#include "services/worker/cuda/target/parked_processes.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/eventually.h"

namespace kernelcast::worker {
namespace {

constexpr int64_t kForeverNs = 3'600'000'000'000;
constexpr int64_t kAtOnceNs = 1;

// What happens to processes, in order.
class Events {
 public:
  void Add(const std::string& event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
  }
  std::vector<std::string> all() const {
    const std::lock_guard lock(mutex_);
    return events_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> events_;
};

class FakeProcess final : public ParkedProcess {
 public:
  FakeProcess(std::string name, Events& events) : name_(std::move(name)), events_(events) {}
  ~FakeProcess() override { events_.Add("ended " + name_); }
  void Kill() override { events_.Add("killed " + name_); }

 private:
  const std::string name_;
  Events& events_;
};

std::unique_ptr<ParkedProcess> Named(const std::string& name, Events& events) {
  return std::make_unique<FakeProcess>(name, events);
}

using Names = std::vector<std::string>;

TEST_CASE("Parked processes are all killed before one is waited for") {
  Events events;
  ParkedProcesses parked(3, kForeverNs);
  CHECK(parked.Park(Named("a", events)).empty());
  CHECK(parked.Park(Named("b", events)).empty());
  CHECK(parked.size() == 2);
  CHECK(events.all().empty());
  ParkedProcesses::Batch batch = parked.Park(Named("c", events));
  CHECK(batch.size() == 3);
  CHECK(parked.size() == 0);
  // Who takes the batch chooses when to wait.
  CHECK(events.all() == Names{"killed a", "killed b", "killed c"});
  batch.clear();
  CHECK(events.all().size() == 6);
}

TEST_CASE("Parked processes end on demand and with their owner") {
  Events events;
  {
    ParkedProcesses parked(8, kForeverNs);
    CHECK(parked.Park(Named("a", events)).empty());
    parked.EndAll();
    CHECK(events.all() == Names{"killed a", "ended a"});
    CHECK(parked.Park(Named("b", events)).empty());
  }
  CHECK(events.all() == Names{"killed a", "ended a", "killed b", "ended b"});
}

TEST_CASE("Parked processes end when nothing is judged, and not while something is") {
  Events events;
  ParkedProcesses parked(8, kAtOnceNs);
  auto judging = parked.Hold();
  auto another = parked.Hold();
  CHECK(parked.Park(Named("a", events)).empty());
  judging.reset();
  CHECK(parked.size() == 1);
  CHECK(events.all().empty());
  another.reset();
  CHECK(testing::Eventually([&] { return events.all() == Names{"killed a", "ended a"}; }));
}

TEST_CASE("Judging waits for an end that has begun") {
  // Its end takes until it is allowed.
  class Slow final : public ParkedProcess {
   public:
    Slow(std::atomic<bool>& killed, std::atomic<bool>& may_end) : killed_(killed), end_(may_end) {}
    ~Slow() override { end_.wait(false); }
    void Kill() override { killed_ = true; }

   private:
    std::atomic<bool>& killed_;
    std::atomic<bool>& end_;
  };
  std::atomic<bool> killed = false;
  std::atomic<bool> may_end = false;
  std::atomic<bool> judging = false;
  ParkedProcesses parked(8, kAtOnceNs);
  CHECK(parked.Park(std::make_unique<Slow>(killed, may_end)).empty());
  REQUIRE(testing::Eventually([&] { return killed.load(); }));
  std::thread judge([&] {
    const auto held = parked.Hold();
    judging = true;
  });
  CHECK_FALSE(judging);
  may_end = true;
  may_end.notify_all();
  judge.join();
  CHECK(judging);
}

TEST_CASE("Without room for parked processes there are none") {
  CHECK_FALSE(ParkedProcesses(0, kAtOnceNs).enabled());
}

}  // namespace
}  // namespace kernelcast::worker
