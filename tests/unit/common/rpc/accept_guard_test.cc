#include "common/rpc/accept_guard.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <vector>

#include "common/rpc/channel.h"
#include "common/rpc/health_client.h"
#include "common/rpc/server.h"

namespace kernelcast {
namespace {

// UndefinedBehaviorSanitizer needs its own descriptors and fails without them.
#ifdef __SANITIZE_ADDRESS__
constexpr int kLastDescriptor = 370;
#else
constexpr int kLastDescriptor = 400;  // the limit
#endif

int ConnectTo(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

// Returns whether the other side closes it within half a minute.
bool IsClosed(int fd) {
  pollfd readable{fd, POLLIN, 0};
  char byte = 0;
  while (poll(&readable, 1, 30'000) == 1) {
    if (recv(fd, &byte, 1, 0) <= 0) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("A server with too many connections keeps serving the others", "[accept_guard]") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few{400, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);

  auto server = RpcServer::Start({}, {}, nullptr);
  REQUIRE(server.ok());
  const auto channel = MakeChannel((*server)->address());
  REQUIRE(channel.ok());
  REQUIRE(CheckHealthBlocking(*channel, "", absl::Seconds(30)).ok());

  // Not available to the server, because the failure checks need some descriptors.
  std::vector<int> own;
  for (int i = 0; i < 8; ++i) own.push_back(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 380));
  // Both ends are in this process: the last quarter is left to the connecting side.
  std::vector<int> connections;
  for (int fd = ConnectTo((*server)->port());
       fd >= 0 && connections.size() < 1000 && fd < kLastDescriptor;
       fd = ConnectTo((*server)->port())) {
    connections.push_back(fd);
  }
  for (const int fd : own) close(fd);
  REQUIRE(connections.size() > 150);
  REQUIRE(connections.size() < 400);
  CHECK(IsClosed(connections.back()));
  CHECK(CheckHealthBlocking(*channel, "", absl::Seconds(30)).ok());
  const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  CHECK(file >= 0);
  close(file);

  for (const int fd : connections) close(fd);
  const auto later = MakeChannel("dns:///" + (*server)->address());  // its own connection
  REQUIRE(later.ok());
  CHECK(WaitUntilServing(*later, "", absl::Seconds(30)).ok());
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
}

TEST_CASE("A process's descriptor limit can be raised to its maximum", "[accept_guard]") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few{400, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  RaiseDescriptorLimit();
  rlimit raised{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &raised) == 0);
  CHECK(raised.rlim_cur == std::min<rlim_t>(before.rlim_max, 65'536));
  CHECK(raised.rlim_max == before.rlim_max);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
}

}  // namespace kernelcast
