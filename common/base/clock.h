#ifndef KERNELCAST_COMMON_BASE_CLOCK_H_
#define KERNELCAST_COMMON_BASE_CLOCK_H_

#include <atomic>
#include <cstdint>

namespace kernelcast {

// Where time comes from, injected so that tests do not sleep. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds of a clock that never steps back; the origin is arbitrary.
  virtual int64_t MonotonicNs() const = 0;
  // Nanoseconds since the Unix epoch.
  virtual int64_t WallNs() const = 0;

  // The machine's clocks. Never destroyed.
  static const Clock& Real();
};

// Stands still until told otherwise.
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
