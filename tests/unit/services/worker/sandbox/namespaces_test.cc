#include "services/worker/sandbox/namespaces.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>

#include "services/worker/sandbox/privileges.h"

namespace kernelcast::worker::sandbox {
namespace {

constexpr uint32_t kNobody = 65534;

// Runs `run` in a child, because it is irreversible. Returns the child's exit code.
int InChild(const std::function<int()>& run) {
  const pid_t child = fork();
  if (child == 0) _exit(run());
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

// The action that still succeeded for an isolated process, or kStayed.
enum Could : int { kSee = 1, kRead = 2, kWrite = 4, kSeeInterfaces = 8, kMount = 16, kStayed = 64 };

int TryEverything(bool as_root) {
  if (!as_root && !LeaveRoot(kNobody)) return kStayed;
  const int open_before = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
  if (!LeaveNamespaces() || !EmptyRoot()) return kStayed;
  if (!LeaveRoot(kNobody) || !DropCapabilities()) return kStayed;
  int could = 0;
  std::error_code error;
  if (!std::filesystem::is_empty("/", error) || error) could |= kSee;
  if (access("/etc/passwd", F_OK) == 0 || access("../etc/passwd", F_OK) == 0) could |= kSee;
  if (open("/new", O_WRONLY | O_CREAT, 0600) >= 0) could |= kWrite;
  char byte = 0;
  if (read(open_before, &byte, 1) == 1) could |= kRead;
  // Only the loopback interface, which is down.
  if (if_nametoindex("lo") != 1 || if_nametoindex("eth0") != 0) could |= kSeeInterfaces;
  if (unshare(CLONE_NEWNS) == 0) could |= kMount;
  return could;
}

TEST_CASE("An isolated process has no files and no network, but open descriptors stay") {
  const bool as_root = GENERATE(false, true);
  if (as_root && geteuid() != 0) return;
  const int could = InChild([&] { return TryEverything(as_root); });
  if (could == kStayed && InChild([] { return unshare(CLONE_NEWUSER | CLONE_NEWNS); }) != 0) {
    std::printf("skipped: this machine does not permit namespaces\n");
    return;
  }
  CHECK(could == kRead);
  // This process kept its root.
  CHECK(access("/etc/passwd", F_OK) == 0);
}

TEST_CASE("Where namespaces are refused nothing changes") {
  const int outcome = InChild([] {
    // A user namespace that may have no children.
    if (!LeaveRoot(kNobody) || unshare(CLONE_NEWUSER) != 0) return 2;
    const int limit = open("/proc/sys/user/max_user_namespaces", O_WRONLY | O_CLOEXEC);
    if (limit < 0 || write(limit, "0", 1) != 1) return 2;
    return LeaveNamespaces() || access("/etc/passwd", F_OK) != 0 ? 1 : 0;
  });
  if (outcome == 2) {
    std::printf("skipped: this machine does not permit user namespaces\n");
    return;
  }
  CHECK(outcome == 0);
}

TEST_CASE("Root switches to another user irrevocably") {
  if (geteuid() != 0) {
    CHECK(LeaveRoot(kNobody));
    return;
  }
  CHECK(InChild([] { return LeaveRoot(0) ? 1 : 0; }) == 0);
  CHECK(InChild([] {
          if (!LeaveRoot(kNobody) || geteuid() != kNobody || getegid() != kNobody) return 1;
          return setuid(0) == 0 || getgroups(0, nullptr) != 0 ? 2 : 0;
        }) == 0);
}

}  // namespace
}  // namespace kernelcast::worker::sandbox
