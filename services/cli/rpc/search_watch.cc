#include "services/cli/rpc/search_watch.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/clock.h"
#include "common/rpc/status_conversion.h"
#include "services/cli/rpc/channel.h"

namespace kernelcast::cli {
namespace {

constexpr int64_t kFirstPauseMs = 100;
constexpr int64_t kLongestRetryMs = 3'000;

}  // namespace

SearchWatch::SearchWatch(std::string search_id, Reconnect reconnect, uint64_t from_sequence,
                         absl::Duration give_up_after)
    : search_id_(std::move(search_id)),
      reconnect_(std::move(reconnect)),
      give_up_after_(give_up_after),
      last_sequence_(from_sequence),
      thread_([this] { Run(); }) {}

SearchWatch::~SearchWatch() { Stop(); }

void SearchWatch::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    if (context_ != nullptr) context_->TryCancel();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

SearchWatch::Update SearchWatch::Next(absl::Duration timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, std::chrono::microseconds(absl::ToInt64Microseconds(timeout)),
                    [this] { return !events_.empty() || ended_.has_value(); });
  Update update;
  update.events.assign(std::make_move_iterator(events_.begin()),
                       std::make_move_iterator(events_.end()));
  events_.clear();
  update.trouble = trouble_;
  update.ended = ended_;
  return update;
}

void SearchWatch::Run() {
  int64_t pause_ms = kFirstPauseMs;
  int64_t lost_since_ns = 0;
  absl::Status outcome;
  for (;;) {
    absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = reconnect_();
    saw_event_ = false;
    const absl::Status status = channel.ok() ? Follow(*channel) : channel.status();
    const int64_t now_ns = Clock::Real().MonotonicNs();
    if (saw_event_) {
      pause_ms = kFirstPauseMs;
      lost_since_ns = 0;
    }
    std::unique_lock<std::mutex> lock(mutex_);
    if (stopped_) {
      outcome = absl::CancelledError("the watch was stopped");
      break;
    }
    // A stream that ends with OK has delivered the whole search.
    if (status.ok() || saw_end_) {
      outcome = absl::OkStatus();
      break;
    }
    if (lost_since_ns == 0) lost_since_ns = now_ns;
    const bool patience_over = now_ns - lost_since_ns > absl::ToInt64Nanoseconds(give_up_after_);
    if (!IsTransient(status) || patience_over) {
      outcome = status;
      break;
    }
    trouble_ = std::string(status.message());
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::milliseconds(pause_ms), [this] { return stopped_; });
    pause_ms = std::min(pause_ms * 2, kLongestRetryMs);
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = outcome;
  }
  changed_.notify_all();
}

absl::Status SearchWatch::Follow(const std::shared_ptr<grpc::Channel>& channel) {
  const std::unique_ptr<v1::Orchestrator::Stub> stub = v1::Orchestrator::NewStub(channel);
  grpc::ClientContext context;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopped_) return absl::CancelledError("the watch was stopped");
    context_ = &context;
  }
  v1::WatchSearchRequest request;
  request.set_search_id(search_id_);
  request.set_from_sequence(last_sequence_);
  const std::unique_ptr<grpc::ClientReader<v1::SearchEvent>> reader =
      stub->WatchSearch(&context, request);
  v1::SearchEvent event;
  while (reader->Read(&event)) {
    // Events from before a break may be repeated.
    if (event.sequence() < last_sequence_) continue;
    if (event.sequence() > last_sequence_) last_kinds_.clear();
    last_sequence_ = event.sequence();
    if (!last_kinds_.insert(static_cast<int>(event.event_case())).second) continue;
    saw_event_ = true;
    saw_end_ = saw_end_ || event.status() == v1::SEARCH_STATUS_DONE ||
               event.status() == v1::SEARCH_STATUS_FAILED;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      events_.push_back(std::move(event));
      trouble_.clear();
    }
    changed_.notify_all();
    event.Clear();
  }
  const grpc::Status status = reader->Finish();
  const std::lock_guard<std::mutex> lock(mutex_);
  context_ = nullptr;
  return FromGrpc(status);
}

}  // namespace kernelcast::cli
