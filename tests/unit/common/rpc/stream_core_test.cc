#include "common/rpc/stream_core.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace kernelcast::rpc_internal {
namespace {

// Runs posted work on a few threads in no particular order.
class Threads {
 public:
  explicit Threads(int count) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this, i] { Run(static_cast<uint64_t>(i)); });
    }
  }
  ~Threads() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      changed_.notify_all();
    }
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }
  void Post(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(work));
    changed_.notify_one();
  }

 private:
  void Run(uint64_t seed) {
    std::mt19937_64 random(seed);
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
      if (waiting_.empty()) {
        return;
      }
      std::swap(waiting_[random() % waiting_.size()], waiting_.back());
      const std::function<void()> work = std::move(waiting_.back());
      waiting_.pop_back();
      lock.unlock();
      work();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> waiting_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

struct Plan {
  int requests = 0;  // then half-close
  size_t max_in_flight = 0;
  int produced = 0;       // for a stream without requests, then FinishWith
  int cancel_after = -1;  // operations
  int finish_after = -1;  // requests, by FinishWith
};

// The events, for the test to inspect after the stream is gone.
struct Outcome {
  std::atomic<int> seen = 0;
  std::atomic<int> written = 0;
  std::atomic<long> sum = 0;
  std::atomic<int> most_unwritten = 0;
  std::atomic<bool> broken = false;  // a gRPC rule was violated
  std::atomic<bool> cancelled = false;
  std::atomic<int> status = -1;

  std::mutex mutex;
  std::condition_variable changed;
  bool gone = false;
  void WaitUntilGone() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return gone; });
  }
};

// Simulates gRPC: runs each started operation on some thread, counts reactions in flight, and
// deletes the stream when it is finished and the last reaction has returned.
class FakeStream final : private StreamOperations<int> {
 public:
  FakeStream(const Plan& plan, Threads& grpc, Threads& workers, Outcome& outcome)
      : plan_(plan),
        grpc_(grpc),
        workers_(workers),
        outcome_(outcome),
        core_(std::make_shared<StreamCore<int>>(static_cast<StreamOperations<int>*>(this),
                                                plan.max_in_flight)) {}

  void Open() {
    if (plan_.max_in_flight > 0) {
      core_->Start();
    } else {
      core_->HoldToProduce();
      Begin();
      grpc_.Post([this] {
        core_->Release();
        Produce();
        End();
      });
    }
    MaybeCancel();
    End();
  }

 private:
  ~FakeStream() {
    const std::lock_guard lock(outcome_.mutex);
    outcome_.gone = true;
    outcome_.changed.notify_all();
  }

  void Begin() { ++reactions_; }
  void End() {
    if (--reactions_ == 0) {
      delete this;
    }
  }
  void Require(bool rule) {
    if (!rule) {
      outcome_.broken = true;
    }
  }

  // Called once, like gRPC's OnCancel.
  void MaybeCancel() {
    if (operations_++ == plan_.cancel_after) {
      Begin();
      grpc_.Post([this] {
        if (core_->Cancel()) {
          outcome_.cancelled = true;
          core_->Start();
        }
        End();
      });
    }
  }

  void StartReading() override {
    Require(!reading_.exchange(true));
    Begin();
    MaybeCancel();
    grpc_.Post([this] {
      const bool ok = next_request_ < plan_.requests;
      reading_ = false;
      if (core_->ReadDone(ok)) {
        const int request = ++next_request_;
        ++outcome_.seen;
        const int unwritten = outcome_.seen - outcome_.written;
        if (unwritten > outcome_.most_unwritten) {
          outcome_.most_unwritten = unwritten;
        }
        workers_.Post([core = core_, request, finish = request == plan_.finish_after] {
          if (finish) {
            core->FinishWith(absl::AbortedError("enough"));
          }
          if (request % 2 == 0 || core->open()) {
            core->Send(request);
          }
        });
        core_->ReadyToRead();
      }
      End();
    });
  }

  void StartWriting(const int& response, bool) override {
    Require(!writing_.exchange(true) && !finished_);
    Begin();
    MaybeCancel();
    grpc_.Post([this, &response] {
      outcome_.sum += response;
      ++outcome_.written;
      writing_ = false;
      core_->WriteDone();
      Produce();
      End();
    });
  }

  void FinishStream(const std::optional<absl::Status>& status) override {
    Require(!finished_.exchange(true) && !writing_);
    outcome_.status = status ? static_cast<int>(status->code()) : -2;
    grpc_.Post([this] { End(); });
  }

  void Produce() {
    if (plan_.max_in_flight == 0 && core_->HoldToProduce()) {
      Require(!producing_.exchange(true));
      for (int i = 0; i < 3 && produced_ < plan_.produced; ++i) {
        core_->Send(++produced_);
      }
      if (produced_ == plan_.produced) {
        core_->FinishWith(absl::OkStatus());
      }
      producing_ = false;
      core_->Release();
    }
  }

  const Plan plan_;
  Threads& grpc_;
  Threads& workers_;
  Outcome& outcome_;
  const std::shared_ptr<StreamCore<int>> core_;
  std::atomic<int> reactions_ = 2;  // the handler, and the end of the call
  std::atomic<int> operations_ = 0;
  std::atomic<bool> reading_ = false;
  std::atomic<bool> writing_ = false;
  std::atomic<bool> finished_ = false;
  std::atomic<bool> producing_ = false;
  int next_request_ = 0;  // accessed by one read at a time
  int produced_ = 0;      // accessed by one producer at a time
};

constexpr int kOk = static_cast<int>(absl::StatusCode::kOk);

class Stage {
 public:
  void Play(const Plan& plan, Outcome& outcome) {
    (new FakeStream(plan, grpc_, workers_, outcome))->Open();
    outcome.WaitUntilGone();
    CHECK_FALSE(outcome.broken);
  }

 private:
  Threads workers_{2};
  Threads grpc_{3};
};

}  // namespace

TEST_CASE("Every request is answered once for any thread order", "[stream]") {
  Stage stage;
  for (int round = 0; round < 100; ++round) {
    Outcome outcome;
    stage.Play({.requests = 50, .max_in_flight = 5}, outcome);
    CHECK(outcome.status == kOk);
    CHECK(outcome.written == 50);
    CHECK(outcome.sum == 50 * 51 / 2);
    CHECK(outcome.most_unwritten <= 5);
  }
}

TEST_CASE("A stream may be cancelled at any operation", "[stream]") {
  Stage stage;
  for (int round = 0; round < 300; ++round) {
    Outcome outcome;
    stage.Play({.requests = 40, .max_in_flight = 4, .cancel_after = round % 90}, outcome);
    CHECK((outcome.cancelled ? outcome.status == -2 : outcome.status == kOk));
    CHECK((outcome.cancelled || outcome.written == 40));
    CHECK(outcome.written <= 40);
  }
}

TEST_CASE("A stream ended from elsewhere answers what it has seen", "[stream]") {
  Stage stage;
  for (int round = 0; round < 100; ++round) {
    Outcome outcome;
    stage.Play({.requests = 40, .max_in_flight = 4, .finish_after = 1 + round % 40}, outcome);
    CHECK(outcome.written == outcome.seen);
    CHECK(outcome.written >= 1 + round % 40);
    CHECK(outcome.status == static_cast<int>(absl::StatusCode::kAborted));
  }
}

TEST_CASE("A produced stream is written whole and asked for more one at a time", "[stream]") {
  Stage stage;
  for (int round = 0; round < 100; ++round) {
    Outcome outcome;
    stage.Play({.produced = 100}, outcome);
    CHECK(outcome.status == kOk);
    CHECK(outcome.sum == 100 * 101 / 2);
  }
}

TEST_CASE("A produced stream may be cancelled at any operation", "[stream]") {
  Stage stage;
  for (int round = 0; round < 200; ++round) {
    Outcome outcome;
    stage.Play({.produced = 50, .cancel_after = round % 55}, outcome);
    CHECK((outcome.cancelled ? outcome.status == -2 : outcome.status == kOk));
  }
}

TEST_CASE("Messages sent to a stream that has ended are dropped", "[stream]") {
  class Recorder final : public StreamOperations<int> {
   public:
    void StartReading() override { ++reads; }
    void StartWriting(const int&, bool) override { ++writes; }
    void FinishStream(const std::optional<absl::Status>&) override { ++finishes; }
    int reads = 0;
    int writes = 0;
    int finishes = 0;
  } recorder;
  StreamCore<int> core(&recorder, 1);
  core.Start();
  CHECK(recorder.reads == 1);
  CHECK(core.open());
  CHECK_FALSE(core.ReadDone(false));
  CHECK(recorder.finishes == 1);
  CHECK_FALSE(core.open());
  core.Send(1);
  core.FinishWith(absl::InternalError("late"));
  CHECK_FALSE(core.Cancel());
  CHECK_FALSE(core.HoldToProduce());
  core.Start();
  CHECK(recorder.reads == 1);
  CHECK(recorder.writes == 0);
  CHECK(recorder.finishes == 1);
}

}  // namespace kernelcast::rpc_internal
