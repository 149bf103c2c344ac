#include "services/cli/core/row_outcomes.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "common/domain/bins.h"

namespace kernelcast::cli {
namespace {

using Catch::Matchers::Contains;

// Thirty comparisons with two answers each, from a formula shared with a Python reference (numpy,
// scipy); every figure below is the reference's.
struct Sample {
  std::vector<EvaluationRow> rows;
  std::vector<PredictionRow> predictions;
};

Sample MakeSample() {
  Sample sample;
  const BinScheme& scheme = **BinScheme::Find(BinScheme::kPaperFormulaId);
  for (int i = 0; i < 30; ++i) {
    EvaluationRow& row = sample.rows.emplace_back();
    row.comparison_id = "c" + std::to_string(i);
    row.pack = "pack" + std::to_string(i % 3);
    row.aggregated_speedup = std::exp2((i * 7 % 31 - 15) / 5.0 + 0.01);
    row.true_bin = *scheme.Label(row.aggregated_speedup);
    row.origin.source_search = "s";
    for (int repeat = 0; repeat < 2; ++repeat) {
      PredictionRow& prediction = sample.predictions.emplace_back();
      prediction.comparison_id = row.comparison_id;
      prediction.surrogate_label = "model";
      prediction.repeat = repeat;
      prediction.parse_failed = (i + repeat) % 10 == 3;
      if (prediction.parse_failed) continue;
      double sum = 0;
      for (int bin = 1; bin <= 8; ++bin) {
        double weight = 1 + (i * bin * 3 + repeat * 5 + bin) % 11;
        if (i % 2 == 0 && bin == row.true_bin) weight += 20;
        prediction.bin_probabilities.push_back(weight);
        sum += weight;
      }
      // As models give them: the sum is not one.
      for (double& p : prediction.bin_probabilities) p = p / sum * 0.97;
      const int largest = static_cast<int>(std::ranges::max_element(prediction.bin_probabilities) -
                                           prediction.bin_probabilities.begin()) +
                          1;
      prediction.predicted_bin = i % 9 == 4 ? largest % 8 + 1 : largest;
    }
  }
  return sample;
}

ForecastEvaluation Evaluate(const std::vector<NamedOutcome>& named) {
  std::vector<ForecastOutcome> outcomes;
  for (const NamedOutcome& one : named) outcomes.push_back(one.outcome);
  EvaluationOptions options;
  options.max_resamples = 200;
  return *EvaluateForecasts(outcomes, options);
}

TEST_CASE("The published formula labels its own rows") {
  // clamp(floor(2 log2 S) + 4, 1, 8), verbatim.
  const BinScheme& scheme = **BinScheme::Find(BinScheme::kPaperFormulaId);
  for (int i = -600; i <= 600; ++i) {
    const double speedup = std::exp2(i / 100.0 + 0.001);
    const int formula = std::clamp(static_cast<int>(std::floor(2 * std::log2(speedup))) + 4, 1, 8);
    CAPTURE(speedup);
    REQUIRE(*scheme.Label(speedup) == formula);
  }
  for (const double edge : {0.25, 0.5, 1.0, 2.0, 4.0, 8.0}) {
    CHECK(*scheme.Label(edge) ==
          std::clamp(static_cast<int>(std::floor(2 * std::log2(edge))) + 4, 1, 8));
  }
}

TEST_CASE("Joined rows match an independent reference") {
  const Sample sample = MakeSample();
  const auto joined = JoinPredictions(sample.rows, sample.predictions);
  REQUIRE(joined.ok());
  CHECK(joined->outcomes.size() == 60);
  CHECK(joined->argmax_mismatches == 4);
  CHECK(joined->odd_labels == 0);
  const ForecastEvaluation evaluation = Evaluate(joined->outcomes);
  CHECK(evaluation.items == 60);
  CHECK(evaluation.unparsable == 6);
  const auto exactly = [](double value) { return Approx(value).epsilon(1e-9); };
  CHECK(evaluation.accuracy.value == exactly(0.49583333333333335));
  CHECK(evaluation.off_by_one_accuracy.value == exactly(0.58125));
  CHECK(evaluation.expected_calibration_error.value == exactly(0.2501334249140138));
  CHECK(evaluation.half_brier.value == exactly(0.33372969471474406));
  CHECK(evaluation.crps.value == exactly(0.1751182957524634));
  CHECK(evaluation.negative_log_likelihood.value == exactly(1.5365496972937662));
  CHECK(evaluation.spearman.value == exactly(0.5864344734549313));
  CHECK(evaluation.pairwise_accuracy.value == exactly(0.7089552238805971));
  CHECK(evaluation.area_under_risk_coverage.value == exactly(0.26329210924265367));
  CHECK(evaluation.regret.value == exactly(0.16666666666666674));
  // Each pack and repeat is a pool.
  CHECK(evaluation.pools == 6);
  REQUIRE(evaluation.shares.size() == 6);
  CHECK(evaluation.shares[3].share == 0.1);
  CHECK(evaluation.shares[3].best_found.value == exactly(0.8977111883010869));
  CHECK(evaluation.shares[3].best_recalled.value == exactly(0.5));
  CHECK(evaluation.shares[3].winner_recall.value == exactly(0.2222222222222222));
  CHECK(evaluation.shares[4].winner_recall.value == exactly(0.3333333333333333));
  CHECK(evaluation.shares[5].best_found.value == exactly(0.9784250938826874));
  CHECK(evaluation.shares[5].best_recalled.value == exactly(0.8333333333333334));
  CHECK(evaluation.shares[5].winner_recall.value == exactly(0.6944444444444445));
  CHECK(evaluation.shares[3].random_winner_recall == exactly(0.1));
  CHECK(evaluation.parsed.items == 54);
  CHECK(evaluation.parsed.accuracy == exactly(0.5370370370370371));
  for (const Interval* interval :
       {&evaluation.accuracy, &evaluation.regret, &evaluation.area_under_risk_coverage,
        &evaluation.shares[3].best_found}) {
    CHECK(interval->low <= interval->value);
    CHECK(interval->value <= interval->high);
    CHECK(interval->low < interval->high);
  }
}

TEST_CASE("Under another scheme the truths are relabelled from the speedups") {
  const Sample sample = MakeSample();
  const auto joined = JoinPredictions(sample.rows, sample.predictions, BinScheme::kDefaultId);
  REQUIRE(joined.ok());
  CHECK(Evaluate(joined->outcomes).accuracy.value == Approx(0.2125).epsilon(1e-9));
  // The row's own fields count.
  Sample named = sample;
  for (PredictionRow& row : named.predictions) row.bin_scheme_id = BinScheme::kPaperFormulaId;
  CHECK(Evaluate(JoinPredictions(named.rows, named.predictions, BinScheme::kDefaultId)->outcomes)
            .accuracy.value == Approx(0.49583333333333335).epsilon(1e-9));
}

TEST_CASE("A row's own bin counts and its inconsistency is reported") {
  Sample sample = MakeSample();
  sample.rows[0].true_bin = sample.rows[0].true_bin % 8 + 1;
  const auto joined = JoinPredictions(sample.rows, sample.predictions);
  CHECK(joined->odd_labels == 1);
  CHECK(joined->outcomes[0].outcome.true_bin == sample.rows[0].true_bin);
}

TEST_CASE("Unmatched rows are counted and duplicates are refused") {
  Sample sample = MakeSample();
  sample.predictions[0].comparison_id = "nobody";
  sample.rows.emplace_back().comparison_id = "lonely";
  sample.rows.back().true_bin = 4;
  const auto joined = JoinPredictions(sample.rows, sample.predictions);
  CHECK(joined->without_truth == 1);
  CHECK(joined->without_prediction == 1);
  sample.rows.push_back(sample.rows[3]);
  CHECK_THAT(std::string(JoinPredictions(sample.rows, {}).status().message()),
             Contains("'c3' has two evaluation rows"));
}

TEST_CASE("Weights of audited rows are applied") {
  Sample sample = MakeSample();
  sample.rows[5].propensity = 0.1;
  const auto joined = JoinPredictions(sample.rows, sample.predictions);
  CHECK(joined->outcomes[10].outcome.weight == Approx(10));
  CHECK(joined->outcomes[12].outcome.weight == 1);
}

SearchEventRow Event(const char* kind, const char* payload) {
  static int64_t index = 0;
  return {index++, kind, RowJson::parse(payload)};
}

TEST_CASE("Search events are scored when their payloads suffice") {
  const std::vector<SearchEventRow> events = {
      Event("search_initialized", R"({"search_id":"s1","problem":"softmax"})"),
      Event("forecast_completed",
            R"({"candidate_id":"a","surrogate_label":"m","bin_scheme_id":"sqrt2/1",
                "bin_probabilities":[{"bin":5,"p":0.75},{"bin":6,"p":0.25}]})"),
      Event("candidate_deferred", R"({"candidate_id":"x"})"),
      Event("forecast_completed",
            R"({"candidate_id":"b","baseline_candidate_id":"a","bin_scheme_id":"sqrt2/1",
                "bin_probabilities":[{"bin":4,"p":1}],"failure_probability":0.25})"),
      Event("evaluation_completed", R"({"candidate_id":"a","aggregated_speedup":1.2})"),
      Event("evaluation_completed", R"({"candidate_id":"b","aggregated_speedup":0.96})"),
      Event("forecast_completed",
            R"({"candidate_id":"c","bin_scheme_id":"sqrt2/1",
                "bin_probabilities":[{"bin":4,"p":1}]})"),
      Event("evaluation_failed", R"({"candidate_id":"c"})"),
      Event("evaluation_failed", R"({"candidate_id":"d"})"),
      Event("forecast_completed", R"({"candidate_id":"e","note":"no bins"})")};
  const auto outcomes = EventOutcomes(events);
  REQUIRE(outcomes.ok());
  REQUIRE(outcomes->size() == 3);
  CHECK((*outcomes)[0].problem == "softmax");
  CHECK((*outcomes)[0].backend == "m");
  CHECK((*outcomes)[0].outcome.speedup == 1.2);
  CHECK((*outcomes)[0].outcome.forecast.predicted_bin == 5);
  // Relative to the forecast's baseline.
  CHECK(*(*outcomes)[1].outcome.speedup == Approx(0.8));
  CHECK((*outcomes)[1].outcome.forecast.failure_probability == 0.25);
  CHECK((*outcomes)[2].outcome.failed);

  std::vector<SearchEventRow> bad = events;
  bad[1].payload["bin_probabilities"][0]["p"] = "much";
  CHECK_THAT(std::string(EventOutcomes(bad).status().message()),
             Contains("payload.bin_probabilities[0].p: '\"much\"'"));
}

TEST_CASE("Labels are counted by bin under their own scheme") {
  const auto counts = CountLabels({{1.2, 4, ""}, {1.2, 5, "sqrt2/1"}, {1.2, 5, ""}});
  REQUIRE(counts.ok());
  CHECK(counts->by_bin == std::vector<uint64_t>{0, 0, 0, 1, 2, 0, 0, 0});
  CHECK(counts->odd_labels == 1);
  CHECK_FALSE(CountLabels({{1.2, 4, "mine/1"}}).ok());
}

}  // namespace
}  // namespace kernelcast::cli
