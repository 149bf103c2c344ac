#include "services/worker/sandbox/landlock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <string>

namespace kernelcast::worker::sandbox {
namespace {

// Bits of what a child under Landlock was able to do, or kRefused.
enum Could : int { kOpen = 1, kMake = 2, kRun = 4, kConnect = 8, kRead = 16, kRefused = 64 };

int TryEverything(int port, const char* new_file) {
  const int open_before = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || !DenyFilesAndNetwork()) return kRefused;
  int could = 0;
  if (open("/etc/passwd", O_RDONLY) >= 0 || errno != EACCES) could |= kOpen;
  if (open(new_file, O_WRONLY | O_CREAT, 0600) >= 0 || errno != EACCES) could |= kMake;
  if (execl("/bin/true", "true", nullptr) != 0 && errno != EACCES) could |= kRun;
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 || errno != EACCES) {
    could |= kConnect;
  }
  char byte = 0;
  if (read(open_before, &byte, 1) == 1) could |= kRead;
  return could;
}

// Bits of what a child under Landlock was able to do to its parent, or kRefused. It has the same
// user, so nothing else forbids it.
enum CouldToOthers : int { kSignal = 1, kTrace = 2, kReadMemory = 4 };

int TryOthers(const int* in_parent) {
  const pid_t parent = getppid();
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || !DenyFilesAndNetwork()) return kRefused;
  int could = 0;
  if (kill(parent, 0) == 0 || errno != EPERM) could |= kSignal;
  if (ptrace(PTRACE_SEIZE, parent, nullptr, nullptr) == 0 || errno != EPERM) could |= kTrace;
  int copy = 0;
  const iovec here = {&copy, sizeof copy};
  const iovec there = {const_cast<int*>(in_parent), sizeof *in_parent};
  if (process_vm_readv(parent, &here, 1, &there, 1, 0) > 0 || errno != EPERM) could |= kReadMemory;
  return could;
}

TEST_CASE("Under Landlock no outside process can be signalled, traced or read") {
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, 1);
  if (version < 1) {
    std::printf("skipped: this kernel has no Landlock\n");
    return;
  }
  const int secret = 42;
  const pid_t child = fork();
  if (child == 0) _exit(TryOthers(&secret));
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  // Landlock covers signals from version 6 on.
  CHECK(WEXITSTATUS(status) == (version >= 6 ? 0 : kSignal));
}

TEST_CASE("Under Landlock no file can be opened and no connection made") {
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, 1);
  if (version < 1) {
    std::printf("skipped: this kernel has no Landlock\n");
    return;
  }
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(listen(listener, 8) == 0);
  REQUIRE(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  const std::string new_file = "/tmp/kernelcast_landlock_" + std::to_string(getpid());

  const pid_t child = fork();
  if (child == 0) _exit(TryEverything(ntohs(address.sin_port), new_file.c_str()));
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  close(listener);
  REQUIRE(WIFEXITED(status));
  // Open descriptors stay usable; Landlock covers TCP from version 4 on.
  CHECK(WEXITSTATUS(status) == (version >= 4 ? kRead : kRead | kConnect));
  CHECK(access(new_file.c_str(), F_OK) != 0);
}

}  // namespace
}  // namespace kernelcast::worker::sandbox
