#ifndef KERNELCAST_SERVICES_FORECASTER_CORE_PREDICTIVE_H_
#define KERNELCAST_SERVICES_FORECASTER_CORE_PREDICTIVE_H_

namespace kernelcast::forecaster {

// Predictive distribution of log2 speedup: location + scale * Student-t.
struct StudentT {
  double location = 0;
  double scale = 1;
  double degrees_of_freedom = 3;
};

// Prior for an unknown kernel: half of all kernels are within a factor of two of the reference, a
// tenth beyond a factor of eight.
inline constexpr StudentT kPrior = {0.0, 1.3, 3.0};

// Standard deviation, or the scale if the variance is infinite.
double StandardDeviation(const StudentT& distribution);

// With the mean of the mixture of two distributions, of which `first` has this weight. Its scale
// squared is the mean of theirs, plus the variance of the locations, so that it is as wide as the
// mixture or wider. The tails are those of the heavier one.
StudentT Mixture(const StudentT& first, const StudentT& second, double weight);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_PREDICTIVE_H_
