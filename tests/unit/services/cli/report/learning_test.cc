#include "services/cli/report/learning.h"

#include <catch2/catch.hpp>
#include <string>

#include "common/domain/bins.h"
#include "tests/unit/services/cli/report/sample_report.h"

namespace kernelcast::cli {
namespace {

// A candidate measured at 1.2x, whose forecast names the bin of `forecast` after `labels` labels.
ReportCandidate Forecasted(double forecast, uint64_t labels) {
  ReportCandidate candidate = MeasuredCandidate("a", 1.2);
  candidate.forecast->predicted_bin = BinScheme::Default().Label(forecast).value();
  candidate.forecast->labels_seen = labels;
  return candidate;
}

TEST_CASE("Hit rates are counted before and after twenty labels", "[cli][report]") {
  ReportInput input;
  CHECK(LearningText(LearningOf(input)).empty());
  CHECK(LearningHtml(input).empty());
  input.candidates = {Forecasted(4.5, 0), Forecasted(0.9, 19), Forecasted(1.3, 20),
                      Forecasted(1.3, 40), Forecasted(1.5, 50)};
  const Learning learning = LearningOf(input);
  CHECK(learning.before.forecasts == 2);
  CHECK(learning.before.exact == 0);
  CHECK(learning.before.within_one == 1);
  CHECK(learning.after.forecasts == 3);
  CHECK(learning.after.exact == 2);
  CHECK(learning.after.within_one == 3);
  CHECK(LearningText(learning) ==
        "forecasts in the measured bin: 0% (50% within one bin) of 2 before 20 labels, 67% (100% "
        "within one bin) of 3 after them");
  CHECK_THAT(LearningHtml(input),
             Catch::Contains("<td>after 20 labels</td><td class=n>3</td><td class=n>67%</td>"));
}

TEST_CASE("Forecasts without a number of labels count by the measurements before",
          "[cli][report]") {
  ReportInput input;
  for (int i = 0; i < 25; ++i) {
    input.candidates.push_back(Forecasted(1.2, 0));
    input.candidates.back().forecast->labels_seen.reset();
  }
  CHECK(LearningOf(input).before.forecasts == 20);
  CHECK(LearningOf(input).after.forecasts == 5);
}

TEST_CASE("Forecasts are compared with their own baseline", "[cli][report]") {
  ReportInput input;
  input.candidates = {MeasuredCandidate("parent", 1.7), Forecasted(1, 0)};
  ReportCandidate& child = input.candidates[1];
  child.forecast->baseline_candidate_id = "parent";
  child.forecast->predicted_bin = BinScheme::Default().Label(1.2 / 1.7).value();
  CHECK(LearningOf(input).before.exact == 2);
  child.forecast->baseline_candidate_id = "unknown";
  CHECK(LearningOf(input).before.forecasts == 1);
}

TEST_CASE("Pruned, failed and reused candidates say nothing about hits", "[cli][report]") {
  ReportInput input;
  input.candidates = {PrunedCandidate("a"), Forecasted(1.2, 0), Forecasted(1.2, 0)};
  input.candidates[1].reused = true;
  input.candidates[2].measurement->outcome = Crash{};
  CHECK(LearningOf(input).before.forecasts == 0);
}

TEST_CASE("The page says that a search started with lessons", "[cli][report]") {
  ReportInput input;
  input.search.emplace();
  CHECK(LearningHtml(input).empty());
  for (int i = 0; i < 12; ++i) input.search->mutable_spec()->add_lessons();
  CHECK_THAT(LearningHtml(input),
             Catch::Contains("Started with 12 lessons from earlier searches."));
}

}  // namespace
}  // namespace kernelcast::cli
