#include "common/llm/client.h"

#include <pthread.h>

#include <csignal>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/id.h"
#include "common/base/status.h"
#include "common/llm/curl_transport.h"
#include "common/llm/dispatcher.h"
#include "common/llm/stats_board.h"

namespace kernelcast::llm {
namespace {

ClientStats EmptyStats(const LlmConfig& config) {
  ClientStats stats;
  for (const EndpointConfig& endpoint : config.endpoints) {
    stats.endpoints.emplace_back();
    stats.endpoints.back().name = endpoint.name;
  }
  return stats;
}

std::vector<EndpointConfig> WithoutKeys(std::vector<EndpointConfig> endpoints) {
  for (EndpointConfig& endpoint : endpoints) endpoint.api_key.clear();
  return endpoints;
}

Random MakeRandom() {
  // shared_ptr because std::function requires copyable callables.
  return [generator = std::make_shared<std::mt19937_64>(SecretSeed())] {
    return std::uniform_real_distribution<double>(0, 1)(*generator);
  };
}

}  // namespace

class LlmClient::Impl {
 public:
  Impl(LlmConfig config, LlmObserver* observer, const Clock& clock)
      : clock_(clock),
        config_(std::move(config)),
        public_endpoints_(WithoutKeys(config_.endpoints)),
        observer_(observer),
        stats_(EmptyStats(config_)) {}
  ~Impl() { Shutdown(); }

  absl::Status Start() {
    KC_ASSIGN_OR_RETURN(transport_, CurlTransport::Create(config_, clock_));
    try {
      thread_ = std::thread([this] { Run(); });
    } catch (const std::system_error&) {
      return absl::UnavailableError("no thread is available");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<CallId> Submit(ChatRequest request, Done done) {
    if (request.prompt == nullptr) return absl::InvalidArgumentError("the request has no prompt");
    Item item;
    item.bytes = static_cast<int64_t>(request.prompt->json().size());
    item.submitted_ns = clock_.MonotonicNs();
    item.request = std::move(request);
    item.done = std::move(done);
    CallId id = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (stopping_) return absl::FailedPreconditionError("the client has been shut down");
      if (!stats_.Admit(config_.max_pending_calls, config_.max_pending_bytes, item.bytes)) {
        return absl::ResourceExhaustedError("too many calls are pending");
      }
      id = next_id_++;
      item.id = id;
      inbox_.push_back(std::move(item));
      transport_->Wake();
    }
    return id;
  }

  void Cancel(CallId id) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (stopping_) return;
      Item item;
      item.id = id;
      item.cancel = true;
      inbox_.push_back(std::move(item));
      transport_->Wake();
    }
  }

  void Shutdown() {
    const std::lock_guard<std::mutex> joining(join_mutex_);
    if (!thread_.joinable()) return;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
      transport_->Wake();
    }
    thread_.join();
    const std::lock_guard<std::mutex> lock(mutex_);
    transport_.reset();
  }

  ClientStats Stats() const { return stats_.Snapshot(); }
  const std::vector<EndpointConfig>& endpoints() const { return public_endpoints_; }

 private:
  // A new call, or a request to cancel one.
  struct Item {
    CallId id = 0;
    bool cancel = false;
    ChatRequest request;
    Done done;
    int64_t submitted_ns = 0;
    int64_t bytes = 0;
  };

  void Run() {
    // Signals are handled by other threads; SIGPIPE by none.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);

    Dispatcher dispatcher(config_, *transport_, clock_, MakeRandom(), stats_, observer_);
    std::vector<Item> items;
    for (bool stopping = false; !stopping;) {
      transport_->Poll(dispatcher.NextWakeNs());
      items.clear();
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        items.swap(inbox_);
        stopping = stopping_;
      }
      for (Item& item : items) {
        if (item.cancel) {
          dispatcher.Cancel(item.id);
        } else {
          Accept(dispatcher, item);
        }
      }
      if (stopping) dispatcher.CancelAll();
      dispatcher.Step();
    }
  }

  void Accept(Dispatcher& dispatcher, Item& item) {
    if (item.request.stop.stop_possible()) {
      using Stopper = std::stop_callback<std::function<void()>>;
      // shared_ptr because std::function requires copyable callables. If the token is already
      // stopped, the cancellation is posted here and now, and read after the call.
      auto stopper =
          std::make_shared<Stopper>(item.request.stop, [this, id = item.id] { Cancel(id); });
      item.done = [stopper, done = std::move(item.done)](ChatOutcome outcome) mutable {
        stopper.reset();
        done(std::move(outcome));
      };
    }
    dispatcher.Submit(item.id, std::move(item.request), std::move(item.done), item.submitted_ns,
                      item.bytes);
  }

  // Constant after construction.
  const Clock& clock_;
  const LlmConfig config_;
  const std::vector<EndpointConfig> public_endpoints_;
  LlmObserver* const observer_;

  StatsBoard stats_;
  // Used by the client's thread. Other threads only call Wake, under mutex_, unless stopping_.
  std::unique_ptr<CurlTransport> transport_;

  std::mutex mutex_;
  // State below is protected by mutex_.
  std::vector<Item> inbox_;
  CallId next_id_ = 1;
  bool stopping_ = false;

  std::mutex join_mutex_;
  std::thread thread_;  // protected by join_mutex_
};

LlmClient::LlmClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LlmClient::~LlmClient() = default;

absl::StatusOr<std::unique_ptr<LlmClient>> LlmClient::Create(LlmConfig config,
                                                             LlmObserver* observer,
                                                             const Clock& clock) {
  KC_RETURN_IF_ERROR(ValidateLlmConfig(config));
  auto impl = std::make_unique<Impl>(std::move(config), observer, clock);
  KC_RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<LlmClient>(new LlmClient(std::move(impl)));
}

absl::StatusOr<CallId> LlmClient::Submit(ChatRequest request, Done done) {
  return impl_->Submit(std::move(request), std::move(done));
}

void LlmClient::Cancel(CallId call) { impl_->Cancel(call); }
void LlmClient::Shutdown() { impl_->Shutdown(); }
ClientStats LlmClient::Stats() const { return impl_->Stats(); }
const std::vector<EndpointConfig>& LlmClient::endpoints() const { return impl_->endpoints(); }

}  // namespace kernelcast::llm
