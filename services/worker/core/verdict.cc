#include "services/worker/core/verdict.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "common/base/utf8.h"
#include "services/worker/core/roofline.h"
#include "services/worker/core/statistics.h"

namespace kernelcast::worker {
namespace {

// A doubt about a time counts as this many standard deviations.
constexpr double kDoubtDeviations = 2;
constexpr const char* kNotCompiledUrl = "kernelcast.not_compiled";
// HEADING in kernel_errors.py.
constexpr std::string_view kNotCompiledHeading = "A kernel does not compile:\n";

// Runners without a group are left out.
std::vector<RunnerValue> RunnerValues(const TimedShape& shape, const MeasureOptions& options) {
  std::vector<RunnerValue> values;
  for (size_t runner = 0; runner < shape.ratios.size(); ++runner) {
    auto value = RunnerValueOf(shape.ratios[runner], options);
    if (!value) continue;
    const double doubt = runner < shape.doubts.size() ? shape.doubts[runner] : 0;
    value->noise_variance += doubt * doubt / (kDoubtDeviations * kDoubtDeviations);
    values.push_back(*value);
  }
  return values;
}

// Weighted geometric mean over shapes, by runner: as many runners as every shape has values for.
std::vector<RunnerValue> OverShapes(std::span<const std::vector<RunnerValue>> shapes,
                                    std::span<const double> weights) {
  std::vector<RunnerValue> runners;
  if (shapes.empty()) {
    return runners;
  }
  size_t count = shapes[0].size();
  for (const std::vector<RunnerValue>& shape : shapes) count = std::min(count, shape.size());
  for (size_t i = 0; i < count; ++i) {
    RunnerValue& runner = runners.emplace_back();
    for (size_t shape = 0; shape < shapes.size(); ++shape) {
      const RunnerValue& value = shapes[shape][i];
      runner.log_speedup += weights[shape] * value.log_speedup;
      runner.noise_variance += weights[shape] * weights[shape] * value.noise_variance;
    }
  }
  return runners;
}

void LearnState(std::span<const TimedShape> shapes, const std::string& problem_id,
                RunnerSpread& spread) {
  double log_time = 0;
  for (const TimedShape& shape : shapes) {
    if (shape.reference_ns.empty()) {
      return;
    }
    log_time += std::log(Median(shape.reference_ns)) / static_cast<double>(shapes.size());
  }
  spread.AddReferenceTime(problem_id, log_time);
}

void Learn(std::span<const RunnerValue> runners, const std::string& problem_id,
           RunnerSpread& spread) {
  std::vector<double> values;
  double noise = 0;
  for (const RunnerValue& runner : runners) {
    values.push_back(runner.log_speedup);
    noise += runner.noise_variance / static_cast<double>(runners.size());
  }
  spread.Add(problem_id, values, noise);
}

}  // namespace

void TimedShape::Add(const TimingSession& session, double charge, double doubt) {
  std::vector<double>& added = ratios.emplace_back(session.Ratios());
  for (double& ratio : added) ratio /= charge;
  charged = charged || charge > 1 || doubt > 0;
  doubts.resize(ratios.size());
  doubts.back() = doubt;
  for (const auto& [side, all] :
       {std::pair{Side::kCandidate, &candidate_ns}, std::pair{Side::kReference, &reference_ns}}) {
    for (const double call_ns : session.CallTimes(side)) {
      all->push_back(side == Side::kCandidate ? charge * call_ns : call_ns);
    }
  }
  blocks += session.blocks();
  discarded_blocks += session.discarded_blocks();
  stop_reason = std::string(session.stop_reason());
}

Exploit TookOutputMemory() {
  return MakeExploit(
      Exploit::Kind::kSkippedWork,
      "returned the judge's own memory for outputs, so that its results would not be "
      "copied there");
}

WrongResult WrongForm(WrongResult::Cause cause, std::string_view output) {
  while (!output.empty() && (output.back() == '\n' || output.back() == '\r')) {
    output.remove_suffix(1);
  }
  WrongResult wrong;
  wrong.cause = cause;
  wrong.detail = SanitizeUtf8(output.substr(output.rfind('\n') + 1));
  return wrong;
}

std::string_view IllegalAddressHint() {
  return "inputs are read-only: a write to an input is a likely cause, as is an access outside a "
         "tensor";
}

absl::Status NotCompiled(std::string_view output) {
  // Triton may print a long text before it.
  const size_t heading = output.rfind(kNotCompiledHeading);
  if (heading != std::string_view::npos) output.remove_prefix(heading);
  absl::Status status = absl::InvalidArgumentError("the candidate's kernels do not compile");
  status.SetPayload(kNotCompiledUrl, absl::Cord(SanitizeUtf8(output)));
  return status;
}

std::optional<CompileError> NotCompiledError(const absl::Status& status) {
  const auto log = status.GetPayload(kNotCompiledUrl);
  if (!log) return std::nullopt;
  return CompileError{CompileStage::kCompiler, std::string(*log)};
}

Exploit MakeExploit(Exploit::Kind kind, std::string evidence) {
  Exploit exploit;
  exploit.kind = kind;
  exploit.evidence = std::move(evidence);
  return exploit;
}

std::string OutcomeFeedback(MeasureOutcome outcome) {
  Measurement measurement;
  measurement.outcome = std::move(outcome);
  return MeasurementFeedback(measurement);
}

void NameCase(const AxisValues& shape, const std::string& distribution, MeasureOutcome& outcome) {
  std::visit(
      [&](auto& held) {
        if constexpr (requires { held.distribution; }) {
          if (!held.shape.empty() || !held.distribution.empty()) return;
          held.shape = shape;
          held.distribution = distribution;
        }
      },
      outcome);
}

Determinism CompareOutputs(uint64_t outputs, std::optional<uint64_t>& first, Determinism known) {
  if (!first) {
    first = outputs;
    return known;
  }
  return outputs != *first || known == Determinism::kVaries ? Determinism::kVaries
                                                            : Determinism::kBitwise;
}

MeasureOutcome Conclude(std::span<const TimedShape> shapes, const MeasureOptions& options,
                        const std::string& problem_id, uint32_t correctness_cases,
                        RunnerSpread& spread) {
  MeasuredOk ok;
  LearnState(shapes, problem_id, spread);
  const Spread expected = spread.Of(problem_id);
  std::vector<std::vector<RunnerValue>> values;
  uint32_t blocks = 0;
  uint32_t discarded = 0;
  bool noisy = false;
  std::string too_short;
  std::vector<double> weights;
  for (const TimedShape& shape : shapes) weights.push_back(shape.weight);
  weights = NormalizedWeights(weights, shapes.size());
  for (const TimedShape& shape : shapes) {
    ShapeTiming timing;
    timing.weight = weights[ok.shapes.size()];
    timing.shape = shape.axes;
    timing.candidate = Summarise(shape.candidate_ns, shape.candidate_cold_ns);
    timing.reference = Summarise(shape.reference_ns, shape.reference_cold_ns);
    values.push_back(RunnerValues(shape, options));
    timing.speedup = SpeedupInterval(values.back(), expected, options.spread, options.confidence);
    timing.blocks = shape.blocks;
    timing.discarded_blocks = shape.discarded_blocks;
    timing.stop_reason = shape.stop_reason;
    timing.bytes = shape.bytes;
    timing.flops = shape.flops;
    timing.call_overhead_ns = shape.overhead_ns;
    timing.implausible_below_ns = ImplausibleBelowNs(options, shape.bytes);
    timing.roofline = RooflineOf(options.peaks, shape.compute, shape.bytes, shape.flops,
                                 timing.candidate.median_ns, timing.reference.median_ns);
    blocks += shape.blocks;
    discarded += shape.discarded_blocks;
    if (timing.candidate.median_ns + timing.call_overhead_ns < timing.implausible_below_ns) {
      MeasureOutcome exploit = MakeExploit(
          Exploit::Kind::kImplausiblyFast,
          absl::StrCat("takes ", std::llround(timing.candidate.median_ns), " ns where moving ",
                       std::llround(shape.bytes), " bytes takes at least ",
                       std::llround(timing.implausible_below_ns), " ns"));
      NameCase(shape.axes, "declared", exploit);
      return exploit;
    }
    if (timing.candidate.median_ns < timing.implausible_below_ns) {
      too_short =
          absl::StrCat("a call took ", std::llround(timing.call_overhead_ns),
                       " ns without the kernel and ", std::llround(timing.candidate.median_ns),
                       " ns more with it, where ", "moving ", std::llround(shape.bytes),
                       " bytes takes at least ", std::llround(timing.implausible_below_ns), " ns");
    }
    noisy |= timing.speedup.value == 0 ||
             TwoSidedQuantile(options.confidence, HUGE_VAL) * timing.speedup.within_deviation >
                 options.unstable_half_width;
    ok.shapes.push_back(std::move(timing));
  }
  const std::vector<RunnerValue> runners = OverShapes(values, weights);
  ok.speedup = SpeedupInterval(runners, expected, options.spread, options.confidence);
  EnvironmentUnstable unstable;
  unstable.discarded_blocks = discarded;
  unstable.blocks = blocks;
  if (!too_short.empty()) {
    unstable.reason = std::move(too_short);
    return unstable;
  }
  // A wide interval still tells that a kernel is much slower.
  const bool surely_slow =
      ok.speedup.value > 0 && discarded < blocks && ok.speedup.high < options.screen.slow_ratio;
  if (noisy && !surely_slow && discarded > options.max_discarded_share * blocks) {
    unstable.reason = absl::StrCat(discarded, " of ", blocks,
                                   " blocks were disturbed by other processes, and the interval "
                                   "stayed wide");
    unstable.speedup = ok.speedup;
    return unstable;
  }
  ok.comparison = Compare(ok.speedup, options.equivalence_margin);
  ok.runners = static_cast<uint32_t>(runners.size());
  for (const RunnerValue& runner : runners) {
    ok.runner_speedups.push_back(std::exp(runner.log_speedup));
  }
  // Only suspects are screened in several processes. Their times may vary on purpose.
  if (std::ssize(runners) >= options.final.runners &&
      std::ranges::none_of(shapes, &TimedShape::charged)) {
    for (const std::vector<RunnerValue>& shape : values) Learn(shape, problem_id, spread);
  }
  ok.correctness_cases = correctness_cases;
  return ok;
}

}  // namespace kernelcast::worker
