#include "services/worker/cuda/runner/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "services/worker/sandbox/landlock.h"
#include "services/worker/sandbox/namespaces.h"
#include "services/worker/sandbox/privileges.h"

namespace kernelcast::worker::cuda_runner {
namespace {

// Current private writable memory of this process, or 0 if the system does not report it. Address
// space reserved by the driver is not included.
rlim_t DataBytes() {
  FILE* const file = fopen("/proc/self/status", "re");
  if (file == nullptr) {
    return 0;
  }
  char line[256];
  unsigned long long kilobytes = 0;
  while (fgets(line, sizeof(line), file) != nullptr) {
    if (sscanf(line, "VmData: %llu kB", &kilobytes) == 1) {
      break;
    }
  }
  fclose(file);
  return static_cast<rlim_t>(kilobytes) << 10;
}

class Filter {
 public:
  // Denied calls fail instead of killing the process, because libraries try calls that they do not
  // need.
  Filter() : context_(seccomp_init(SCMP_ACT_ERRNO(EPERM))) {}
  ~Filter() {
    if (context_ != nullptr) seccomp_release(context_);
  }
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;

  template <class... Conditions>
  void Add(uint32_t action, int call, Conditions... conditions) {
    ok_ = ok_ && context_ != nullptr &&
          seccomp_rule_add(context_, action, call, sizeof...(conditions), conditions...) == 0;
  }
  bool Load() {
    // The driver already has threads of its own.
    return ok_ && context_ != nullptr &&
           seccomp_attr_set(context_, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) == 0 &&
           seccomp_attr_set(context_, SCMP_FLTATR_CTL_TSYNC, 1) == 0 && seccomp_load(context_) == 0;
  }

 private:
  scmp_filter_ctx context_;
  bool ok_ = true;
};

bool LoadFilter(int socket) {
  Filter filter;
  for (const int call :
       {SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(mlock),
        SCMP_SYS(munlock), SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(rt_sigreturn),
        SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigaction), SCMP_SYS(sigaltstack), SCMP_SYS(getpid),
        SCMP_SYS(gettid), SCMP_SYS(getuid), SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid),
        SCMP_SYS(gettimeofday), SCMP_SYS(time), SCMP_SYS(times), SCMP_SYS(getrusage),
        SCMP_SYS(nanosleep), SCMP_SYS(clock_nanosleep), SCMP_SYS(getrandom),
        SCMP_SYS(restart_syscall), SCMP_SYS(getcpu), SCMP_SYS(sched_yield),
        SCMP_SYS(sched_getaffinity), SCMP_SYS(futex), SCMP_SYS(set_robust_list), SCMP_SYS(rseq),
        SCMP_SYS(membarrier), SCMP_SYS(sysinfo), SCMP_SYS(uname), SCMP_SYS(fstat), SCMP_SYS(lseek),
        SCMP_SYS(close), SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(writev), SCMP_SYS(poll),
        SCMP_SYS(ppoll), SCMP_SYS(eventfd2),
        // The driver talks to the device on open descriptors.
        SCMP_SYS(ioctl)}) {
    filter.Add(SCMP_ACT_ALLOW, call);
  }
  // Larger ids are clocks of other processes and of devices.
  for (const int call : {SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres)}) {
    filter.Add(SCMP_ACT_ALLOW, call, SCMP_A0(SCMP_CMP_LE, CLOCK_TAI));
    filter.Add(SCMP_ACT_ERRNO(EINVAL), call, SCMP_A0(SCMP_CMP_GT, CLOCK_TAI));
  }
  filter.Add(SCMP_ACT_ALLOW, SCMP_SYS(fcntl), SCMP_A1(SCMP_CMP_EQ, F_GETFL));
  filter.Add(SCMP_ACT_ALLOW, SCMP_SYS(fcntl), SCMP_A1(SCMP_CMP_EQ, F_SETFD));
  filter.Add(SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), SCMP_A0(SCMP_CMP_EQ, 0), SCMP_A2(SCMP_CMP_EQ, 0));
  filter.Add(SCMP_ACT_ALLOW, SCMP_SYS(tgkill),
             SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(getpid())));
  // Only code that is already loaded may run.
  filter.Add(SCMP_ACT_ALLOW, SCMP_SYS(mmap), SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
  filter.Add(SCMP_ACT_ALLOW, SCMP_SYS(mprotect), SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
  const auto number = static_cast<scmp_datum_t>(socket);
  for (const int call : {SCMP_SYS(recvmsg), SCMP_SYS(sendmsg)}) {
    filter.Add(SCMP_ACT_ALLOW, call, SCMP_A0(SCMP_CMP_EQ, number));
  }
  // Report a lack of resources, which libraries handle.
  for (const int call : {SCMP_SYS(clone), SCMP_SYS(clone3), SCMP_SYS(fork), SCMP_SYS(vfork)}) {
    filter.Add(SCMP_ACT_ERRNO(EAGAIN), call);
  }
  // Opening any file reports that it does not exist.
  for (const int call : {SCMP_SYS(open), SCMP_SYS(openat), SCMP_SYS(openat2), SCMP_SYS(stat),
                         SCMP_SYS(lstat), SCMP_SYS(statx), SCMP_SYS(access), SCMP_SYS(faccessat),
                         SCMP_SYS(faccessat2), SCMP_SYS(readlink), SCMP_SYS(readlinkat)}) {
    filter.Add(SCMP_ACT_ERRNO(ENOENT), call);
  }
  // Some C libraries implement fstat with this call.
  filter.Add(SCMP_ACT_ALLOW, SCMP_SYS(newfstatat),
             SCMP_A3(SCMP_CMP_MASKED_EQ, AT_EMPTY_PATH, AT_EMPTY_PATH));
  filter.Add(SCMP_ACT_ERRNO(ENOENT), SCMP_SYS(newfstatat),
             SCMP_A3(SCMP_CMP_MASKED_EQ, AT_EMPTY_PATH, 0));
  return filter.Load();
}

}  // namespace

std::vector<std::string> EnterHostSandbox(uint32_t uid, int64_t max_memory_bytes, int socket,
                                          bool own_namespaces) {
  std::vector<std::string> missing;
  // Read this while files can still be opened.
  const rlim_t data_bytes = DataBytes();
  const bool alone = own_namespaces && sandbox::EmptyRoot();
  if (!sandbox::LeaveRoot(uid)) {
    missing.emplace_back("unprivileged_user");
  }
  // A change of user clears it.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!sandbox::DropCapabilities() || !alone) {
    missing.emplace_back("namespaces");
  }
  bool limits = sandbox::Limit(RLIMIT_CORE, 0);
  limits = sandbox::Limit(RLIMIT_FSIZE, 0) && limits;
  if (max_memory_bytes > 0) {
    limits = data_bytes > 0 &&
             sandbox::Limit(RLIMIT_DATA, data_bytes + static_cast<rlim_t>(max_memory_bytes)) &&
             limits;
  }
  if (!limits) {
    missing.emplace_back("resource_limits");
  }
  if (!sandbox::GiveUpNewPrivileges()) {
    missing.emplace_back("no_new_privileges");
  }
  // Applies to this thread, which runs the candidate's code and can start no other.
  if (!sandbox::DenyFilesAndNetwork()) {
    missing.emplace_back("landlock");
  }
  if (!LoadFilter(socket)) {
    missing.emplace_back("seccomp");
  }
  return missing;
}

}  // namespace kernelcast::worker::cuda_runner
