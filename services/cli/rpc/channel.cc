#include "services/cli/rpc/channel.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/trace_context.h"

namespace kernelcast::cli {
namespace {

constexpr std::chrono::milliseconds kConnectPoll{50};

// The calls in progress.
struct CallRegistry {
  std::mutex mutex;
  std::set<grpc::ClientContext*> contexts;  // guarded by mutex
  std::atomic<int> cancellations{0};
};

CallRegistry& Calls() {
  static auto* const calls = new CallRegistry;
  return *calls;
}

// Build systems and schedulers pass their trace to children in the environment.
TraceContext TraceFromEnvironment() {
  const char* const traceparent = std::getenv("TRACEPARENT");
  if (traceparent == nullptr) return {};
  const char* const tracestate = std::getenv("TRACESTATE");
  return ParseTraceparent(traceparent, tracestate != nullptr ? tracestate : "")
      .value_or(TraceContext());
}

}  // namespace

void CancelCalls() {
  CallRegistry& calls = Calls();
  const std::lock_guard<std::mutex> lock(calls.mutex);
  ++calls.cancellations;
  for (grpc::ClientContext* context : calls.contexts) context->TryCancel();
}

CancellableCall::CancellableCall(grpc::ClientContext& context) : context_(context) {
  const std::lock_guard<std::mutex> lock(Calls().mutex);
  Calls().contexts.insert(&context_);
}

CancellableCall::~CancellableCall() {
  const std::lock_guard<std::mutex> lock(Calls().mutex);
  Calls().contexts.erase(&context_);
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect(const std::string& service,
                                                       const std::string& address,
                                                       const ChannelOptions& options,
                                                       absl::Duration patience) {
  ChannelOptions traced = options;
  traced.trace = TraceFromEnvironment();
  KC_ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel, MakeChannel(address, traced));
  const int64_t give_up_ns = Clock::Real().MonotonicNs() + absl::ToInt64Nanoseconds(patience);
  const int cancellations = Calls().cancellations;
  do {
    if (channel->WaitForConnected(std::chrono::system_clock::now() + kConnectPoll)) return channel;
    if (Calls().cancellations != cancellations) return absl::CancelledError("interrupted");
  } while (Clock::Real().MonotonicNs() < give_up_ns);
  return absl::UnavailableError(absl::StrCat("cannot reach the ", service, " at ", address,
                                             " within ", absl::FormatDuration(patience),
                                             "; is it running?"));
}

bool IsTransient(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable ||
         status.code() == absl::StatusCode::kResourceExhausted ||
         status.code() == absl::StatusCode::kCancelled;
}

}  // namespace kernelcast::cli
