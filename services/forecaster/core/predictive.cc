#include "services/forecaster/core/predictive.h"

#include <cmath>

namespace kernelcast::forecaster {

double StandardDeviation(const StudentT& distribution) {
  const double dof = distribution.degrees_of_freedom;
  if (dof <= 2) return distribution.scale;
  return distribution.scale * std::sqrt(dof / (dof - 2));
}

}  // namespace kernelcast::forecaster
