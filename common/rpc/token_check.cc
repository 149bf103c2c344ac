#include "common/rpc/token_check.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/rpc/access.h"
#include "common/rpc/status_conversion.h"

namespace kernelcast {
namespace {

constexpr char kAuthorization[] = "authorization";
constexpr char kPath[] = ":path";
constexpr std::string_view kBearer = "Bearer ";
constexpr const char* kReasonNames[] = {"no_token", "unknown_token", "missing_role",
                                        "too_many_calls"};
// Limits log lines during a flood of refused calls.
constexpr int64_t kRefusalLogIntervalNs = 10'000'000'000;

std::string_view ViewOf(const grpc::string_ref& text) { return {text.data(), text.size()}; }

std::string RoleList(const TokenTable::Entry& entry) {
  return absl::StrJoin(entry.roles, ", ",
                       [](std::string* out, Role role) { out->append(RoleName(role)); });
}

// An empty list is how the last token is revoked.
void WarnIfEmpty(const TokenTable& table, const std::string& token_file) {
  if (table.entries().empty()) {
    Log(LogLevel::kWarning, "the token file lists no token: every call is refused",
        {{"file", token_file}});
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<TokenCheck>> TokenCheck::Create(const std::string& token_file,
                                                               MetricsRegistry* metrics) {
  KC_ASSIGN_OR_RETURN(TokenTable table, TokenTable::Read(token_file));
  WarnIfEmpty(table, token_file);
  return std::shared_ptr<TokenCheck>(new TokenCheck(token_file, std::move(table), metrics));
}

TokenCheck::TokenCheck(const std::string& token_file, TokenTable table, MetricsRegistry* metrics)
    : token_file_(token_file), table_(std::make_shared<const TokenTable>(std::move(table))) {
  if (metrics == nullptr) {
    return;
  }
  for (int reason = 0; reason < kReasons; ++reason) {
    refused_[reason] = &metrics->Counter("kernelcast_auth_refused_calls_total",
                                         "Calls refused by what their token may do.",
                                         {{"reason", kReasonNames[reason]}});
  }
  tokens_ = &metrics->Gauge("kernelcast_auth_tokens", "Tokens of the token file that count.");
  tokens_->Set(static_cast<double>(table_->entries().size()));
}

std::shared_ptr<const TokenTable> TokenCheck::table() const {
  const std::lock_guard lock(mutex_);
  return table_;
}

void TokenCheck::Reload() {
  absl::StatusOr<TokenTable> table = TokenTable::Read(token_file_);
  if (!table.ok()) {
    Log(LogLevel::kError, "the token file cannot be used; keeping the previous tokens",
        {{"error", std::string(table.status().message())}});
    return;
  }
  WarnIfEmpty(*table, token_file_);
  auto shared = std::make_shared<const TokenTable>(*std::move(table));
  if (tokens_ != nullptr) {
    tokens_->Set(static_cast<double>(shared->entries().size()));
  }
  const std::lock_guard lock(mutex_);
  table_ = std::move(shared);
  // Drops the allowances of tokens that are gone.
  std::map<std::string, Allowance> kept;
  for (const TokenTable::Entry& entry : table_->entries()) {
    if (const auto found = allowances_.find(entry.name); found != allowances_.end()) {
      kept.insert(*found);
    }
  }
  allowances_ = std::move(kept);
}

bool TokenCheck::Take(const TokenTable::Entry& entry) const {
  if (!entry.calls_per_second) {
    return true;
  }
  const double rate = *entry.calls_per_second;
  const double burst = std::max(1.0, rate);
  const int64_t now_ns = Clock::Real().MonotonicNs();
  const std::lock_guard lock(mutex_);
  const auto [found, first] = allowances_.try_emplace(entry.name, Allowance{burst, now_ns});
  Allowance& allowance = found->second;
  const double elapsed_seconds = 1e-9 * static_cast<double>(now_ns - allowance.at_ns);
  allowance.calls = std::min(burst, allowance.calls + std::max(0.0, elapsed_seconds) * rate);
  allowance.at_ns = now_ns;
  if (allowance.calls < 1) {
    return false;
  }
  allowance.calls -= 1;
  return true;
}

void TokenCheck::Count(Reason reason) const {
  if (refused_[reason] != nullptr) {
    refused_[reason]->Increment();
  }
  refused_since_log_.fetch_add(1);
  const int64_t now_ns = Clock::Real().MonotonicNs();
  int64_t next_ns = next_log_ns_.load();
  if (now_ns < next_ns ||
      !next_log_ns_.compare_exchange_strong(next_ns, now_ns + kRefusalLogIntervalNs)) {
    return;
  }
  Log(LogLevel::kWarning, "calls are refused",
      {{"calls", refused_since_log_.exchange(0)}, {"last_reason", kReasonNames[reason]}});
}

absl::Status TokenCheck::Check(std::string_view path, std::string_view authorization) const {
  const MethodAccess* const access = FindMethodAccess(path);
  const std::string wanted =
      access != nullptr && access->role
          ? absl::StrCat("a token with role ", std::string(RoleName(*access->role)))
          : "a token";
  if (authorization.substr(0, kBearer.size()) != kBearer) {
    Count(kNoToken);
    return absl::UnauthenticatedError(
        absl::StrCat("this needs ", wanted, ", sent as 'authorization: Bearer TOKEN'"));
  }
  const std::shared_ptr<const TokenTable> table = this->table();
  const TokenTable::Entry* const entry = table->Find(authorization.substr(kBearer.size()));
  if (entry == nullptr) {
    Count(kUnknownToken);
    return absl::UnauthenticatedError(
        absl::StrCat("the token is not known to this service, and this needs ", wanted));
  }
  if (access != nullptr && access->role && !entry->Has(*access->role)) {
    Count(kMissingRole);
    return absl::PermissionDeniedError(
        absl::StrCat(std::string(path), " needs role ", std::string(RoleName(*access->role)),
                     ", and the token '", entry->name, "' has ", RoleList(*entry)));
  }
  if (access != nullptr && access->role && !Take(*entry)) {
    Count(kTooManyCalls);
    return absl::ResourceExhaustedError(absl::StrCat(
        "the token '", entry->name, "' may make ", *entry->calls_per_second, " calls per second"));
  }
  return absl::OkStatus();
}

std::string TokenCheck::NameOf(std::string_view authorization) const {
  if (authorization.substr(0, kBearer.size()) != kBearer) return "";
  const std::shared_ptr<const TokenTable> table = this->table();
  const TokenTable::Entry* const entry = table->Find(authorization.substr(kBearer.size()));
  return entry == nullptr ? "" : entry->name;
}

grpc::Status TokenCheck::Process(const InputMetadata& metadata, grpc::AuthContext*, OutputMetadata*,
                                 OutputMetadata*) {
  const auto path = metadata.find(kPath);
  const auto authorization = metadata.find(kAuthorization);
  // With two headers it would be unclear which one applies.
  const bool one = metadata.count(kAuthorization) == 1;
  // Nothing is consumed: streams are counted by token (stream_limit.h).
  return ToGrpc(Check(path != metadata.end() ? ViewOf(path->second) : "",
                      one ? ViewOf(authorization->second) : ""));
}

}  // namespace kernelcast
