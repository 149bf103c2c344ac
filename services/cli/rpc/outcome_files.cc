#include "services/cli/rpc/outcome_files.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/convert/finite_numbers.h"
#include "common/convert/proto_json.h"
#include "common/domain/measurement_check.h"
#include "services/cli/core/text.h"
#include "services/cli/report/analysis.h"
#include "services/cli/report/search_cost.h"
#include "services/cli/rpc/records.h"

namespace kernelcast::cli {
namespace {

struct RecordFiles {
  std::vector<ReportCandidate> candidates;
  std::vector<std::string> problems;  // of the candidates
  std::vector<std::string> searches;
  std::vector<std::string> sources;  // the files that they are from
  // Number of records left out, and the reason for the first one.
  uint64_t impossible = 0;
  std::string first_impossible;

  absl::Status Add(const std::string& file, const std::string& line) {
    v1::ExportRecord record;
    KC_RETURN_IF_ERROR(ProtoFromJson(line, &record));
    KC_ASSIGN_OR_RETURN(ReportCandidate candidate, ReportCandidateFromProto(record));
    absl::Status possible = CheckFiniteNumbers(record);
    if (possible.ok() && candidate.measurement.has_value()) {
      possible = ValidateMeasurement(*candidate.measurement);
    }
    if (!possible.ok()) {
      if (impossible++ == 0) first_impossible = std::string(possible.message());
      return absl::OkStatus();
    }
    problems.push_back(record.problem_name().empty() ? candidate.candidate.problem_id
                                                     : record.problem_name());
    searches.push_back(record.evaluation().search_id());
    sources.push_back(file);
    candidates.push_back(std::move(candidate));
    return absl::OkStatus();
  }

  void Outcomes(OutcomeFiles& files) const {
    const std::map<std::string, double> speedups = SpeedupsById(candidates);
    for (size_t i = 0; i < candidates.size(); ++i) {
      std::optional<ForecastOutcome> outcome =
          ForecastOutcomeOf(candidates[i], speedups, &files.unknown_baseline);
      if (!outcome.has_value()) continue;
      const std::string backend =
          absl::StrCat(outcome->forecast.backend, " ", outcome->forecast.backend_version);
      files.outcomes.push_back({*std::move(outcome), problems[i], backend, searches[i]});
    }
  }

  // Takes the candidates. Searches on several device models are one for each. A search that
  // measured nothing has no curve.
  std::vector<SearchCurve> TakeCurves() {
    std::map<std::tuple<std::string, std::string, std::string>, ReportInput> inputs;
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (searches[i].empty()) continue;
      inputs[{sources[i], problems[i], searches[i]}].candidates.push_back(std::move(candidates[i]));
    }
    candidates.clear();
    std::vector<SearchCurve> curves;
    for (const auto& [key, input] : inputs) {
      SearchCurve curve = CurveOf(input);
      if (curve.measured == 0) continue;
      curve.line = std::get<0>(key);
      const auto measured = std::ranges::find_if(input.candidates, [](const auto& candidate) {
        return candidate.measurement.has_value();
      });
      curve.problem = absl::StrCat(std::get<1>(key), "\n", measured->candidate.target, "\n",
                                   measured->measurement->device.model);
      curves.push_back(std::move(curve));
    }
    return curves;
  }
};

std::string Rows(uint64_t count, std::string_view what) {
  return absl::StrCat(FormatCount(count), " ", std::string(what), count == 1 ? "" : "s");
}

void AddNotes(const JoinedRows& joined, OutcomeFiles& result) {
  if (joined.without_truth > 0) {
    result.notes.push_back(absl::StrCat(Rows(joined.without_truth, "prediction"),
                                        " left out: no evaluation row has the comparison_id"));
  }
  if (joined.without_prediction > 0) {
    result.notes.push_back(
        absl::StrCat(Rows(joined.without_prediction, "comparison"), " without a prediction"));
  }
  if (joined.odd_labels > 0) {
    result.notes.push_back(absl::StrCat(Rows(joined.odd_labels, "evaluation row"),
                                        " with another true_bin than the bin scheme makes of the "
                                        "speedup; the row's own counts"));
  }
  if (joined.argmax_mismatches > 0) {
    result.notes.push_back(absl::StrCat(Rows(joined.argmax_mismatches, "prediction"),
                                        " with a predicted_bin that is not the most probable one; "
                                        "the predicted_bin counts"));
  }
}

}  // namespace

void AnswerUsage::Add(const PredictionRow& row) {
  ++rows;
  abstained += row.abstained ? 1 : 0;
  parse_failed += row.parse_failed ? 1 : 0;
  if (row.parse_failed && !row.parse_error.empty()) {
    const size_t colon = std::min(row.parse_error.find(": "), row.parse_error.size());
    const bool has_fault = colon < row.parse_error.size();
    CountUnreadable(has_fault ? row.parse_error.substr(0, colon) : "",
                    has_fault ? row.parse_error.substr(colon + 2) : row.parse_error, unreadable);
  }
  input_tokens += row.input_tokens.value_or(0);
  output_tokens += row.output_tokens.value_or(0);
  cost_dollars += row.cost_dollars.value_or(0);
  elapsed_s += row.elapsed_s.value_or(0);
}

absl::StatusOr<OutcomeFiles> ReadOutcomes(const std::vector<std::string>& files,
                                          std::optional<RowFormat> format,
                                          std::string_view bin_scheme_id) {
  OutcomeFiles result;
  RecordFiles records;
  std::vector<EvaluationRow> rows;
  std::vector<PredictionRow> predictions;
  for (const std::string& file : files) {
    std::optional<RowFormat> own = format;
    std::vector<LabelledRow> labels;
    std::vector<SearchEventRow> events;
    const auto add_comparison = [&](EvaluationRow row) {
      labels.push_back({row.aggregated_speedup, row.true_bin, row.bin_scheme_id});
      // Joining predictions needs no sources.
      row.anchor_code.clear();
      row.candidate_code.clear();
      rows.push_back(std::move(row));
    };
    const auto read_line = [&](const RowJson& json, const std::string& text) -> absl::Status {
      if (!own.has_value()) {
        KC_ASSIGN_OR_RETURN(own, DetectFormat(json));
      }
      switch (*own) {
        case RowFormat::kRecords: return records.Add(file, text);
        case RowFormat::kEvaluationRows: {
          KC_ASSIGN_OR_RETURN(EvaluationRow row, EvaluationRowFromJson(json));
          add_comparison(std::move(row));
          return absl::OkStatus();
        }
        case RowFormat::kPredictionRows: {
          KC_ASSIGN_OR_RETURN(PredictionRow row, PredictionRowFromJson(json));
          row.reasoning.clear();
          result.usage[row.surrogate_label].Add(row);
          predictions.push_back(std::move(row));
          return absl::OkStatus();
        }
        case RowFormat::kTrainingRows: {
          KC_ASSIGN_OR_RETURN(TrainingRow row, TrainingRowFromJson(json));
          add_comparison(AsComparison(std::move(row)));
          return absl::OkStatus();
        }
        case RowFormat::kDiscoveryPairs: {
          KC_ASSIGN_OR_RETURN(DiscoveryPair pair, DiscoveryPairFromJson(json));
          add_comparison(AsComparison(std::move(pair)));
          return absl::OkStatus();
        }
        case RowFormat::kSearchEvents: {
          KC_ASSIGN_OR_RETURN(SearchEventRow row, SearchEventFromJson(json));
          events.push_back(std::move(row));
          return absl::OkStatus();
        }
      }
      return absl::OkStatus();
    };
    KC_RETURN_IF_ERROR(ReadJsonLines(file, read_line));
    if (!own.has_value()) {
      result.notes.push_back(absl::StrCat(file, " holds no line"));
      continue;
    }
    if (!labels.empty()) {
      KC_ASSIGN_OR_RETURN(LabelCounts counts, CountLabels(labels));
      result.labels.push_back({file, *own, std::move(counts)});
    }
    if (!events.empty()) {
      KC_ASSIGN_OR_RETURN(
          std::vector<NamedOutcome> outcomes,
          WithPrefix(absl::StrCat(file, ": "), EventOutcomes(events, bin_scheme_id)));
      std::map<std::string, uint64_t> kinds;
      for (const SearchEventRow& event : events) ++kinds[event.event_kind];
      std::string note = absl::StrCat(file, ": ", Rows(events.size(), "event"));
      for (const auto& [kind, count] : kinds) {
        absl::StrAppend(&note, ", ", FormatCount(count), " ", kind);
      }
      if (outcomes.empty()) {
        note += "; no payload holds a forecast with bin_probabilities and what was measured";
      }
      result.notes.push_back(std::move(note));
      std::move(outcomes.begin(), outcomes.end(), std::back_inserter(result.outcomes));
    }
  }
  records.Outcomes(result);
  result.curves = records.TakeCurves();
  if (records.impossible > 0) {
    result.notes.push_back(absl::StrCat(Rows(records.impossible, "record"),
                                        " left out: the figures are impossible; of the first, ",
                                        records.first_impossible));
  }
  if (!predictions.empty()) {
    KC_ASSIGN_OR_RETURN(JoinedRows joined, JoinPredictions(rows, predictions, bin_scheme_id));
    AddNotes(joined, result);
    std::move(joined.outcomes.begin(), joined.outcomes.end(), std::back_inserter(result.outcomes));
  }
  return result;
}

}  // namespace kernelcast::cli
