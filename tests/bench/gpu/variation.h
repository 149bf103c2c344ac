#ifndef KERNELCAST_TESTS_BENCH_GPU_VARIATION_H_
#define KERNELCAST_TESTS_BENCH_GPU_VARIATION_H_

#include <cmath>
#include <span>

#include "services/worker/core/statistics.h"

namespace kernelcast::testing {

// The coefficient of variation. Needs two values.
inline double Variation(std::span<const double> values) {
  const double mean = worker::Mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1)) / mean;
}

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_BENCH_GPU_VARIATION_H_
