#include "services/worker/sandbox/system_call_filter.h"

#include <sys/mman.h>
#include <unistd.h>

namespace kernelcast::worker::sandbox {

SystemCallFilter::SystemCallFilter(uint32_t default_action)
    : context_(seccomp_init(default_action)), ok_(context_ != nullptr) {}

SystemCallFilter::~SystemCallFilter() {
  if (context_ != nullptr) seccomp_release(context_);
}

void SystemCallFilter::Allow(Calls calls, Conditions conditions) {
  Add(SCMP_ACT_ALLOW, calls, conditions);
}

void SystemCallFilter::Fail(int error, Calls calls, Conditions conditions) {
  Add(SCMP_ACT_ERRNO(static_cast<uint32_t>(error)), calls, conditions);
}

std::string SystemCallFilter::Instructions() {
  if (!ok_ || seccomp_attr_set(context_, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) != 0) {
    return "";
  }
  const int fd = memfd_create("filter", MFD_CLOEXEC);
  if (fd < 0) return "";
  std::string instructions;
  if (seccomp_export_bpf(context_, fd) == 0) {
    const off_t size = lseek(fd, 0, SEEK_END);
    instructions.resize(size > 0 ? static_cast<size_t>(size) : 0);
    if (pread(fd, instructions.data(), instructions.size(), 0) != size) instructions.clear();
  }
  close(fd);
  return instructions;
}

bool SystemCallFilter::Load() {
  return ok_ && seccomp_attr_set(context_, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) == 0 &&
         seccomp_attr_set(context_, SCMP_FLTATR_CTL_TSYNC, 1) == 0 && seccomp_load(context_) == 0;
}

void SystemCallFilter::Add(uint32_t action, Calls calls, Conditions conditions) {
  for (const int call : calls) {
    ok_ = ok_ &&
          seccomp_rule_add_array(context_, action, call, static_cast<unsigned>(conditions.size()),
                                 conditions.begin()) == 0;
  }
}

}  // namespace kernelcast::worker::sandbox
