#ifndef KERNELCAST_SERVICES_GATEWAY_HTTP_TLS_CONTEXT_H_
#define KERNELCAST_SERVICES_GATEWAY_HTTP_TLS_CONTEXT_H_

#include <memory>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/rpc/file_watch.h"
#include "common/rpc/server.h"

struct ssl_ctx_st;
struct ssl_st;

namespace kernelcast::gateway {

struct FreeTls {
  void operator()(ssl_st* connection) const;
};
using TlsConnection = std::unique_ptr<ssl_st, FreeTls>;

// The certificates of an HTTPS server. Replaced files apply to new connections; if they cannot be
// used, the earlier ones stay in use. Thread-safe.
class TlsContext {
 public:
  // INVALID_ARGUMENT names the file that is missing, unreadable or invalid.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TlsContext>> Create(const TlsOptions& tls);
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // The server's side of a connection, before its handshake. Null: there is no memory.
  TlsConnection NewConnection();

 private:
  using Loaded = std::unique_ptr<ssl_ctx_st, void (*)(ssl_ctx_st*)>;

  TlsContext(const TlsOptions& tls, Loaded loaded);
  static absl::StatusOr<Loaded> Load(const TlsOptions& tls);
  void Reload();

  const TlsOptions tls_;
  std::mutex mutex_;
  Loaded loaded_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<FileWatch> watch_;
};

}  // namespace kernelcast::gateway

#endif  // KERNELCAST_SERVICES_GATEWAY_HTTP_TLS_CONTEXT_H_
