#include "services/orchestrator/status/log_disk.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/disk_space.h"

namespace kernelcast::orchestrator {
namespace {

// A tenth of a large disk is plenty.
constexpr uint64_t kPlentyBytes = uint64_t{20} << 30;
constexpr int64_t kDayNs = int64_t{86400} * 1'000'000'000;
// A log that hardly grows would overflow the time.
constexpr double kMaxNs = 100.0 * 365 * kDayNs;

}  // namespace

bool LogDisk::low() const {
  if (full_in_ns && *full_in_ns < kDayNs) return true;
  return free_bytes < total_bytes / 10 && free_bytes < kPlentyBytes;
}

void LogGrowth::Add(int64_t time_ns, uint64_t bytes) {
  if (samples_.size() >= 2 && time_ns - samples_[samples_.size() - 2].time_ns < kSpacingNs) {
    samples_.pop_back();
  }
  samples_.push_back({time_ns, bytes});
  while (samples_.front().time_ns < time_ns - kWindowNs) samples_.pop_front();
}

std::optional<double> LogGrowth::BytesPerNs() const {
  if (samples_.empty()) return std::nullopt;
  const Sample& first = samples_.front();
  const Sample& last = samples_.back();
  const int64_t watched_ns = last.time_ns - first.time_ns;
  if (watched_ns < kShortestNs || last.bytes <= first.bytes) return std::nullopt;
  return static_cast<double>(last.bytes - first.bytes) / static_cast<double>(watched_ns);
}

LogDiskWatch::LogDiskWatch(std::string file) : file_(std::move(file)) {}

void LogDiskWatch::Sample(int64_t monotonic_ns) {
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(file_, error);
  if (error) return;
  const std::lock_guard lock(mutex_);
  growth_.Add(monotonic_ns, bytes);
}

std::optional<LogDisk> LogDiskWatch::Look() const {
  const std::optional<DiskSpace> space =
      DiskSpaceOf(std::filesystem::path(file_).parent_path().string());
  if (!space) return std::nullopt;
  LogDisk disk{space->total_bytes, space->free_bytes};
  const std::lock_guard lock(mutex_);
  if (const std::optional<double> pace = growth_.BytesPerNs()) {
    const double ns = static_cast<double>(disk.free_bytes) / *pace;
    if (ns < kMaxNs) disk.full_in_ns = static_cast<int64_t>(ns);
  }
  return disk;
}

}  // namespace kernelcast::orchestrator
