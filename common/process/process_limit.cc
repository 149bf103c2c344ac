#include "common/process/process_limit.h"

#include <time.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"

namespace kernelcast {
namespace {

// A look reads a file of /proc.
constexpr int64_t kLookNs = 10'000'000;

// The state of the process's first thread, as proc(5) writes it.
char StateOf(pid_t pid) {
  const auto stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  const size_t name_end = stat.ok() ? stat->rfind(") ") : std::string::npos;
  return name_end == std::string::npos || name_end + 2 >= stat->size() ? '?'
                                                                       : (*stat)[name_end + 2];
}

}  // namespace

int64_t ProcessCpuNs(pid_t pid) {
  clockid_t clock;
  timespec used{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) return 0;
  return int64_t{used.tv_sec} * 1'000'000'000 + used.tv_nsec;
}

bool ProcessLimit::Exceeded() {
  const int64_t awake_ns = awake_.Look();
  if (!looked_) {
    looked_ = true;
    last_cpu_ns_ = ProcessCpuNs(pid_);
  }
  const int64_t passed_ns = awake_ns - last_look_ns_;
  if (passed_ns < (watching_ ? std::min(kLookNs, limit_ns_) : limit_ns_)) return false;
  const int64_t cpu_ns = ProcessCpuNs(pid_);
  const int64_t ran_ns = std::max<int64_t>(0, cpu_ns - last_cpu_ns_);
  const char state = watching_ ? StateOf(pid_) : 'R';
  const bool could_not_run = state == 'R' || state == 'T' || state == 't';
  charged_ns_ += could_not_run ? std::min(ran_ns, passed_ns) : passed_ns;
  watching_ = true;
  last_look_ns_ = awake_ns;
  last_cpu_ns_ = cpu_ns;
  // The processor time of a process that computes all the time is a little less than the wall time.
  return charged_ns_ >= limit_ns_ - limit_ns_ / 20 || awake_ns >= kWallFactor * limit_ns_;
}

}  // namespace kernelcast
