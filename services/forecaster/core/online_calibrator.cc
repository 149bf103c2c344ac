#include "services/forecaster/core/online_calibrator.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/domain/bins.h"
#include "common/domain/scoring.h"
#include "services/forecaster/core/answer_parser.h"

namespace kernelcast::forecaster {
namespace {

// Number of maps kept. Forecasts made with an older map cannot be learnt from.
constexpr size_t kMaxMaps = 256;
// A map that reverses the order of bins could not be inverted.
constexpr double kLeastScale = 0.05;
// Number of new records after which a map is fitted again.
constexpr uint64_t kFitEvery = 8;
// A calibrated forecast keeps at least this share of its variance.
constexpr double kLeastVarianceShare = 0.25;
// A pull so strong that the parameter is fixed.
constexpr double kFixed = 1e9;
// Prefix of the versions of our maps.
constexpr std::string_view kOwnPrefix = "vector/1;";

bool Usable(const VectorMap& map) {
  return std::ranges::all_of(map.scale, [](double scale) { return scale >= kLeastScale; });
}

// Inverts `map`: the p with p_i = exp((ln q_i - b_i + c) / a_i), where c is chosen so that they sum
// to 1.
std::vector<double> Undo(const VectorMap& map, const std::vector<double>& q) {
  std::vector<double> p(q.size());
  const auto fill = [&](double c) {
    double sum = 0;
    for (size_t i = 0; i < q.size(); ++i) {
      p[i] = std::exp((std::log(std::max(q[i], 1e-300)) - map.bias[i] + c) / map.scale[i]);
      sum += p[i];
    }
    return sum;
  };
  double low = -100;
  double high = 100;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (fill(middle) < 1 ? low : high) = middle;
  }
  const double sum = fill((low + high) / 2);
  for (double& value : p) value /= sum;
  return p;
}

double LogLoss(const std::vector<double>& p, int true_bin) {
  return -std::log(std::max(p[static_cast<size_t>(true_bin - 1)], kProbabilityFloor));
}

// The log loss that a forecast expects.
double Entropy(const std::vector<double>& p) {
  double entropy = 0;
  for (const double value : p) {
    if (value > 0) entropy -= value * std::log(std::max(value, kProbabilityFloor));
  }
  return entropy;
}

}  // namespace

void OnlineCalibrator::Apply(const std::string& target, Forecast& forecast) const {
  if (forecast.calibrator_version.empty()) forecast.calibrator_version = kNone;
  const auto group = groups_.find({target, forecast.bin_scheme_id});
  if (group == groups_.end() || !group->second.in_use) return;
  const auto scheme = BinScheme::Find(forecast.bin_scheme_id);
  const BinCalibrator& map = *group->second.map;
  if (!scheme.ok() || forecast.bin_probabilities.size() != map.map.scale.size()) return;
  // The moments change by as much as those of the bins. The position within an open bin is the
  // forecast's own information and is kept.
  Forecast bins = forecast;
  SummarizeBins(**scheme, bins);
  const double mean = forecast.expected_log2_speedup - bins.expected_log2_speedup;
  const auto square = [](double x) { return x * x; };
  const double variance = square(forecast.stddev_log2_speedup) - square(bins.stddev_log2_speedup);
  const double least_variance = kLeastVarianceShare * square(forecast.stddev_log2_speedup);
  forecast.bin_probabilities = map.Apply(forecast.bin_probabilities);
  forecast.calibrator_version = forecast.calibrator_version == kNone
                                    ? map.version()
                                    : absl::StrCat(forecast.calibrator_version, "+", map.version());
  const bool mismatch = forecast.argmax_mismatch;
  SummarizeBins(**scheme, forecast);
  forecast.expected_log2_speedup += mean;
  forecast.stddev_log2_speedup =
      std::sqrt(std::max(least_variance, square(forecast.stddev_log2_speedup) + variance));
  forecast.argmax_mismatch = mismatch;
}

std::vector<double> OnlineCalibrator::Raw(const Forecast& forecast) const {
  const size_t own = forecast.calibrator_version.rfind(kOwnPrefix);
  if (own == std::string::npos) return forecast.bin_probabilities;
  const auto map = maps_.find(forecast.calibrator_version.substr(own));
  if (map == maps_.end() || map->second->map.scale.size() != forecast.bin_probabilities.size()) {
    return {};
  }
  return Undo(map->second->map, forecast.bin_probabilities);
}

bool OnlineCalibrator::Learn(const std::string& target, const Forecast& forecast, int true_bin,
                             double weight) {
  CalibrationRecord record{Raw(forecast), true_bin, std::min(weight, options_.most_weight)};
  if (!CheckRecords({&record, 1}).ok()) return false;
  const Key key(target, forecast.bin_scheme_id);
  Group& group = groups_[key];
  if (!group.records.empty() && group.records.front().p.size() != record.p.size()) return false;
  Try(group, record);
  group.records.push_back(std::move(record));
  if (group.records.size() > options_.max_records) group.records.pop_front();
  ++learnt_;
  ++group.since_fit;
  if (group.since_fit >= std::max<uint64_t>(kFitEvery, group.records.size() / 8)) Fit(key, group);
  return true;
}

void OnlineCalibrator::Try(Group& group, const CalibrationRecord& record) {
  std::vector<double> stands = record.p;
  if (group.map != nullptr) {
    const std::vector<double> calibrated = group.map->Apply(record.p);
    group.trials.push_back({record.weight * (LogLoss(record.p, record.true_bin) -
                                             LogLoss(calibrated, record.true_bin)),
                            record.weight});
    if (group.trials.size() > options_.trial_records) group.trials.pop_front();
    double gain = 0;
    double weight = 0;
    for (const Trial& trial : group.trials) {
      gain += trial.gain;
      weight += trial.weight;
    }
    const double mean = weight > 0 ? gain / weight : 0;
    if (!group.in_use) {
      group.in_use = group.trials.size() >= options_.least_records && mean > options_.least_gain;
    } else if (mean < -options_.least_gain) {
      group.in_use = false;
      group.trials.clear();
    }
    if (group.in_use) stands = calibrated;
  }
  // A map in use has already learnt how good these forecasts are. Without one there is nothing to
  // drift from.
  if (!group.in_use || group.records.size() < options_.mature_records) {
    group.excess = 0;
    return;
  }
  const double excess =
      std::min(LogLoss(stands, record.true_bin) - Entropy(stands), options_.most_excess);
  group.excess = std::max(0.0, group.excess + excess - options_.slack);
  if (group.excess <= options_.alarm_above) return;
  ++alarms_;
  group.in_use = false;
  group.map = nullptr;
  group.excess = 0;
  group.trials.clear();
  while (group.records.size() > options_.kept_records) group.records.pop_front();
  group.since_fit = group.records.size() + kFitEvery;
}

void OnlineCalibrator::Fit(const Key& key, Group& group) {
  group.since_fit = 0;
  std::vector<CalibrationRecord> all;
  for (const auto& [other, of_other] : groups_) {
    if (other.second != key.second) continue;
    all.insert(all.end(), of_other.records.begin(), of_other.records.end());
  }
  VectorFit options;
  options.pull = options_.pull;
  options.toward = FitVector(all, options);
  const std::vector<CalibrationRecord> own(group.records.begin(), group.records.end());
  auto map = std::make_shared<BinCalibrator>();
  map->bin_scheme_id = key.second;
  map->records = EffectiveRecords(own);
  VectorMap fitted = FitVector(own, options);
  if (!Usable(fitted)) {
    // Biases alone, which can always be inverted.
    options.toward.scale.clear();
    options.scale_pull = kFixed;
    fitted = FitVector(own, options);
  }
  map->map = std::move(fitted);
  group.map = map;
  const std::string version = map->version();
  if (!maps_.insert_or_assign(version, map).second) return;
  map_order_.push_back(version);
  if (map_order_.size() > kMaxMaps) {
    maps_.erase(map_order_.front());
    map_order_.pop_front();
  }
}

}  // namespace kernelcast::forecaster
