#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_FOOTPRINT_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_FOOTPRINT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kernelcast::worker::virtual_gpu {

// The set of touched 32-byte sectors, by line of 128 bytes. Bounded: when it is full, new lines
// count as new each time.
class Footprint {
 public:
  // Keeps up to half of `capacity` lines. Both arguments are powers of two.
  explicit Footprint(size_t capacity = 1 << 15, size_t start = 1 << 7)
      : capacity_(capacity), keys_(start, 0), sectors_(start, 0), touched_(start, 0) {}
  // Touches the sectors in a mask of four at time `now` of the caller's clock.
  struct Touched {
    int fresh = 0;    // sectors not touched before
    int halves = 0;   // halves of the line not touched before
    float since = 0;  // previous touch of the line, on the caller's clock
  };
  Touched Touch(uint64_t line, uint32_t sectors, float now = 0);
  size_t lines() const { return used_; }
  void Clear();

 private:
  // Index of the line, or of its insertion point.
  size_t Locate(uint64_t line) const;

  size_t capacity_;
  std::vector<uint64_t> keys_;  // line + 1; 0: empty
  std::vector<uint8_t> sectors_;
  std::vector<float> touched_;
  size_t used_ = 0;
};

// Number of operations per address, to find contention. Bounded like Footprint.
class AddressCounts {
 public:
  void Add(uint64_t address, double count);
  double largest() const { return largest_; }
  void Clear();

 private:
  static constexpr size_t kCapacity = 1 << 12;
  std::vector<uint64_t> keys_;
  std::vector<double> counts_;
  size_t used_ = 0;
  double largest_ = 0;
};

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_FOOTPRINT_H_
