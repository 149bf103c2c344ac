#include "services/forecaster/core/scorer.h"

#include <cmath>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace kernelcast::forecaster {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

absl::Status ItemError(size_t index, std::string_view field, const absl::Status& status) {
  return WithPrefix(absl::StrCat("items[", index, "].", std::string(field), ": "), status);
}

// Scores a binary event that happened and had forecast probability `p`.
void ScoreFailure(double p, RewardKind kind, ItemScore& score) {
  score.hit = p > 0.5 ? 1 : 0;
  score.half_brier = (1 - p) * (1 - p);
  score.crps = score.half_brier;
  score.negative_log_likelihood = -std::log(std::max(p, 1e-12));
  score.reward = score.hit;
  if (kind != RewardKind::kHit) score.reward += 1 - score.half_brier;
}

}  // namespace

absl::StatusOr<Scores> Score(const BinScheme& scheme, RewardKind reward,
                             std::span<const ScoreItem> items) {
  Scores scores;
  scores.items.reserve(items.size());
  std::vector<ScoredForecast> scored;
  for (size_t i = 0; i < items.size(); ++i) {
    const ScoreItem& item = items[i];
    ItemScore& score = scores.items.emplace_back();
    score.item_id = item.item_id;

    Forecast forecast;
    bool knows_failure = true;
    if (const auto* given = std::get_if<Forecast>(&item.prediction)) {
      forecast = *given;
      if (forecast.bin_scheme_id.empty()) forecast.bin_scheme_id = scheme.id();
      if (forecast.bin_scheme_id != scheme.id()) {
        return ItemError(i, "forecast.bin_scheme_id",
                         absl::InvalidArgumentError(absl::StrCat("'", forecast.bin_scheme_id,
                                                                 "' is not the scheme asked for, '",
                                                                 scheme.id(), "'")));
      }
      forecast.predicted_bin = ArgmaxBin(forecast.bin_probabilities);
      if (const absl::Status status = ValidateForecast(forecast); !status.ok()) {
        return ItemError(i, "forecast", absl::InvalidArgumentError(status.message()));
      }
    } else {
      ParsedAnswer answer = ParseAnswer(scheme, std::get<std::string>(item.prediction));
      score.parse_status = answer.status;
      knows_failure = answer.has_failure_probability;
      forecast = std::move(answer.forecast);
    }
    const bool has_forecast =
        score.parse_status == ParseStatus::kOk || score.parse_status == ParseStatus::kRenormalized;
    if (has_forecast) score.predicted_bin = forecast.predicted_bin;

    double measured_log2 = kNaN;
    if (const auto* speedup = std::get_if<Speedup>(&item.truth)) {
      const absl::StatusOr<int> bin = scheme.Label(speedup->value);
      if (!bin.ok()) return ItemError(i, "speedup", bin.status());
      score.true_bin = *bin;
      measured_log2 = std::log2(speedup->value);
    } else if (const auto* bin = std::get_if<TrueBin>(&item.truth)) {
      if (bin->bin < 1 || bin->bin > scheme.size()) {
        return ItemError(i, "true_bin",
                         absl::InvalidArgumentError(
                             absl::StrCat(bin->bin, " is not in [1, ", scheme.size(), "]")));
      }
      score.true_bin = bin->bin;
    } else {
      if (knows_failure) {
        ScoreFailure(forecast.failure_probability, reward, score);
      }
      continue;
    }
    if (score.parse_status == ParseStatus::kDeferred) continue;

    ScoredForecast& entry = scored.emplace_back();
    entry.true_bin = score.true_bin;
    entry.measured_log2_speedup = measured_log2;
    if (has_forecast) {
      entry.p = std::move(forecast.bin_probabilities);
      entry.expected_log2_speedup = forecast.expected_log2_speedup;
      score.hit = score.predicted_bin == score.true_bin ? 1 : 0;
      score.reward = Reward(reward, entry.p, score.true_bin);
    } else {
      entry.p.assign(scheme.size(), 1.0 / scheme.size());
      entry.expected_log2_speedup = kNaN;
      entry.unparsable = true;
    }
    score.half_brier = HalfBrier(entry.p, score.true_bin);
    score.crps = RankedProbability(entry.p, score.true_bin);
    score.negative_log_likelihood = NegativeLogLikelihood(entry.p, score.true_bin);
  }
  if (!scored.empty()) {
    KC_ASSIGN_OR_RETURN(scores.metrics, ScoreForecasts(scored));
  }

  std::map<std::string, std::vector<double>> groups;
  for (size_t i = 0; i < items.size(); ++i) {
    groups[items[i].group_id].push_back(scores.items[i].reward);
  }
  for (const auto& [id, rewards] : groups) {
    GroupScore& group = scores.groups.emplace_back();
    group.group_id = id;
    group.items = static_cast<uint32_t>(rewards.size());
    const double count = static_cast<double>(rewards.size());
    for (const double value : rewards) group.mean_reward += value / count;
    double variance = 0;
    for (const double value : rewards) {
      variance += (value - group.mean_reward) * (value - group.mean_reward) / count;
    }
    group.stddev_reward = std::sqrt(variance);
  }
  return scores;
}

}  // namespace kernelcast::forecaster
