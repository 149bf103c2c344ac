#ifndef KERNELCAST_COMMON_DOMAIN_MEASURING_COST_H_
#define KERNELCAST_COMMON_DOMAIN_MEASURING_COST_H_

#include <cstdint>
#include <optional>

namespace kernelcast {

// Estimates the device time of one more measurement on a problem and device, and the device time
// that pruning saved. Times are marginal: at screening level, without preparing the problem.
//
// A correct candidate costs the mean of the correct ones measured. A wrong one costs the mean of
// the wrong ones, which are often found after one launch; until one has been measured, it costs
// nothing. A pruned candidate counts as wrong with its P(failure), scaled so that the forecasts of
// the measured candidates were right on average. A value type.
class MeasuringCost {
 public:
  // A candidate was measured. `failure_probability` is empty if it had no forecast.
  void Measured(int64_t device_time_ns, bool correct, std::optional<double> failure_probability);
  void Pruned(double failure_probability);
  // The candidate was pruned before and no longer is.
  void Unpruned(double failure_probability);

  // 0 before the first measurement.
  int64_t AvoidedNs() const;

 private:
  struct Sum {
    uint64_t count = 0;
    int64_t device_time_ns = 0;
    double Mean() const {
      return count == 0 ? 0 : static_cast<double>(device_time_ns) / static_cast<double>(count);
    }
  };

  Sum correct_;
  Sum wrong_;
  // Measured candidates that had a forecast.
  uint64_t wrong_forecast_ = 0;
  double failure_forecast_ = 0;
  uint64_t pruned_ = 0;
  double pruned_failure_forecast_ = 0;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_MEASURING_COST_H_
