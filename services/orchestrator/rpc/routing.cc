#include "services/orchestrator/rpc/routing.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"

namespace kernelcast::orchestrator {
namespace {

// Limit of stubs kept, including those of replicas that are gone.
constexpr size_t kMaxPeers = 64;

}  // namespace

CallOrigin::CallOrigin(const grpc::CallbackServerContext& context)
    : deadline(context.deadline()), trace(IncomingTrace(context)) {
  const auto& metadata = context.client_metadata();
  if (const auto found = metadata.find(kShardKey); found != metadata.end()) {
    int number = -1;
    const bool valid =
        absl::SimpleAtoi(absl::string_view(found->second.data(), found->second.size()), &number);
    shard = valid ? number : -1;
  }
}

Router::Router(const EngineDirectory* engines, ChannelOptions channel, absl::Duration patience,
               ReplicaMetrics* metrics)
    : engines_(engines), channel_(std::move(channel)), patience_(patience), metrics_(metrics) {}

Router::~Router() {
  LookAll();  // nobody waits for them any more
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return passed_on_ == 0; });
}

std::shared_ptr<v1::Orchestrator::Stub> Router::Peer(const std::string& address) {
  const std::lock_guard lock(mutex_);
  if (const auto found = peers_.find(address); found != peers_.end()) return found->second;
  auto channel = MakeChannel(address, channel_);
  if (!channel.ok()) {
    Log(LogLevel::kError, "another orchestrator cannot be called",
        {{"address", address}, {"error", std::string(channel.status().message())}});
    return nullptr;
  }
  if (peers_.size() >= kMaxPeers) peers_.clear();
  return peers_[address] = v1::Orchestrator::NewStub(*channel);
}

void Router::Prepare(grpc::ClientContext& context, const CallOrigin& origin, int shard,
                     const TraceContext& trace) const {
  context.set_deadline(origin.deadline);
  context.AddMetadata(kShardKey, absl::StrCat(shard));
  PassTrace(trace, context);
}

void Router::Add(const std::shared_ptr<Routed>& call) {
  const std::lock_guard lock(mutex_);
  calls_.insert(call);
}

void Router::Remove(const std::shared_ptr<Routed>& call) {
  const std::lock_guard lock(mutex_);
  calls_.erase(call);
}

void Router::LookAll() {
  std::set<std::shared_ptr<Routed>> calls;
  {
    const std::lock_guard lock(mutex_);
    calls = calls_;
  }
  for (const auto& call : calls) call->Look();
}

void Router::PassedOn() {
  metrics_->CountForwarded();
  const std::lock_guard lock(mutex_);
  ++passed_on_;
}

void Router::CameBack() {
  const std::lock_guard lock(mutex_);
  if (--passed_on_ == 0) idle_.notify_all();
}

}  // namespace kernelcast::orchestrator
