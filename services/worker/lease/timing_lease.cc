#include "services/worker/lease/timing_lease.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace kernelcast::worker {
namespace {

constexpr int64_t kLeasePollNs = 2'000'000;

}  // namespace

absl::StatusOr<std::unique_ptr<TimingLease>> TimingLease::Open(const std::string& path) {
  int fd = -1;
  if (!path.empty()) {
    // Workers of other users take part: a lock needs no more than a descriptor for reading. In a
    // folder that all may write to, a file of another user cannot be opened with O_CREAT.
    fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT) {
      fd = open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    }
    if (fd < 0) {
      return absl::InternalError(
          absl::StrCat("cannot open the lease file ", path, ": ", std::strerror(errno)));
    }
  }
  return std::unique_ptr<TimingLease>(new TimingLease(fd));
}

TimingLease::~TimingLease() {
  if (fd_ >= 0) {
    close(fd_);
  }
}

absl::StatusOr<TimingLease::Held> TimingLease::Acquire(const CancelToken& cancel) {
  while (!mutex_.try_lock_for(std::chrono::nanoseconds(kLeasePollNs))) {
    KC_RETURN_IF_ERROR(cancel.Check());
  }
  while (fd_ >= 0 && flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const absl::Status stopped = cancel.Check();
    if (!stopped.ok()) {
      mutex_.unlock();
      return stopped;
    }
    cancel.SleepFor(kLeasePollNs);
  }
  return Held(this);
}

void TimingLease::Release() {
  if (fd_ >= 0) {
    flock(fd_, LOCK_UN);
  }
  mutex_.unlock();
}

TimingLease::Held::Held(Held&& other) noexcept : lease_(std::exchange(other.lease_, nullptr)) {}

TimingLease::Held::~Held() {
  if (lease_ != nullptr) {
    lease_->Release();
  }
}

}  // namespace kernelcast::worker
