#include "common/calibration/bin_calibrator.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "common/base/hash.h"

namespace kernelcast {

std::vector<double> BinCalibrator::Apply(std::span<const double> p) const {
  std::vector<double> q(p.begin(), p.end());
  for (size_t i = 0; i < q.size(); ++i) {
    q[i] = map.scale[i] * std::log(std::max(q[i], kProbabilityFloor)) + map.bias[i];
  }
  const double largest = *std::ranges::max_element(q);
  for (double& value : q) value = std::exp(value - largest);
  const double sum = std::accumulate(q.begin(), q.end(), 0.0);
  for (double& value : q) value /= sum;
  return q;
}

std::string BinCalibrator::version() const {
  const nlohmann::ordered_json json = {{"scale", map.scale}, {"bias", map.bias}};
  char text[80];
  std::snprintf(text, sizeof(text), "vector/1;records=%.0f;id=%s", records,
                ContentHasher().Add(bin_scheme_id).Add(json.dump()).Hex128().substr(0, 8).c_str());
  return text;
}

}  // namespace kernelcast
