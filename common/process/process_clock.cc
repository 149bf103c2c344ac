#include "common/process/process_clock.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kernelcast {

ProcessClock::ProcessClock(pid_t pid)
    : stat_fd_(open(absl::StrCat("/proc/", pid, "/stat").c_str(), O_RDONLY | O_CLOEXEC)) {
  if (clock_getcpuclockid(pid, &clock_) != 0) {
    clock_ = -1;
  }
}

ProcessClock::~ProcessClock() {
  if (stat_fd_ >= 0) {
    close(stat_fd_);
  }
}

ProcessClock::ProcessClock(ProcessClock&& other) noexcept
    : clock_(std::exchange(other.clock_, -1)), stat_fd_(std::exchange(other.stat_fd_, -1)) {}

ProcessClock& ProcessClock::operator=(ProcessClock&& other) noexcept {
  std::swap(clock_, other.clock_);
  std::swap(stat_fd_, other.stat_fd_);
  return *this;
}

int64_t ProcessClock::RanNs() const {
  timespec ran{};
  if (clock_ == -1 || clock_gettime(clock_, &ran) != 0) {
    return 0;
  }
  return int64_t{ran.tv_sec} * 1'000'000'000 + ran.tv_nsec;
}

bool ProcessClock::Sleeps() const {
  // Format: "pid (name) state ...". The name may contain brackets; what follows does not.
  std::array<char, 512> text;
  const ssize_t got = stat_fd_ >= 0 ? pread(stat_fd_, text.data(), text.size(), 0) : ssize_t{-1};
  const std::string_view stat(text.data(), got > 0 ? static_cast<size_t>(got) : 0);
  const size_t state = stat.rfind(") ");
  return state == std::string_view::npos || stat.substr(state + 2, 1) != "R";
}

}  // namespace kernelcast
