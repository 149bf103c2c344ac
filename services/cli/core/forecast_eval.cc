#include "services/cli/core/forecast_eval.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "common/base/statistics.h"
#include "common/base/status.h"
#include "common/domain/bins.h"

namespace kernelcast::cli {
namespace {

// Sets so large that a full bootstrap would take minutes get fewer resamples; the evaluation
// reports how many.
constexpr double kItemBudget = 4e6;
constexpr int kFewestResamples = 40;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// An outcome in the form needed for scoring.
struct Row {
  std::optional<ScoredForecast> scored;
  double failure_probability = 0;
  double failed = 0;
  double weight = 1;
  size_t pool = 0;
  PoolItem choice;
};

// The data of a sample, from which FiguresOf computes all figures.
struct Sample {
  std::vector<ScoredForecast> scored;
  std::vector<std::vector<PoolItem>> pools;
  double failure_error = 0;
  double failure_weight = 0;

  explicit Sample(size_t pool_count) : pools(pool_count) {}
  void Clear() {
    scored.clear();
    for (auto& pool : pools) pool.clear();
    failure_error = 0;
    failure_weight = 0;
  }
  void Add(const Row& row) {
    if (row.scored.has_value()) scored.push_back(*row.scored);
    const double error = row.failure_probability - row.failed;
    failure_error += row.weight * error * error;
    failure_weight += row.weight;
    pools[row.pool].push_back(row.choice);
  }
};

// Mean of the values that are not NaN; NaN if there are none.
class MeanOfNumbers {
 public:
  void Add(double value) {
    if (std::isnan(value)) return;
    sum_ += value;
    ++count_;
  }
  double value() const { return count_ == 0 ? kNan : sum_ / count_; }

 private:
  double sum_ = 0;
  int count_ = 0;
};

bool IsPool(const std::vector<PoolItem>& pool) { return pool.size() >= kLeastPool; }

constexpr double ForecastMetrics::*kMetrics[] = {&ForecastMetrics::accuracy,
                                                 &ForecastMetrics::off_by_one_accuracy,
                                                 &ForecastMetrics::expected_calibration_error,
                                                 &ForecastMetrics::half_brier,
                                                 &ForecastMetrics::crps,
                                                 &ForecastMetrics::negative_log_likelihood,
                                                 &ForecastMetrics::spearman,
                                                 &ForecastMetrics::pairwise_accuracy};

// The destinations of the figures of FiguresOf, in their order.
std::vector<Interval*> Destinations(ForecastEvaluation& evaluation) {
  std::vector<Interval*> figures = {&evaluation.accuracy,
                                    &evaluation.off_by_one_accuracy,
                                    &evaluation.expected_calibration_error,
                                    &evaluation.half_brier,
                                    &evaluation.crps,
                                    &evaluation.negative_log_likelihood,
                                    &evaluation.spearman,
                                    &evaluation.pairwise_accuracy,
                                    &evaluation.failure_brier,
                                    &evaluation.area_under_risk_coverage,
                                    &evaluation.regret};
  for (ShareEvaluation& share : evaluation.shares) {
    figures.insert(figures.end(), {&share.best_found, &share.best_recalled, &share.winner_recall});
  }
  return figures;
}

absl::StatusOr<std::vector<double>> FiguresOf(const Sample& sample, ConfidenceKind confidence) {
  std::vector<double> figures;
  KC_ASSIGN_OR_RETURN(const ForecastMetrics metrics, ScoreForecasts(sample.scored));
  for (const auto metric : kMetrics) figures.push_back(metrics.*metric);
  figures.push_back(sample.failure_weight > 0 ? sample.failure_error / sample.failure_weight
                                              : kNan);
  figures.push_back(RiskCoverageOf(confidence, sample.scored).area);
  MeanOfNumbers regret;
  for (const auto& pool : sample.pools) {
    if (IsPool(pool)) regret.Add(Regret(pool));
  }
  figures.push_back(regret.value());
  for (const double share : kEvaluatedShares) {
    MeanOfNumbers found, recalled, winners;
    for (const auto& pool : sample.pools) {
      if (!IsPool(pool)) continue;
      const PoolSelection selection = SelectFromPool(pool, share);
      found.Add(selection.best_found);
      recalled.Add(selection.best_recalled);
      winners.Add(selection.winner_recall);
    }
    figures.insert(figures.end(), {found.value(), recalled.value(), winners.value()});
  }
  return figures;
}

Interval MakeInterval(double value, std::vector<double>& resampled) {
  Interval interval{value, value, value};
  resampled.erase(std::remove_if(resampled.begin(), resampled.end(),
                                 [](double v) { return !std::isfinite(v); }),
                  resampled.end());
  if (resampled.empty()) return interval;
  interval.low = Quantile(resampled, 0.025);
  interval.high = Quantile(resampled, 0.975);
  return interval;
}

absl::StatusOr<Row> MakeRow(const ForecastOutcome& outcome, const BinScheme& scheme,
                            bool weighted) {
  const Forecast& forecast = outcome.forecast;
  Row row;
  row.weight = weighted ? outcome.weight : 1;
  row.failure_probability = forecast.failure_probability;
  row.failed = outcome.failed ? 1 : 0;
  const bool unparsable = forecast.bin_probabilities.empty();
  row.choice.forecast = unparsable ? kNan : forecast.expected_log2_speedup;
  if (!outcome.speedup.has_value()) return row;
  row.choice.speedup = *outcome.speedup;
  row.choice.winner = *outcome.speedup > 1;
  KC_ASSIGN_OR_RETURN(row.scored, ScoredForecastOf(outcome, scheme));
  row.scored->weight = row.weight;
  return row;
}

void AddRandomChoice(const Sample& sample, ForecastEvaluation& evaluation) {
  for (ShareEvaluation& share : evaluation.shares) {
    MeanOfNumbers found, recalled, winners;
    for (const auto& pool : sample.pools) {
      if (!IsPool(pool)) continue;
      const PoolSelection random = SelectAtRandom(pool, share.share);
      found.Add(random.best_found);
      recalled.Add(random.best_recalled);
      winners.Add(random.winner_recall);
    }
    share.random_best_found = found.value();
    share.random_best_recalled = recalled.value();
    share.random_winner_recall = winners.value();
  }
}

}  // namespace

absl::StatusOr<ScoredForecast> ScoredForecastOf(const ForecastOutcome& outcome,
                                                const BinScheme& scheme) {
  const Forecast& forecast = outcome.forecast;
  ScoredForecast item;
  KC_ASSIGN_OR_RETURN(item.true_bin, scheme.Label(*outcome.speedup));
  if (outcome.true_bin.has_value()) item.true_bin = *outcome.true_bin;
  item.p = forecast.bin_probabilities;
  item.predicted_bin = outcome.predicted_bin;
  item.unparsable = forecast.bin_probabilities.empty();
  if (item.unparsable) {
    item.p.assign(static_cast<size_t>(scheme.size()), 1.0 / scheme.size());
  }
  if (item.p.size() != static_cast<size_t>(scheme.size())) {
    return absl::InvalidArgumentError(absl::StrCat("a forecast of ", forecast.candidate_id, " has ",
                                                   item.p.size(), " probabilities; the scheme ",
                                                   scheme.id(), " has ", scheme.size(), " bins"));
  }
  item.expected_log2_speedup = item.unparsable ? kNan : forecast.expected_log2_speedup;
  item.measured_log2_speedup = std::log2(*outcome.speedup);
  return item;
}

std::vector<RiskPoint> RiskPointsOf(const RiskCoverage& risk_coverage, double coverage) {
  std::vector<RiskPoint> points;
  for (int i = 1; i <= kRiskPoints; ++i) {
    const double at = coverage * i / kRiskPoints;
    points.push_back({at, RiskAt(risk_coverage, at)});
  }
  return points;
}

absl::StatusOr<ForecastEvaluation> EvaluateForecasts(const std::vector<ForecastOutcome>& outcomes,
                                                     const EvaluationOptions& options) {
  ForecastEvaluation evaluation;
  for (const double share : kEvaluatedShares) evaluation.shares.emplace_back().share = share;
  std::vector<Row> rows;
  std::vector<std::vector<size_t>> clusters;
  std::map<std::string, size_t> cluster_index;
  std::map<std::string, size_t> pool_index;
  const BinScheme* scheme = nullptr;
  for (const ForecastOutcome& outcome : outcomes) {
    KC_ASSIGN_OR_RETURN(const BinScheme* own, BinScheme::Find(outcome.forecast.bin_scheme_id));
    if (scheme != nullptr && own != scheme) {
      return absl::InvalidArgumentError(absl::StrCat("forecasts of two bin schemes, ", scheme->id(),
                                                     " and ", own->id(),
                                                     ", cannot be scored together"));
    }
    scheme = own;
    if (outcome.failed) ++evaluation.failures;
    KC_ASSIGN_OR_RETURN(Row row, MakeRow(outcome, *scheme, options.weighted));
    row.pool = pool_index.emplace(outcome.pool, pool_index.size()).first->second;
    size_t cluster = clusters.size();
    if (!outcome.cluster.empty()) {
      cluster = cluster_index.emplace(outcome.cluster, cluster).first->second;
    }
    if (cluster == clusters.size()) clusters.emplace_back();
    clusters[cluster].push_back(rows.size());
    rows.push_back(std::move(row));
  }
  Sample all(pool_index.size());
  for (const Row& row : rows) all.Add(row);
  if (all.scored.empty()) {
    return absl::InvalidArgumentError(
        "nothing to score: no record has both a forecast and a measured speedup");
  }
  KC_ASSIGN_OR_RETURN(const std::vector<double> figures, FiguresOf(all, options.confidence));
  KC_ASSIGN_OR_RETURN(const ForecastMetrics metrics, ScoreForecasts(all.scored));
  evaluation.items = all.scored.size();
  evaluation.unparsable = metrics.unparsable;
  evaluation.reliability = metrics.reliability;
  RiskCoverage risk_coverage = RiskCoverageOf(options.confidence, all.scored);
  evaluation.risk_points = RiskPointsOf(risk_coverage);
  evaluation.risk_coverage = std::move(risk_coverage.curve);
  for (const auto& pool : all.pools) evaluation.pools += IsPool(pool) ? 1 : 0;
  AddRandomChoice(all, evaluation);
  if (metrics.unparsable > 0 && metrics.unparsable < metrics.items) {
    std::vector<ScoredForecast> parsed = all.scored;
    std::erase_if(parsed, [](const ScoredForecast& item) { return item.unparsable; });
    KC_ASSIGN_OR_RETURN(evaluation.parsed, ScoreForecasts(parsed));
  } else if (metrics.unparsable == 0) {
    evaluation.parsed = metrics;
  }

  evaluation.resamples = std::min(
      options.max_resamples,
      std::max(kFewestResamples,
               static_cast<int>(std::min(1e6, kItemBudget / static_cast<double>(rows.size())))));
  std::mt19937_64 random(options.seed);
  std::uniform_int_distribution<size_t> pick(0, clusters.size() - 1);
  std::vector<std::vector<double>> resampled(figures.size());
  Sample sample(pool_index.size());
  for (int r = 0; r < evaluation.resamples; ++r) {
    sample.Clear();
    for (size_t c = 0; c < clusters.size(); ++c) {
      for (const size_t row : clusters[pick(random)]) sample.Add(rows[row]);
    }
    // A draw with only failures, or only items of weight zero, has no figures.
    const absl::StatusOr<std::vector<double>> drawn = FiguresOf(sample, options.confidence);
    if (!drawn.ok()) continue;
    for (size_t i = 0; i < figures.size(); ++i) resampled[i].push_back((*drawn)[i]);
  }
  const std::vector<Interval*> destinations = Destinations(evaluation);
  for (size_t i = 0; i < figures.size(); ++i) {
    *destinations[i] = MakeInterval(figures[i], resampled[i]);
  }
  return evaluation;
}

}  // namespace kernelcast::cli
