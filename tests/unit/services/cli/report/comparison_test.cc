#include "services/cli/report/comparison.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/services/cli/report/sample_report.h"

namespace kernelcast::cli::comparison_test {
namespace {

using Catch::Matchers::Contains;

SuiteRow Compared(const std::string& task, const std::string& name, double speedup) {
  SuiteRow row;
  row.task = task;
  row.name = name;
  row.judged = MeasuredCandidate("k_" + name, speedup);
  row.judged->measurement->problem_id = "p_" + task;
  std::get<MeasuredOk>(row.judged->measurement->outcome).speedup = {
      .value = speedup, .low = speedup / 1.02, .high = speedup * 1.02, .confidence = 0.95};
  return row;
}

SuiteRow ComparedFailure(const std::string& task, const std::string& name, MeasureOutcome outcome) {
  SuiteRow row = Compared(task, name, 1);
  row.judged->measurement->outcome = std::move(outcome);
  return row;
}

ComparedSide Suite(std::vector<SuiteRow> rows) {
  ComparedSide side;
  side.title = "suite";
  side.named = true;
  side.rows = std::move(rows);
  CountRows(side);
  return side;
}

ChangeKind KindOf(const RunComparison& comparison, const std::string& name) {
  for (const ComparedPair& pair : comparison.pairs) {
    if (pair.name == name) return pair.kind;
  }
  FAIL("no pair " << name);
  return ChangeKind::kSame;
}

TEST_CASE("Suites are compared candidate by candidate", "[unit]") {
  const ComparedSide before =
      Suite({Compared("t", "faster", 1), Compared("t", "slower", 2), Compared("t", "same", 1),
             Compared("t", "breaks", 1), ComparedFailure("t", "fixed", WrongResult{}),
             ComparedFailure("t", "fails", WrongResult{}), Compared("t", "noisy", 1),
             ComparedFailure("t", "wrong", WrongResult{}), Compared("t", "gone", 1)});
  const ComparedSide after =
      Suite({Compared("t", "faster", 1.5), Compared("t", "slower", 1), Compared("t", "same", 1.01),
             ComparedFailure("t", "breaks", Crash{}), Compared("t", "fixed", 1),
             ComparedFailure("t", "fails", Timeout{}),
             ComparedFailure("t", "noisy", EnvironmentUnstable{}),
             ComparedFailure("t", "wrong", WrongResult{}), Compared("t", "new", 1)});
  const RunComparison comparison = CompareRuns(before, after);
  CHECK(comparison.by_candidate);
  CHECK(KindOf(comparison, "faster") == ChangeKind::kFaster);
  CHECK(KindOf(comparison, "slower") == ChangeKind::kSlower);
  CHECK(KindOf(comparison, "same") == ChangeKind::kSame);
  CHECK(KindOf(comparison, "breaks") == ChangeKind::kVerdictWorse);
  CHECK(KindOf(comparison, "fixed") == ChangeKind::kVerdictBetter);
  CHECK(KindOf(comparison, "fails") == ChangeKind::kVerdictChanged);
  CHECK(KindOf(comparison, "noisy") == ChangeKind::kNotCompared);
  CHECK(KindOf(comparison, "wrong") == ChangeKind::kSame);
  CHECK(comparison.only_before == 1);
  CHECK(comparison.only_after == 1);
  CHECK(comparison.worse);
  // The pairs that were timed on both sides: 1.5, 0.5 and 1.01.
  CHECK(comparison.mean.tasks == 3);
  CHECK(comparison.mean.value == Approx(std::cbrt(1.5 * 0.5 * 1.01)));

  const std::string text = ComparisonText(before, after, comparison, false, Style(false), 0);
  CHECK_THAT(text, Contains("now fails") && Contains("breaks") && Contains("1 only before"));
  CHECK_THAT(text, !Contains("1.01x"));
  CHECK_THAT(ComparisonText(before, after, comparison, true, Style(false), 0), Contains("1.01x"));
  const auto json = ComparisonJson(before, after, comparison);
  CHECK(json["counts"]["verdict_worse"] == 1);
  CHECK(json["by"] == "candidate");
  CHECK(json["worse"] == true);
}

TEST_CASE("Only what is slower or fails makes the second side worse", "[unit]") {
  const auto worse = [](SuiteRow before, SuiteRow after, double least_change = 0) {
    return CompareRuns(Suite({std::move(before)}), Suite({std::move(after)}), least_change).worse;
  };
  CHECK(worse(Compared("t", "k", 1.2), Compared("t", "k", 1)));
  CHECK_FALSE(worse(Compared("t", "k", 1.2), Compared("t", "k", 1), 0.25));
  CHECK(worse(Compared("t", "k", 1.2), ComparedFailure("t", "k", WrongResult{}), 0.25));
  CHECK_FALSE(worse(Compared("t", "k", 1), Compared("t", "k", 1.2)));
  CHECK_FALSE(worse(Compared("t", "k", 1), Compared("t", "k", 0.99)));
  CHECK_FALSE(worse(ComparedFailure("t", "k", Crash{}), ComparedFailure("t", "k", Timeout{})));
  CHECK_FALSE(worse(Compared("t", "k", 1), ComparedFailure("t", "k", EnvironmentUnstable{})));
}

TEST_CASE("Suites without a common candidate are compared by the fastest of each task", "[unit]") {
  const RunComparison comparison = CompareRuns(
      Suite({Compared("t", "a1", 1), Compared("t", "a2", 3), Compared("u", "a1", 1)}),
      Suite({Compared("t", "b1", 2), ComparedFailure("u", "b1", Crash{}),
             ComparedFailure("u", "b2", EnvironmentUnstable{}), Compared("v", "b1", 1)}));
  CHECK_FALSE(comparison.by_candidate);
  REQUIRE(comparison.pairs.size() == 2);
  CHECK(comparison.pairs[0].speedup_before.value == 3);
  CHECK(comparison.pairs[0].kind == ChangeKind::kSlower);
  CHECK(comparison.pairs[1].kind == ChangeKind::kVerdictWorse);
  CHECK(comparison.only_after == 1);
}

TEST_CASE("A search is compared by its best, on the same problem", "[unit]") {
  ComparedSide search;
  search.rows = {Compared("t", "k1", 9), Compared("t", "k2", 2)};
  search.best = {{"p_t", Compared("t", "k2", 2)}};
  CountRows(search);
  const RunComparison comparison = CompareRuns(Suite({Compared("level1/t", "x", 1)}), search);
  CHECK(comparison.pairs.empty());  // of another problem
  const RunComparison same = CompareRuns(Suite({Compared("t", "x", 1)}), search);
  REQUIRE(same.pairs.size() == 1);
  CHECK(same.pairs[0].speedup_after.value == 2);
  CHECK(search.measured == 2);
  CHECK(search.device_seconds > 0);
}

}  // namespace
}  // namespace kernelcast::cli::comparison_test
