#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_BETWEEN_CALLS_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_BETWEEN_CALLS_H_

#include <cstdint>
#include <span>

namespace kernelcast::worker {

// Charges a candidate for work that it has moved from its timed calls to the time between them. The
// judge's own work there is the same for the candidate and the reference.
class BetweenCalls {
 public:
  // `before_us`: the times between the calls of a request, in microseconds. None: nothing changes.
  void SetReference(std::span<const double> before_us);

  // How much to add to each call of a request of the candidate, in microseconds; 0 if the time is
  // about the reference's, or if one of the two is unknown. `poisoned_bytes`: what the judge writes
  // before each call beyond what it writes for the reference.
  double ChargeUs(std::span<const double> before_us, uint64_t poisoned_bytes) const;

 private:
  double reference_us_ = 0;  // 0: unknown
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_BETWEEN_CALLS_H_
