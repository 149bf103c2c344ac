#include "services/cli/report/history.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/convert/convert.h"
#include "services/cli/report/comparison.h"
#include "tests/unit/services/cli/report/sample_report.h"

namespace kernelcast::cli::history_test {
namespace {

using Catch::Matchers::Contains;

constexpr char kHostile[] = "\"'></small><script>alert(1)</script>";

HistoryRow Row(HistoryKind kind, const std::string& id, int64_t started_s) {
  HistoryRow row;
  row.kind = kind;
  row.id = id;
  row.name = "softmax";
  row.state = "done";
  row.started_ns = started_s * 1'000'000'000;
  return row;
}

SuiteRow Judged(const std::string& task, const std::string& name, double speedup) {
  SuiteRow row;
  row.task = task;
  row.name = name;
  row.content = name;
  row.target = "cuda";
  row.device_model = "NVIDIA H200";
  row.judged = MeasuredCandidate("k_" + name, speedup);
  std::get<MeasuredOk>(row.judged->measurement->outcome).speedup = {
      .value = speedup, .low = speedup / 1.02, .high = speedup * 1.02, .confidence = 0.95};
  row.judged->accepted_ns = 7;
  return row;
}

TEST_CASE("A search's row has its best, confirmed where that is known", "[unit]") {
  v1::Search search;
  search.set_search_id("s-1");
  search.set_problem_name("row_softmax");
  search.mutable_spec()->set_target("cuda");
  search.set_device_model("NVIDIA H200");
  search.set_status(v1::SEARCH_STATUS_DONE);
  search.set_end_reason("the space is exhausted");
  search.mutable_counts()->set_considered(40);
  search.mutable_counts()->set_measured(12);
  CHECK_FALSE(HistoryRowOf(search).best.has_value());
  const auto set_best = [](v1::Incumbent* best, double value) {
    *best->mutable_measurement()->mutable_ok()->mutable_speedup() =
        ToProto(Ratio{.value = value, .low = value - 0.1, .high = value + 0.1, .confidence = 0.95});
  };
  set_best(search.mutable_incumbent(), 3);
  CHECK(HistoryRowOf(search).best->value == 3);
  set_best(search.mutable_confirmed_best(), 2);
  const HistoryRow row = HistoryRowOf(search);
  CHECK(row.best->value == 2);
  CHECK(row.candidates == 40);
  CHECK(row.measured == 12);
  CHECK(row.state == "done");
  search.clear_confirmed_best();
  search.add_finalists()->set_gate(v1::Finalist::GATE_FAILED);
  CHECK_FALSE(HistoryRowOf(search).best.has_value());
}

TEST_CASE("A suite is done once all candidates of its last run have a verdict", "[unit]") {
  SuiteInput suite;
  suite.title = "tasks";
  suite.tasks = {{"a", "", "", 0, "", {{"x", "x"}, {"y", "y"}}},
                 {"b", "", "", 0, "", {{"z", "z"}}}};
  suite.rows = {Judged("a", "x", 2), Judged("b", "z", 8)};
  HistoryRow row = HistoryRowOf(suite);
  CHECK(row.state == "incomplete");
  CHECK(row.reason == "1 not judged");
  CHECK(row.candidates == 3);
  CHECK(row.measured == 2);
  CHECK(row.best->value == 8);
  CHECK(row.mean.tasks == 2);
  CHECK(row.mean.value == Approx(4));
  CHECK(row.target == "cuda");
  CHECK(row.device_model == "NVIDIA H200");
  CHECK(row.started_ns == 7);
  suite.rows.push_back(Judged("a", "y", 1));
  CHECK(HistoryRowOf(suite).state == "done");
}

TEST_CASE("The history shows the newest first, and links to reports by encoded ids", "[unit]") {
  const std::string page =
      HistoryHtml({Row(HistoryKind::kSearch, "old", 1), Row(HistoryKind::kSuite, "a b&c", 3),
                   Row(HistoryKind::kSearch, "s@NVIDIA H200", 2)},
                  {"a notice"}, "http://127.0.0.1:1/");
  CHECK(page.find("suite?id=a%20b%26c") < page.find("search?id=s%40NVIDIA%20H200"));
  CHECK(page.find("search?id=s%40NVIDIA%20H200") < page.find("search?id=old"));
  CHECK_THAT(page, Contains("a notice") && Contains("href=\"http://127.0.0.1:1/\""));
  CHECK_THAT(HistoryHtml({}, {}, ""), Contains("No search and no suite yet."));
}

TEST_CASE("Hostile names are text on the pages of the history", "[unit]") {
  HistoryRow row = Row(HistoryKind::kSearch, kHostile, 1);
  row.name = row.note = row.target = row.device_model = row.state = row.reason = kHostile;
  ComparedSide side;
  side.title = kHostile;
  side.named = true;
  side.rows = {Judged(kHostile, kHostile, 2)};
  const RunComparison comparison = CompareRuns(side, side);
  REQUIRE(comparison.pairs.size() == 1);
  for (const std::string& page :
       {HistoryHtml({row}, {kHostile}, kHostile), HistoryFailureHtml(kHostile),
        ComparisonHtml(side, side, comparison, HistoryCompareLink(kHostile, kHostile))}) {
    CHECK_THAT(page, !Contains("<script>alert") && !Contains("\"'>"));
    CHECK_THAT(page, Contains("&lt;script&gt;alert(1)"));
  }
}

TEST_CASE("A comparison's page says what changed, and what stayed the same", "[unit]") {
  ComparedSide before;
  before.title = "suite one";
  before.named = true;
  before.rows = {Judged("t", "slower", 2), Judged("t", "same", 1)};
  ComparedSide after = before;
  after.title = "suite two";
  after.rows[0] = Judged("t", "slower", 1);
  const std::string page = ComparisonHtml(before, after, CompareRuns(before, after), "");
  const size_t changed = page.find("What changed");
  const size_t same = page.find("What stayed the same");
  REQUIRE(changed < same);
  CHECK_THAT(page.substr(changed, same - changed), Contains("slower") && !Contains(">same<"));
  CHECK_THAT(page.substr(same), Contains(">same<"));
  CHECK_THAT(page, Contains("Something is slower beyond noise") && Contains("suite two"));
  CHECK_THAT(ComparisonHtml(before, before, CompareRuns(before, before), ""),
             Contains("Nothing changed beyond noise"));
}

}  // namespace
}  // namespace kernelcast::cli::history_test
