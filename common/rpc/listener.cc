#include "common/rpc/listener.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <limits>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/descriptor.h"
#include "common/base/host_and_port.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace kernelcast {
namespace {

constexpr int kMaxReserve = 256;
// Far more than a service needs. Not unlimited, because children inherit it and some programs
// iterate over all possible descriptors.
constexpr rlim_t kEnoughDescriptors = 65'536;
// Connections accepted from one socket before the others, and a request to stop, get their turn.
constexpr int kMaxBatch = 64;
constexpr int kRetryMs = 100;
constexpr int64_t kLogIntervalNs = 10'000'000'000;
// Drops a connection whose peer does not acknowledge data for this long.
constexpr int kTcpUserTimeoutMs = 20'000;

constexpr std::string_view kUnixPrefix = "unix:";

struct ListenAddress {
  std::string unix_path;  // if empty: host and port
  std::string host;       // without brackets
  int port = 0;

  std::string HostText() const {
    return host.find(':') == std::string::npos ? host : absl::StrCat("[", host, "]");
  }
};

absl::StatusOr<ListenAddress> ParseListenAddress(const std::string& text) {
  const absl::Status bad = absl::InvalidArgumentError(
      absl::StrCat("listen address '", text, "' is neither HOST:PORT nor unix:PATH"));
  ListenAddress address;
  if (text.rfind(kUnixPrefix, 0) == 0) {
    address.unix_path = text.substr(kUnixPrefix.size());
    if (address.unix_path.empty() || address.unix_path.size() >= sizeof(sockaddr_un{}.sun_path)) {
      return bad;
    }
    return address;
  }
  std::optional<HostAndPort> split = SplitHostAndPort(text);
  if (!split.has_value()) return bad;
  address.host = std::move(split->host);
  address.port = split->port;
  if (address.host.front() == '[' && address.host.back() == ']') {
    address.host = address.host.substr(1, address.host.size() - 2);
  } else if (address.host.find(':') != std::string::npos) {
    return bad;
  }
  if (address.host.empty()) return bad;
  return address;
}

absl::Status CannotListen(const std::string& address, std::string_view reason) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", address, ": ", AbslView(reason)));
}

sockaddr_un UnixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

bool SomebodyListens(const sockaddr_un& address) {
  const Descriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return fd.get() >= 0 &&
         connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

int NewSocket(int family) { return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

void SetOption(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof value);
}

int PortOf(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

// Returns the descriptor of a socket that listens, or -1 with errno. Accepted connections inherit
// the options.
int ListenTcp(const addrinfo& address, int port) {
  sockaddr_storage where{};
  std::memcpy(&where, address.ai_addr, address.ai_addrlen);
  const bool v6 = address.ai_family == AF_INET6;
  (v6 ? reinterpret_cast<sockaddr_in6*>(&where)->sin6_port
      : reinterpret_cast<sockaddr_in*>(&where)->sin_port) = htons(static_cast<uint16_t>(port));
  const int fd = NewSocket(address.ai_family);
  if (fd < 0) return -1;
  SetOption(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kTcpUserTimeoutMs);
  if (v6) SetOption(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&where), address.ai_addrlen) != 0 ||
      listen(fd, SOMAXCONN) != 0) {
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
  }
  return fd;
}

// Whether this machine lacks the address or its family.
bool IsMissing(int error) { return error == EAFNOSUPPORT || error == EADDRNOTAVAIL; }

// The lowest free descriptor is used first, so a descriptor this high means that all below are in
// use.
int FirstReserved() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::numeric_limits<int>::max();
  }
  const auto all = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 30));
  return all - std::min(kMaxReserve, all / 4);
}

// True at most once per kLogIntervalNs. Not thread-safe.
class LogInterval {
 public:
  bool Passed() {
    const int64_t now_ns = Clock::Real().MonotonicNs();
    if (now_ns < next_ns_) return false;
    next_ns_ = now_ns + kLogIntervalNs;
    return true;
  }

 private:
  int64_t next_ns_ = 0;
};

}  // namespace

struct Listener::Impl {
  // Constant after Bind.
  ListenAddress address;
  int port = 0;
  std::deque<Descriptor> sockets;
  Descriptor wake{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};

  OnConnection on_connection;  // constant after Start
  std::thread thread;
  std::once_flag stopped;
  std::atomic<int64_t> failures = 0;

  // Used by the thread.
  LogInterval closed_interval, failed_interval;
  int64_t closed_since_log = 0;

  absl::Status BindUnix() {
    const std::string& path = address.unix_path;
    const std::string name = absl::StrCat("unix:", path);
    const sockaddr_un where = UnixAddress(path);
    if (SomebodyListens(where)) return absl::UnavailableError(absl::StrCat(name, " is in use"));
    unlink(path.c_str());  // a stale file
    const int fd = NewSocket(AF_UNIX);
    if (fd < 0) return CannotListen(name, std::strerror(errno));
    sockets.emplace_back(fd);
    if (bind(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0 ||
        listen(fd, SOMAXCONN) != 0) {
      return CannotListen(name, std::strerror(errno));
    }
    return absl::OkStatus();
  }

  // Binds all addresses that this machine has to one port. Returns 0 or an error.
  int BindAll(const addrinfo* addresses) {
    int error = EADDRNOTAVAIL;
    port = address.port;
    for (const addrinfo* at = addresses; at != nullptr; at = at->ai_next) {
      const int fd = ListenTcp(*at, port);
      if (fd >= 0) {
        sockets.emplace_back(fd);
        port = PortOf(fd);
      } else if (error = errno; !IsMissing(error)) {
        return error;
      }
    }
    return sockets.empty() ? error : 0;
  }

  absl::Status BindTcp() {
    const std::string name = absl::StrCat(address.HostText(), ":", address.port);
    // The IPv6 wildcard accepts IPv4 too. Machines without IPv6 have only the IPv4 wildcard.
    const bool wildcard = address.host == "0.0.0.0" || address.host == "::";
    std::vector<std::string> hosts = {address.host};
    if (wildcard) hosts = {"::", "0.0.0.0"};
    int error = 0;
    for (const std::string& host : hosts) {
      addrinfo wanted{};
      wanted.ai_socktype = SOCK_STREAM;
      wanted.ai_flags = AI_PASSIVE;
      addrinfo* addresses = nullptr;
      if (const int failure = getaddrinfo(host.c_str(), nullptr, &wanted, &addresses);
          failure != 0) {
        return CannotListen(name, gai_strerror(failure));
      }
      error = BindAll(addresses);
      freeaddrinfo(addresses);
      if (error == 0) return absl::OkStatus();
      if (!IsMissing(error)) break;
    }
    return CannotListen(name, std::strerror(error));
  }

  // Waits until a descriptor may be free, or Stop.
  void WaitToRetry(int error) {
    failures.fetch_add(1);
    if (failed_interval.Passed()) {
      Log(LogLevel::kWarning, "connections wait: accept failed", {{"error", std::strerror(error)}});
    }
    pollfd stop{wake.get(), POLLIN, 0};
    poll(&stop, 1, kRetryMs);
  }

  void CountClosed() {
    ++closed_since_log;
    if (closed_interval.Passed()) {
      Log(LogLevel::kWarning, "connections closed: out of file descriptors",
          {{"connections", std::exchange(closed_since_log, 0)}});
    }
  }

  void AcceptFrom(int listening_fd) {
    const int first_reserved = FirstReserved();
    for (int i = 0; i < kMaxBatch; ++i) {
      const int fd = accept4(listening_fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd >= first_reserved) {
        close(fd);
        CountClosed();
        continue;
      }
      if (fd >= 0) {
        on_connection(listening_fd, fd);
        continue;
      }
      switch (errno) {
        case EAGAIN: return;
        // Errors of the connection, not of the socket.
        case EINTR:
        case ECONNABORTED:
        case EPERM:
        case EPROTO:
        case ENOPROTOOPT:
        case ENETDOWN:
        case ENETUNREACH:
        case ENONET:
        case EHOSTDOWN:
        case EHOSTUNREACH: continue;
        default: WaitToRetry(errno); return;
      }
    }
  }

  void Run() {
    std::vector<pollfd> waiting = {{wake.get(), POLLIN, 0}};
    for (const Descriptor& socket : sockets) waiting.push_back({socket.get(), POLLIN, 0});
    while (true) {
      poll(waiting.data(), waiting.size(), -1);
      if (waiting.front().revents != 0) return;
      for (auto socket = waiting.begin() + 1; socket != waiting.end(); ++socket) {
        if (socket->revents != 0) AcceptFrom(socket->fd);
      }
    }
  }
};

absl::StatusOr<std::unique_ptr<Listener>> Listener::Bind(const std::string& address) {
  auto impl = std::make_unique<Impl>();
  KC_ASSIGN_OR_RETURN(impl->address, ParseListenAddress(address));
  if (impl->wake.get() < 0) return CannotListen(address, std::strerror(errno));
  KC_RETURN_IF_ERROR(impl->address.unix_path.empty() ? impl->BindTcp() : impl->BindUnix());
  return std::unique_ptr<Listener>(new Listener(std::move(impl)));
}

Listener::Listener(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Listener::~Listener() { Stop(); }

int Listener::port() const { return impl_->port; }

std::string Listener::address() const {
  const ListenAddress& listen = impl_->address;
  if (!listen.unix_path.empty()) {
    return absl::StrCat("unix:", listen.unix_path);
  }
  if (listen.host == "0.0.0.0") {
    return absl::StrCat("127.0.0.1:", impl_->port);
  }
  if (listen.host == "::") {
    return absl::StrCat("[::1]:", impl_->port);
  }
  return absl::StrCat(listen.HostText(), ":", impl_->port);
}

void Listener::Start(OnConnection on_connection) {
  impl_->on_connection = std::move(on_connection);
  impl_->thread = std::thread([impl = impl_.get()] { impl->Run(); });
}

void Listener::Stop() {
  std::call_once(impl_->stopped, [this] {
    eventfd_write(impl_->wake.get(), 1);
    if (impl_->thread.joinable()) impl_->thread.join();
    impl_->sockets.clear();
    if (!impl_->address.unix_path.empty()) unlink(impl_->address.unix_path.c_str());
  });
}

int64_t Listener::failures() const { return impl_->failures; }

int64_t RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kFewestDescriptors;
  if (limit.rlim_cur < kEnoughDescriptors) {
    limit.rlim_cur = std::min(limit.rlim_max, kEnoughDescriptors);
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
  }
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<int>::max()));
}

}  // namespace kernelcast
