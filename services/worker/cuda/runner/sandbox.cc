#include "services/worker/cuda/runner/sandbox.h"

#include <errno.h>
#include <fcntl.h>
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
#include "services/worker/sandbox/system_call_filter.h"

namespace kernelcast::worker::cuda_runner {
namespace {

// Denied calls fail instead of killing the process, because libraries try calls that they do not
// need.
bool LoadFilter(int socket) {
  sandbox::SystemCallFilter filter(SCMP_ACT_ERRNO(EPERM));
  filter.Allow({SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise),
                SCMP_SYS(mlock), SCMP_SYS(munlock), SCMP_SYS(exit), SCMP_SYS(exit_group),
                SCMP_SYS(rt_sigreturn), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigaction),
                SCMP_SYS(sigaltstack), SCMP_SYS(getpid), SCMP_SYS(gettid), SCMP_SYS(getuid),
                SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid), SCMP_SYS(gettimeofday),
                SCMP_SYS(time), SCMP_SYS(times), SCMP_SYS(getrusage), SCMP_SYS(nanosleep),
                SCMP_SYS(clock_nanosleep), SCMP_SYS(getrandom), SCMP_SYS(restart_syscall),
                SCMP_SYS(getcpu), SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity),
                SCMP_SYS(futex), SCMP_SYS(set_robust_list), SCMP_SYS(rseq), SCMP_SYS(membarrier),
                SCMP_SYS(sysinfo), SCMP_SYS(uname), SCMP_SYS(fstat), SCMP_SYS(lseek),
                SCMP_SYS(close), SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(writev), SCMP_SYS(poll),
                SCMP_SYS(ppoll), SCMP_SYS(eventfd2),
                // The driver talks to the device on open descriptors.
                SCMP_SYS(ioctl)});
  // Larger ids are clocks of other processes and of devices.
  filter.Allow({SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres)},
               {SCMP_A0(SCMP_CMP_LE, CLOCK_TAI)});
  filter.Fail(EINVAL, {SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres)},
              {SCMP_A0(SCMP_CMP_GT, CLOCK_TAI)});
  filter.Allow({SCMP_SYS(fcntl)}, {SCMP_A1(SCMP_CMP_EQ, F_GETFL)});
  filter.Allow({SCMP_SYS(fcntl)}, {SCMP_A1(SCMP_CMP_EQ, F_SETFD)});
  filter.Allow({SCMP_SYS(prlimit64)}, {SCMP_A0(SCMP_CMP_EQ, 0), SCMP_A2(SCMP_CMP_EQ, 0)});
  filter.Allow({SCMP_SYS(tgkill)}, {SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(getpid()))});
  // Only code that is already loaded may run.
  filter.Allow({SCMP_SYS(mmap), SCMP_SYS(mprotect)}, {SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)});
  filter.Allow({SCMP_SYS(recvmsg), SCMP_SYS(sendmsg)},
               {SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(socket))});
  // Report a lack of resources, which libraries handle.
  filter.Fail(EAGAIN, {SCMP_SYS(clone), SCMP_SYS(clone3), SCMP_SYS(fork), SCMP_SYS(vfork)});
  // Opening any file reports that it does not exist.
  filter.Fail(ENOENT, {SCMP_SYS(open), SCMP_SYS(openat), SCMP_SYS(openat2), SCMP_SYS(stat),
                       SCMP_SYS(lstat), SCMP_SYS(statx), SCMP_SYS(access), SCMP_SYS(faccessat),
                       SCMP_SYS(faccessat2), SCMP_SYS(readlink), SCMP_SYS(readlinkat)});
  // Some C libraries implement fstat with this call.
  filter.Allow({SCMP_SYS(newfstatat)}, {SCMP_A3(SCMP_CMP_MASKED_EQ, AT_EMPTY_PATH, AT_EMPTY_PATH)});
  filter.Fail(ENOENT, {SCMP_SYS(newfstatat)}, {SCMP_A3(SCMP_CMP_MASKED_EQ, AT_EMPTY_PATH, 0)});
  return filter.Load();
}

}  // namespace

int64_t PrivateMemoryBytes() {
  FILE* const file = fopen("/proc/self/status", "re");
  if (file == nullptr) {
    return 0;
  }
  char line[256];
  long long kilobytes = 0;
  while (fgets(line, sizeof(line), file) != nullptr) {
    if (sscanf(line, "VmData: %lld kB", &kilobytes) == 1) {
      break;
    }
  }
  fclose(file);
  return int64_t{kilobytes} << 10;
}

std::vector<std::string> EnterHostSandbox(uint32_t uid, int64_t used_bytes,
                                          int64_t max_memory_bytes, int socket,
                                          bool own_namespaces) {
  std::vector<std::string> missing;
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
    limits = used_bytes > 0 &&
             sandbox::Limit(RLIMIT_DATA, static_cast<rlim_t>(used_bytes + max_memory_bytes)) &&
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
