#ifndef KERNELCAST_SERVICES_WORKER_CORE_STATISTICS_H_
#define KERNELCAST_SERVICES_WORKER_CORE_STATISTICS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/statistics.h"
#include "common/domain/measurement.h"

namespace kernelcast::worker {

// All functions are deterministic; bootstraps use a fixed seed.

using kernelcast::Mean;
using kernelcast::Median;
using kernelcast::Quantile;

// Mean without the largest value of every 64: the times of a block are averaged like this. `values`
// must not be empty, here and below.
double TrimmedMean(std::span<const double> values);

// Times are in nanoseconds. The statistics of an empty list are zero.
TimeStatistics Summarise(std::span<const double> times_ns, std::span<const double> cold_times_ns);

// Median of one runner's ratios (one per group) and its percentile bootstrap interval, which covers
// only the noise within the runner. All fields are 0 if there are no ratios.
Ratio MedianInterval(std::span<const double> ratios, double confidence, int resamples);

// Half of the interval's width relative to the value; infinite if there is no value.
double RelativeHalfWidth(const Ratio& ratio);

// Same: the whole interval is within 1 / (1 + margin) .. 1 + margin. Faster or slower: the interval
// excludes 1. Ambiguous otherwise.
Comparison Compare(const Ratio& ratio, double margin);

// Whether the relative half-width has stopped shrinking. `history` holds it after each group. True
// if it shrank by less than a tenth over the last `window` groups; independent samples would shrink
// it more.
bool HasPlateaued(std::span<const double> history, int window);

// Whether a candidate is slower on values seen for the first time than on repeated ones, by
// `factor` more than the reference. True if even the fastest first call is slower by that, or if
// one call took as long as all the others together, as if it did their work. All times are in
// nanoseconds.
bool LooksCached(std::span<const double> candidate_repeated,
                 std::span<const double> candidate_fresh,
                 std::span<const double> reference_repeated,
                 std::span<const double> reference_fresh, double factor);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_STATISTICS_H_
