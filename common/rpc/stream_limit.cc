#include "common/rpc/stream_limit.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/rpc/status_conversion.h"

namespace kernelcast {
namespace {

constexpr absl::Duration kComeBackAfter = absl::Seconds(1);

absl::Status TooMany(std::string_view whose, size_t limit) {
  return OverloadedError(
      absl::StrCat(std::string(whose), " has ", limit, " open streams, and may have no more"),
      kComeBackAfter);
}

// The hashed token. Without a token: the peer's address without its port. All peers on Unix sockets
// are one caller.
std::string CallerOf(const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  if (const auto token = metadata.find("authorization"); token != metadata.end()) {
    const std::string_view text(token->second.data(), token->second.size());
    return ContentHasher().Add("stream caller").Add(text).Hex128();
  }
  const std::string peer = context.peer();
  return peer.substr(0, peer.rfind(':'));
}

void Decrement(std::map<std::string, size_t>& counts, const std::string& key) {
  const auto found = counts.find(key);
  if (found != counts.end() && --found->second == 0) counts.erase(found);
}

}  // namespace

StreamLimiter& StreamLimiter::Process() {
  static StreamLimiter& limiter = *new StreamLimiter(StreamLimits());
  return limiter;
}

absl::Status StreamLimiter::Open(const std::string& connection, const std::string& caller) {
  const std::lock_guard lock(mutex_);
  const auto count = [](const std::map<std::string, size_t>& counts, const std::string& key) {
    const auto found = counts.find(key);
    return found == counts.end() ? 0 : found->second;
  };
  if (open_ >= limits_.per_process) return TooMany("this service", limits_.per_process);
  if (count(by_caller_, caller) >= limits_.per_caller) {
    return TooMany("the caller", limits_.per_caller);
  }
  if (count(by_connection_, connection) >= limits_.per_connection) {
    return TooMany("the connection", limits_.per_connection);
  }
  ++open_;
  ++by_connection_[connection];
  ++by_caller_[caller];
  return absl::OkStatus();
}

void StreamLimiter::Close(const std::string& connection, const std::string& caller) {
  const std::lock_guard lock(mutex_);
  --open_;
  Decrement(by_connection_, connection);
  Decrement(by_caller_, caller);
}

size_t StreamLimiter::open() const {
  const std::lock_guard lock(mutex_);
  return open_;
}

void StreamLimiter::set_limits(StreamLimits limits) {
  const std::lock_guard lock(mutex_);
  limits_ = limits;
}

StreamPermit::StreamPermit(const grpc::CallbackServerContext& context)
    : connection_(context.peer()),
      caller_(CallerOf(context)),
      status_(StreamLimiter::Process().Open(connection_, caller_)) {}

StreamPermit::~StreamPermit() {
  if (status_.ok()) StreamLimiter::Process().Close(connection_, caller_);
}

}  // namespace kernelcast
