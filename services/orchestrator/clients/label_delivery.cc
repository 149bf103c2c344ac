#include "services/orchestrator/clients/label_delivery.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/log.h"
#include "common/rpc/status_conversion.h"
#include "services/orchestrator/clients/call_end.h"

namespace kernelcast::orchestrator {
namespace {

constexpr size_t kLabelsPerCall = 256;

absl::Status Stopping() { return absl::CancelledError("the forecaster pool is stopping"); }

}  // namespace

LabelDelivery::LabelDelivery(LabelDeliveryOptions options, IsReady is_ready, Send send)
    : options_(options), is_ready_(std::move(is_ready)), send_(std::move(send)) {}

void LabelDelivery::Run(AfterUnlock after) {
  for (const auto& offer : after.done) offer->done(absl::OkStatus());
  for (Batch& batch : after.send) {
    const auto done = [this, receiver = batch.receiver](const absl::Status& status) {
      OnSent(receiver, status);
    };
    if (!send_(batch.receiver, batch.problem, std::move(batch.labels), done)) {
      // Sent when it is ready again.
      const std::lock_guard lock(mutex_);
      batch.receiver->sending_ = 0;
    }
  }
}

void LabelDelivery::Offer(const std::shared_ptr<const Problem>& problem, std::vector<Label> labels,
                          Forecasters::ObserveDone done) {
  auto offer = std::make_shared<PendingOffer>();
  offer->done = std::move(done);
  AfterUnlock after;
  {
    std::unique_lock lock(mutex_);
    if (stopping_) {
      lock.unlock();
      offer->done(Stopping());
      return;
    }
    for (Label& label : labels) {
      const UndeliveredLabel pending{problem, std::make_shared<const Label>(std::move(label)),
                                     offer};
      if (receivers_.empty()) {
        // Given to the first receiver that comes.
        ++offer->missing;
        orphans_.emplace_back(absl::InfiniteFuture(), pending);
      }
      for (const auto& receiver : receivers_) Queue(*receiver, pending, after);
    }
    if (offer->missing == 0) after.done.push_back(offer);
    for (const auto& receiver : receivers_) SendNext(receiver, after);
  }
  Run(std::move(after));
}

void LabelDelivery::Change(const Receivers& added, const Receivers& removed) {
  AfterUnlock after;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    // A new receiver may be a known forecaster at another address. It gets all labels that not
    // everyone has acknowledged; receiving one twice costs little.
    std::vector<UndeliveredLabel> unfinished;
    std::set<const Label*> seen;
    const auto collect = [&](const UndeliveredLabel& pending) {
      if (seen.insert(pending.label.get()).second) unfinished.push_back(pending);
    };
    if (!added.empty()) {
      for (const auto& [until, orphan] : orphans_) collect(orphan);
      for (const auto& receiver : receivers_) std::ranges::for_each(receiver->labels_, collect);
    }
    const absl::Time until = Now() + options_.orphan_patience;
    for (const auto& receiver : removed) {
      if (std::erase(receivers_, receiver) == 0) continue;
      for (UndeliveredLabel& pending : receiver->labels_) {
        orphans_.emplace_back(until, std::move(pending));
      }
      receiver->labels_.clear();
      receiver->left_ = true;
    }
    for (const auto& receiver : added) {
      receivers_.push_back(receiver);
      for (const UndeliveredLabel& pending : unfinished) Queue(*receiver, pending, after);
    }
    if (!added.empty()) {
      for (const auto& [waits_until, orphan] : orphans_) Acknowledge(orphan, after);
      orphans_.clear();
    }
    for (const auto& receiver : added) SendNext(receiver, after);
  }
  Run(std::move(after));
}

void LabelDelivery::Resume(const std::shared_ptr<LabelReceiver>& receiver, bool up_to_date) {
  AfterUnlock after;
  {
    const std::lock_guard lock(mutex_);
    if (up_to_date && receiver->labels_.empty()) receiver->missed_labels_ = false;
    SendNext(receiver, after);
  }
  Run(std::move(after));
}

void LabelDelivery::Poll() {
  AfterUnlock after;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& receiver : receivers_) SendNext(receiver, after);
    const absl::Time now = Now();
    std::erase_if(orphans_, [&](const auto& orphan) {
      if (orphan.first > now) return false;
      Acknowledge(orphan.second, after);
      return true;
    });
  }
  Run(std::move(after));
}

void LabelDelivery::Stop() {
  std::set<std::shared_ptr<PendingOffer>> offers;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(stopping_, true)) return;
    for (const auto& receiver : receivers_) {
      for (const UndeliveredLabel& pending : receiver->labels_) offers.insert(pending.offer);
    }
    for (const auto& [until, pending] : orphans_) offers.insert(pending.offer);
    orphans_.clear();
  }
  for (const auto& offer : offers) offer->done(Stopping());
}

size_t LabelDelivery::Pending(const LabelReceiver& receiver) const {
  const std::lock_guard lock(mutex_);
  return receiver.labels_.size();
}

void LabelDelivery::Queue(LabelReceiver& receiver, const UndeliveredLabel& pending,
                          AfterUnlock& after) {
  if (receiver.labels_.size() >= options_.max_pending && receivers_.size() > 1) {
    Log(LogLevel::kError, "a forecaster was unavailable for too long and misses labels",
        {{"address", receiver.receiver_address()}, {"labels", receiver.labels_.size()}});
    receiver.missed_labels_ = true;
    // Labels that a call is sending stay until the call has ended.
    while (receiver.labels_.size() > receiver.sending_) {
      Acknowledge(receiver.labels_.back(), after);
      receiver.labels_.pop_back();
    }
    receiver.one_by_one_ = std::min(receiver.one_by_one_, receiver.labels_.size());
  }
  ++pending.offer->missing;
  receiver.labels_.push_back(pending);
}

void LabelDelivery::Acknowledge(const UndeliveredLabel& pending, AfterUnlock& after) {
  if (--pending.offer->missing == 0) after.done.push_back(pending.offer);
}

// Sends the leading labels of the same problem, unless a call is running.
void LabelDelivery::SendNext(const std::shared_ptr<LabelReceiver>& receiver, AfterUnlock& after) {
  if (stopping_ || receiver->left_ || receiver->sending_ > 0 || receiver->labels_.empty() ||
      receiver->not_before_ > Now() || !is_ready_(*receiver)) {
    return;
  }
  Batch& batch = after.send.emplace_back();
  batch.receiver = receiver;
  batch.problem = receiver->labels_.front().problem;
  const size_t limit = receiver->one_by_one_ > 0 ? 1 : kLabelsPerCall;
  for (const UndeliveredLabel& pending : receiver->labels_) {
    if (receiver->sending_ >= limit || pending.problem->problem_id != batch.problem->problem_id) {
      break;
    }
    batch.labels.push_back(pending.label);
    ++receiver->sending_;
  }
}

void LabelDelivery::OnSent(const std::shared_ptr<LabelReceiver>& receiver,
                           const absl::Status& status) {
  AfterUnlock after;
  {
    const std::lock_guard lock(mutex_);
    const size_t sent = std::exchange(receiver->sending_, 0);
    if (stopping_ || receiver->left_) return;
    const CallEnd end = EndOf(status, /*given_up=*/false);
    const bool refused = end == CallEnd::kAnswered && !status.ok();
    if (status.ok() || (refused && sent == 1)) {
      if (refused) {
        Log(LogLevel::kError, "a forecaster refused a label; it is skipped there",
            {{"address", receiver->receiver_address()},
             {"label_id", receiver->labels_.front().label->label_id},
             {"error", std::string(status.message())}});
      }
      for (size_t i = 0; i < sent; ++i) {
        Acknowledge(receiver->labels_.front(), after);
        receiver->labels_.pop_front();
      }
      receiver->one_by_one_ -= std::min(receiver->one_by_one_, sent);
    } else if (refused) {
      // One of them is invalid. Sending each alone finds it.
      receiver->one_by_one_ = sent;
    } else if (end != CallEnd::kContentUnknown) {
      receiver->not_before_ = Now() + RetryAfter(status).value_or(options_.pause);
    }
    SendNext(receiver, after);
  }
  Run(std::move(after));
}

}  // namespace kernelcast::orchestrator
