#include "services/worker/cuda/compiler/sandbox.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "services/worker/cuda/compiler/wire.h"
#include "services/worker/sandbox/landlock.h"
#include "services/worker/sandbox/namespaces.h"
#include "services/worker/sandbox/privileges.h"
#include "services/worker/sandbox/system_call_filter.h"

namespace kernelcast::worker {
namespace {

// Current address space of this process, or 0 if the system does not report it.
rlim_t AddressSpaceBytes() {
  unsigned long long pages = 0;
  FILE* const file = fopen("/proc/self/statm", "re");
  if (file == nullptr) {
    return 0;
  }
  const bool read = fscanf(file, "%llu", &pages) == 1;
  fclose(file);
  return read ? static_cast<rlim_t>(pages) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) : 0;
}

// Allows memory, time, and the open descriptors. Other calls fail instead of killing the process,
// because the compiler looks for files that it does not need.
bool LoadFilter() {
  sandbox::SystemCallFilter filter(SCMP_ACT_ERRNO(EPERM));
  filter.Allow({SCMP_SYS(brk),           SCMP_SYS(munmap),
                SCMP_SYS(mremap),        SCMP_SYS(madvise),
                SCMP_SYS(exit),          SCMP_SYS(exit_group),
                SCMP_SYS(rt_sigreturn),  SCMP_SYS(rt_sigprocmask),
                SCMP_SYS(rt_sigaction),  SCMP_SYS(sigaltstack),
                SCMP_SYS(getpid),        SCMP_SYS(gettid),
                SCMP_SYS(clock_gettime), SCMP_SYS(gettimeofday),
                SCMP_SYS(clock_getres),  SCMP_SYS(time),
                SCMP_SYS(times),         SCMP_SYS(getrusage),
                SCMP_SYS(getrandom),     SCMP_SYS(restart_syscall),
                SCMP_SYS(getcpu),        SCMP_SYS(sched_yield),
                SCMP_SYS(futex),         SCMP_SYS(fstat),
                SCMP_SYS(close),         SCMP_SYS(set_robust_list),
                SCMP_SYS(rseq),          SCMP_SYS(sched_getaffinity)});
  // The compiler uses several threads if there are several cores. Threads are allowed, processes
  // are not. A filter cannot see the flags of clone3, so it fails as on an older kernel.
  constexpr scmp_datum_t kThread = CLONE_THREAD | CLONE_VM | CLONE_SIGHAND;
  filter.Allow({SCMP_SYS(clone)}, {SCMP_A0(SCMP_CMP_MASKED_EQ, kThread, kThread)});
  filter.Fail(ENOSYS, {SCMP_SYS(clone3)});
  filter.Allow({SCMP_SYS(read)},
               {SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(compiler_wire::kSocketFd))});
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO, compiler_wire::kSocketFd}) {
    filter.Allow({SCMP_SYS(write), SCMP_SYS(writev)},
                 {SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(fd))});
  }
  filter.Allow({SCMP_SYS(mmap)}, {SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0),
                                  SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_ANONYMOUS, MAP_ANONYMOUS)});
  filter.Allow({SCMP_SYS(mprotect)}, {SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)});
  filter.Allow({SCMP_SYS(tgkill)}, {SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(getpid()))});
  // Opening any file reports that it does not exist.
  filter.Fail(ENOENT, {SCMP_SYS(open), SCMP_SYS(openat), SCMP_SYS(stat), SCMP_SYS(lstat),
                       SCMP_SYS(newfstatat), SCMP_SYS(statx), SCMP_SYS(access), SCMP_SYS(faccessat),
                       SCMP_SYS(faccessat2), SCMP_SYS(readlink), SCMP_SYS(readlinkat)});
  return filter.Load();
}

}  // namespace

std::vector<std::string> EnterCompilerSandbox(uint32_t uid, int64_t max_memory_bytes,
                                              bool own_namespaces) {
  std::vector<std::string> missing;
  // NVRTC reserves a tenth of the machine's memory as address space, and may do so again; its
  // actual use is monitored from outside. Read this while files can still be opened.
  const rlim_t address_space_bytes = AddressSpaceBytes();
  const bool alone = own_namespaces && sandbox::EmptyRoot();
  if (!sandbox::LeaveRoot(uid)) {
    missing.emplace_back("unprivileged_user");
  }
  if (!sandbox::DropCapabilities() || !alone) {
    missing.emplace_back("namespaces");
  }
  if (!sandbox::GiveUpNewPrivileges()) {
    missing.emplace_back("no_new_privileges");
  }
  // Applies to this thread and those it starts. Must precede the limit on descriptors, since it
  // needs one.
  if (!sandbox::DenyFilesAndNetwork()) {
    missing.emplace_back("landlock");
  }
  bool limits = sandbox::Limit(RLIMIT_CORE, 0);
  limits = sandbox::Limit(RLIMIT_FSIZE, 0) && limits;
  limits = sandbox::Limit(RLIMIT_NOFILE, compiler_wire::kHeadersFd + 1) && limits;
  if (max_memory_bytes > 0) {
    limits = address_space_bytes > 0 &&
             sandbox::Limit(RLIMIT_AS,
                            2 * address_space_bytes + static_cast<rlim_t>(max_memory_bytes)) &&
             limits;
  }
  if (!limits) {
    missing.emplace_back("resource_limits");
  }
  if (!LoadFilter()) {
    missing.emplace_back("seccomp");
  }
  return missing;
}

}  // namespace kernelcast::worker
