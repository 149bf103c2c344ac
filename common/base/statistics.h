#ifndef KERNELCAST_COMMON_BASE_STATISTICS_H_
#define KERNELCAST_COMMON_BASE_STATISTICS_H_

#include <span>
#include <vector>

namespace kernelcast {

// Statistics of numbers without NaN, in any order. NaN if there are none.

// Interpolates between neighbours: 0 is the least value, 1 the largest.
double Quantile(std::span<const double> values, double q);
// Of an even number of values, the mean of the middle two.
double Median(std::span<const double> values);
// The same. Reorders the values.
double MedianInPlace(std::vector<double>& values);
double Mean(std::span<const double> values);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_STATISTICS_H_
