#include "services/cli/core/calibration_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/statistics.h"
#include "common/base/status.h"
#include "common/domain/bins.h"

namespace kernelcast::cli {
namespace {

constexpr int kChanceDraws = 100;

struct Item {
  CalibrationRecord record;
  size_t problem = 0;
};

ScoredForecast Scored(const CalibrationRecord& record, std::vector<double> p) {
  ScoredForecast item;
  item.p = std::move(p);
  item.true_bin = record.true_bin;
  item.expected_log2_speedup = std::numeric_limits<double>::quiet_NaN();
  item.weight = record.weight;
  return item;
}

// Returns the fold of each problem, in a random order given by the seed.
std::vector<size_t> FoldOfProblems(size_t problems, size_t folds, uint64_t seed) {
  std::vector<size_t> order(problems);
  for (size_t i = 0; i < problems; ++i) order[i] = i;
  std::mt19937_64 random(seed);
  for (size_t i = problems; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  std::vector<size_t> fold(problems);
  for (size_t i = 0; i < problems; ++i) fold[order[i]] = i % folds;
  return fold;
}

absl::StatusOr<MethodResult> Evaluate(CalibrationMethod method, const std::vector<Item>& items,
                                      const std::vector<size_t>& fold_of_problem, size_t folds,
                                      const CalibrationFit& fit, uint64_t seed) {
  MethodResult result;
  result.method = method;
  std::vector<ScoredForecast> scored;
  std::map<size_t, std::vector<ScoredForecast>> by_problem;
  for (size_t fold = 0; fold < folds; ++fold) {
    std::vector<CalibrationRecord> others;
    for (const Item& item : items) {
      if (fold_of_problem[item.problem] != fold) others.push_back(item.record);
    }
    KC_ASSIGN_OR_RETURN(const BinCalibrator calibrator,
                        FitCalibrator(method, fit.bin_scheme_id, others));
    for (const Item& item : items) {
      if (fold_of_problem[item.problem] != fold) continue;
      scored.push_back(Scored(item.record, calibrator.Apply(item.record.p)));
      by_problem[item.problem].push_back(scored.back());
    }
  }
  KC_ASSIGN_OR_RETURN(result.held_out, ScoreForecasts(scored));
  result.error_by_chance = CalibrationErrorByChance(scored, kChanceDraws, seed);
  std::vector<double> errors, by_chance;
  for (const auto& [problem, of_problem] : by_problem) {
    const auto metrics = ScoreForecasts(of_problem);
    if (!metrics.ok()) continue;
    errors.push_back(metrics->expected_calibration_error);
    by_chance.push_back(CalibrationErrorByChance(of_problem, kChanceDraws, seed));
  }
  result.median_problem_error = Median(errors);
  result.median_problem_error_by_chance = Median(by_chance);
  std::vector<CalibrationRecord> all;
  all.reserve(items.size());
  for (const Item& item : items) all.push_back(item.record);
  KC_ASSIGN_OR_RETURN(result.calibrator, FitCalibrator(method, fit.bin_scheme_id, all));
  return result;
}

}  // namespace

double CalibrationErrorByChance(std::vector<ScoredForecast> items, int draws, uint64_t seed) {
  std::mt19937_64 random(seed);
  double sum = 0;
  for (int draw = 0; draw < draws; ++draw) {
    for (ScoredForecast& item : items) {
      // 53 bits: the same on every platform.
      double left = static_cast<double>(random() >> 11) * 0x1p-53;
      item.true_bin = static_cast<int>(item.p.size());
      for (size_t bin = 0; bin < item.p.size(); ++bin) {
        left -= item.p[bin];
        if (left < 0) {
          item.true_bin = static_cast<int>(bin) + 1;
          break;
        }
      }
    }
    const auto metrics = ScoreForecasts(items);
    if (!metrics.ok()) return std::numeric_limits<double>::quiet_NaN();
    sum += metrics->expected_calibration_error;
  }
  return sum / draws;
}

absl::StatusOr<CalibrationFit> FitCalibrators(const std::vector<NamedOutcome>& outcomes,
                                              const CalibrationOptions& options) {
  CalibrationFit fit;
  std::vector<Item> items;
  std::map<std::string, size_t> problems;
  for (const NamedOutcome& named : outcomes) {
    const ForecastOutcome& outcome = named.outcome;
    const Forecast& forecast = outcome.forecast;
    if (!outcome.speedup.has_value() || forecast.bin_probabilities.empty()) continue;
    if (fit.bin_scheme_id.empty()) fit.bin_scheme_id = forecast.bin_scheme_id;
    if (fit.bin_scheme_id != forecast.bin_scheme_id) {
      return absl::InvalidArgumentError(
          absl::StrCat("forecasts of two bin schemes, ", fit.bin_scheme_id, " and ",
                       forecast.bin_scheme_id, ", cannot be calibrated together"));
    }
    KC_ASSIGN_OR_RETURN(const BinScheme* scheme, BinScheme::Find(forecast.bin_scheme_id));
    Item& item = items.emplace_back();
    KC_ASSIGN_OR_RETURN(item.record.true_bin, scheme->Label(*outcome.speedup));
    if (outcome.true_bin.has_value()) item.record.true_bin = *outcome.true_bin;
    item.record.p = forecast.bin_probabilities;
    item.record.weight = options.weighted ? outcome.weight : 1;
    item.problem = problems.emplace(named.problem, problems.size()).first->second;
  }
  fit.items = items.size();
  fit.problems = problems.size();
  if (items.empty()) {
    return absl::InvalidArgumentError("the files hold no forecast with a measured speedup");
  }
  if (problems.size() < 2) {
    return absl::InvalidArgumentError(
        "all forecasts are of one problem: a calibrator must be scored on other problems than it "
        "was fitted to");
  }
  const size_t folds = std::min(static_cast<size_t>(std::max(options.folds, 2)), problems.size());
  fit.folds = static_cast<int>(folds);
  const std::vector<size_t> fold_of_problem = FoldOfProblems(problems.size(), folds, options.seed);
  std::vector<CalibrationMethod> methods = {CalibrationMethod::kNone};
  for (const CalibrationMethod method : options.methods) {
    if (std::ranges::find(methods, method) == methods.end()) methods.push_back(method);
  }
  for (const CalibrationMethod method : methods) {
    KC_ASSIGN_OR_RETURN(MethodResult result,
                        Evaluate(method, items, fold_of_problem, folds, fit, options.seed));
    fit.methods.push_back(std::move(result));
    if (fit.methods.back().held_out.negative_log_likelihood <
        fit.methods[fit.best].held_out.negative_log_likelihood) {
      fit.best = fit.methods.size() - 1;
    }
  }
  return fit;
}

}  // namespace kernelcast::cli
