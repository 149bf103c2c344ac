#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_STATUS_STATUS_SERVER_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_STATUS_STATUS_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace kernelcast::orchestrator {

// Serves the status page by HTTP, to GET and HEAD, without asking who it is: on an address that
// only those reach who may see it. Requests must name the server by an address, by localhost or by
// the host that it listens on; others, which a web page elsewhere may have brought about by a name
// of its own, get 421. Thread-safe.
class StatusServer {
 public:
  // `render` makes the page, at most once in half a second, on a thread of the server's; it must
  // not wait for long, and must be callable until the server is gone. `address` is host:port; port
  // 0 picks one. INVALID_ARGUMENT: that is no address. UNAVAILABLE: it cannot be bound.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<StatusServer>> Start(
      const std::string& address, std::function<std::string()> render);
  // Waits for requests under way.
  ~StatusServer();

  // host:port, as bound.
  const std::string& address() const;

 private:
  class Impl;
  explicit StatusServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_STATUS_STATUS_SERVER_H_
