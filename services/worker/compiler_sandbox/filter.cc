#include "services/worker/compiler_sandbox/filter.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>

#include "services/worker/sandbox/compiler_filter.h"
#include "services/worker/sandbox/system_call_filter.h"

namespace kernelcast::worker {

bool LoadCompilerFilter() {
  sandbox::SystemCallFilter filter(SCMP_ACT_ERRNO(EPERM));
  sandbox::AllowCompiler(filter);
  filter.Allow({SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres)});
  constexpr scmp_datum_t kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                       CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
  filter.Allow({SCMP_SYS(clone)}, {SCMP_A0(SCMP_CMP_MASKED_EQ, kNamespaces, 0)});
  // A filter cannot see the flags of clone3: fail as on an older kernel.
  filter.Fail(ENOSYS, {SCMP_SYS(clone3)});
  filter.Fail(ENOTTY, {SCMP_SYS(ioctl)});
  // For a compiler that forks a child for each source: messages on an inherited socket, further
  // filters, and a child that ends with its parent.
  filter.Allow({SCMP_SYS(recvmsg)});
  filter.Allow({SCMP_SYS(seccomp)},
               {SCMP_A0(SCMP_CMP_EQ, SECCOMP_SET_MODE_FILTER), SCMP_A1(SCMP_CMP_EQ, 0)});
  filter.Allow({SCMP_SYS(prctl)}, {SCMP_A0(SCMP_CMP_EQ, PR_SET_PDEATHSIG)});
  return filter.Load();
}

}  // namespace kernelcast::worker
