#include "services/worker/cpu/placement.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace kernelcast::worker {
namespace {

// Returns the logical processors that share the core, e.g. "0,64" or "0-1". Empty if the system
// does not report them.
std::string CoreOf(int cpu) {
  std::ifstream file(
      absl::StrCat("/sys/devices/system/cpu/cpu", cpu, "/topology/thread_siblings_list"));
  std::string siblings;
  std::getline(file, siblings);
  return siblings;
}

cpu_set_t Only(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(cpu), &one);
  return one;
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
  // Prefer the last core: interrupts and other programs use the first.
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
    const cpu_set_t one = Only(placement.judge_cpu);
    sched_setaffinity(0, sizeof(one), &one);
  }
}

TimingPriority::~TimingPriority() {
  if (saved_->has_affinity) {
    sched_setaffinity(0, sizeof(saved_->affinity), &saved_->affinity);
  }
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), saved_->nice);
}

RunnerCore::~RunnerCore() { Join(); }

void RunnerCore::Join() {
  if (thread_) pthread_join(*std::exchange(thread_, std::nullopt), nullptr);
}

void RunnerCore::Run(const std::function<void()>& function) {
  Join();
  if (placement_.alone()) {
    function();
    return;
  }
  function_ = &function;
  ended_ = false;
  const cpu_set_t one = Only(placement_.runner_cpu);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setaffinity_np(&attributes, sizeof(one), &one);
  pthread_t thread;
  const int error = pthread_create(
      &thread, &attributes,
      [](void* self) -> void* {
        auto& core = *static_cast<RunnerCore*>(self);
        (*core.function_)();
        core.ended_.store(true);
        return nullptr;
      },
      this);
  pthread_attr_destroy(&attributes);
  if (error != 0) {
    function();
    return;
  }
  thread_ = thread;
  while (!ended_.load()) __builtin_ia32_pause();
}

WaitMeter WaitMeter::OfProcess(int pid) {
  return WaitMeter(absl::StrCat("/proc/", pid, "/schedstat"));
}

WaitMeter WaitMeter::OfThisThread() {
  return WaitMeter(absl::StrCat("/proc/self/task/", syscall(SYS_gettid), "/schedstat"));
}

WaitMeter::WaitMeter(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}

WaitMeter::~WaitMeter() {
  if (fd_ >= 0) {
    close(fd_);
  }
}

WaitMeter::WaitMeter(WaitMeter&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

WaitMeter& WaitMeter::operator=(WaitMeter&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

int64_t WaitMeter::WaitedNs() const {
  // Format: "time on a core, time ready without one, slices".
  std::array<char, 128> text;
  const ssize_t got = fd_ >= 0 ? pread(fd_, text.data(), text.size(), 0) : ssize_t{-1};
  if (got <= 0) {
    return 0;
  }
  const char* const end = text.data() + got;
  const char* const space = std::find<const char*>(text.data(), end, ' ');
  int64_t waited_ns = 0;
  if (space != end) {
    std::from_chars(space + 1, end, waited_ns);
  }
  return waited_ns;
}

}  // namespace kernelcast::worker
