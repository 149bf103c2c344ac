#ifndef KERNELCAST_COMMON_RPC_LISTENER_H_
#define KERNELCAST_COMMON_RPC_LISTENER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast {

// A listening socket and the thread that accepts its connections. RpcServer hands the connections
// to gRPC. gRPC 1.51 can listen by itself, but stops accepting after one failed accept, so a client
// that opens enough connections could disable a server.
//
// A connection is closed at once if its descriptor is among the last that the process may open:
// the last 256, or a quarter if the limit is low. These stay free for files, pipes and children. If
// no descriptor is left, connections wait in the kernel's queue until there is one. Both are logged
// at most every 10 s. Thread-safe.
class Listener {
 public:
  // Called on the listener's thread. Takes ownership of `fd`; `listening_fd` accepted it.
  using OnConnection = std::function<void(int listening_fd, int fd)>;

  // `address` is "host:port" or "unix:PATH". Port 0 picks a free port; a wildcard host covers IPv4
  // and IPv6. No other listener may be bound to it. INVALID_ARGUMENT: invalid address. UNAVAILABLE:
  // it cannot be bound.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Listener>> Bind(const std::string& address);
  ~Listener();  // stops

  // 0 for a Unix socket.
  int port() const;
  // "host:port" or "unix:PATH" for clients on this machine.
  std::string address() const;

  // Accepts connections until Stop. Connections made since Bind have waited. Call it once.
  void Start(OnConnection on_connection);
  // Closes the sockets, refuses waiting connections and removes the file of a Unix socket. No
  // callback runs after it. May be called repeatedly, also without Start.
  void Stop();

  // Number of failed attempts to accept a connection, without errors of the connection itself.
  int64_t failures() const;

 private:
  struct Impl;
  explicit Listener(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// A service does not work with fewer descriptors.
inline constexpr int64_t kFewestDescriptors = 128;

// Raises the descriptor limit of this process to its hard limit, at most 65536. Returns it.
int64_t RaiseDescriptorLimit();

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_LISTENER_H_
