#ifndef KERNELCAST_SERVICES_FORECASTER_POOL_POOL_WEIGHTS_H_
#define KERNELCAST_SERVICES_FORECASTER_POOL_POOL_WEIGHTS_H_

#include <map>
#include <string>

#include "services/forecaster/core/label.h"

namespace kernelcast::forecaster {

struct PoolWeightOptions {
  // What a score counts for after another label: about 1 / (1 - discount) labels matter.
  double discount = 0.95;
  // Neither backend has less.
  double least_weight = 0.1;
  // A probability counts as at least this, so that one miss does not decide for long.
  double least_probability = 0.01;
  // A label's 1 / propensity counts as at most this.
  double most_label_weight = 5;
};

// How much two backends' forecasts count in a pool, learnt from how they scored, per target.
//
// The score of a forecast is the logarithm of the probability that it gave to what came: to the
// failure, or to being correct and in the true bin. Each label's score, times 1 / propensity, is
// added to `discount` times the sum so far; the share of the second is
//   w = e^S2 / (e^S1 + e^S2), kept within [least_weight, 1 - least_weight].
// For instance, after one label with propensity 1 to which the first gave 0.2 and the second 0.6,
// w = 0.75; after a second like it w = 3^1.95 / (1 + 3^1.95) = 0.895.
//
// Pure; one thread at a time.
class PoolWeights {
 public:
  PoolWeights() : PoolWeights(PoolWeightOptions()) {}
  explicit PoolWeights(PoolWeightOptions options) : options_(options) {}

  // Weight of the second; 1/2 before any label.
  double Second(const std::string& target) const;

  // Learns from a label whose forecast has two components, named `first` and `second` as in
  // ForecastComponent::backend up to a colon. False: it is none of these, or about a baseline other
  // than `reference_id`.
  bool Learn(const Label& label, const std::string& first, const std::string& second,
             const std::string& reference_id);

 private:
  const PoolWeightOptions options_;
  std::map<std::string, double> lead_;  // S2 - S1 by target
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_POOL_POOL_WEIGHTS_H_
