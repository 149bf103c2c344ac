#ifndef KERNELCAST_SERVICES_WORKER_CORE_OPTIONS_H_
#define KERNELCAST_SERVICES_WORKER_CORE_OPTIONS_H_

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/domain/measurement.h"

namespace kernelcast::worker {

// A process of a candidate or a task is ended when it prints more than this. The end of its output
// is kept.
inline constexpr int64_t kMaxCandidateOutputBytes = 16 << 20;

// Versions of the measuring protocols. Change one whenever the meaning of its numbers changes.
inline constexpr std::string_view kCpuMeasuringProtocol = "cpu/7";
inline constexpr std::string_view kCudaMeasuringProtocol = "cuda/7";

// Precision targets of one measurement level, and their time limits.
struct PrecisionOptions {
  // Fresh candidate processes, each paired with a reference process.
  int runners = 1;
  // Sampling ends at this half-width of the interval of the noise within a runner, relative to the
  // ratio.
  double half_width = 0.01;
  // Duration of one block of calls of one side.
  int64_t block_ns = 4'000'000;
  int64_t min_samples = 30;  // per side
  int64_t min_time_ns = 50'000'000;
  int min_groups = 8;
  // Time limit for one bench shape in one runner.
  int64_t cap_ns = 1'000'000'000;
  // A kernel whose interval lies below this ratio is measured with the looser bounds that follow.
  double slow_ratio = 0.7;
  double slow_half_width = 0.03;
  int slow_min_groups = 4;
};

// How measurements of one kernel differ besides noise, as standard deviations of log(speedup). See
// speedup_interval.h. Degrees of freedom are the weight of a prior relative to the observations.
struct SpreadOptions {
  // Between runners: the prior of the device model.
  double runner_deviation = 0;
  // Between measurements: common to all runners of one measurement.
  double sitting_deviation = 0;
  // State of the machine, observed through the reference's time: the prior of the standard
  // deviation of its logarithm, the weight of that prior, and the share of it that ratios show.
  double state_deviation = 0;
  double state_degrees = 1;
  double state_share = 0;
  // Weight of the device model's prior for a device, and of the device's estimate for a problem.
  double device_degrees = 0;
  double problem_degrees = 0;
  // Weight of the problem's estimate for one of its kernels.
  double kernel_degrees = 0;
  // Lower bound for the noise of one group, because few groups may agree by chance.
  double least_group_noise = 0;

  // Measured values for processors and for GPUs.
  static SpreadOptions Cpu();
  static SpreadOptions Cuda();
};

// All parameters of the measuring protocol.
struct MeasureOptions {
  PrecisionOptions screen;
  PrecisionOptions final{.runners = 5,
                         .half_width = 0.005,
                         .block_ns = 8'000'000,
                         .min_samples = 30,
                         .min_time_ns = 50'000'000,
                         .min_groups = 8,
                         .cap_ns = 1'000'000'000,
                         .slow_ratio = 0};

  double confidence = 0.95;
  SpreadOptions spread = SpreadOptions::Cpu();
  int bootstrap_resamples = 1000;
  // Speedups within 1 +- margin count as the same.
  double equivalence_margin = 0.02;

  // Warm-up of each side before timing.
  int warm_up_calls = 10;
  int64_t warm_up_ns = 10'000'000;

  // Sampling has plateaued when this many groups have not narrowed the interval by a tenth.
  int plateau_groups = 16;

  // A block is discarded when all its calls were disturbed, or when its mean exceeds this many
  // times the typical mean of its side.
  double wild_factor = 2;
  // The result is "environment unstable" when more than this share of the blocks was discarded and
  // the interval is wider than the bound.
  double max_discarded_share = 0.2;
  double unstable_half_width = 0.1;

  // Number of input sets that timed calls rotate through, bounded by their memory.
  int input_sets = 8;
  int64_t input_sets_bytes = int64_t{64} << 20;
  // Number of output elements overwritten with wrong values before every timed call and checked
  // after it.
  int sentinels = 16;
  // Calls on new values are compared with repeated calls. A candidate is an exploit if new values
  // slow it down by this factor more than the reference. A smaller slowdown is added to its time.
  // `altered_slowdown` is for inputs with a few values replaced, `new_slowdown` for entirely new
  // inputs, on which data-dependent branches are new too.
  double altered_slowdown = 1.5;
  double new_slowdown = 8;

  // One for each kind of size that CorrectnessCases knows.
  int held_out_shapes = 6;
  int min_seeds = 5;

  // One call, or all correctness cases together, may take this many times the reference's time,
  // clamped to the bounds.
  double call_limit_factor = 100;
  int64_t min_call_limit_ns = 1'000'000'000;
  int64_t max_call_limit_ns = 20'000'000'000;
  int64_t load_limit_ns = 5'000'000'000;
  // The limit for all of the candidate's calls of one judgement, for each runner, in addition to
  // the time that the reference would need. See JudgementBudget.
  int64_t max_judgement_ns = 30'000'000'000;
  // For a Python candidate on a GPU, which may compile CUDA sources and kernels while it loads.
  // nvcc takes over 50 s for a source with PyTorch's headers on a node with an H200.
  int64_t python_load_limit_ns = 150'000'000'000;
  // Limit for one call of a problem's oracle or reference during preparation. Beyond it the problem
  // is at fault.
  int64_t problem_call_limit_ns = 60'000'000'000;
  // Limit for the whole preparation of a problem.
  int64_t max_preparation_ns = 480'000'000'000;

  // New inputs and seeds are drawn after this many candidates.
  int candidates_a_pool = 128;

  // Peaks for rooflines. Empty where they are not known.
  std::vector<DevicePeak> peaks = {};
  // A time below bytes / (largest memory peak * this factor) is an exploit. The factor leaves room
  // for caches, which may hold the data of a call.
  double implausible_bandwidth_factor = 8;
  // Used instead of the largest memory peak while none is known.
  double fallback_bytes_per_second = 1.875e11;

  const PrecisionOptions& Precision(MeasureLevel level) const {
    return level == MeasureLevel::kFinal ? final : screen;
  }
  // Limit for one call of a candidate, given the reference's time.
  int64_t CallLimitNs(int64_t reference_ns) const {
    const double limit = call_limit_factor * static_cast<double>(reference_ns);
    return static_cast<int64_t>(std::clamp(limit, static_cast<double>(min_call_limit_ns),
                                           static_cast<double>(max_call_limit_ns)));
  }
  // The same on a GPU, where a reference may take longer than the largest limit.
  int64_t DeviceCallLimitNs(int64_t reference_ns) const {
    constexpr int64_t kLeastLimitFactor = 4;
    return std::max(CallLimitNs(reference_ns), kLeastLimitFactor * reference_ns);
  }
};

// Values for GPUs. Events time kernels to a fraction of a microsecond and every call starts with a
// cold L2 cache, so fewer calls suffice.
inline MeasureOptions CudaMeasureOptions() {
  MeasureOptions options;
  options.screen = {.runners = 1,
                    .half_width = 0.007,
                    .block_ns = 400'000,
                    .min_samples = 30,
                    .min_time_ns = 5'000'000,
                    .min_groups = 4,
                    .cap_ns = 2'000'000'000,
                    .slow_ratio = 0.7,
                    .slow_half_width = 0.03,
                    .slow_min_groups = 2};
  options.final = {.runners = 5,
                   .half_width = 0.005,
                   .block_ns = 1'600'000,
                   .min_samples = 30,
                   .min_time_ns = 50'000'000,
                   .min_groups = 8,
                   .cap_ns = 3'000'000'000,
                   .slow_ratio = 0};
  options.spread = SpreadOptions::Cuda();
  options.warm_up_calls = 10;
  options.warm_up_ns = 25'000'000;
  options.input_sets_bytes = int64_t{8} << 30;
  // The cache is cold for every call, on known and on new values.
  options.new_slowdown = 1.5;
  // The cache is flushed before each call and can only keep what the call writes.
  options.implausible_bandwidth_factor = 2;
  options.fallback_bytes_per_second = 4.5e12;
  // A kernel that hangs costs its time limit and a runner.
  options.min_call_limit_ns = 1'000'000'000;
  options.max_call_limit_ns = 2'000'000'000;
  options.problem_call_limit_ns = 120'000'000'000;
  return options;
}

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_OPTIONS_H_
