#include "services/gateway/http/tls_relay.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "common/base/status.h"

namespace kernelcast::gateway {
namespace {

// How long a client may take for a handshake, and for a record after it.
constexpr timeval kPatience = {.tv_sec = 20, .tv_usec = 0};
// How long a client may take to close a connection that the server has closed.
constexpr int kLingerMs = 2000;

void SetPatience(int client) {
  fcntl(client, F_SETFL, fcntl(client, F_GETFL) & ~O_NONBLOCK);
  setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
}

// OpenSSL writes without MSG_NOSIGNAL.
void BlockPipeSignal() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

bool SendAll(int to, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t sent = send(to, data, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    data += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

// Passes on what both sides send, until the server closes the connection or the client fails.
void Pump(ssl_st* tls, int client, int server) {
  std::array<char, 16 << 10> buffer;
  bool client_open = true;
  for (;;) {
    // A negative descriptor is not polled.
    pollfd fds[] = {{client_open ? client : -1, POLLIN, 0}, {server, POLLIN, 0}};
    const bool pending = client_open && SSL_pending(tls) > 0;
    if (poll(fds, 2, pending ? 0 : -1) < 0 && errno != EINTR) return;
    if (fds[1].revents != 0) {
      const ssize_t got = recv(server, buffer.data(), buffer.size(), 0);
      if (got <= 0 || SSL_write(tls, buffer.data(), static_cast<int>(got)) <= 0) return;
    }
    if (pending || fds[0].revents != 0) {
      const int got = SSL_read(tls, buffer.data(), buffer.size());
      if (got > 0) {
        if (!SendAll(server, buffer.data(), static_cast<size_t>(got))) client_open = false;
      } else {
        client_open = false;
        if (SSL_get_error(tls, got) != SSL_ERROR_ZERO_RETURN) return;
        shutdown(server, SHUT_WR);
      }
    }
  }
}

// Waits until the client closes, so that it is not reset before it has read the reply.
void Close(ssl_st* tls, int client) {
  SSL_shutdown(tls);
  shutdown(client, SHUT_WR);
  std::array<char, 4096> dropped;
  pollfd readable = {client, POLLIN, 0};
  while (poll(&readable, 1, kLingerMs) > 0 && recv(client, dropped.data(), dropped.size(), 0) > 0) {
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsRelay>> TlsRelay::Create(const std::string& address,
                                                           const TlsOptions& tls,
                                                           size_t max_connections) {
  KC_ASSIGN_OR_RETURN(std::unique_ptr<TlsContext> context, TlsContext::Create(tls));
  KC_ASSIGN_OR_RETURN(std::unique_ptr<Listener> listener, Listener::Bind(address));
  return std::unique_ptr<TlsRelay>(
      new TlsRelay(std::move(context), std::move(listener), max_connections));
}

TlsRelay::TlsRelay(std::unique_ptr<TlsContext> tls, std::unique_ptr<Listener> listener,
                   size_t max_connections)
    : max_connections_(max_connections), tls_(std::move(tls)), listener_(std::move(listener)) {}

TlsRelay::~TlsRelay() {
  listener_->Stop();
  std::list<Connection> connections;
  {
    const std::lock_guard lock(mutex_);
    connections.swap(connections_);
    for (const Connection& connection : connections) {
      shutdown(connection.client.get(), SHUT_RDWR);
      if (connection.server.get() >= 0) shutdown(connection.server.get(), SHUT_RDWR);
    }
  }
  for (Connection& connection : connections) connection.thread.join();
}

void TlsRelay::Start(int server_port) {
  server_port_ = server_port;
  listener_->Start([this](int, int fd) { Accept(fd); });
}

bool TlsRelay::Owns(int from_port) const {
  const std::lock_guard lock(mutex_);
  return from_ports_.contains(from_port);
}

void TlsRelay::Accept(int client) {
  Descriptor owned(client);
  const std::lock_guard lock(mutex_);
  connections_.remove_if([](Connection& connection) {
    if (!connection.ended) return false;
    connection.thread.join();
    return true;
  });
  if (connections_.size() >= max_connections_) return;
  Connection& connection = connections_.emplace_back();
  connection.client.reset(owned.release());
  connection.thread = std::thread([this, &connection] {
    Serve(connection);
    connection.ended = true;
  });
}

bool TlsRelay::Connect(Connection& connection, int& from_port) {
  Descriptor socket_fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  if (socket_fd.get() < 0 || bind(socket_fd.get(), generic, size) != 0 ||
      getsockname(socket_fd.get(), generic, &size) != 0) {
    return false;
  }
  from_port = ntohs(address.sin_port);
  const int server = socket_fd.get();
  {
    const std::lock_guard lock(mutex_);
    from_ports_.insert(from_port);
    connection.server.reset(socket_fd.release());
  }
  address.sin_port = htons(static_cast<uint16_t>(server_port_));
  return connect(server, generic, sizeof address) == 0;
}

void TlsRelay::Serve(Connection& connection) {
  const int client = connection.client.get();
  BlockPipeSignal();
  SetPatience(client);
  const TlsConnection tls = tls_->NewConnection();
  int from_port = 0;
  if (tls != nullptr && SSL_set_fd(tls.get(), client) == 1 && SSL_accept(tls.get()) == 1 &&
      Connect(connection, from_port)) {
    Pump(tls.get(), client, connection.server.get());
    Close(tls.get(), client);
  }
  ERR_clear_error();
  const std::lock_guard lock(mutex_);
  from_ports_.erase(from_port);
  connection.server.reset();
  shutdown(client, SHUT_RDWR);
}

}  // namespace kernelcast::gateway
