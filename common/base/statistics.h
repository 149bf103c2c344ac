#ifndef KERNELCAST_COMMON_BASE_STATISTICS_H_
#define KERNELCAST_COMMON_BASE_STATISTICS_H_

#include <span>
#include <vector>

namespace kernelcast {

// Values may be in any order and must not contain NaN. All functions return NaN if there are none.

// The q-quantile, with linear interpolation between neighbours. `q` is in [0, 1].
double Quantile(std::span<const double> values, double q);
double Median(std::span<const double> values);
// As Median, but reorders the values.
double MedianInPlace(std::vector<double>& values);
double Mean(std::span<const double> values);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_STATISTICS_H_
