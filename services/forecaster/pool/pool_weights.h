#ifndef KERNELCAST_SERVICES_FORECASTER_POOL_POOL_WEIGHTS_H_
#define KERNELCAST_SERVICES_FORECASTER_POOL_POOL_WEIGHTS_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "services/forecaster/core/label.h"

namespace kernelcast::forecaster {

struct PoolWeightOptions {
  // Factor by which a score decays with each label: about 1 / (1 - discount) labels matter.
  double discount = 0.95;
  // Minimum weight of the first backend. The second has none: below `drop_below` it has no weight
  // at all, because even a small one lets a backend that is wrong and sure decide what is measured.
  double least_weight = 0.1;
  double drop_below = 0.05;
  // Probabilities are clipped to at least this, so that a single miss has no lasting effect.
  double least_probability = 0.01;
  // Upper limit of a label's 1 / propensity.
  double most_label_weight = 5;
};

// Weights of two backends in a pool, learnt from their scores, per target and device model. Device
// models do not share labels: without labels of its own, both backends have weight 1/2.
//
// The score of a forecast is the log of the probability that it gave to the outcome: to the
// failure, or to being correct and in the true bin. Each label's score, times 1 / propensity, is
// added to `discount` times the previous sum. The weight of the second backend is
//
//   w = e^S2 / (e^S1 + e^S2), at most 1 - least_weight, and 0 below drop_below.
//
// Example: after one label with propensity 1 to which the first gave 0.2 and the second 0.6, w =
// 0.75. After another such label w = 3^1.95 / (1 + 3^1.95) = 0.895.
//
// Pure. Not thread-safe.
class PoolWeights {
 public:
  PoolWeights() : PoolWeights(PoolWeightOptions()) {}
  explicit PoolWeights(PoolWeightOptions options) : options_(options) {}

  // Weight of the second backend. 1/2 without labels of the target on the device model.
  double Second(std::string_view target, std::string_view device_model) const;

  // Learns from a label whose forecast has two components, named `first` and `second` as in
  // ForecastComponent::backend up to a colon. Returns by how many nats the pool scores better than
  // the first backend alone, before learning from it. Empty: the label has no such forecast, or its
  // baseline is not `reference_id`.
  std::optional<double> Learn(const Label& label, const std::string& first,
                              const std::string& second, const std::string& reference_id);

  // The same for a label whose second forecast came too late to be one of its components.
  std::optional<double> Learn(const Label& label, const std::string& first,
                              const ForecastComponent& second, const std::string& reference_id);

 private:
  const PoolWeightOptions options_;
  std::map<std::string, double> lead_;  // S2 - S1 by ScopeName
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_POOL_POOL_WEIGHTS_H_
