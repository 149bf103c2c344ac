#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_BETWEEN_CALLS_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_BETWEEN_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace kernelcast::worker {

// Which samples of a request are calls, and what is known about them.
struct RequestedCalls {
  size_t first = 0;
  size_t count = 0;
  // Results of a call are copied before the next call. A sample that does nothing follows the last.
  bool copies = false;
  // All requests make one call.
  bool single = false;
};
// The times between calls that count, in microseconds. `values_us` has two values per sample: the
// time before its program, and of its program. Nothing is copied before the first call, so that its
// time does not count where results are copied. After the last call no outputs are overwritten, so
// that this time counts only if no request has others.
std::vector<double> TimesBetween(std::span<const float> values_us, const RequestedCalls& calls);

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

// Charges a candidate for what its requests take, by the judge's clock, beyond the calls that it
// reports. A process that serves requests itself can report any times: short ones of its calls, and
// the rest as overwriting of caches. Medians over its requests count.
class BeyondCalls {
 public:
  // `samples`: of the request; requests of a session with as many are alike. `beyond_us`: what it
  // took beyond its calls. `launching_us`: host time for launching the work between calls, which
  // long calls hide and short calls do not.
  void AddReference(size_t samples, double beyond_us, double launching_us);
  // The candidate's next requests are not like those before.
  void BeginCandidate() { candidate_us_.clear(); }
  // How much to add to each call of a request of the candidate, in microseconds.
  // `poisoned_bytes`: what the judge asks it to write before each call beyond the reference.
  double ChargeUs(size_t samples, size_t calls, double beyond_us, uint64_t poisoned_bytes);

 private:
  std::map<size_t, std::vector<double>> reference_us_;
  std::map<size_t, std::vector<double>> candidate_us_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_BETWEEN_CALLS_H_
