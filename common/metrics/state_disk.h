#ifndef KERNELCAST_COMMON_METRICS_STATE_DISK_H_
#define KERNELCAST_COMMON_METRICS_STATE_DISK_H_

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "common/metrics/metrics.h"

namespace kernelcast {

// Exports the space on the file system with a service's state as
//
//   kernelcast_state_disk_free_bytes
//   kernelcast_state_disk_used_bytes
//
// which together are its size. Exports nothing while there is no such folder.
class StateDisk {
 public:
  // `metrics` must outlive this object.
  StateDisk(std::string folder, MetricsRegistry* metrics,
            absl::Duration interval = absl::Seconds(10));
  StateDisk(const StateDisk&) = delete;
  StateDisk& operator=(const StateDisk&) = delete;

 private:
  void Update();

  const std::string folder_;
  MetricsRegistry* const metrics_;
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_;  // last: uses the other members
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_METRICS_STATE_DISK_H_
