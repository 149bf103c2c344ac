#include "services/worker/cuda/target/candidate_loader.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "services/worker/cuda/judge/python_task.h"

namespace kernelcast::worker {
namespace {

constexpr size_t kMaxExpected = 256;
constexpr std::chrono::milliseconds kLook{50};
// How many processes start at once. The driver makes their contexts one after the other, so that
// the first of many would be ready as late as the last.
constexpr int kMostStarting = 2;

}  // namespace

CandidateLoader::CandidateLoader(CudaRunnerOptions python, int64_t load_limit_ns, int threads,
                                 int64_t forget_ns)
    : python_(std::move(python)),
      load_limit_ns_(load_limit_ns),
      forget_ns_(forget_ns),
      max_ahead_(static_cast<size_t>(threads)) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

int CandidateLoader::ThreadsFor(const Room& room, int most) {
  const auto devices = static_cast<int64_t>(room.devices);
  // Most of the time of loading is one processor's work.
  int64_t threads = room.processors * 3 / 4 / devices;
  threads = std::min(threads, static_cast<int64_t>(room.device_bytes / kLoadedBytes));
  if (room.host_bytes_each > 0) {
    threads = std::min(threads, room.host_bytes / room.host_bytes_each / devices);
  }
  return static_cast<int>(std::clamp<int64_t>(threads, 1, most));
}

CandidateLoader::~CandidateLoader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const auto& entry : entries_) entry->cancel.Cancel();
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

absl::StatusOr<std::unique_ptr<CudaRunner>> CandidateLoader::Start(
    const std::string& program, const CancelToken& cancel) const {
  return CudaRunner::Start(OptionsFor(program, python_), cancel);
}

absl::Status CandidateLoader::Load(CudaRunner& runner, const std::string& program,
                                   const CancelToken& cancel) const {
  KC_RETURN_IF_ERROR(runner.LoadObject(program, load_limit_ns_, cancel).status());
  return cancel.Check();
}

CandidateLoader::Entries::iterator CandidateLoader::Find(const std::string& program) {
  return std::ranges::find_if(
      entries_, [&](const auto& entry) { return entry->program == program && !entry->forgotten; });
}

void CandidateLoader::Expect(const std::string& program, int processes) {
  const std::lock_guard lock(mutex_);
  auto missing = processes - std::ranges::count_if(entries_, [&](const auto& entry) {
                   return entry->program == program && !entry->forgotten;
                 });
  for (; missing > 0 && entries_.size() < kMaxExpected; --missing) {
    auto entry = std::make_shared<Entry>();
    entry->program = program;
    entries_.push_back(std::move(entry));
  }
  changed_.notify_all();
}

void CandidateLoader::Forget(const std::string& program) {
  const std::lock_guard lock(mutex_);
  for (const auto& entry : entries_) {
    if (entry->program != program) continue;
    entry->forgotten = true;
    entry->cancel.Cancel();
  }
  std::erase_if(entries_, [](const auto& entry) {
    return entry->forgotten && entry->state == Entry::State::kWaiting;
  });
  changed_.notify_all();
}

std::shared_ptr<void> CandidateLoader::Pause(int64_t limit_ns) {
  std::unique_lock lock(mutex_);
  ++pauses_;
  changed_.wait_for(lock, std::chrono::nanoseconds(limit_ns), [this] {
    return std::none_of(entries_.begin(), entries_.end(),
                        [](const auto& entry) { return entry->state == Entry::State::kLoading; });
  });
  return {this, [this](void*) {
            const std::lock_guard resumed(mutex_);
            --pauses_;
            changed_.notify_all();
          }};
}

std::shared_ptr<void> CandidateLoader::Unload(int64_t limit_ns) {
  std::shared_ptr<void> paused = Pause(limit_ns);
  std::vector<absl::StatusOr<std::unique_ptr<CudaRunner>>> ended;  // without the mutex
  const std::lock_guard lock(mutex_);
  for (const auto& entry : entries_) {
    if (entry->state != Entry::State::kLoaded) continue;
    ended.push_back(std::exchange(entry->runner, nullptr));
    entry->state = Entry::State::kWaiting;
  }
  return paused;
}

size_t CandidateLoader::expected() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

std::shared_ptr<CandidateLoader::Entry> CandidateLoader::NextLocked() {
  const int64_t now_ns = Clock::Real().MonotonicNs();
  std::erase_if(entries_, [&](const auto& entry) {
    return entry->state == Entry::State::kLoaded &&
           (entry->forgotten || now_ns - entry->loaded_ns >= forget_ns_);
  });
  size_t ahead = 0;
  std::shared_ptr<Entry> next;
  for (const auto& entry : entries_) {
    if (entry->state != Entry::State::kWaiting) {
      ++ahead;
    } else if (next == nullptr) {
      next = entry;
    }
  }
  return ahead < max_ahead_ && starting_ < kMostStarting && pauses_ == 0 ? next : nullptr;
}

void CandidateLoader::Work() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const std::shared_ptr<Entry> entry = NextLocked();
    if (entry == nullptr && entries_.empty()) {
      changed_.wait(lock);
      continue;
    }
    if (entry == nullptr) {
      changed_.wait_for(lock, std::chrono::nanoseconds(forget_ns_));
      continue;
    }
    entry->state = Entry::State::kLoading;
    ++starting_;
    lock.unlock();
    auto runner = Start(entry->program, entry->cancel);
    lock.lock();
    --starting_;
    changed_.notify_all();
    if (runner.ok()) {
      lock.unlock();
      absl::Status loaded = Load(**runner, entry->program, entry->cancel);
      if (!loaded.ok()) runner = std::move(loaded);
      lock.lock();
    }
    entry->runner = std::move(runner);
    entry->state = Entry::State::kLoaded;
    entry->loaded_ns = Clock::Real().MonotonicNs();
    changed_.notify_all();
  }
}

absl::StatusOr<std::unique_ptr<CudaRunner>> CandidateLoader::Take(const std::string& program,
                                                                  const CancelToken& cancel) {
  std::unique_lock lock(mutex_);
  const auto found = Find(program);
  const std::shared_ptr<Entry> entry = found == entries_.end() ? nullptr : *found;
  if (entry == nullptr || entry->state == Entry::State::kWaiting) {
    if (entry != nullptr) entries_.erase(found);
    lock.unlock();
    KC_ASSIGN_OR_RETURN(auto runner, Start(program, cancel));
    KC_RETURN_IF_ERROR(Load(*runner, program, cancel));
    return runner;
  }
  while (entry->state == Entry::State::kLoading) {
    if (cancel.stopped()) entry->cancel.Cancel();
    changed_.wait_for(lock, kLook);
  }
  std::erase(entries_, entry);
  changed_.notify_all();
  KC_RETURN_IF_ERROR(cancel.Check());
  return std::move(entry->runner);
}

}  // namespace kernelcast::worker
