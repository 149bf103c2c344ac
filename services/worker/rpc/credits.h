#ifndef KERNELCAST_SERVICES_WORKER_RPC_CREDITS_H_
#define KERNELCAST_SERVICES_WORKER_RPC_CREDITS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace kernelcast::worker {

// Bounds the number of requests of one kind in flight. Thread-safe; must outlive the holders.
class Credits {
 public:
  explicit Credits(uint32_t limit) : limit_(limit) {}

  // One credit, returned by the destructor.
  class Held {
   public:
    Held() = default;
    explicit Held(Credits* credits) : credits_(credits) {}
    Held(Held&& other) noexcept : credits_(std::exchange(other.credits_, nullptr)) {}
    Held& operator=(Held&& other) noexcept {
      std::swap(credits_, other.credits_);
      return *this;
    }
    ~Held() {
      if (credits_ != nullptr) {
        credits_->in_flight_.fetch_sub(1);
      }
    }

   private:
    Credits* credits_ = nullptr;
  };

  // Returns nullptr if all credits are taken.
  std::unique_ptr<Held> Take() {
    uint32_t taken = in_flight_.load();
    while (taken < limit_) {
      if (in_flight_.compare_exchange_weak(taken, taken + 1)) {
        return std::make_unique<Held>(this);
      }
    }
    return nullptr;
  }

  uint32_t limit() const { return limit_; }
  uint32_t in_flight() const { return in_flight_.load(); }

 private:
  const uint32_t limit_;
  std::atomic<uint32_t> in_flight_ = 0;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_RPC_CREDITS_H_
