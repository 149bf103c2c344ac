#ifndef KERNELCAST_SERVICES_FORECASTER_CORE_ONLINE_CALIBRATOR_H_
#define KERNELCAST_SERVICES_FORECASTER_CORE_ONLINE_CALIBRATOR_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/calibration/fit_calibrator.h"
#include "common/domain/forecast.h"

namespace kernelcast::forecaster {

struct OnlineCalibratorOptions {
  // The newest records of a target and bin scheme that a map is fitted to.
  size_t max_records = 512;
  // As so many records a target's map is pulled to that of all targets, and that one to none.
  double pull = 5;
  // A label's 1 / propensity counts as at most this.
  double most_weight = 5;
  // A map is used once it would have gained so much log likelihood on the mean of the latest
  // records, each forecast before its label came, and no longer when it loses so much.
  double least_gain = 0.02;
  size_t trial_records = 64;
  size_t least_records = 24;
  // Drift: a cumulative sum of how much worse than they expect of themselves forecasts are, at most
  // `most_excess` and less `slack` each, in nats, raises an alarm above `alarm_above`. All but the
  // newest `kept_records` are then forgotten, and the map has to prove itself anew.
  double most_excess = 2;
  double slack = 0.4;
  double alarm_above = 16;
  size_t kept_records = 32;
  // A map of fewer records is still finding out, and raises no alarm.
  size_t mature_records = 96;
};

// Vector scaling of a backend's forecasts, learnt from labels as they arrive, for each target and
// bin scheme. It stays out of the way until it has been seen to help, and takes itself out again
// when it does not. What it does depends on the records and their order alone.
//
// Not thread-safe.
class OnlineCalibrator {
 public:
  explicit OnlineCalibrator(OnlineCalibratorOptions options = {}) : options_(options) {}

  // Version of a forecast that was left as it was.
  static constexpr const char* kNone = "none";

  // Calibrates bins, predicted bin and moments, and says so in calibrator_version: "none",
  // "vector/1;records=87;id=0123abcd", or one of these behind what the backend has said and a "+".
  void Apply(const std::string& target, Forecast& forecast) const;

  // Learns from a forecast that Apply returned, now or in an earlier life: one that was calibrated
  // is put back by the map that its version names. False: that map is not known, or the forecast
  // is of no use.
  bool Learn(const std::string& target, const Forecast& forecast, int true_bin, double weight);

  uint64_t alarms() const { return alarms_; }
  uint64_t records() const { return learnt_; }

 private:
  using Key = std::pair<std::string, std::string>;  // target, bin scheme
  struct Trial {
    double gain = 0;
    double weight = 0;
  };
  struct Group {
    std::deque<CalibrationRecord> records;
    std::deque<Trial> trials;
    std::shared_ptr<const BinCalibrator> map;
    bool in_use = false;
    double excess = 0;
    uint64_t since_fit = 0;
  };

  // The probabilities before calibration; empty where they cannot be had.
  std::vector<double> Raw(const Forecast& forecast) const;
  // Scores what stands, before the record is learnt from.
  void Try(Group& group, const CalibrationRecord& record);
  void Fit(const Key& key, Group& group);

  const OnlineCalibratorOptions options_;
  std::map<Key, Group> groups_;
  // Maps that forecasts may have been made with, by version, the oldest first in `map_order_`.
  std::map<std::string, std::shared_ptr<const BinCalibrator>> maps_;
  std::deque<std::string> map_order_;
  uint64_t alarms_ = 0;
  uint64_t learnt_ = 0;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_ONLINE_CALIBRATOR_H_
