#include "services/forecaster/core/predictive.h"

#include <algorithm>
#include <cmath>

namespace kernelcast::forecaster {

double StandardDeviation(const StudentT& distribution) {
  const double dof = distribution.degrees_of_freedom;
  if (dof <= 2) return distribution.scale;
  return distribution.scale * std::sqrt(dof / (dof - 2));
}

StudentT Mixture(const StudentT& first, const StudentT& second, double weight) {
  const double gap = first.location - second.location;
  StudentT mixture;
  mixture.location = weight * first.location + (1 - weight) * second.location;
  mixture.scale =
      std::sqrt(weight * first.scale * first.scale + (1 - weight) * second.scale * second.scale +
                weight * (1 - weight) * gap * gap);
  mixture.degrees_of_freedom = std::min(first.degrees_of_freedom, second.degrees_of_freedom);
  return mixture;
}

}  // namespace kernelcast::forecaster
