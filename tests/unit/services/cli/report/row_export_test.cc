#include "services/cli/report/row_export.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "services/cli/core/row_outcomes.h"
#include "services/cli/report/analysis.h"
#include "tests/unit/services/cli/report/sample_report.h"

namespace kernelcast::cli {
namespace {

// A whole search as records of one problem.
std::vector<RecordToExport> SampleRecords() {
  std::vector<RecordToExport> records;
  for (ReportCandidate& candidate : SampleReport(120).candidates) {
    const std::string n = std::to_string(records.size());
    candidate.request_id = "r" + n;
    candidate.sequence = records.size();
    if (candidate.candidate.source.empty()) candidate.candidate.source = "// " + n;
    records.push_back({std::move(candidate), "softmax", "s1"});
  }
  return records;
}

SourceBook Book(const std::vector<RecordToExport>& records) {
  SourceBook book;
  for (const RecordToExport& record : records) {
    const Candidate& candidate = record.candidate.candidate;
    book.references[ReferenceKey(candidate.problem_id, candidate.target)] = "// reference";
  }
  return book;
}

RecordToExport Measured(const std::string& id, double speedup, const std::string& parent = "") {
  ReportCandidate candidate = MeasuredCandidate(id, speedup);
  candidate.request_id = "r-" + id;
  candidate.candidate.candidate_id = id;
  candidate.candidate.source = "source of " + id;
  candidate.candidate.parent_candidate_id = parent;
  candidate.measurement->device.model = "NVIDIA H200";
  std::get<MeasuredOk>(candidate.measurement->outcome).speedup = {speedup, speedup * 0.99,
                                                                  speedup * 1.01, 0.95};
  return {std::move(candidate), "softmax", "s1"};
}

TEST_CASE("Exported rows score like their records") {
  const std::vector<RecordToExport> records = SampleRecords();
  std::vector<ReportCandidate> candidates;
  for (const RecordToExport& record : records) candidates.push_back(record.candidate);
  uint64_t skipped = 0;
  std::vector<ForecastOutcome> direct;
  for (ForecastOutcome& outcome : ForecastOutcomes(candidates, &skipped)) {
    if (!outcome.failed) direct.push_back(std::move(outcome));
  }
  REQUIRE(direct.size() > 20);

  for (const BinScheme* scheme : BinScheme::All()) {
    const RowExport truths = ExportEvaluationRows(records, Book(records), *scheme);
    CHECK(truths.without_source == 0);
    std::vector<EvaluationRow> rows;
    for (const RowJson& json : truths.rows) rows.push_back(*EvaluationRowFromJson(json));
    std::vector<PredictionRow> predictions;
    for (const RowJson& json : ExportPredictionRows(records).rows) {
      predictions.push_back(*PredictionRowFromJson(json));
    }
    const auto joined = JoinPredictions(rows, predictions);
    REQUIRE(joined.ok());
    CHECK(joined->odd_labels == 0);
    std::vector<ForecastOutcome> through_rows;
    for (const NamedOutcome& named : joined->outcomes) through_rows.push_back(named.outcome);
    CHECK(through_rows.size() == direct.size());
    const ForecastEvaluation a = *EvaluateForecasts(direct);
    const ForecastEvaluation b = *EvaluateForecasts(through_rows);
    CHECK(a.accuracy.value == Approx(b.accuracy.value).epsilon(1e-9));
    CHECK(a.expected_calibration_error.value ==
          Approx(b.expected_calibration_error.value).epsilon(1e-9));
    CHECK(a.negative_log_likelihood.value == Approx(b.negative_log_likelihood.value).epsilon(1e-9));
    CHECK(a.spearman.value == Approx(b.spearman.value).epsilon(1e-9));
    CHECK(a.regret.value == Approx(b.regret.value).epsilon(1e-9));
  }
}

TEST_CASE("A row without source is omitted and counted unless the book has it") {
  std::vector<RecordToExport> records = {Measured("k_1", 2), Measured("k_2", 0.5)};
  records[0].candidate.candidate.source.clear();
  SourceBook book = Book(records);
  const BinScheme& scheme = BinScheme::Default();
  CHECK(ExportEvaluationRows(records, book, scheme).rows.size() == 1);
  CHECK(ExportEvaluationRows(records, book, scheme).without_source == 1);
  book.candidates["k_1"] = "from the template";
  const RowExport complete = ExportEvaluationRows(records, book, scheme);
  REQUIRE(complete.rows.size() == 2);
  CHECK(complete.rows[0]["candidate_code"] == "from the template");
  CHECK(complete.rows[0]["anchor_code"] == "// reference");
  CHECK(complete.rows[0]["true_bin"] == 6);
  book.references.clear();
  CHECK(ExportEvaluationRows(records, book, scheme).without_source == 2);
}

TEST_CASE("Edits become parent-child pairs with the ratio of their speedups") {
  const std::vector<RecordToExport> records = {Measured("k_1", 2), Measured("k_2", 3, "k_1"),
                                               Measured("k_3", 1, "k_unknown")};
  const RowExport pairs = ExportDiscoveryPairs(records, {}, BinScheme::Default());
  REQUIRE(pairs.rows.size() == 1);
  const DiscoveryPair pair = *DiscoveryPairFromJson(pairs.rows[0]);
  CHECK(pair.g_speedup == Approx(1.5));
  CHECK(pair.true_bin == 6);
  CHECK(pair.parent_code == "source of k_1");
  CHECK(pair.child_node_id == "k_2");
  CHECK(pair.hardware == "NVIDIA H200");
}

TEST_CASE("Training rows state their baseline, label noise and origin") {
  const std::vector<RecordToExport> records = {Measured("k_1", 2), Measured("k_2", 2.8, "k_1")};
  TrainingOptions options;
  options.details = true;
  options.prompt_version = "speedup-bins/2@01234567";
  const TrainingRows made = MakeTrainingRows(records, Book(records), options);
  REQUIRE(made.rows.size() == 3);
  std::map<PairType, TrainingRow> by_type;
  for (const TrainingRow& row : made.rows) by_type[row.pair_type] = row;
  const TrainingRow& edit = by_type[PairType::kParentEdit];
  CHECK(edit.aggregated_speedup == Approx(1.4));
  CHECK(edit.relative_bin == 5);
  REQUIRE(edit.details.has_value());
  CHECK(edit.details->speedup_low == Approx(2.8 * 0.99 / (2 * 1.01)));
  CHECK(edit.details->speedup_high == Approx(2.8 * 1.01 / (2 * 0.99)));
  // The label could also be the next bin.
  CHECK(edit.details->low_bin == 5);
  CHECK(edit.details->high_bin == 6);
  CHECK(edit.details->provenance["anchor"]["candidate_id"] == "k_1");
  CHECK(edit.details->provenance["candidate"]["device"] == "NVIDIA H200");
  CHECK(edit.details->bin_scheme_id == "sqrt2/1");

  options.pairs = 100;
  const TrainingRows all = MakeTrainingRows(records, Book(records), options);
  // Both orders of the single pair and nothing else.
  CHECK(all.rows.size() == 5);
}

TEST_CASE("A candidate's final measurement is its label") {
  RecordToExport screened = Measured("k_1", 2);
  RecordToExport confirmed = Measured("k_1", 2.2);
  confirmed.candidate.measurement->level = MeasureLevel::kFinal;
  confirmed.candidate.request_id = "r-final";
  for (const auto& records : {std::vector<RecordToExport>{screened, confirmed},
                              std::vector<RecordToExport>{confirmed, screened}}) {
    const TrainingRows made = MakeTrainingRows(records, Book(records), {});
    REQUIRE(made.rows.size() == 1);
    CHECK(made.rows[0].aggregated_speedup == Approx(2.2));
  }
}

TEST_CASE("A balanced pool has equal bin counts and alternating packs, reproducibly") {
  std::vector<TrainingRow> rows;
  const auto add = [&](int bin, const std::string& pack, int count) {
    for (int i = 0; i < count; ++i) {
      TrainingRow& row = rows.emplace_back();
      row.row_id = pack + std::to_string(bin) + "-" + std::to_string(i);
      row.pack = pack;
      row.relative_bin = bin;
    }
  };
  add(1, "large", 40);
  add(1, "small", 3);
  add(4, "large", 8);
  add(8, "small", 6);
  const auto count = [](const std::vector<TrainingRow>& chosen) {
    std::map<std::pair<int, std::string>, int> counts;
    for (const TrainingRow& row : chosen) ++counts[{row.relative_bin, row.pack}];
    return counts;
  };
  const std::vector<TrainingRow> chosen = BalanceRows(rows, 0, 7);
  auto counts = count(chosen);
  CHECK(chosen.size() == 18);
  CHECK(counts[{1, "large"}] == 3);
  CHECK(counts[{1, "small"}] == 3);
  CHECK(counts[{4, "large"}] == 6);
  CHECK(counts[{8, "small"}] == 6);
  counts = count(BalanceRows(rows, 20, 7));
  CHECK(counts[{1, "large"}] == 17);
  CHECK(counts[{1, "small"}] == 3);
  CHECK(counts[{4, "large"}] == 8);

  const auto ids = [](const std::vector<TrainingRow>& of) {
    std::vector<std::string> result;
    for (const TrainingRow& row : of) result.push_back(row.row_id);
    return result;
  };
  std::vector<TrainingRow> reversed(rows.rbegin(), rows.rend());
  CHECK(ids(BalanceRows(reversed, 0, 7)) == ids(chosen));
  CHECK(ids(BalanceRows(rows, 0, 8)) != ids(chosen));
  const std::vector<std::string> chosen_ids = ids(chosen);
  CHECK(std::set<std::string>(chosen_ids.begin(), chosen_ids.end()).size() == chosen.size());
  CHECK(BalanceRows({}, 0, 1).empty());
}

}  // namespace
}  // namespace kernelcast::cli
