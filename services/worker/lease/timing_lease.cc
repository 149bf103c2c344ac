#include "services/worker/lease/timing_lease.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/status.h"

namespace kernelcast::worker {
namespace {

constexpr int64_t kLeasePollNs = 2'000'000;
constexpr int64_t kHolderPollNs = 100'000'000;

absl::StatusOr<int> OpenFile(const std::string& path) {
  // Workers of other users share the lock, which needs only a descriptor for reading. In a folder
  // writable by all, O_CREAT fails for a file of another user.
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0 && errno == ENOENT) {
    fd = open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  }
  if (fd < 0) {
    return absl::InternalError(
        absl::StrCat("cannot open the lease file ", path, ": ", std::strerror(errno)));
  }
  return fd;
}

// Returns the process that holds the lock of an open file, or 0 if the system does not report it.
int HolderOf(int fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return 0;
  char wanted[64];
  std::snprintf(wanted, sizeof wanted, "%02x:%02x:%llu", major(info.st_dev), minor(info.st_dev),
                static_cast<unsigned long long>(info.st_ino));
  // "1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF"; waiting processes have "->".
  std::ifstream locks("/proc/locks");
  std::string line;
  while (std::getline(locks, line)) {
    std::istringstream words(line);
    std::string number;
    std::string kind;
    std::string mode;
    std::string access;
    std::string file;
    int process = 0;
    if (words >> number >> kind >> mode >> access >> process >> file && kind == "FLOCK" &&
        file == wanted) {
      return process;
    }
  }
  return 0;
}

bool IsStopped(int process) {
  std::ifstream file(absl::StrCat("/proc/", process, "/stat"));
  std::string text;
  std::getline(file, text);
  // "1234 (name) T ...": the name may contain any character.
  const size_t end = text.rfind(") ");
  return end != std::string::npos && end + 2 < text.size() &&
         (text[end + 2] == 'T' || text[end + 2] == 't');
}

// Detects that one process holds a lock and has been stopped for longer than a limit.
class StopWatch {
 public:
  explicit StopWatch(int64_t limit_ns) : limit_ns_(limit_ns) {}

  // Returns the process, or 0.
  int Look(int fd) {
    const int64_t now_ns = Clock::Real().MonotonicNs();
    if (now_ns < next_look_ns_) return 0;
    next_look_ns_ = now_ns + std::min(kHolderPollNs, limit_ns_);
    const int holder = HolderOf(fd);
    if (holder == 0 || !IsStopped(holder)) {
      holder_ = 0;
      return 0;
    }
    if (holder != holder_) {
      holder_ = holder;
      since_ns_ = now_ns;
    }
    return now_ns - since_ns_ >= limit_ns_ ? holder : 0;
  }

 private:
  const int64_t limit_ns_;
  int64_t next_look_ns_ = 0;
  int64_t since_ns_ = 0;
  int holder_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TimingLease>> TimingLease::Open(const std::string& path,
                                                               int64_t stopped_limit_ns) {
  int fd = -1;
  if (!path.empty()) {
    KC_ASSIGN_OR_RETURN(fd, OpenFile(path));
  }
  return std::unique_ptr<TimingLease>(new TimingLease(path, fd, stopped_limit_ns));
}

TimingLease::~TimingLease() {
  if (fd_ >= 0) {
    close(fd_);
  }
}

bool TimingLease::IsCurrent() const {
  struct stat mine {};
  struct stat named {};
  return fstat(fd_, &mine) == 0 && lstat(path_.c_str(), &named) == 0 &&
         mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
}

absl::Status TimingLease::Reopen() {
  KC_ASSIGN_OR_RETURN(const int fd, OpenFile(path_));
  close(std::exchange(fd_, fd));
  return absl::OkStatus();
}

void TimingLease::TakeOver(int holder) {
  // One process at a time, so that the next one does not remove the file that the first has
  // created.
  const auto guard = OpenFile(absl::StrCat(path_, ".takeover"));
  if (!guard.ok()) return;
  if (flock(*guard, LOCK_EX | LOCK_NB) == 0 && IsCurrent() && unlink(path_.c_str()) == 0) {
    Log(LogLevel::kWarning, "took over the timing lease of a worker that is stopped",
        {{"process", holder}, {"file", path_}});
  }
  close(*guard);
}

absl::Status TimingLease::LockFile(const CancelToken& cancel) {
  StopWatch watch(stopped_limit_ns_);
  for (;;) {
    if (!IsCurrent()) {
      KC_RETURN_IF_ERROR(Reopen());
    }
    if (flock(fd_, LOCK_EX | LOCK_NB) == 0) {
      if (IsCurrent()) return absl::OkStatus();
      flock(fd_, LOCK_UN);
      continue;
    }
    KC_RETURN_IF_ERROR(cancel.Check());
    if (const int holder = watch.Look(fd_); holder != 0) {
      TakeOver(holder);
    }
    cancel.SleepFor(kLeasePollNs);
  }
}

absl::StatusOr<TimingLease::Held> TimingLease::Acquire(const CancelToken& cancel) {
  while (!free_.try_acquire_for(std::chrono::nanoseconds(kLeasePollNs))) {
    KC_RETURN_IF_ERROR(cancel.Check());
  }
  if (fd_ >= 0) {
    const absl::Status locked = LockFile(cancel);
    if (!locked.ok()) {
      free_.release();
      return locked;
    }
  }
  return Held(this);
}

void TimingLease::Release() {
  if (fd_ >= 0) {
    flock(fd_, LOCK_UN);
  }
  free_.release();
}

TimingLease::Held::Held(Held&& other) noexcept : lease_(std::exchange(other.lease_, nullptr)) {}

TimingLease::Held::~Held() {
  if (lease_ != nullptr) {
    lease_->Release();
  }
}

absl::Status TimingLease::Held::Check() const {
  if (lease_->fd_ < 0 || lease_->IsCurrent()) return absl::OkStatus();
  return absl::UnavailableError(
      "this worker was stopped during a measurement, and another one took over the timing lease");
}

}  // namespace kernelcast::worker
