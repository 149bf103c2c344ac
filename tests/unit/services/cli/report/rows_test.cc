#include "services/cli/report/rows.h"

#include <catch2/catch.hpp>

#include "common/convert/convert.h"
#include "services/cli/report/analysis.h"
#include "services/cli/report/gate_text.h"
#include "tests/unit/services/cli/report/sample_report.h"

namespace kernelcast::cli {
namespace {

ReportCandidate Final(const std::string& id, double speedup) {
  ReportCandidate candidate = MeasuredCandidate(id, speedup, DecisionReason::kRequested);
  candidate.measurement->level = MeasureLevel::kFinal;
  return candidate;
}

std::vector<size_t> Standing(const ReportInput& input) {
  std::vector<size_t> standing;
  for (const ReportRow& row : Analyze(input).rows) standing.push_back(row.standing);
  return standing;
}

TEST_CASE("Rows are ordered best first, then noise, failures, forecasts and rejections") {
  ReportCandidate failed = MeasuredCandidate("k_f", 1);
  failed.measurement->outcome = Timeout{};
  ReportCandidate rejected = PrunedCandidate("k_r");
  rejected.rejection = "over the budget";
  ReportCandidate hopeful = PrunedCandidate("k_h");
  hopeful.forecast->expected_log2_speedup = 3;
  ReportInput input;
  input.candidates = {rejected, PrunedCandidate("k_p"),      hopeful,
                      failed,   MeasuredCandidate("k_1", 1), MeasuredCandidate("k_2", 2)};
  CHECK(Standing(input) == std::vector<size_t>{5, 4, 3, 2, 1, 0});
}

TEST_CASE("A candidate has one row for all its decisions") {
  ReportInput input;
  ReportCandidate duplicate = MeasuredCandidate("k_1", 2);
  duplicate.reused = true;
  input.candidates = {PrunedCandidate("k_1"), MeasuredCandidate("k_1", 2), duplicate,
                      Final("k_1", 1.9)};
  const ReportAnalysis analysis = Analyze(input);
  REQUIRE(analysis.rows.size() == 1);
  const ReportRow& row = analysis.rows[0];
  CHECK(row.standing == 1);
  CHECK(row.others == std::vector<size_t>{0, 2});
  CHECK(row.confirmations == std::vector<size_t>{3});
  CHECK(row.screening->value == Approx(2));
  CHECK(row.final->value == Approx(1.9));
}

TEST_CASE("A final value takes precedence over any screening value") {
  ReportInput input;
  input.candidates = {MeasuredCandidate("k_1", 12.9), MeasuredCandidate("k_2", 11),
                      MeasuredCandidate("k_3", 12), Final("k_1", 10.6), Final("k_2", 10.9)};
  const ReportAnalysis analysis = Analyze(input);
  CHECK(Standing(input) == std::vector<size_t>{1, 0, 2});
  CHECK(analysis.shown_best->candidate.candidate_id == "k_2");
  CHECK(analysis.best_speedup.value == Approx(10.9));
  REQUIRE(analysis.best_screening.has_value());
  CHECK(analysis.best_screening->value == Approx(11));
}

v1::Finalist& AddFinalist(v1::Search& search, const std::string& id, const Ratio& speedup,
                          const Ratio& screening) {
  v1::Finalist& finalist = *search.add_finalists();
  finalist.set_candidate_id(id);
  *finalist.mutable_speedup() = ToProto(speedup);
  finalist.set_measurements(3);
  *finalist.mutable_screening() = ToProto(screening);
  return finalist;
}

TEST_CASE("The first row is the candidate that the search names, with the finalists' values") {
  ReportInput input;
  input.candidates = {MeasuredCandidate("k_1", 12.9), MeasuredCandidate("k_2", 11)};
  v1::Search& search = input.search.emplace();
  input.confirmed = ReportBest{input.candidates[1].candidate, *Final("k_2", 10.7).measurement, ""};
  AddFinalist(search, "k_2", {10.8, 10.7, 10.9, 0.95}, {11, 10.9, 11.1, 0.95});
  AddFinalist(search, "k_1", {10.81, 10.6, 11, 0.95}, {12.9, 12.8, 13, 0.95});
  const ReportAnalysis analysis = Analyze(input);
  CHECK(Standing(input) == std::vector<size_t>{1, 0});
  CHECK(analysis.best_speedup.value == Approx(10.8));
  CHECK(analysis.rows[1].final->value == Approx(10.81));
  // A candidate that failed its final measurement has no final value.
  search.mutable_finalists(1)->set_failed(true);
  CHECK_FALSE(Analyze(input).rows[1].final.has_value());
}

TEST_CASE("A finalist that does not carry over is not the best") {
  ReportInput input;
  input.candidates = {MeasuredCandidate("k_1", 12.9), MeasuredCandidate("k_2", 11)};
  v1::Search& search = input.search.emplace();
  v1::Finalist& first = AddFinalist(search, "k_2", {10.8, 10.7, 10.9, 0.95}, {});
  first.set_gate(v1::Finalist::GATE_CARRIES_OVER);
  *first.mutable_held_out_speedup() = ToProto(Ratio{10, 9.9, 10.1, 0.95});
  v1::Finalist& second = AddFinalist(search, "k_1", {12.8, 12.7, 12.9, 0.95}, {});
  second.set_gate(v1::Finalist::GATE_DOES_NOT_CARRY_OVER);
  *second.mutable_held_out_speedup() = ToProto(Ratio{0.5, 0.49, 0.51, 0.95});
  v1::Finalist& third = AddFinalist(search, "k_3", {10, 9.9, 10.1, 0.95}, {});
  third.set_gate(v1::Finalist::GATE_FAILED);
  third.set_held_out_outcome("wrong_result");
  input.confirmed = ReportBest{input.candidates[1].candidate, *Final("k_2", 10.7).measurement, ""};
  search.mutable_confirmed_best();
  CHECK(Analyze(input).shown_best->candidate.candidate_id == "k_2");
  CHECK(GateLines(search) ==
        std::vector<std::string>{
            "k_2 carries over: 10.8x [10.7, 10.9] at the bench shapes, 10.0x [9.90, 10.1] at the "
            "held-out ones",
            "k_1 does not carry over: 12.8x [12.7, 12.9] at the bench shapes, 0.500x [0.490, "
            "0.510] at the held-out ones",
            "k_3 fails at the held-out bench shapes: wrong_result"});
  CHECK_FALSE(NothingCarriesOver(search));

  input.confirmed.reset();
  search.clear_confirmed_best();
  first.set_gate(v1::Finalist::GATE_FAILED);
  CHECK(NothingCarriesOver(search));
  const ReportAnalysis analysis = Analyze(input);
  CHECK_FALSE(analysis.shown_best);
  CHECK_FALSE(analysis.faster);
  // Without a gate the best by screening is shown.
  for (v1::Finalist& one : *search.mutable_finalists()) one.clear_gate();
  CHECK(Analyze(input).shown_best);
}

}  // namespace
}  // namespace kernelcast::cli
