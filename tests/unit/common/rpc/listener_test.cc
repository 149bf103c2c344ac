#include "common/rpc/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/descriptor.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "tests/support/sanitized.h"
#include "tests/unit/common/rpc/health_client.h"

namespace kernelcast {
namespace {

// UndefinedBehaviorSanitizer needs its own descriptors and fails without them. 400 is the limit.
constexpr int kLastDescriptor = testing::kAddressSanitized ? 370 : 400;

bool Connect(int fd, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

int ConnectTo(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || Connect(fd, port)) return fd;
  close(fd);
  return -1;
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

TEST_CASE("A server with too many connections keeps serving the others", "[listener]") {
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

// The lowest number that is free.
int NextDescriptor() {
  const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  close(fd);
  return fd;
}

// Holds all descriptors below kLimit. With this limit, no descriptor is free, even if a thread of
// gRPC closes one. Make it before the server.
struct LowDescriptors {
  static constexpr int kLimit = 32;

  LowDescriptors() {
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (; fd >= 0 && fd < kLimit; fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) {
      held.push_back(std::make_unique<Descriptor>(fd));
    }
    close(fd);
  }

  std::vector<std::unique_ptr<Descriptor>> held;
};

TEST_CASE("A server without descriptors serves its connections, and new ones when it has some",
          "[listener]") {
  if (testing::kAddressSanitized) {
    WARN("skipped: UndefinedBehaviorSanitizer needs descriptors");
    return;
  }
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const LowDescriptors low;
  auto server = RpcServer::Start({}, {}, nullptr);
  REQUIRE(server.ok());
  const auto channel = MakeChannel((*server)->address());
  REQUIRE(channel.ok());
  REQUIRE(CheckHealthBlocking(*channel, "", absl::Seconds(30)).ok());

  // A client that has its descriptor, and a server that gets none for it.
  const Descriptor client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(client.get() >= 0);
  const rlimit none{LowDescriptors::kLimit, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  REQUIRE(Connect(client.get(), (*server)->port()));
  for (int i = 0; i < 200; ++i) {
    CHECK(CheckHealthBlocking(*channel, "", absl::Seconds(30)).ok());
  }
  pollfd readable{client.get(), POLLIN, 0};
  CHECK(poll(&readable, 1, 0) == 0);  // neither served nor closed

  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(poll(&readable, 1, 30'000) == 1);  // gRPC's settings
  char byte = 0;
  CHECK(recv(client.get(), &byte, 1, 0) == 1);
}

TEST_CASE("A listener without descriptors tries again ten times per second", "[listener]") {
  if (testing::kAddressSanitized) {
    WARN("skipped: UndefinedBehaviorSanitizer needs descriptors");
    return;
  }
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  auto listener = Listener::Bind("127.0.0.1:0");
  REQUIRE(listener.ok());
  std::promise<int> accepted;
  (*listener)->Start([&](int, int fd) { accepted.set_value(fd); });
  const Descriptor client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const rlimit none{static_cast<rlim_t>(NextDescriptor()), before.rlim_max};
  const auto start = std::chrono::steady_clock::now();
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  REQUIRE(Connect(client.get(), (*listener)->port()));
  while ((*listener)->failures() < 5) std::this_thread::yield();
  CHECK(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(400));
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  const Descriptor connection(accepted.get_future().get());
  CHECK(connection.get() >= 0);
}

TEST_CASE("A listener accepts nothing after it has stopped, and leaves no descriptor",
          "[listener]") {
  const int first_free = NextDescriptor();
  {
    auto listener = Listener::Bind("127.0.0.1:0");
    REQUIRE(listener.ok());
    std::promise<int> accepted;
    (*listener)->Start([&](int, int fd) { accepted.set_value(fd); });
    const Descriptor client(ConnectTo((*listener)->port()));
    REQUIRE(client.get() >= 0);
    const Descriptor connection(accepted.get_future().get());
    (*listener)->Stop();
    (*listener)->Stop();
    CHECK(ConnectTo((*listener)->port()) == -1);
  }
  CHECK(NextDescriptor() == first_free);
}

TEST_CASE("A listener on a wildcard address covers IPv4, and IPv6 where there is any",
          "[listener]") {
  for (const char* address : {"0.0.0.0:0", "[::]:0"}) {
    INFO(address);
    auto listener = Listener::Bind(address);
    REQUIRE(listener.ok());
    const Descriptor v4(ConnectTo((*listener)->port()));
    CHECK(v4.get() >= 0);
    const Descriptor v6(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in6 loopback{};
    loopback.sin6_family = AF_INET6;
    loopback.sin6_addr = in6addr_loopback;
    const bool has_ipv6 = v6.get() >= 0 && bind(v6.get(), reinterpret_cast<sockaddr*>(&loopback),
                                                sizeof loopback) == 0;
    loopback.sin6_port = htons(static_cast<uint16_t>((*listener)->port()));
    if (has_ipv6) {
      CHECK(connect(v6.get(), reinterpret_cast<sockaddr*>(&loopback), sizeof loopback) == 0);
    }
  }
}

TEST_CASE("The reason is given where a listener cannot be bound", "[listener]") {
  const auto first = Listener::Bind("127.0.0.1:0");
  REQUIRE(first.ok());
  const absl::Status in_use = Listener::Bind((*first)->address()).status();
  CHECK(in_use.code() == absl::StatusCode::kUnavailable);
  CHECK(in_use.message() == "cannot listen on " + (*first)->address() + ": Address already in use");
  CHECK(Listener::Bind("192.0.2.1:0").status().code() == absl::StatusCode::kUnavailable);
  CHECK(Listener::Bind("unix:/no/such/folder/socket").status().code() ==
        absl::StatusCode::kUnavailable);
}

TEST_CASE("A process's descriptor limit can be raised to its maximum", "[listener]") {
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
