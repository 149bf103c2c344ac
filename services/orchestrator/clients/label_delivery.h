#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_LABEL_DELIVERY_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_LABEL_DELIVERY_H_

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/domain/label.h"
#include "common/domain/problem.h"
#include "services/orchestrator/core/ports.h"

namespace kernelcast::orchestrator {

struct LabelDeliveryOptions {
  // Delay before labels are sent again to a forecaster that did not accept them.
  absl::Duration pause = absl::Seconds(1);
  // Maximum labels kept for an unavailable forecaster, if there are several. It misses the others.
  size_t max_pending = 50'000;
  // How long labels wait for a forecaster that was removed from DNS to come back at another
  // address.
  absl::Duration orphan_patience = absl::Minutes(10);
  const Clock* clock = &Clock::Real();  // must outlive the delivery
};

// Labels that were offered in one call. Shared by those not acknowledged yet.
struct PendingOffer {
  size_t missing = 0;  // labels times receivers
  Forecasters::ObserveDone done;
};

struct UndeliveredLabel {
  std::shared_ptr<const Problem> problem;
  // Shared by the receivers that have not acknowledged it yet.
  std::shared_ptr<const Label> label;
  std::shared_ptr<PendingOffer> offer;
};

// A forecaster, as far as it receives labels.
class LabelReceiver {
 public:
  virtual ~LabelReceiver() = default;

  // For log lines. Constant.
  virtual const std::string& receiver_address() const = 0;
  // Set when it was unavailable for so long that it misses labels, until it has caught up.
  bool missed_labels() const { return missed_labels_; }

 private:
  friend class LabelDelivery;

  std::atomic<bool> missed_labels_ = false;
  // Protected by the delivery's lock.
  std::deque<UndeliveredLabel> labels_;
  size_t sending_ = 0;     // labels at the front that a call is sending
  size_t one_by_one_ = 0;  // labels at the front that must be sent singly
  absl::Time not_before_ = absl::InfinitePast();
  bool left_ = false;
};

// Delivers every label to every receiver. An unavailable or slow receiver delays only its own
// labels. Labels of a receiver that left wait for the next one that comes, which may be the same
// forecaster at another address. Thread-safe.
class LabelDelivery {
 public:
  using Receivers = std::vector<std::shared_ptr<LabelReceiver>>;
  using Labels = std::vector<std::shared_ptr<const Label>>;
  // Whether the receiver is available now. Called with the delivery's lock held.
  using IsReady = std::function<bool(const LabelReceiver& receiver)>;
  // Sends labels of one problem. `done` gets the result, or is not called if Send returns false
  // because the receiver is not available.
  using Send = std::function<bool(const std::shared_ptr<LabelReceiver>& receiver,
                                  const std::shared_ptr<const Problem>& problem, Labels labels,
                                  std::function<void(const absl::Status&)> done)>;

  LabelDelivery(LabelDeliveryOptions options, IsReady is_ready, Send send);
  // Stop must have been called, and every `done` of Send.
  ~LabelDelivery() = default;

  // `done` is called with OK when all known receivers have acknowledged the labels, and with
  // CANCELLED when the delivery stops.
  void Offer(const std::shared_ptr<const Problem>& problem, std::vector<Label> labels,
             Forecasters::ObserveDone done);
  // Receivers came or left.
  void Change(const Receivers& added, const Receivers& removed);
  // The receiver is available. `up_to_date`: no other one has more labels.
  void Resume(const std::shared_ptr<LabelReceiver>& receiver, bool up_to_date);
  // Sends what is due and drops labels that waited too long for a receiver.
  void Poll();
  // Ends all offers with CANCELLED. Later offers get it at once.
  void Stop();

  // Labels that the receiver has not acknowledged.
  size_t Pending(const LabelReceiver& receiver) const;

 private:
  struct Batch {
    std::shared_ptr<LabelReceiver> receiver;
    std::shared_ptr<const Problem> problem;
    Labels labels;
  };
  // Work to do after the lock is released, because calls and callbacks may complete at once.
  struct AfterUnlock {
    std::vector<Batch> send;
    std::vector<std::shared_ptr<PendingOffer>> done;
  };

  absl::Time Now() const { return absl::FromUnixNanos(options_.clock->MonotonicNs()); }
  void Run(AfterUnlock after);
  void OnSent(const std::shared_ptr<LabelReceiver>& receiver, const absl::Status& status);
  void Queue(LabelReceiver& receiver, const UndeliveredLabel& pending, AfterUnlock& after)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendNext(const std::shared_ptr<LabelReceiver>& receiver, AfterUnlock& after)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void Acknowledge(const UndeliveredLabel& pending, AfterUnlock& after);

  const LabelDeliveryOptions options_;
  const IsReady is_ready_;
  const Send send_;

  mutable std::mutex mutex_;
  Receivers receivers_ ABSL_GUARDED_BY(mutex_);
  // Labels whose receiver left, and until when they wait for another one.
  std::vector<std::pair<absl::Time, UndeliveredLabel>> orphans_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_LABEL_DELIVERY_H_
