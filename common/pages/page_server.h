#ifndef KERNELCAST_COMMON_PAGES_PAGE_SERVER_H_
#define KERNELCAST_COMMON_PAGES_PAGE_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace kernelcast {

struct PageRequest {
  std::string path;   // decoded
  std::string query;  // without the '?', encoded
  // The decoded value of a parameter of the query; "" without it.
  std::string Parameter(const std::string& name) const;
};

struct PageReply {
  int status = 200;  // 200, 400, 404, 500 or 503
  std::string type = "text/html; charset=utf-8";
  std::string body;
};

struct PageServerOptions {
  std::string address;  // host:port; port 0 picks a free port
  std::string what;     // named in errors: "status page"
  // Content-Security-Policy of all replies.
  std::string content_policy;
};

// Serves pages over HTTP, for GET and HEAD, without authentication, so the address must be
// reachable only by those allowed to see them. Requests must name the server by an address, by
// localhost or by its listen host. Others get 421, which prevents DNS rebinding by web pages.
// Thread-safe.
class PageServer {
 public:
  // Called on up to four threads at a time, with stacks of the usual size.
  using Handler = std::function<PageReply(const PageRequest& request)>;

  // `handler` must be callable until Stop returns. INVALID_ARGUMENT: invalid address. UNAVAILABLE:
  // the address cannot be bound.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<PageServer>> Start(
      const PageServerOptions& options, Handler handler);
  // Waits until the HTTP library has stopped: up to two seconds, whatever its clients do.
  ~PageServer();

  // Returns when `handler` is not called any more. Requests get 503 from now on. May be repeated.
  void Stop();

  // host:port, as bound.
  const std::string& address() const;

 private:
  class Impl;
  explicit PageServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_PAGES_PAGE_SERVER_H_
