#include "services/worker/sandbox/interpreter_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

namespace kernelcast::worker::sandbox {

void AllowInterpreter(SystemCallFilter& filter) {
  filter.Allow({SCMP_SYS(read), SCMP_SYS(readv), SCMP_SYS(pread64), SCMP_SYS(lseek),
                SCMP_SYS(close), SCMP_SYS(close_range), SCMP_SYS(fcntl), SCMP_SYS(dup),
                SCMP_SYS(poll), SCMP_SYS(fadvise64)});
  filter.Allow({SCMP_SYS(stat), SCMP_SYS(lstat), SCMP_SYS(fstat), SCMP_SYS(newfstatat),
                SCMP_SYS(statx), SCMP_SYS(access), SCMP_SYS(faccessat), SCMP_SYS(faccessat2),
                SCMP_SYS(readlink), SCMP_SYS(readlinkat), SCMP_SYS(getcwd), SCMP_SYS(getdents64)});
  constexpr scmp_datum_t kChanges = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;
  filter.Allow({SCMP_SYS(open)}, {SCMP_A1(SCMP_CMP_MASKED_EQ, kChanges, 0)});
  filter.Allow({SCMP_SYS(openat)}, {SCMP_A2(SCMP_CMP_MASKED_EQ, kChanges, 0)});
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    filter.Allow({SCMP_SYS(write), SCMP_SYS(writev)},
                 {SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(fd))});
  }
  filter.Allow({SCMP_SYS(exit),
                SCMP_SYS(exit_group),
                SCMP_SYS(set_robust_list),
                SCMP_SYS(rseq),
                SCMP_SYS(futex),
                SCMP_SYS(sched_yield),
                SCMP_SYS(sched_getaffinity),
                SCMP_SYS(getcpu),
                SCMP_SYS(getpid),
                SCMP_SYS(gettid),
                SCMP_SYS(getuid),
                SCMP_SYS(geteuid),
                SCMP_SYS(getgid),
                SCMP_SYS(getegid),
                SCMP_SYS(rt_sigaction),
                SCMP_SYS(rt_sigprocmask),
                SCMP_SYS(rt_sigreturn),
                SCMP_SYS(sigaltstack),
                SCMP_SYS(restart_syscall),
                SCMP_SYS(membarrier)});
  filter.Allow({SCMP_SYS(brk), SCMP_SYS(mmap), SCMP_SYS(munmap), SCMP_SYS(mremap),
                SCMP_SYS(mprotect), SCMP_SYS(madvise), SCMP_SYS(getrandom), SCMP_SYS(getrlimit),
                SCMP_SYS(getrusage), SCMP_SYS(times), SCMP_SYS(time), SCMP_SYS(gettimeofday),
                SCMP_SYS(nanosleep), SCMP_SYS(clock_nanosleep), SCMP_SYS(sysinfo),
                SCMP_SYS(uname)});
  // Larger ids are clocks of other processes and of devices.
  filter.Allow({SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres)},
               {SCMP_A0(SCMP_CMP_LE, CLOCK_TAI)});
  filter.Fail(ENOTTY, {SCMP_SYS(ioctl)});
  filter.Allow({SCMP_SYS(prlimit64)},
               {SCMP_A0(SCMP_CMP_EQ, 0), SCMP_A2(SCMP_CMP_EQ, 0)});  // queries only
}

}  // namespace kernelcast::worker::sandbox
