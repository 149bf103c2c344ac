#include "services/worker/sandbox/system_call_filter.h"

#include <errno.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>

namespace kernelcast::worker::sandbox {
namespace {

// Runs `run` in a child, because a filter is permanent. Returns the child's exit code.
int InChild(int (*run)()) {
  const pid_t child = fork();
  if (child == 0) _exit(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? run() : -1);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST_CASE("A system call filter allows, fails and falls back to its default action") {
  CHECK(InChild([] {
          SystemCallFilter filter(SCMP_ACT_ERRNO(EXDEV));
          filter.Allow({SCMP_SYS(exit_group), SCMP_SYS(getpid)});
          filter.Allow({SCMP_SYS(sigaltstack)});  // AddressSanitizer asks for it before _exit
          filter.Allow({SCMP_SYS(mmap)});         // for the memory of ThreadSanitizer
          filter.Fail(ENOENT, {SCMP_SYS(chdir)});
          filter.Fail(0, {SCMP_SYS(close)});
          filter.Allow({SCMP_SYS(dup)}, {SCMP_A0(SCMP_CMP_EQ, 1)});
          if (!filter.Load()) return 1;
          if (getpid() <= 0) return 2;
          if (chdir("/") == 0 || errno != ENOENT) return 3;
          if (close(12345) != 0) return 4;
          if (dup(1) < 0) return 5;
          if (dup(2) >= 0 || errno != EXDEV) return 6;
          if (fsync(1) == 0 || errno != EXDEV) return 7;
          return 0;
        }) == 0);
}

TEST_CASE("A system call filter applies to threads that already run") {
  CHECK(InChild([] {
          static std::atomic<bool> loaded = false;
          pthread_t thread;
          const auto run = [](void*) -> void* {
            while (!loaded) {
            }
            return chdir("/") != 0 && errno == ENOENT ? &loaded : nullptr;
          };
          if (pthread_create(&thread, nullptr, run, nullptr) != 0) return 1;
          SystemCallFilter filter(SCMP_ACT_ALLOW);
          filter.Fail(ENOENT, {SCMP_SYS(chdir)});
          if (!filter.Load()) return 2;
          loaded = true;
          void* failed = nullptr;
          if (pthread_join(thread, &failed) != 0) return 3;
          return failed != nullptr ? 0 : 4;
        }) == 0);
}

TEST_CASE("A system call filter with an invalid rule does not load") {
  CHECK(InChild([] {
          SystemCallFilter filter(SCMP_ACT_ERRNO(EPERM));
          filter.Allow({SCMP_SYS(dup)}, {SCMP_CMP(9, SCMP_CMP_EQ, 0)});  // there is no argument 9
          return filter.Load() ? 1 : 0;
        }) == 0);
}

}  // namespace
}  // namespace kernelcast::worker::sandbox
