#include "services/worker/core/verdict.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kernelcast::worker {

void TimedShape::Add(const TimingSession& session) {
  ratios.push_back(session.Ratios());
  for (const auto& [side, all] :
       {std::pair{Side::kCandidate, &candidate_ns}, std::pair{Side::kReference, &reference_ns}}) {
    const std::vector<double> calls = session.CallTimes(side);
    all->insert(all->end(), calls.begin(), calls.end());
  }
  blocks += session.blocks();
  discarded_blocks += session.discarded_blocks();
  stop_reason = std::string(session.stop_reason());
}

Exploit MakeExploit(Exploit::Kind kind, std::string evidence) {
  Exploit exploit;
  exploit.kind = kind;
  exploit.evidence = std::move(evidence);
  return exploit;
}

MeasureOutcome Conclude(std::span<const TimedShape> shapes, const MeasureOptions& options,
                        MeasureLevel level, uint32_t correctness_cases) {
  MeasuredOk ok;
  std::vector<ShapeRatios> all_ratios;
  uint32_t blocks = 0;
  uint32_t discarded = 0;
  bool noisy = false;
  std::string too_short;
  for (const TimedShape& shape : shapes) {
    ShapeTiming timing;
    timing.shape = shape.axes;
    timing.candidate = Summarise(shape.candidate_ns, shape.candidate_cold_ns);
    timing.reference = Summarise(shape.reference_ns, shape.reference_cold_ns);
    timing.speedup =
        BootstrapSpeedup({&shape.ratios, 1}, options.confidence, options.bootstrap_resamples);
    timing.blocks = shape.blocks;
    timing.discarded_blocks = shape.discarded_blocks;
    timing.stop_reason = shape.stop_reason;
    timing.bytes = shape.bytes;
    timing.flops = shape.flops;
    timing.call_overhead_ns = shape.overhead_ns;
    timing.roofline_floor_ns = 1e9 * shape.bytes / options.max_bytes_per_second;
    blocks += shape.blocks;
    discarded += shape.discarded_blocks;
    if (timing.candidate.median_ns + timing.call_overhead_ns < timing.roofline_floor_ns) {
      return MakeExploit(
          Exploit::Kind::kBelowRoofline,
          absl::StrCat("takes ", std::llround(timing.candidate.median_ns), " ns where moving the ",
                       "declared ", std::llround(shape.bytes), " bytes takes at least ",
                       std::llround(timing.roofline_floor_ns), " ns"));
    }
    if (timing.candidate.median_ns < timing.roofline_floor_ns) {
      too_short = absl::StrCat(
          "a call took ", std::llround(timing.call_overhead_ns), " ns without the kernel and ",
          std::llround(timing.candidate.median_ns), " ns more with it, where ",
          "moving the declared ", std::llround(shape.bytes), " bytes takes at least ",
          std::llround(timing.roofline_floor_ns), " ns");
    }
    noisy |= RelativeHalfWidth(timing.speedup) > options.unstable_half_width;
    all_ratios.push_back(shape.ratios);
    ok.shapes.push_back(std::move(timing));
  }
  ok.speedup = BootstrapSpeedup(all_ratios, options.confidence, options.bootstrap_resamples);
  EnvironmentUnstable unstable;
  unstable.discarded_blocks = discarded;
  unstable.blocks = blocks;
  if (!too_short.empty()) {
    unstable.reason = std::move(too_short);
    return unstable;
  }
  if (noisy && discarded > options.max_discarded_share * blocks) {
    unstable.reason = absl::StrCat(discarded, " of ", blocks,
                                   " blocks were disturbed by other processes, and the interval "
                                   "stayed wide");
    unstable.speedup = ok.speedup;
    return unstable;
  }
  ok.comparison = Compare(ok.speedup, options.equivalence_margin);
  ok.runners = static_cast<uint32_t>(options.Precision(level).runners);
  ok.correctness_cases = correctness_cases;
  return ok;
}

}  // namespace kernelcast::worker
