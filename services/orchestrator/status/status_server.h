#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_STATUS_STATUS_SERVER_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_STATUS_STATUS_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace kernelcast::orchestrator {

// Serves the status page over HTTP, for GET and HEAD, without authentication, so the address must
// be reachable only by those allowed to see it. Requests must name the server by an address, by
// localhost or by its listen host. Others get 421, which prevents DNS rebinding by web pages.
// Thread-safe.
class StatusServer {
 public:
  // `render` returns the page. It is called at most every half second on a thread of the server,
  // must be quick, and must be callable until Stop returns. `address` is host:port; port 0
  // picks a free port. INVALID_ARGUMENT: invalid address. UNAVAILABLE: the address cannot be bound.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<StatusServer>> Start(
      const std::string& address, std::function<std::string()> render);
  // Waits until the HTTP library has stopped: up to two seconds, whatever its clients do.
  ~StatusServer();

  // Returns when `render` is not called any more. Requests get 503 from now on. May be repeated.
  void Stop();

  // host:port, as bound.
  const std::string& address() const;

 private:
  class Impl;
  explicit StatusServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_STATUS_STATUS_SERVER_H_
