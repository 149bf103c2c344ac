#include "services/cli/core/row_outcomes.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "common/base/status.h"
#include "common/domain/bins.h"
#include "common/domain/text.h"

namespace kernelcast::cli {
namespace {

// Returns the scheme that the row names, else the chosen one, else the published formula.
absl::StatusOr<const BinScheme*> SchemeOf(std::string_view chosen, const std::string& named) {
  if (!named.empty()) return BinScheme::Find(named);
  return BinScheme::Find(chosen.empty() ? BinScheme::kPaperFormulaId : chosen);
}

// Mean of log2 S with the mass of each bin at its midpoint.
double ExpectedLog2(const BinScheme& scheme, const std::vector<double>& p) {
  double expected = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    expected += p[i] * scheme.Log2Midpoint(static_cast<int>(i) + 1);
  }
  return expected;
}

// Fills in a prediction; leaves the distribution empty if it is unparsable.
absl::Status Fill(const PredictionRow& row, const BinScheme& scheme, ForecastOutcome& outcome) {
  Forecast& forecast = outcome.forecast;
  forecast.candidate_id = row.comparison_id;
  forecast.bin_scheme_id = scheme.id();
  forecast.backend = row.surrogate_label;
  forecast.failure_probability = row.failure_probability.value_or(0);
  outcome.abstained = row.abstained;
  if (row.parse_failed || !row.predicted_bin.has_value() || row.bin_probabilities.empty()) {
    return absl::OkStatus();
  }
  forecast.bin_probabilities = row.bin_probabilities;
  KC_RETURN_IF_ERROR(NormalizeSimplex(forecast.bin_probabilities));
  outcome.predicted_bin = *row.predicted_bin;
  forecast.predicted_bin = *row.predicted_bin;
  forecast.expected_log2_speedup =
      row.expected_log2_speedup.value_or(ExpectedLog2(scheme, forecast.bin_probabilities));
  return absl::OkStatus();
}

}  // namespace

EvaluationRow AsComparison(TrainingRow row) {
  EvaluationRow comparison;
  comparison.comparison_id = std::move(row.row_id);
  comparison.pack = std::move(row.pack);
  comparison.anchor_code = std::move(row.anchor_code);
  comparison.candidate_code = std::move(row.candidate_code);
  comparison.hardware = std::move(row.hardware);
  comparison.aggregated_speedup = row.aggregated_speedup;
  comparison.true_bin = row.relative_bin;
  comparison.origin = std::move(row.origin);
  if (row.details.has_value()) comparison.bin_scheme_id = row.details->bin_scheme_id;
  return comparison;
}

EvaluationRow AsComparison(DiscoveryPair pair) {
  EvaluationRow comparison;
  comparison.comparison_id = std::move(pair.pair_id);
  comparison.pack = std::move(pair.problem_id);
  comparison.anchor_code = std::move(pair.parent_code);
  comparison.candidate_code = std::move(pair.child_code);
  comparison.hardware = std::move(pair.hardware);
  comparison.aggregated_speedup = pair.g_speedup;
  comparison.true_bin = pair.true_bin;
  comparison.origin = std::move(pair.origin);
  comparison.bin_scheme_id = std::move(pair.bin_scheme_id);
  return comparison;
}

absl::StatusOr<JoinedRows> JoinPredictions(const std::vector<EvaluationRow>& rows,
                                           const std::vector<PredictionRow>& predictions,
                                           std::string_view bin_scheme_id) {
  JoinedRows joined;
  std::map<std::string, const EvaluationRow*> by_id;
  for (const EvaluationRow& row : rows) {
    if (!by_id.emplace(row.comparison_id, &row).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("comparison_id: ", Quoted(row.comparison_id), " has two evaluation rows"));
    }
    KC_ASSIGN_OR_RETURN(const BinScheme* scheme, SchemeOf({}, row.bin_scheme_id));
    KC_ASSIGN_OR_RETURN(const int bin, scheme->Label(row.aggregated_speedup));
    if (bin != row.true_bin) ++joined.odd_labels;
  }
  std::set<std::string> predicted;
  for (const PredictionRow& prediction : predictions) {
    const auto found = by_id.find(prediction.comparison_id);
    if (found == by_id.end()) {
      ++joined.without_truth;
      continue;
    }
    predicted.insert(prediction.comparison_id);
    const EvaluationRow& row = *found->second;
    KC_ASSIGN_OR_RETURN(const BinScheme* scheme, SchemeOf(bin_scheme_id, prediction.bin_scheme_id));
    KC_ASSIGN_OR_RETURN(const BinScheme* labelled_by, SchemeOf({}, row.bin_scheme_id));
    NamedOutcome& named = joined.outcomes.emplace_back();
    named.problem = row.pack;
    named.backend = prediction.surrogate_label;
    named.search = row.origin.source_search.is_string()
                       ? row.origin.source_search.get<std::string>()
                       : row.origin.source_search.dump();
    ForecastOutcome& outcome = named.outcome;
    const absl::Status filled = Fill(prediction, *scheme, outcome);
    if (!filled.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("comparison ", Quoted(prediction.comparison_id),
                       ": bin_probabilities: ", std::string(filled.message())));
    }
    if (!outcome.forecast.bin_probabilities.empty() &&
        ArgmaxBin(outcome.forecast.bin_probabilities) != outcome.predicted_bin) {
      ++joined.argmax_mismatches;
    }
    outcome.speedup = row.aggregated_speedup;
    if (labelled_by == scheme) outcome.true_bin = row.true_bin;
    outcome.weight = 1 / row.propensity.value_or(1);
    outcome.pool =
        absl::StrCat(row.pack, "\n", prediction.surrogate_label, "\n", prediction.repeat);
    outcome.cluster = row.comparison_id;
  }
  joined.without_prediction = by_id.size() - predicted.size();
  return joined;
}

absl::StatusOr<std::vector<NamedOutcome>> EventOutcomes(const std::vector<SearchEventRow>& events,
                                                        std::string_view bin_scheme_id) {
  // The speedup of a baseline may be measured after the forecasts that refer to it.
  std::map<std::string, double> speedups;
  for (const SearchEventRow& event : events) {
    const auto speedup = event.payload.find("aggregated_speedup");
    if (event.event_kind == "evaluation_completed" && speedup != event.payload.end() &&
        speedup->is_number() && speedup->get<double>() > 0) {
      speedups.emplace(StringAt(event.payload, "candidate_id"), speedup->get<double>());
    }
  }
  std::map<std::string, NamedOutcome> waiting;
  std::string problem;
  std::string search;
  std::vector<NamedOutcome> outcomes;
  for (const SearchEventRow& event : events) {
    const RowJson& payload = event.payload;
    const std::string candidate = StringAt(payload, "candidate_id");
    if (event.event_kind == "search_initialized") {
      problem = StringAt(payload, "problem");
      search = StringAt(payload, "search_id");
    } else if (event.event_kind == "forecast_completed" && !candidate.empty() &&
               payload.contains("bin_probabilities")) {
      RowJson row = payload;
      row["comparison_id"] = candidate;
      for (const auto& [field, value] : {std::pair<const char*, RowJson>{"surrogate_label", "-"},
                                         {"repeat", 0},
                                         {"parse_failed", false}}) {
        if (!row.contains(field)) row[field] = value;
      }
      absl::StatusOr<PredictionRow> prediction = PredictionRowFromJson(row);
      if (!prediction.ok()) {
        return absl::InvalidArgumentError(absl::StrCat("event ", event.event_index, ": payload.",
                                                       std::string(prediction.status().message())));
      }
      if (!prediction->predicted_bin.has_value() && !prediction->bin_probabilities.empty()) {
        prediction->predicted_bin = ArgmaxBin(prediction->bin_probabilities);
      }
      KC_ASSIGN_OR_RETURN(const BinScheme* scheme,
                          SchemeOf(bin_scheme_id, prediction->bin_scheme_id));
      NamedOutcome named{{}, problem, prediction->surrogate_label, search};
      KC_RETURN_IF_ERROR(Fill(*prediction, *scheme, named.outcome));
      named.outcome.forecast.baseline_candidate_id = StringAt(payload, "baseline_candidate_id");
      named.outcome.pool = absl::StrCat(problem, "\n", search);
      named.outcome.cluster = candidate;
      waiting.insert_or_assign(candidate, std::move(named));
    } else if (event.event_kind == "candidate_selected" &&
               (StringAt(payload, "reason") == "audit" ||
                StringAt(payload, "reason") == "no_forecast")) {
      const auto forecast = waiting.find(candidate);
      const RowJson propensity = payload.value("audit_propensity", RowJson(nullptr));
      if (forecast != waiting.end() && propensity.is_number() && propensity.get<double>() > 0) {
        forecast->second.outcome.weight = 1 / propensity.get<double>();
      }
    } else if (event.event_kind == "evaluation_completed" ||
               event.event_kind == "evaluation_failed") {
      const auto forecast = waiting.find(candidate);
      if (forecast == waiting.end()) continue;
      NamedOutcome named = std::move(forecast->second);
      waiting.erase(forecast);
      const std::string& baseline = named.outcome.forecast.baseline_candidate_id;
      if (event.event_kind == "evaluation_failed") {
        // Failures caused by the machine say nothing about the candidate.
        if (payload.value("candidate_failed", RowJson(true)) != RowJson(true)) continue;
        named.outcome.failed = true;
      } else {
        const auto speedup = speedups.find(candidate);
        const auto divisor = speedups.find(baseline);
        if (speedup == speedups.end() || (!baseline.empty() && divisor == speedups.end())) continue;
        named.outcome.speedup = speedup->second / (baseline.empty() ? 1 : divisor->second);
      }
      outcomes.push_back(std::move(named));
    }
  }
  return outcomes;
}

absl::StatusOr<LabelCounts> CountLabels(const std::vector<LabelledRow>& rows) {
  LabelCounts counts;
  for (const LabelledRow& row : rows) {
    KC_ASSIGN_OR_RETURN(const BinScheme* scheme, SchemeOf({}, row.bin_scheme_id));
    KC_ASSIGN_OR_RETURN(const int bin, scheme->Label(row.speedup));
    if (counts.by_bin.size() < static_cast<size_t>(scheme->size())) {
      counts.by_bin.resize(static_cast<size_t>(scheme->size()));
    }
    if (row.bin >= 1 && row.bin <= static_cast<int>(counts.by_bin.size())) {
      ++counts.by_bin[static_cast<size_t>(row.bin - 1)];
    }
    if (bin != row.bin) ++counts.odd_labels;
  }
  return counts;
}

}  // namespace kernelcast::cli
