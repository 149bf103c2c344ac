#include "services/worker/sandbox/landlock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <string>

namespace kernelcast::worker::sandbox {
namespace {

// Bits of what a child behind Landlock could do, or kRefused.
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

TEST_CASE("Behind Landlock no file is opened and nobody is called") {
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
  // What was open before stays; TCP is Landlock's from version 4 on.
  CHECK(WEXITSTATUS(status) == (version >= 4 ? kRead : kRead | kConnect));
  CHECK(access(new_file.c_str(), F_OK) != 0);
}

}  // namespace
}  // namespace kernelcast::worker::sandbox
