#ifndef KERNELCAST_SERVICES_WORKER_CORE_STATISTICS_H_
#define KERNELCAST_SERVICES_WORKER_CORE_STATISTICS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "common/domain/measurement.h"

namespace kernelcast::worker {

// All functions are deterministic; bootstraps use a fixed seed.

// Linear interpolation between order statistics; q in [0, 1]. `values` is not empty,
// here and below.
double Quantile(std::span<const double> values, double q);
double Median(std::span<const double> values);
double Mean(std::span<const double> values);

// Of times in nanoseconds; zeros where there are none.
TimeStatistics Summarise(std::span<const double> times_ns, std::span<const double> cold_times_ns);

// Ratios of one shape: by runner, then one for each ABBA group of that runner.
using ShapeRatios = std::vector<std::vector<double>>;

// The speedup over several shapes: the geometric mean over shapes of the median over runners of the
// median over groups. The interval is the percentile bootstrap of that statistic, which resamples
// runners, then groups within a runner, shapes being fixed. A runner without groups does not count;
// value and interval are 0 where a shape has none at all.
Ratio BootstrapSpeedup(std::span<const ShapeRatios> shapes, double confidence, int resamples);

// Half of the interval's width relative to the value; infinite where there is no value.
double RelativeHalfWidth(const Ratio& ratio);

// Same: the whole interval is within 1 / (1 + margin) .. 1 + margin. Faster or slower: the interval
// excludes 1. Ambiguous otherwise.
Comparison Compare(const Ratio& ratio, double margin);

// Whether `history`, the relative half-width after each group, has stopped to shrink: over the last
// `window` groups it lost less than a tenth, where independent samples would lose more.
bool HasPlateaued(std::span<const double> history, int window);

// Whether calls on values seen for the first time are slower than repeated ones by `factor` more
// than those of the reference: not even one is as quick, or one of them took as long as all others
// together, as when it did their work. All four are times in nanoseconds.
bool LooksCached(std::span<const double> candidate_repeated,
                 std::span<const double> candidate_fresh,
                 std::span<const double> reference_repeated,
                 std::span<const double> reference_fresh, double factor);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_STATISTICS_H_
