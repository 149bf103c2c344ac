#include "services/worker/cpu/placement.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace kernelcast::worker {
namespace {

constexpr int64_t kLeasePollNs = 2'000'000;

// "0,64" or "0-1": which logical processors share the core. Empty where the system does not say.
std::string CoreOf(int cpu) {
  std::ifstream file(
      absl::StrCat("/sys/devices/system/cpu/cpu", cpu, "/topology/thread_siblings_list"));
  std::string siblings;
  std::getline(file, siblings);
  return siblings;
}

}  // namespace

Placement Placement::Choose() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
    return {};
  }
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<size_t>(cpu), &allowed)) {
      cpus.push_back(cpu);
    }
  }
  if (cpus.empty()) {
    return {};
  }
  // The last one: interrupts and other programs prefer the first.
  Placement placement{.judge_cpu = cpus.front(), .runner_cpu = cpus.back()};
  for (const int cpu : cpus) {
    const std::string core = CoreOf(cpu);
    if (cpu != placement.runner_cpu && (core.empty() || core != CoreOf(placement.runner_cpu))) {
      placement.judge_cpu = cpu;
    }
  }
  return placement;
}

struct TimingPriority::Saved {
  cpu_set_t affinity;
  bool has_affinity = false;
  int nice = 0;
};

TimingPriority::TimingPriority(const Placement& placement) : saved_(std::make_unique<Saved>()) {
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  saved_->nice = getpriority(PRIO_PROCESS, thread);
  setpriority(PRIO_PROCESS, thread, kTimingNice);
  CPU_ZERO(&saved_->affinity);
  if (placement.judge_cpu >= 0 &&
      sched_getaffinity(0, sizeof(saved_->affinity), &saved_->affinity) == 0) {
    saved_->has_affinity = true;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(placement.judge_cpu), &one);
    sched_setaffinity(0, sizeof(one), &one);
  }
}

TimingPriority::~TimingPriority() {
  if (saved_->has_affinity) {
    sched_setaffinity(0, sizeof(saved_->affinity), &saved_->affinity);
  }
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), saved_->nice);
}

absl::StatusOr<std::unique_ptr<TimingLease>> TimingLease::Open(const std::string& path) {
  int fd = -1;
  if (!path.empty()) {
    // Workers of other users take part: a lock needs no more than a descriptor for reading.
    fd = open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
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
