#include "services/worker/cuda/python/sandbox.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "services/worker/sandbox/compiler_filter.h"
#include "services/worker/sandbox/file_view.h"
#include "services/worker/sandbox/landlock.h"
#include "services/worker/sandbox/privileges.h"
#include "services/worker/sandbox/system_call_filter.h"

namespace kernelcast::worker::cuda_runner {
namespace {

using sandbox::FileView;

constexpr int64_t kScratchBytes = int64_t{1} << 30;
constexpr const char* kNullDevice = "/dev/null";

// Denied calls fail instead of ending the process, because libraries try calls that they do not
// need.
bool LoadFilter(int socket) {
  sandbox::SystemCallFilter filter(SCMP_ACT_ERRNO(EPERM));
  sandbox::AllowCompiler(filter);
  // Larger ids are clocks of other processes and of devices.
  filter.Allow({SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres)},
               {SCMP_A0(SCMP_CMP_LE, CLOCK_TAI)});
  filter.Fail(EINVAL, {SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres)},
              {SCMP_A0(SCMP_CMP_GT, CLOCK_TAI)});
  // Programs, but no threads and no namespaces. A thread could work between the judge's calls.
  constexpr scmp_datum_t kDenied = CLONE_THREAD | CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS |
                                   CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
  filter.Allow({SCMP_SYS(clone)}, {SCMP_A0(SCMP_CMP_MASKED_EQ, kDenied, 0)});
  // A filter cannot see the flags of clone3: fail as on an older kernel.
  filter.Fail(ENOSYS, {SCMP_SYS(clone3)});
  // The driver talks to the device on open descriptors.
  filter.Allow({SCMP_SYS(ioctl), SCMP_SYS(mlock), SCMP_SYS(munlock), SCMP_SYS(eventfd2),
                SCMP_SYS(flock), SCMP_SYS(symlink), SCMP_SYS(symlinkat)});
  filter.Allow({SCMP_SYS(recvmsg), SCMP_SYS(sendmsg)},
               {SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(socket))});
  filter.Allow({SCMP_SYS(tgkill)}, {SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(getpid()))});
  // Build tools move what they start to groups of its own. All must stay in the one that the worker
  // kills.
  filter.Fail(0, {SCMP_SYS(setpgid)});
  // A filter that is added can only deny more.
  filter.Allow({SCMP_SYS(seccomp)}, {SCMP_A0(SCMP_CMP_EQ, SECCOMP_SET_MODE_FILTER)});
  return filter.Load();
}

}  // namespace

void EnterPythonSandbox(const PythonSandbox& options) {
  const std::vector<std::string> devices = {kNullDevice};
  if (options.own_files &&
      sandbox::ShowOnlyHere(options.read_only, devices, {kScratchFolder, kScratchBytes}) ==
          FileView::kBroken) {
    _exit(1);
  }
  sandbox::LeaveRoot(options.uid);
  // A change of user clears it.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sandbox::DropCapabilities();
  sandbox::Limit(RLIMIT_CORE, 0);
  sandbox::Limit(RLIMIT_FSIZE, kScratchBytes);
  if (options.max_memory_bytes > 0 && options.used_bytes > 0) {
    sandbox::Limit(RLIMIT_DATA, static_cast<rlim_t>(options.used_bytes + options.max_memory_bytes));
  }
  sandbox::GiveUpNewPrivileges();
  const std::vector<std::string> writable = {kScratchFolder, kNullDevice};
  sandbox::DenyNetworkAndFilesExcept(options.read_only, writable);
  LoadFilter(options.socket);
}

bool DenyPrograms() {
  sandbox::SystemCallFilter filter(SCMP_ACT_ALLOW);
  filter.Fail(EAGAIN, {SCMP_SYS(clone), SCMP_SYS(fork), SCMP_SYS(vfork)});
  filter.Fail(EPERM, {SCMP_SYS(execve), SCMP_SYS(execveat)});
  return filter.Load();
}

}  // namespace kernelcast::worker::cuda_runner
