// refuse-calls CALL[,CALL...] PROGRAM [ARGUMENT ...]: runs a program with these system calls
// refused with EPERM, as in containers and on hardened kernels.
#include <errno.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "refuse-calls CALL[,CALL...] PROGRAM [ARGUMENT ...]\n");
    return 2;
  }
  const scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  bool ok = filter != nullptr;
  for (char* name = strtok(argv[1], ","); name != nullptr; name = strtok(nullptr, ",")) {
    const int call = seccomp_syscall_resolve_name(name);
    ok = ok && call != __NR_SCMP_ERROR &&
         seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 0) == 0;
    if (call == SCMP_SYS(seccomp)) {  // the other way to install a filter
      ok = ok && seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(prctl), 1,
                                  SCMP_A0(SCMP_CMP_EQ, PR_SET_SECCOMP)) == 0;
    }
  }
  if (!ok || seccomp_load(filter) != 0) {
    std::fprintf(stderr, "refuse-calls: no filter for these calls\n");
    return 1;
  }
  execvp(argv[2], argv + 2);
  std::perror(argv[2]);
  return 1;
}
