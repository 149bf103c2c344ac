#include "services/forecaster/core/predictive.h"

#include <cmath>

#include "common/domain/forecast.h"

namespace kernelcast::forecaster {

double StudentTCdf(double x, double degrees_of_freedom) {
  return 1.0 - StudentTUpperTail(x, 0.0, 1.0, degrees_of_freedom);
}

double StudentTQuantile(double p, double degrees_of_freedom) {
  if (p == 0.5) return 0;
  if (p < 0.5) return -StudentTQuantile(1 - p, degrees_of_freedom);
  double low = 0;
  double high = 1;
  while (StudentTUpperTail(high, 0.0, 1.0, degrees_of_freedom) > 1 - p && high < 1e12) {
    low = high;
    high *= 2;
  }
  for (int i = 0; i < 80; ++i) {
    const double middle = 0.5 * (low + high);
    if (StudentTUpperTail(middle, 0.0, 1.0, degrees_of_freedom) > 1 - p) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return 0.5 * (low + high);
}

double StandardDeviation(const StudentT& distribution) {
  const double dof = distribution.degrees_of_freedom;
  if (dof <= 2) return distribution.scale;
  return distribution.scale * std::sqrt(dof / (dof - 2));
}

}  // namespace kernelcast::forecaster
