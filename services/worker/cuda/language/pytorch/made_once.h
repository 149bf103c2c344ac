#ifndef KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_PYTORCH_MADE_ONCE_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_PYTORCH_MADE_ONCE_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "common/base/status.h"
#include "services/worker/core/cancel.h"

namespace kernelcast::worker {

// Values that take long to make, by a key. Concurrent calls with one key make the value once.
// Forgets all values when there are too many. Thread-safe.
template <class Value>
class MadeOnce {
 public:
  // Values outlive the map's memory of them, because callers share them.
  using Shared = std::shared_ptr<const Value>;

  explicit MadeOnce(size_t max_values) : max_values_(max_values) {}

  // Returns the known value, or calls `make`, which returns a StatusOr<Value>, on this thread. An
  // error is returned and not kept. CANCELLED, DEADLINE_EXCEEDED: the token was stopped while
  // another call made the value.
  template <class Make>
  [[nodiscard]] absl::StatusOr<Shared> Get(const std::string& key, const CancelToken& cancel,
                                           const Make& make) {
    {
      std::unique_lock lock(mutex_);
      for (;;) {
        if (const auto known = values_.find(key); known != values_.end()) return known->second;
        if (making_.insert(key).second) break;
        KC_RETURN_IF_ERROR(cancel.Check());
        made_.wait_for(lock, kLook);
      }
    }
    const absl::Cleanup finish = [&] {
      const std::lock_guard lock(mutex_);
      making_.erase(key);
      made_.notify_all();
    };
    KC_ASSIGN_OR_RETURN(Value value, make());
    auto shared = std::make_shared<const Value>(std::move(value));
    const std::lock_guard lock(mutex_);
    if (values_.size() >= max_values_) values_.clear();
    values_[key] = shared;
    return shared;
  }

 private:
  // Maximum delay until a stopped token is noticed.
  static constexpr std::chrono::milliseconds kLook{5};

  const size_t max_values_;
  std::mutex mutex_;
  std::condition_variable made_;
  // Protected by mutex_.
  std::map<std::string, Shared> values_;
  std::set<std::string> making_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_PYTORCH_MADE_ONCE_H_
