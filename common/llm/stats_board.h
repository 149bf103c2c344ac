#ifndef KERNELCAST_COMMON_LLM_STATS_BOARD_H_
#define KERNELCAST_COMMON_LLM_STATS_BOARD_H_

#include <cstdint>
#include <mutex>
#include <utility>

#include "common/llm/stats.h"

namespace kernelcast::llm {

// Statistics that the client's thread writes and others read, and the limits on pending calls.
// Thread-safe.
class StatsBoard {
 public:
  explicit StatsBoard(ClientStats initial) : stats_(std::move(initial)) {}

  // Counts a call as pending. Returns false if a limit is reached; the call is then counted as
  // overloaded.
  bool Admit(int64_t max_calls, int64_t max_bytes, int64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stats_.calls_pending >= max_calls || stats_.pending_bytes + bytes > max_bytes) {
      ++stats_.calls_overloaded;
      return false;
    }
    ++stats_.calls_submitted;
    ++stats_.calls_pending;
    ++stats_.calls_queued;
    stats_.pending_bytes += bytes;
    return true;
  }

  template <class Change>
  void Update(Change change) {
    const std::lock_guard<std::mutex> lock(mutex_);
    change(stats_);
  }

  ClientLoad Load() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return {stats_.calls_overloaded, stats_.calls_pending, stats_.calls_queued,
            stats_.pending_bytes, stats_.retries_denied};
  }

  ClientStats Snapshot() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return stats_;
  }

 private:
  mutable std::mutex mutex_;
  ClientStats stats_;  // protected by mutex_
};

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_STATS_BOARD_H_
