#include "services/worker/rpc/measure_queue.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace kernelcast::worker {
namespace {

// Problems whose time is kept while none waits.
constexpr size_t kMostUsed = 1000;

bool Matches(const std::string& wish, const std::string& is) { return wish.empty() || wish == is; }

bool Fits(const MeasureWish& wish, const MeasureLane& lane) {
  return wish.target == lane.target && Matches(wish.device_model, lane.device_model) &&
         Matches(wish.architecture, lane.architecture);
}

}  // namespace

MeasureQueue::MeasureQueue(std::vector<MeasureLane> lanes, Revive revive, int64_t revive_after_ns,
                           const Clock& clock)
    : lanes_(std::move(lanes)),
      revive_(std::move(revive)),
      revive_after_ns_(revive_after_ns),
      clock_(clock),
      open_(lanes_.size(), 1),
      last_problem_(lanes_.size()) {
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    threads_.emplace_back([this, lane] { Work(lane); });
  }
}

MeasureQueue::~MeasureQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
  for (Waiting& left : waiting_) {
    left.job(kNoLane, clock_.MonotonicNs() - left.since_ns);
  }
}

bool MeasureQueue::HasOpenLane(const MeasureWish& wish) const {
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (open_[lane] != 0 && Fits(wish, lanes_[lane])) {
      return true;
    }
  }
  return false;
}

void MeasureQueue::Submit(MeasureWish wish, Job job) {
  {
    const std::lock_guard lock(mutex_);
    if (!draining_ && HasOpenLane(wish)) {
      // A problem has no claim to time that it did not ask for.
      int64_t& used_ns = used_ns_[wish.problem_id];
      used_ns = std::max(used_ns, reached_ns_ - 2 * kAheadNs);
      waiting_.push_back({std::move(wish), std::move(job), clock_.MonotonicNs(), 0});
      changed_.notify_all();
      return;
    }
  }
  job(kNoLane, 0);
}

std::deque<MeasureQueue::Waiting> MeasureQueue::TakeStranded() {
  std::deque<Waiting> stranded;
  std::deque<Waiting> kept;
  for (Waiting& waiting : waiting_) {
    const bool keeps = !draining_ && HasOpenLane(waiting.wish);
    (keeps ? kept : stranded).push_back(std::move(waiting));
  }
  waiting_ = std::move(kept);
  return stranded;
}

void MeasureQueue::Close(size_t lane) {
  std::deque<Waiting> stranded;
  {
    const std::lock_guard lock(mutex_);
    open_[lane] = 0;
    stranded = TakeStranded();
    changed_.notify_all();
  }
  for (Waiting& waiting : stranded) {
    waiting.job(kNoLane, clock_.MonotonicNs() - waiting.since_ns);
  }
}

void MeasureQueue::Drain() {
  std::deque<Waiting> stranded;
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    stranded = TakeStranded();
  }
  for (Waiting& waiting : stranded) {
    waiting.job(kNoLane, clock_.MonotonicNs() - waiting.since_ns);
  }
}

void MeasureQueue::MarkAhead(const MeasureLane& lane) {
  int64_t least_ns = INT64_MAX;
  for (const Waiting& waiting : waiting_) {
    if (Fits(waiting.wish, lane)) {
      least_ns = std::min(least_ns, used_ns_[waiting.wish.problem_id]);
    }
  }
  for (Waiting& waiting : waiting_) {
    if (Fits(waiting.wish, lane)) {
      waiting.ahead = used_ns_[waiting.wish.problem_id] - least_ns > kAheadNs;
    }
  }
}

size_t MeasureQueue::Choose(const std::deque<Waiting>& waiting, const MeasureLane& lane,
                            const std::string& last, const std::vector<std::string>& elsewhere,
                            size_t number) {
  size_t oldest = kNoLane;
  size_t other = kNoLane;
  // The newest is the least likely to be loaded.
  size_t loaded_elsewhere = kNoLane;
  size_t ahead = kNoLane;
  for (size_t i = 0; i < waiting.size(); ++i) {
    const MeasureWish& wish = waiting[i].wish;
    if (!Fits(wish, lane)) {
      continue;
    }
    // Its lane may have failed.
    if (wish.loaded_by.value_or(number) != number && waiting[i].overtaken < kMaxOvertaken) {
      loaded_elsewhere = i;
      continue;
    }
    if (waiting[i].ahead && waiting[i].overtaken < kMaxOvertaken) {
      if (ahead == kNoLane) ahead = i;
      continue;
    }
    if (oldest == kNoLane) {
      oldest = i;
      if (waiting[i].overtaken >= kMaxOvertaken) {
        return i;
      }
    }
    if (wish.problem_id == last) {
      return i;
    }
    if (other == kNoLane &&
        std::find(elsewhere.begin(), elsewhere.end(), wish.problem_id) == elsewhere.end()) {
      other = i;
    }
  }
  if (oldest == kNoLane) return loaded_elsewhere != kNoLane ? loaded_elsewhere : ahead;
  return other != kNoLane ? other : oldest;
}

void MeasureQueue::Work(size_t lane) {
  std::unique_lock lock(mutex_);
  while (true) {
    if (stopping_ && (waiting_.empty() || open_[lane] == 0)) {
      return;
    }
    if (open_[lane] == 0) {
      changed_.wait_for(lock, std::chrono::nanoseconds(revive_after_ns_),
                        [this] { return stopping_; });
      if (stopping_) continue;
      lock.unlock();
      const bool revived = revive_(lane);
      lock.lock();
      open_[lane] = revived ? 1 : 0;
      continue;
    }
    std::vector<std::string> elsewhere;
    for (size_t i = 0; i < lanes_.size(); ++i) {
      if (i != lane && lanes_[i].target == lanes_[lane].target)
        elsewhere.push_back(last_problem_[i]);
    }
    MarkAhead(lanes_[lane]);
    const size_t next = Choose(waiting_, lanes_[lane], last_problem_[lane], elsewhere, lane);
    if (next == kNoLane) {
      if (stopping_) return;
      changed_.wait(lock);
      continue;
    }
    Waiting taken = std::move(waiting_[next]);
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(next));
    for (size_t i = 0; i < next; ++i) {
      if (Fits(waiting_[i].wish, lanes_[lane])) ++waiting_[i].overtaken;
    }
    last_problem_[lane] = taken.wish.problem_id;
    reached_ns_ = std::max(reached_ns_, used_ns_[taken.wish.problem_id]);
    lock.unlock();
    const int64_t start_ns = clock_.MonotonicNs();
    taken.job(lane, start_ns - taken.since_ns);
    const int64_t took_ns = clock_.MonotonicNs() - start_ns;
    const std::string problem_id = std::move(taken.wish.problem_id);
    taken = {};
    lock.lock();
    if (used_ns_.size() > kMostUsed && waiting_.empty()) used_ns_.clear();
    used_ns_[problem_id] += took_ns;
  }
}

}  // namespace kernelcast::worker
