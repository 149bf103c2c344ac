#ifndef KERNELCAST_COMMON_PROCESS_PROCESS_LIMIT_H_
#define KERNELCAST_COMMON_PROCESS_PROCESS_LIMIT_H_

#include <sys/types.h>

#include <cstdint>

#include "common/base/awake_time.h"

namespace kernelcast {

// Processor time of all threads of a process so far, without its children. 0: there is none.
int64_t ProcessCpuNs(pid_t pid);

// The time limit of something that another process does. Time in which that process could not run
// does not count: because it, or this one, was stopped, or because it got no processor. Time in
// which it waits counts. Wall time is limited to ten times the limit. Not thread-safe.
class ProcessLimit {
 public:
  static constexpr int64_t kWallFactor = 10;

  enum class Watch {
    // Looks at the process from the start.
    kAlways,
    // Only once the limit has passed. What the process waited until then does not count.
    kWhenPassed,
  };

  // `pid` must not be reaped while this exists.
  ProcessLimit(pid_t pid, int64_t limit_ns, Watch watch)
      : pid_(pid), limit_ns_(limit_ns), watching_(watch == Watch::kAlways) {}

  // Call it every few milliseconds.
  bool Exceeded();

 private:
  const pid_t pid_;
  const int64_t limit_ns_;
  bool watching_;
  bool looked_ = false;
  AwakeTime awake_;
  int64_t last_look_ns_ = 0;  // of awake_
  int64_t last_cpu_ns_ = 0;
  int64_t charged_ns_ = 0;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_PROCESS_PROCESS_LIMIT_H_
