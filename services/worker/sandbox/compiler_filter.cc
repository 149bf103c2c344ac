#include "services/worker/sandbox/compiler_filter.h"

namespace kernelcast::worker::sandbox {

void AllowCompiler(SystemCallFilter& filter) {
  // Content of files.
  filter.Allow({SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(readv), SCMP_SYS(writev),
                SCMP_SYS(pread64), SCMP_SYS(pwrite64), SCMP_SYS(open), SCMP_SYS(openat),
                SCMP_SYS(creat), SCMP_SYS(lseek), SCMP_SYS(fsync), SCMP_SYS(fdatasync),
                SCMP_SYS(ftruncate), SCMP_SYS(fallocate), SCMP_SYS(fadvise64), SCMP_SYS(sendfile),
                SCMP_SYS(copy_file_range)});
  // Descriptors.
  filter.Allow({SCMP_SYS(close), SCMP_SYS(close_range), SCMP_SYS(fcntl), SCMP_SYS(dup),
                SCMP_SYS(dup2), SCMP_SYS(dup3), SCMP_SYS(pipe), SCMP_SYS(pipe2), SCMP_SYS(poll),
                SCMP_SYS(ppoll), SCMP_SYS(select), SCMP_SYS(pselect6)});
  // Folders and properties of files.
  filter.Allow({SCMP_SYS(stat),      SCMP_SYS(lstat),      SCMP_SYS(fstat),    SCMP_SYS(newfstatat),
                SCMP_SYS(statx),     SCMP_SYS(statfs),     SCMP_SYS(fstatfs),  SCMP_SYS(access),
                SCMP_SYS(faccessat), SCMP_SYS(faccessat2), SCMP_SYS(readlink), SCMP_SYS(readlinkat),
                SCMP_SYS(getcwd),    SCMP_SYS(chdir),      SCMP_SYS(fchdir),   SCMP_SYS(getdents64),
                SCMP_SYS(truncate),  SCMP_SYS(unlink),     SCMP_SYS(unlinkat), SCMP_SYS(rename),
                SCMP_SYS(renameat),  SCMP_SYS(renameat2),  SCMP_SYS(mkdir),    SCMP_SYS(mkdirat),
                SCMP_SYS(rmdir),     SCMP_SYS(chmod),      SCMP_SYS(fchmod),   SCMP_SYS(fchmodat),
                SCMP_SYS(umask),     SCMP_SYS(utimensat)});
  // Processes and signals.
  filter.Allow({SCMP_SYS(execve),       SCMP_SYS(vfork),           SCMP_SYS(fork),
                SCMP_SYS(wait4),        SCMP_SYS(waitid),          SCMP_SYS(exit),
                SCMP_SYS(exit_group),   SCMP_SYS(set_tid_address), SCMP_SYS(set_robust_list),
                SCMP_SYS(rseq),         SCMP_SYS(arch_prctl),      SCMP_SYS(futex),
                SCMP_SYS(sched_yield),  SCMP_SYS(membarrier),      SCMP_SYS(sched_getaffinity),
                SCMP_SYS(getcpu),       SCMP_SYS(getpid),          SCMP_SYS(getppid),
                SCMP_SYS(gettid),       SCMP_SYS(getuid),          SCMP_SYS(geteuid),
                SCMP_SYS(getgid),       SCMP_SYS(getegid),         SCMP_SYS(getpgrp),
                SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask),  SCMP_SYS(rt_sigreturn),
                SCMP_SYS(sigaltstack),  SCMP_SYS(restart_syscall)});
  // Memory, limits and time.
  filter.Allow({SCMP_SYS(brk), SCMP_SYS(mmap), SCMP_SYS(munmap), SCMP_SYS(mremap),
                SCMP_SYS(mprotect), SCMP_SYS(madvise), SCMP_SYS(msync), SCMP_SYS(getrandom),
                SCMP_SYS(getrlimit), SCMP_SYS(setrlimit), SCMP_SYS(getrusage), SCMP_SYS(times),
                SCMP_SYS(time), SCMP_SYS(gettimeofday), SCMP_SYS(nanosleep),
                SCMP_SYS(clock_nanosleep), SCMP_SYS(sysinfo), SCMP_SYS(uname)});
  // A process may query and lower its own limits.
  filter.Allow({SCMP_SYS(prlimit64)}, {SCMP_A0(SCMP_CMP_EQ, 0)});
}

}  // namespace kernelcast::worker::sandbox
