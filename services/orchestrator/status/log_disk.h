#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_STATUS_LOG_DISK_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_STATUS_LOG_DISK_H_

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"

namespace kernelcast::orchestrator {

// Space on the file system that contains the event log.
struct LogDisk {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;  // for processes that are not root
  // When the log will have filled it, at the pace of the last hour. Nothing: the log has not grown,
  // or has not been watched for long enough.
  std::optional<int64_t> full_in_ns = std::nullopt;

  // Whether the status page warns.
  bool low() const;
};

// How fast a file grows. Not thread-safe.
class LogGrowth {
 public:
  static constexpr int64_t kWindowNs = int64_t{3600} * 1'000'000'000;
  static constexpr int64_t kShortestNs = kWindowNs / 12;

  // The file has this size at this time, by a monotonic clock.
  void Add(int64_t time_ns, uint64_t bytes);
  // The mean over the window, which is the time since the first sample where that is shorter.
  // Nothing: it is shorter than kShortestNs, or the file has not grown.
  std::optional<double> BytesPerNs() const;

 private:
  static constexpr int64_t kSpacingNs = kWindowNs / 60;

  struct Sample {
    int64_t time_ns = 0;
    uint64_t bytes = 0;
  };
  std::deque<Sample> samples_;  // kSpacingNs apart, except the last
};

// Watches the file of the event log and its disk. Thread-safe.
class LogDiskWatch {
 public:
  explicit LogDiskWatch(std::string file);

  // Notes the size of the log. Call it about once per second.
  void Sample(int64_t monotonic_ns);
  // Nothing: the system does not say.
  std::optional<LogDisk> Look() const;

 private:
  const std::string file_;
  mutable std::mutex mutex_;
  LogGrowth growth_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_STATUS_LOG_DISK_H_
