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

// Checks the bearer token of each call before its payload is read. Refuses a call with
//
//   UNAUTHENTICATED    no token, or one that is not in the file
//   PERMISSION_DENIED  the token lacks the role that AllMethodAccess() requires; the message names
//                      the token, the method and the role
//   RESOURCE_EXHAUSTED the token exceeds its calls per second; the burst is one second's worth, and
//                      methods without a role are not counted
//
// Never repeats or logs text from the caller. Methods that no server of ours has require any valid
// token; gRPC then refuses them. Exports
//
//   kernelcast_auth_refused_calls_total{reason}, kernelcast_auth_tokens
//
// Thread-safe.
class TokenCheck final : public grpc::AuthMetadataProcessor {
 public:
  // INVALID_ARGUMENT: invalid file, see TokenTable. `metrics` may be null; otherwise it must
  // outlive the server.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<TokenCheck>> Create(
      const std::string& token_file, MetricsRegistry* metrics);

  // Reads the file again. If it is invalid, logs that and keeps the previous tokens.
  void Reload();

  // The token must be everything after "Bearer ".
  absl::Status Check(std::string_view path, std::string_view authorization) const;

  // The name of a token in the file. Empty: there is none, or it is not in the file.
  std::string NameOf(std::string_view authorization) const;

  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext*, OutputMetadata* consumed,
                       OutputMetadata* response) override;

 private:
  enum Reason { kNoToken, kUnknownToken, kMissingRole, kTooManyCalls, kReasons };

  // Number of calls that a token may make, as of a point in time.
  struct Allowance {
    double calls = 0;
    int64_t at_ns = 0;
  };

  TokenCheck(const std::string& token_file, TokenTable table, MetricsRegistry* metrics);
  std::shared_ptr<const TokenTable> table() const;
  void Count(Reason reason) const;
  // Takes one call from the token's allowance. Returns false if none is left.
  bool Take(const TokenTable::Entry& entry) const;

  // Constant after construction.
  const std::string token_file_;
  prometheus::Counter* refused_[kReasons] = {};
  prometheus::Gauge* tokens_ = nullptr;

  mutable std::mutex mutex_;
  // Guarded by mutex_. Shared with running checks, so that it can be replaced at any time.
  std::shared_ptr<const TokenTable> table_;
  mutable std::map<std::string, Allowance> allowances_;  // by name of the token

  mutable std::atomic<int64_t> next_log_ns_ = 0;
  mutable std::atomic<int64_t> refused_since_log_ = 0;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_TOKEN_CHECK_H_
