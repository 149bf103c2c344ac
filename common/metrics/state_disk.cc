#include "common/metrics/state_disk.h"

#include <optional>
#include <stop_token>
#include <utility>

#include "common/base/disk_space.h"

namespace kernelcast {

StateDisk::StateDisk(std::string folder, MetricsRegistry* metrics, absl::Duration interval)
    : folder_(std::move(folder)), metrics_(metrics) {
  Update();
  thread_ = std::jthread([this, interval](const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stopped_.wait_for(lock, stop, absl::ToChronoNanoseconds(interval),
                              [&stop] { return stop.stop_requested(); })) {
      if (stop.stop_requested()) return;
      Update();
    }
  });
}

void StateDisk::Update() {
  const std::optional<DiskSpace> space = DiskSpaceOf(folder_);
  if (!space) return;
  metrics_
      ->Gauge("kernelcast_state_disk_free_bytes",
              "Free space on the file system with the service's state.")
      .Set(static_cast<double>(space->free_bytes));
  metrics_
      ->Gauge("kernelcast_state_disk_used_bytes",
              "Space on the file system with the service's state that is not free.")
      .Set(static_cast<double>(space->total_bytes - space->free_bytes));
}

}  // namespace kernelcast
