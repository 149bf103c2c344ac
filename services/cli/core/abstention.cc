#include "services/cli/core/abstention.h"

#include <limits>
#include <map>
#include <set>
#include <utility>

#include "common/base/status.h"
#include "common/domain/bins.h"

namespace kernelcast::cli {
namespace {

// The answers of one surrogate with a measured speedup.
struct Answers {
  std::vector<ScoredForecast> scored;
  std::vector<std::string> clusters;  // one per forecast
  std::set<std::string> asked;        // clusters, with those of abstentions
  uint64_t abstained = 0;
  double weight = 0;  // with that of abstentions
};

absl::StatusOr<std::map<std::string, Answers>> BySurrogate(
    const std::vector<NamedOutcome>& outcomes, bool weighted) {
  std::map<std::string, Answers> surrogates;
  for (const NamedOutcome& named : outcomes) {
    const ForecastOutcome& outcome = named.outcome;
    if (!outcome.speedup.has_value()) continue;
    Answers& answers = surrogates[named.backend];
    const double weight = weighted ? outcome.weight : 1;
    answers.weight += weight;
    answers.asked.insert(outcome.cluster);
    if (outcome.abstained) {
      ++answers.abstained;
      continue;
    }
    KC_ASSIGN_OR_RETURN(const BinScheme* scheme, BinScheme::Find(outcome.forecast.bin_scheme_id));
    KC_ASSIGN_OR_RETURN(ScoredForecast scored, ScoredForecastOf(outcome, *scheme));
    scored.weight = weight;
    answers.scored.push_back(std::move(scored));
    answers.clusters.push_back(outcome.cluster);
  }
  return surrogates;
}

// The forecasts about the clusters in `asked`; empty if some have none.
std::vector<ScoredForecast> ForecastsOf(const Answers& answers,
                                        const std::set<std::string>& asked) {
  std::vector<ScoredForecast> chosen;
  std::set<std::string> covered;
  for (size_t i = 0; i < answers.scored.size(); ++i) {
    if (asked.count(answers.clusters[i]) == 0) continue;
    chosen.push_back(answers.scored[i]);
    covered.insert(answers.clusters[i]);
  }
  if (covered.size() < asked.size()) chosen.clear();
  return chosen;
}

}  // namespace

absl::StatusOr<std::vector<AbstentionEvaluation>> EvaluateAbstentions(
    const std::vector<NamedOutcome>& outcomes, ConfidenceKind confidence, bool weighted) {
  KC_ASSIGN_OR_RETURN(const auto surrogates, BySurrogate(outcomes, weighted));
  std::vector<AbstentionEvaluation> evaluations;
  for (const auto& [name, answers] : surrogates) {
    if (answers.abstained == 0) continue;
    AbstentionEvaluation& evaluation = evaluations.emplace_back();
    evaluation.surrogate = name;
    evaluation.rows = answers.scored.size() + answers.abstained;
    evaluation.abstained = answers.abstained;
    double answered = 0;
    for (const ScoredForecast& scored : answers.scored) answered += scored.weight;
    evaluation.coverage = answers.weight > 0 ? answered / answers.weight : 0;
    evaluation.risk = std::numeric_limits<double>::quiet_NaN();
    if (!(answered > 0)) continue;
    evaluation.curve = RiskPointsOf(RiskCoverageOf(confidence, answers.scored));
    evaluation.risk = evaluation.curve.back().risk;
    for (RiskPoint& point : evaluation.curve) point.coverage *= evaluation.coverage;
    for (const auto& [other, of_other] : surrogates) {
      if (of_other.abstained > 0) continue;
      const std::vector<ScoredForecast> all = ForecastsOf(of_other, answers.asked);
      if (all.empty()) continue;
      std::vector<RiskPoint> curve =
          RiskPointsOf(RiskCoverageOf(confidence, all), evaluation.coverage);
      const double risk = curve.back().risk;
      evaluation.thresholds.push_back({other, risk, std::move(curve)});
    }
  }
  return evaluations;
}

}  // namespace kernelcast::cli
