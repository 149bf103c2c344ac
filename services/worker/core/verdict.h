#ifndef KERNELCAST_SERVICES_WORKER_CORE_VERDICT_H_
#define KERNELCAST_SERVICES_WORKER_CORE_VERDICT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/domain/measurement.h"
#include "common/domain/problem.h"
#include "services/worker/core/options.h"
#include "services/worker/core/roofline.h"
#include "services/worker/core/speedup_interval.h"
#include "services/worker/core/timing_session.h"

namespace kernelcast::worker {

// Timing results of one bench shape of a correct candidate, over all its runners.
struct TimedShape {
  AxisValues axes = {};
  double weight = 1;  // relative to the other shapes
  double bytes = 0;   // traffic and work of a call; 0: not known
  double flops = 0;
  std::string compute = {};  // name of the peak that bounds the arithmetic, see ComputePeak
  std::vector<std::vector<double>> ratios = {};  // by runner, one per group
  std::vector<double> candidate_ns = {};
  std::vector<double> reference_ns = {};
  std::vector<double> candidate_cold_ns = {};
  std::vector<double> reference_cold_ns = {};
  uint32_t blocks = 0;
  uint32_t discarded_blocks = 0;
  std::string stop_reason = {};
  double overhead_ns = 0;
  bool charged = false;             // its calls were slower on new values, or may have been
  std::vector<double> doubts = {};  // by runner; missing ones are 0

  // Adds the results of one runner's session. The candidate's times are multiplied by `charge`, the
  // factor by which its calls on new values are slower than the timed ones. The interval gets wider
  // by `doubt`, the logarithm of a factor by which they may be slower still.
  void Add(const TimingSession& session, double charge = 1, double doubt = 0);
};

// Returns what is known of bench shapes before they are timed. `shapes` are those of a prepared
// problem.
template <class BenchShapes>
std::vector<TimedShape> ShapesToTime(const Problem& problem, std::string_view target,
                                     const BenchShapes& shapes) {
  const std::vector<double> weights = BenchWeights(problem.targets.find(target)->second);
  std::vector<TimedShape> timed;
  for (const auto& shape : shapes) {
    timed.push_back({.axes = shape.axes,
                     .weight = weights[timed.size()],
                     .bytes = shape.bytes,
                     .flops = shape.flops,
                     .compute = std::string(ComputePeak(problem))});
  }
  return timed;
}

Exploit MakeExploit(Exploit::Kind kind, std::string evidence);
// A Python candidate returned a result in the judge's memory, which no argument gave to it.
Exploit TookOutputMemory();
// The outputs of a Python candidate have another form, shape or dtype than those of the reference,
// as `cause` says. The last line of `output`, which its process printed, describes them.
WrongResult WrongForm(WrongResult::Cause cause, std::string_view output);
// Explains an illegal address in a candidate with inputs: it may have written to one. The driver
// does not say what was accessed.
std::string_view IllegalAddressHint();

// The status of a measurement whose candidate does not compile. Triton compiles the kernels of a
// Python candidate when they first run. INVALID_ARGUMENT, with the error as payload. `output` is
// what the process printed.
absl::Status NotCompiled(std::string_view output);
// The error in such a status; nullopt for all others.
std::optional<CompileError> NotCompiledError(const absl::Status& status);

// MeasurementFeedback of a measurement with this outcome.
std::string OutcomeFeedback(MeasureOutcome outcome);

// Records the case in which something was seen, in outcomes that have fields for it and name none.
void NameCase(const AxisValues& shape, const std::string& distribution, MeasureOutcome& outcome);

// Returns what is known of determinism after a process whose outputs have this hash. `first`
// is that of its first process, and is set by it.
Determinism CompareOutputs(uint64_t outputs, std::optional<uint64_t>& first, Determinism known);

// Returns the outcome: ok, implausibly fast (below the time needed to move the declared bytes), or
// too noisy to tell. Sets everything of MeasuredOk except the environment. `spread` is that of the
// device; it learns from an ok outcome of a final measurement without charges.
MeasureOutcome Conclude(std::span<const TimedShape> shapes, const MeasureOptions& options,
                        const std::string& problem_id, uint32_t correctness_cases,
                        RunnerSpread& spread);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_VERDICT_H_
