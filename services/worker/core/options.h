#ifndef KERNELCAST_SERVICES_WORKER_CORE_OPTIONS_H_
#define KERNELCAST_SERVICES_WORKER_CORE_OPTIONS_H_

#include <cstdint>
#include <string_view>

#include "common/domain/measurement.h"

namespace kernelcast::worker {

// Version of the measuring protocol; a change of what a number means makes a new one.
inline constexpr std::string_view kProtocolVersion = "cpu/1";
inline constexpr std::string_view kCudaProtocolVersion = "cuda/1";

// How precise, and at what cost.
struct PrecisionOptions {
  // Fresh candidate processes, each paired with a reference process.
  int runners = 1;
  // Half-width of the interval of the ratio, relative to it, at which sampling ends.
  double half_width = 0.01;
  // Time of one block of calls of one side.
  int64_t block_ns = 4'000'000;
  int64_t min_samples = 30;  // a side
  int64_t min_time_ns = 50'000'000;
  int min_groups = 8;
  // Limit for one bench shape in one runner.
  int64_t cap_ns = 1'000'000'000;
  // A kernel whose interval lies below this ratio need not be known as well.
  double slow_ratio = 0.7;
  double slow_half_width = 0.03;
  int slow_min_groups = 4;
};

// Every value of the measuring protocol.
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
  int bootstrap_resamples = 1000;
  // Speedups within 1 +- margin are the same.
  double equivalence_margin = 0.02;

  // Warm-up of each side before it is timed.
  int warm_up_calls = 10;
  int64_t warm_up_ns = 10'000'000;

  // Sampling has plateaued when this many groups have not narrowed the interval by a tenth.
  int plateau_groups = 16;

  // A block is discarded when every call of it was disturbed, or when its median is this many times
  // the side's.
  double wild_factor = 2;
  // No number is given when more than this share of the blocks was discarded and the interval is
  // wider than the bound.
  double max_discarded_share = 0.2;
  double unstable_half_width = 0.1;

  // Input sets that the timed calls rotate through, bounded by their memory.
  int input_sets = 8;
  int64_t input_sets_bytes = int64_t{64} << 20;
  // Outputs overwritten with wrong values before, and looked at after, every timed call.
  int sentinels = 16;
  // Calls on values of which a few were replaced may be slower than repeated ones by this factor
  // more than the reference's are; calls on values that are new altogether by that one, because
  // branches that depend on them are then new too.
  double altered_slowdown = 1.5;
  double new_slowdown = 8;
  // Calls on memory that was just written elsewhere, with known values, may take longer by as much
  // as reading all of it at this speed takes.
  double cold_bytes_per_second = 1.2e10;

  int held_out_shapes = 3;
  int min_seeds = 5;

  // A call may take this many times what the reference takes, and never less than the minimum.
  double call_limit_factor = 100;
  int64_t min_call_limit_ns = 1'000'000'000;
  int64_t max_call_limit_ns = 20'000'000'000;
  int64_t load_limit_ns = 5'000'000'000;
  // Of one call of a problem's oracle or reference while it is prepared; it is at fault beyond.
  int64_t problem_call_limit_ns = 120'000'000'000;

  // Candidates after which inputs and seeds are drawn anew.
  int candidates_a_pool = 64;

  // No core moves more than this; a time below bytes / this is not a kernel's.
  double max_bytes_per_second = 1.5e12;

  const PrecisionOptions& Precision(MeasureLevel level) const {
    return level == MeasureLevel::kFinal ? final : screen;
  }
};

// The values for GPUs: events time kernels to a fraction of a microsecond, and every call starts
// with a cold L2 cache, so that fewer calls tell as much.
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
  options.warm_up_calls = 10;
  options.warm_up_ns = 25'000'000;
  options.input_sets_bytes = int64_t{8} << 30;
  // The cache is cold for every call, known values or new ones.
  options.new_slowdown = 1.5;
  // Beyond what any device's memory moves; below it a time is not a kernel's.
  options.max_bytes_per_second = 9e12;
  options.min_call_limit_ns = 2'000'000'000;
  return options;
}

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_OPTIONS_H_
