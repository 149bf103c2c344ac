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
  // Number of newest records of a target and bin scheme used to fit a map.
  size_t max_records = 512;
  // Strength, in records, of the pull of a target's map to the map of all targets, and of that one
  // to the identity.
  double pull = 5;
  // Upper limit of a label's 1 / propensity.
  double most_weight = 5;
  // A map is used once its mean gain in log likelihood over the latest records, each forecast
  // before its label arrived, reaches this value. It is no longer used when it loses this much.
  double least_gain = 0.02;
  size_t trial_records = 64;
  size_t least_records = 24;
  // Drift detection: a cumulative sum of how much worse forecasts are than they expect to be, each
  // clipped at `most_excess` and reduced by `slack`, in nats. Above `alarm_above` it raises an
  // alarm: all but the newest `kept_records` are forgotten, and the map must prove itself again.
  double most_excess = 2;
  double slack = 0.4;
  double alarm_above = 16;
  size_t kept_records = 32;
  // A map with fewer records is still learning and raises no alarm.
  size_t mature_records = 96;
};

// Vector scaling of a backend's forecasts, learnt from labels as they arrive, per target and bin
// scheme. It is applied only after it was observed to help, and no longer when it stops helping.
// Deterministic: depends only on the sequence of records.
//
// Not thread-safe.
class OnlineCalibrator {
 public:
  explicit OnlineCalibrator(OnlineCalibratorOptions options = {}) : options_(options) {}

  // Version of an unchanged forecast.
  static constexpr const char* kNone = "none";

  // Calibrates bins, predicted bin and moments, and sets calibrator_version to "none" or
  // "vector/1;records=87;id=0123abcd". If the backend has set a version, appends "+" and this one.
  void Apply(const std::string& target, Forecast& forecast) const;

  // Learns from a forecast that Apply returned, now or in an earlier process. A calibrated forecast
  // is inverted with the map named in its version. Returns false if that map is unknown or the
  // forecast is unusable.
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

  // The probabilities before calibration. Empty if they cannot be recovered.
  std::vector<double> Raw(const Forecast& forecast) const;
  // Scores the current map on the record, before learning from it.
  void Try(Group& group, const CalibrationRecord& record);
  void Fit(const Key& key, Group& group);

  const OnlineCalibratorOptions options_;
  std::map<Key, Group> groups_;
  // Maps that forecasts may have been made with, by version. `map_order_` lists them oldest first.
  std::map<std::string, std::shared_ptr<const BinCalibrator>> maps_;
  std::deque<std::string> map_order_;
  uint64_t alarms_ = 0;
  uint64_t learnt_ = 0;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_ONLINE_CALIBRATOR_H_
