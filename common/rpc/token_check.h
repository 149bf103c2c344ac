#ifndef KERNELCAST_COMMON_RPC_TOKEN_CHECK_H_
#define KERNELCAST_COMMON_RPC_TOKEN_CHECK_H_

#include <grpcpp/security/auth_metadata_processor.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/metrics/metrics.h"
#include "common/rpc/token.h"

namespace kernelcast {

// Decides by its bearer token, before anything of a call's payload is read, whether it is served:
//   UNAUTHENTICATED    no token, or one that is not in the file
//   PERMISSION_DENIED  the token lacks the role that AllMethodAccess() asks for; the message names
//                      the token, the method and the role
//   RESOURCE_EXHAUSTED more calls a second than the token may make, after a burst of a second's;
//                      methods without a role do not count
// Nothing that a caller sent is repeated or logged. What no server of ours has needs any token, and
// is then for gRPC to refuse. Counts what it refuses, and how many tokens there are:
//   kernelcast_auth_refused_calls_total{reason}, kernelcast_auth_tokens
// Thread-safe.
class TokenCheck final : public grpc::AuthMetadataProcessor {
 public:
  // INVALID_ARGUMENT: the file, see TokenTable. `metrics` may be null, else outlives the server.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<TokenCheck>> Create(
      const std::string& token_file, MetricsRegistry* metrics);

  // Reads the file again. One that cannot be used is logged, and those tokens count that did.
  void Reload();

  // Where the token is the whole of what follows "Bearer ".
  absl::Status Check(std::string_view path, std::string_view authorization) const;

  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext*, OutputMetadata* consumed,
                       OutputMetadata* response) override;

 private:
  enum Reason { kNoToken, kUnknownToken, kMissingRole, kTooManyCalls, kReasons };

  // The calls that a token may make now, and when that was so.
  struct Allowance {
    double calls = 0;
    int64_t at_ns = 0;
  };

  TokenCheck(const std::string& token_file, TokenTable table, MetricsRegistry* metrics);
  std::shared_ptr<const TokenTable> table() const;
  void Count(Reason reason) const;
  // Takes one call of the token's allowance; false where there is none left.
  bool Take(const TokenTable::Entry& entry) const;

  // Constant after construction.
  const std::string token_file_;
  prometheus::Counter* refused_[kReasons] = {};
  prometheus::Gauge* tokens_ = nullptr;

  mutable std::mutex mutex_;
  // Guarded by mutex_. The table is shared by the calls that are being checked while it is
  // replaced.
  std::shared_ptr<const TokenTable> table_;
  mutable std::map<std::string, Allowance> allowances_;  // by the token's name

  mutable std::atomic<int64_t> next_log_ns_ = 0;
  mutable std::atomic<int64_t> refused_since_log_ = 0;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_TOKEN_CHECK_H_
