#ifndef KERNELCAST_COMMON_BASE_CLOCK_H_
#define KERNELCAST_COMMON_BASE_CLOCK_H_

#include <atomic>
#include <cstdint>

namespace kernelcast {

// Source of time, injected so that tests need not sleep. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds on a clock that never goes backwards. The origin is arbitrary.
  virtual int64_t MonotonicNs() const = 0;
  // Nanoseconds since the Unix epoch.
  virtual int64_t WallNs() const = 0;

  // The machine's clocks. Never destroyed.
  static const Clock& Real();
};

// A clock that only Advance moves. For tests.
class FakeClock final : public Clock {
 public:
  explicit FakeClock(int64_t start_ns = 1'000'000'000) : now_ns_(start_ns) {}
  int64_t MonotonicNs() const override { return now_ns_.load(); }
  int64_t WallNs() const override { return now_ns_.load(); }
  void Advance(int64_t delta_ns) { now_ns_ += delta_ns; }

 private:
  std::atomic<int64_t> now_ns_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_CLOCK_H_
