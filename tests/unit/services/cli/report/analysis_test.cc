#include "services/cli/report/analysis.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/unit/services/cli/report/sample_report.h"

namespace kernelcast::cli {
namespace {

ReportInput Input(std::vector<ReportCandidate> candidates) {
  ReportInput input;
  input.problem_name = "p";
  input.candidates = std::move(candidates);
  return input;
}

TEST_CASE("Evaluations are counted by route and reason") {
  ReportCandidate failed = MeasuredCandidate("k_f", 1, DecisionReason::kAudit);
  failed.measurement->outcome = Timeout{1'000'000'000, "check"};
  ReportCandidate rejected = PrunedCandidate("k_r");
  rejected.compile_error = CompileError{CompileStage::kCompiler, "no"};
  rejected.decision->reason = DecisionReason::kCompileError;
  const ReportAnalysis analysis = Analyze(Input(
      {MeasuredCandidate("k_1", 2.0), MeasuredCandidate("k_2", 0.5, DecisionReason::kLowConfidence),
       failed, PrunedCandidate("k_3"), PrunedCandidate("k_4"), rejected}));
  const ReportCounts& counts = analysis.counts;
  CHECK(counts.considered == 6);
  CHECK(counts.decided() == 6);
  CHECK(counts.measured == 3);
  CHECK(counts.promoted == 1);
  CHECK(counts.deferred == 1);
  CHECK(counts.audited == 1);
  CHECK(counts.pruned == 2);
  CHECK(counts.rejected == 1);
  CHECK(counts.failures == 2);
  CHECK(counts.faster == 1);
  CHECK(counts.DeferRate() == Approx(1.0 / 6));
  CHECK(counts.device_seconds_spent == Approx(3 * 0.62));
  CHECK(counts.device_seconds_avoided == Approx(2 * 0.62));
  CHECK(analysis.rows.front().standing == 0);
  CHECK(analysis.faster);
  CHECK_FALSE(analysis.confirmed);
}

TEST_CASE("A forecast is never the best") {
  ReportCandidate promising = PrunedCandidate("k_1");
  promising.forecast->expected_log2_speedup = 5;
  const ReportAnalysis analysis = Analyze(Input({promising}));
  CHECK_FALSE(analysis.shown_best.has_value());
  CHECK_FALSE(analysis.faster);
}

TEST_CASE("A candidate pruned and later measured counts as measured") {
  const ReportAnalysis analysis =
      Analyze(Input({PrunedCandidate("k_1"), PrunedCandidate("k_2"), MeasuredCandidate("k_1", 2)}));
  CHECK(analysis.superseded == std::vector<bool>{true, false, false});
  CHECK(analysis.counts.considered == 2);
  CHECK(analysis.counts.decided() == 2);
  CHECK(analysis.counts.pruned == 1);
  CHECK(analysis.counts.measured == 1);
}

TEST_CASE("A rejection after a measurement does not remove it") {
  ReportCandidate duplicate = PrunedCandidate("k_1");
  duplicate.rejection = "duplicate of r_1";
  const ReportAnalysis analysis = Analyze(Input({MeasuredCandidate("k_1", 2), duplicate}));
  CHECK(analysis.counts.considered == 1);
  CHECK(analysis.counts.measured == 1);
  CHECK(analysis.counts.rejected == 0);
}

TEST_CASE("A confirmation is shown as the best and counted nowhere else") {
  ReportCandidate confirmation = MeasuredCandidate("k_1", 1.9, DecisionReason::kRequested);
  confirmation.measurement->level = MeasureLevel::kFinal;
  const ReportAnalysis analysis =
      Analyze(Input({MeasuredCandidate("k_1", 2), MeasuredCandidate("k_2", 1.5), confirmation}));
  CHECK(analysis.is_confirmation == std::vector<bool>{false, false, true});
  CHECK(analysis.counts.considered == 2);
  CHECK(analysis.counts.measured == 2);
  CHECK(analysis.counts.device_seconds_confirming == Approx(0.62));
  REQUIRE(analysis.shown_best.has_value());
  CHECK(analysis.confirmed);
  CHECK(MeasuredSpeedup(analysis.shown_best->measurement)->value == Approx(1.9));
}

TEST_CASE("A best kernel whose interval reaches one is not called faster") {
  const ReportAnalysis analysis = Analyze(Input({MeasuredCandidate("k_1", 1.005)}));
  REQUIRE(analysis.shown_best.has_value());
  CHECK_FALSE(analysis.faster);
}

TEST_CASE("Reliability weights an audit by its inverse propensity") {
  ReportCandidate audit = MeasuredCandidate("k_1", 0.4, DecisionReason::kAudit);
  audit.decision->audit_propensity = 0.1;
  // Certain of bin 5, (1, sqrt 2]: wrong for the audit, right for the other.
  for (double& p : audit.forecast->bin_probabilities) p = 0;
  audit.forecast->bin_probabilities[4] = 1;
  ReportCandidate other = MeasuredCandidate("k_2", 1.2);
  other.forecast->bin_probabilities = audit.forecast->bin_probabilities;
  const ReportAnalysis analysis = Analyze(Input({audit, other}));
  const ReliabilityPoint& last = analysis.reliability.back();
  CHECK(last.items == 2);
  CHECK(last.audits == 1);
  CHECK(last.weight == Approx(11));
  CHECK(last.accuracy == Approx(1.0 / 11));
  CHECK(analysis.reliability_error.value == Approx(10.0 / 11));
  // Resamples have the audit alone, or the other alone.
  CHECK(analysis.reliability_error.low == Approx(0).margin(1e-9));
  CHECK(analysis.reliability_error.high == Approx(1));
}

TEST_CASE("Many correct forecasts and one wrong audit have a wide interval of calibration error") {
  std::vector<ReportCandidate> candidates;
  for (int i = 0; i < 60; ++i) {
    const bool audit = i == 0;
    ReportCandidate& one = candidates.emplace_back(
        MeasuredCandidate("k_" + std::to_string(i), audit ? 0.4 : 1.2,
                          audit ? DecisionReason::kAudit : DecisionReason::kPromising));
    if (audit) one.decision->audit_propensity = 0.02;
    for (double& p : one.forecast->bin_probabilities) p = 0;
    one.forecast->bin_probabilities[4] = 1;
  }
  const Interval error = Analyze(Input(candidates)).reliability_error;
  CHECK(error.value == Approx(50.0 / 109));
  CHECK(error.low < 0.05);
  CHECK(error.high > 0.6);
}

TEST_CASE("Pruned candidates are counted by the reason") {
  const auto pruned = [](const char* id, DecisionReason reason) {
    ReportCandidate candidate = MeasuredCandidate(id, 1.0, reason);
    candidate.measurement.reset();
    candidate.decision->kind = DecisionKind::kPrune;
    return candidate;
  };
  const ReportAnalysis analysis = Analyze(Input(
      {pruned("k_1", DecisionReason::kUnpromising), pruned("k_2", DecisionReason::kBudgetPace),
       pruned("k_3", DecisionReason::kBudgetPace), MeasuredCandidate("k_4", 1.2)}));
  CHECK(analysis.counts.pruned == 3);
  CHECK_THAT(PrunedWhyText(analysis.counts),
             Catch::Contains("1 unpromising") && Catch::Contains("2 budget pace"));
}

TEST_CASE("A forecast against another baseline is compared with the ratio to that baseline") {
  ReportCandidate first = MeasuredCandidate("k_1", 4);
  ReportCandidate second = MeasuredCandidate("k_2", 6);
  second.forecast->baseline_candidate_id = "k_1";
  ReportCandidate third = MeasuredCandidate("k_3", 6);
  third.forecast->baseline_candidate_id = "k_unknown";
  uint64_t skipped = 0;
  const auto outcomes = ForecastOutcomes({first, second, third}, &skipped);
  REQUIRE(outcomes.size() == 2);
  CHECK(*outcomes[0].speedup == Approx(4));
  CHECK(*outcomes[1].speedup == Approx(1.5));
  CHECK(skipped == 1);
}

TEST_CASE("A noisy machine is neither a candidate failure nor a label") {
  ReportCandidate unstable = MeasuredCandidate("k_1", 1);
  unstable.measurement->outcome = EnvironmentUnstable{"noise", 3, 4, {}};
  CHECK(FateOf(unstable) == Fate::kUnstable);
  CHECK(ForecastOutcomes({unstable}, nullptr).empty());
  CHECK(Analyze(Input({unstable})).counts.failures == 0);
}

TEST_CASE("Origins are ordered by best result and failures by frequency") {
  ReportCandidate slow = MeasuredCandidate("k_2", 0.5);
  slow.candidate.origin = "template:slow";
  ReportCandidate crash = MeasuredCandidate("k_3", 1);
  crash.candidate.origin = "template:slow";
  Crash segmentation;
  segmentation.signal = 11;
  crash.measurement->outcome = segmentation;
  const ReportAnalysis analysis = Analyze(Input({slow, crash, MeasuredCandidate("k_1", 2)}));
  REQUIRE(analysis.origins.size() == 2);
  CHECK(analysis.origins[0].origin == "three_pass");
  CHECK(analysis.origins[1].origin == "slow");
  CHECK(analysis.origins[1].failures == 1);
  REQUIRE(analysis.failures.size() == 1);
  CHECK(analysis.failures[0].phrase == "crash: SIGSEGV");
}

TEST_CASE("Tunables are shown without the template but with the actual flags") {
  Candidate candidate;
  candidate.tunables = {{"TEMPLATE", "x"}, {"LANES", "8"}, {"FLAGS", "1"}};
  candidate.flags = {"-ffast-math"};
  CHECK(TunablesOf(candidate) == "LANES=8 -ffast-math");
}

TEST_CASE("An empty set of records gives no NaN figures") {
  const ReportAnalysis analysis = Analyze(Input({}));
  CHECK(analysis.counts.DeferRate() == 0);
  CHECK(analysis.counts.device_seconds_avoided == 0);
  CHECK(std::isnan(analysis.reliability_error.value));
}

TEST_CASE("The possible loss from pruning is shown with its interval and certificate") {
  v1::SelectiveRisk risk;
  risk.set_estimate(0.02);
  risk.set_low(0.004);
  risk.set_high(0.11);
  risk.set_candidates(180);
  risk.set_measured(12);
  risk.set_alpha(0.05);
  risk.set_delta(0.05);
  CHECK(RiskText(risk) ==
        "Of 180 candidates that were pruned as unpromising or as a likely failure, or audited "
        "instead, 2% [0.4%, 11%] would have won, by the 12 audits.");
  // Only policies that prune by certificates have any.
  risk.set_certifies(true);
  CHECK_THAT(RiskText(risk), Catch::Contains("Nothing is certified: the forecasts have not been "
                                             "shown to distinguish faster from slower."));
  risk.set_certified_threshold(0.1);
  risk.set_informative(true);
  risk.set_alarms(1);
  CHECK_THAT(RiskText(risk),
             Catch::Contains("Certified with confidence 95%: at most 5% of those with a win "
                             "probability below 10% are winners. A certificate was revoked 1 "
                             "time."));
  risk.set_measured(0);
  CHECK_THAT(RiskText(risk), Catch::Contains("none was audited"));
}

TEST_CASE("Device time is split by purpose and pruning avoids only measuring") {
  ReportCandidate first = MeasuredCandidate("k_1", 2);
  first.measurement->preparation_time_ns = 400'000'000;
  const ReportAnalysis analysis =
      Analyze(Input({first, MeasuredCandidate("k_2", 1.5), PrunedCandidate("k_3")}));
  CHECK(analysis.counts.device_seconds_spent == Approx(1.24));
  CHECK(analysis.counts.device_seconds_preparing == Approx(0.4));
  // The mean of the two without preparation, minus the expected cost of failures.
  CHECK(analysis.counts.device_seconds_avoided < 0.42);
  CHECK(analysis.counts.device_seconds_avoided > 0.41);
  CHECK(DeviceTimeText(analysis.counts) ==
        "1.2 s of device time: 0.8 s measuring, 0.4 s preparing, 0.0 s confirming; 0.4 s avoided "
        "by pruning");
}

TEST_CASE("A candidate's name is shown for every origin") {
  Candidate candidate;
  candidate.origin = "by hand";
  CHECK(NameOf(candidate) == "by hand");
  candidate.name = "two_pass";
  CHECK(NameOf(candidate) == "two_pass");
}

}  // namespace
}  // namespace kernelcast::cli
