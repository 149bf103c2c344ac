#ifndef KERNELCAST_SERVICES_WORKER_CORE_NEW_VALUES_H_
#define KERNELCAST_SERVICES_WORKER_CORE_NEW_VALUES_H_

#include <cstddef>
#include <span>
#include <vector>

namespace kernelcast::worker {

// A kernel that remembers results is slower on values that it has not seen. Judges run rounds of
// calls on new values and compare them here with timed calls, whose values are repeated, and with
// rounds on known values under the same conditions. The rounds of an honest kernel come from one
// distribution, however noisy the machine is, so that a rank test tells a slowdown from chance. All
// functions are pure.

// The mean call of each side in one round: of all its calls together, so that it does not matter
// which of them did the work.
struct RoundTimes {
  double candidate_ns = 0;
  double reference_ns = 0;
};

// The rounds of one kind. Medians count, so that a candidate gains nothing by being fast or slow in
// a few rounds on purpose.
class Rounds {
 public:
  // `least` and `most` bound what a call took where the machine has held some up, and are the same
  // where it has not.
  void Add(const RoundTimes& least, const RoundTimes& most);
  void Add(const RoundTimes& times) { Add(times, times); }
  bool empty() const { return candidate_least_.empty(); }
  size_t size() const { return candidate_least_.size(); }

  // Medians over all rounds. There must be at least one round.
  RoundTimes least() const;
  RoundTimes most() const;

  const std::vector<double>& candidate_least() const { return candidate_least_; }
  const std::vector<double>& candidate_most() const { return candidate_most_; }

 private:
  std::vector<double> candidate_least_;
  std::vector<double> candidate_most_;
  std::vector<double> reference_least_;
  std::vector<double> reference_most_;
};

// How much slower the candidate is in the rounds `after` than `before`, beyond what the reference
// is, as a logarithm. Where the machine has held up calls only bounds are known: `log_value` is the
// least that the times allow and `most_log_value` the most. Otherwise the two are the same.
struct Slowdown {
  double log_value = 0;
  double most_log_value = 0;
  // The rank test rejects chance at 1%. With fewer than 5 rounds: it is larger than the noise.
  bool certain = false;
};

// Slower by less than this is as quick, and no more rounds are needed to tell.
inline constexpr double kAsQuickLog = 0.03;

// Neither is empty. `noise`: of a few rounds, as a logarithm.
Slowdown SlowdownOf(const Rounds& before, const Rounds& after, double noise = kAsQuickLog);

// By which factor timed calls are too short, given what slowdowns were found: 1 where none is
// certain.
double ChargeFor(std::span<const Slowdown> found);

// By how much the slowdowns could exceed what ChargeFor charges, as a logarithm. 0 if all are as
// quick.
double DoubtOf(std::span<const Slowdown> found);

// Splits the processor time of a candidate's round into overhead and work. The overhead of waking
// up and of polling between calls is at most what the reference needs for it. The rest is work of
// the calls, wherever the candidate did it.
class RoundOverhead {
 public:
  // Adds the processor time that the reference used in a round outside its calls. `judge_wait_ns`
  // is the time for which the judge waited for a core in that round. The process polled meanwhile.
  void AddReference(double ns, double judge_wait_ns);
  // Returns the work in a round in which the candidate used `candidate_ns` of processor time.
  double WorkNs(double candidate_ns, double judge_wait_ns) const;

 private:
  std::vector<double> quiet_ns_;      // of rounds in which the judge did not wait
  std::vector<double> disturbed_ns_;  // of the others, without the judge's wait
};

// Calls of one block: what each took relative to the median of all calls on its inputs.
using RelativeTimes = std::vector<double>;
// Returns whether some calls do the work of others: in most of the candidate's blocks the mean is
// far above the median, and much further than in the reference's.
bool DoOthersWork(std::span<const RelativeTimes> candidate,
                  std::span<const RelativeTimes> reference);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_NEW_VALUES_H_
