#include "services/worker/runner/sandbox.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "services/worker/sandbox/landlock.h"
#include "services/worker/sandbox/namespaces.h"
#include "services/worker/sandbox/privileges.h"
#include "services/worker/sandbox/system_call_filter.h"

namespace kernelcast::worker::runner {
namespace {

scmp_datum_t Address(const std::atomic<uint32_t>* word) {
  return static_cast<scmp_datum_t>(reinterpret_cast<uintptr_t>(word));
}

// Allows what memory allocation, abort(), printing and the runner's own loop need. Two of
// these calls sleep: the runner's wait for its next command, and a write to a full pipe, which the
// judge reads every millisecond. Everything else traps: files, processes, threads, signals to
// others, handlers, timers, sockets, executable memory.
bool LoadFilter(const ControlBlock& block) {
  const auto self = static_cast<scmp_datum_t>(getpid());
  sandbox::SystemCallFilter filter(SCMP_ACT_TRAP);
  filter.Allow({SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise),
                SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(rt_sigreturn),
                SCMP_SYS(rt_sigprocmask), SCMP_SYS(getpid), SCMP_SYS(gettid),
                SCMP_SYS(gettimeofday), SCMP_SYS(time), SCMP_SYS(getrandom),
                SCMP_SYS(restart_syscall), SCMP_SYS(getcpu)});
  // Larger ids are clocks of other processes and of devices.
  filter.Allow({SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres)},
               {SCMP_A0(SCMP_CMP_LE, CLOCK_TAI)});
  filter.Allow({SCMP_SYS(mmap)}, {SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0),
                                  SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_ANONYMOUS, MAP_ANONYMOUS)});
  filter.Allow({SCMP_SYS(mprotect)}, {SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)});
  filter.Allow({SCMP_SYS(tgkill)}, {SCMP_A0(SCMP_CMP_EQ, self)});
  filter.Allow({SCMP_SYS(futex)}, {SCMP_A0(SCMP_CMP_EQ, Address(&block.command_sequence)),
                                   SCMP_A1(SCMP_CMP_EQ, FUTEX_WAIT), SCMP_A3(SCMP_CMP_EQ, 0)});
  filter.Allow({SCMP_SYS(futex)}, {SCMP_A1(SCMP_CMP_MASKED_EQ, FUTEX_CMD_MASK & 0xff, FUTEX_WAKE)});
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    const auto number = static_cast<scmp_datum_t>(fd);
    filter.Allow({SCMP_SYS(write), SCMP_SYS(writev), SCMP_SYS(fstat), SCMP_SYS(newfstatat)},
                 {SCMP_A0(SCMP_CMP_EQ, number)});
    filter.Fail(ENOTTY, {SCMP_SYS(ioctl)}, {SCMP_A0(SCMP_CMP_EQ, number)});
    filter.Fail(ESPIPE, {SCMP_SYS(lseek)}, {SCMP_A0(SCMP_CMP_EQ, number)});
  }
  filter.Fail(0, {SCMP_SYS(sched_yield)});
  // Optional queries by libraries.
  filter.Fail(EPERM, {SCMP_SYS(sched_getaffinity), SCMP_SYS(sysinfo)});
  filter.Fail(EPERM, {SCMP_SYS(prlimit64)}, {SCMP_A0(SCMP_CMP_EQ, 0), SCMP_A2(SCMP_CMP_EQ, 0)});
  return filter.Load();
}

}  // namespace

uint32_t EnterSandbox(const ControlBlock& block) {
  uint32_t had = 0;
  bool alone = sandbox::LeaveNamespaces() && sandbox::EmptyRoot();
  if (sandbox::LeaveRoot(block.run_as_uid)) {
    had |= kUnprivilegedUser;
  }
  // On machines that restrict root's capabilities, other users may still create namespaces.
  alone = alone || (sandbox::LeaveNamespaces() && sandbox::EmptyRoot());
  if (alone && sandbox::DropCapabilities()) {
    had |= kNamespaces;
  }
  // Set after the change of user, which clears it. A parent that has already exited sends no
  // signal, and the runner would sleep for ever, so compare the parent before and after.
  const pid_t parent = getppid();
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent && parent != 0) {
    had |= kParentDeathSignal;
  }
  if (sandbox::GiveUpNewPrivileges()) {
    had |= kNoNewPrivileges;
  }
  // A second barrier: files and networks stay denied if the filter below is rejected or has a gap.
  if (sandbox::DenyFilesAndNetwork()) {
    had |= kLandlock;
  }
  const rlim_t memory =
      block.max_address_space_bytes > 0 ? block.max_address_space_bytes : RLIM_INFINITY;
  const rlim_t cpu = block.max_cpu_seconds > 0 ? block.max_cpu_seconds : RLIM_INFINITY;
  bool limits = sandbox::Limit(RLIMIT_CORE, 0);
  limits = sandbox::Limit(RLIMIT_FSIZE, 0) && limits;
  limits = sandbox::Limit(RLIMIT_NPROC, 0) && limits;
  limits = sandbox::Limit(RLIMIT_NOFILE, 3) && limits;
  limits = sandbox::Limit(RLIMIT_CPU, cpu) && limits;
  limits = sandbox::Limit(RLIMIT_AS, memory) && limits;
  if (limits) {
    had |= kResourceLimits;
  }
  if (LoadFilter(block)) {
    had |= kSeccomp;
  }
  return had;
}

}  // namespace kernelcast::worker::runner
