#include "services/orchestrator/core/plan.h"

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "tests/unit/services/orchestrator/event_history.h"

namespace kernelcast::orchestrator {
namespace {

using testing::EventHistory;

// The action in words, with what distinguishes it.
std::string Text(const EvaluationAction& action) {
  struct Writer {
    std::string operator()(const ChooseDevice&) const { return "choose a device"; }
    std::string operator()(const CompileCandidate&) const { return "compile"; }
    std::string operator()(const DescribeReference&) const { return "describe the reference"; }
    std::string operator()(const ForecastCandidate& forecast) const {
      return "forecast on " + forecast.query.device_model;
    }
    std::string operator()(const DecideCandidate& decide) const {
      return "decide " + std::string(Name(decide.decision.kind)) + " " +
             std::string(Name(decide.decision.reason)) +
             (decide.rejection ? ": " + decide.rejection->detail : "");
    }
    std::string operator()(const MeasureCandidate& measure) const {
      return measure.level == MeasureLevel::kFinal ? "measure finally" : "measure";
    }
    std::string operator()(const SettlePruned&) const { return "settle as pruned"; }
    std::string operator()(const RejectCandidate& reject) const {
      return "reject " + std::string(Name(reject.reason)) + ": " + reject.rejection.detail +
             reject.rejection.compile_error.log;
    }
  };
  return std::visit(Writer(), action);
}

struct Case {
  const char* name;
  // What has happened. The evaluation in question is r1.
  std::function<void(EventHistory&, const std::string& problem)> events;
  const char* action;
};

void AcceptR1(EventHistory& history, const std::string& problem) {
  history.Accept("r1", problem, "// 1\n");
}

void CompileR1(EventHistory& history, const std::string& problem) {
  AcceptR1(history, problem);
  history.DescribeReference(problem);
  history.Compile("r1");
}

// An external search with a budget of one measurement, and r0, which takes it.
void SpendBudget(EventHistory& history, const std::string& problem, uint64_t max_candidates) {
  SearchSpec spec = history.Spec(problem, GeneratorKind::kExternal);
  spec.budget.max_measurements = 1;
  spec.budget.max_candidates = max_candidates;
  history.StartSearch(spec);
  history.DescribeReference(problem);
  history.Accept("r0", problem, "// 0\n", "s1", EvaluateMode::kMeasure);
  history.Compile("r0");
  history.Abstain("r0");
  history.Decide("r0", DecisionReason::kRequested);
}

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {"accepted", AcceptR1, "compile"},
      {"accepted before its device model is known",
       [](EventHistory& history, const std::string& problem) {
         Candidate candidate;
         candidate.problem_id = problem;
         candidate.target = "cpu";
         history.Add(EvaluationAccepted{"r1", "", EvaluateMode::kRoute, candidate, false, "", ""});
       },
       "choose a device"},
      {"its device model has been chosen",
       [](EventHistory& history, const std::string& problem) {
         Candidate candidate;
         candidate.problem_id = problem;
         candidate.target = "cpu";
         history.Add(EvaluationAccepted{"r1", "", EvaluateMode::kRoute, candidate, false, "", ""});
         history.Add(DeviceChosen{"", "r1", "another"});
       },
       "compile"},
      {"compiled before the reference",
       [](EventHistory& history, const std::string& problem) {
         AcceptR1(history, problem);
         history.Compile("r1");
       },
       "describe the reference"},
      {"compiled", CompileR1, "forecast on fake cpu"},
      {"does not compile",
       [](EventHistory& history, const std::string& problem) {
         AcceptR1(history, problem);
         history.FailToCompile("r1");
       },
       "reject compile_error: x.cc:1: error"},
      {"forecast of a winner",
       [](EventHistory& history, const std::string& problem) {
         CompileR1(history, problem);
         history.Forecast("r1", 4);
       },
       "decide measure bootstrap"},
      {"the forecaster is away",
       [](EventHistory& history, const std::string& problem) {
         CompileR1(history, problem);
         history.Abstain("r1");
       },
       "decide measure no_forecast"},
      {"only a forecast is wanted",
       [](EventHistory& history, const std::string& problem) {
         history.Accept("r1", problem, "// 1\n", "", EvaluateMode::kForecast);
         history.DescribeReference(problem);
         history.Compile("r1");
         history.Forecast("r1", 4);
       },
       "decide prune forecast_only"},
      {"only a forecast is wanted, and there is none",
       [](EventHistory& history, const std::string& problem) {
         history.Accept("r1", problem, "// 1\n", "", EvaluateMode::kForecast);
         history.DescribeReference(problem);
         history.Compile("r1");
         history.Abstain("r1");
       },
       "decide reject unavailable: no forecast was available"},
      {"a final measurement needs no forecast",
       [](EventHistory& history, const std::string& problem) {
         history.Accept("r1", problem, "// 1\n", "", EvaluateMode::kFinal);
         history.Compile("r1");
       },
       "decide measure requested"},
      {"decided to be measured",
       [](EventHistory& history, const std::string& problem) {
         CompileR1(history, problem);
         history.Forecast("r1", 4);
         history.Decide("r1", DecisionReason::kPromising);
       },
       "measure"},
      {"decided to be measured at the final level",
       [](EventHistory& history, const std::string& problem) {
         history.Accept("r1", problem, "// 1\n", "", EvaluateMode::kFinal);
         history.Compile("r1");
         history.Decide("r1", DecisionReason::kRequested);
       },
       "measure finally"},
      {"a crash between pruning and settlement",
       [](EventHistory& history, const std::string& problem) {
         CompileR1(history, problem);
         history.Forecast("r1", 0.1);
         history.Decide("r1", DecisionReason::kUnpromising);
       },
       "settle as pruned"},
      {"a crash between a compile error's decision and settlement",
       [](EventHistory& history, const std::string& problem) {
         AcceptR1(history, problem);
         history.FailToCompile("r1");
         history.Decide("r1", DecisionReason::kCompileError);
       },
       "reject compile_error: x.cc:1: error"},
      {"a crash between a rejection without a trace and its settlement",
       [](EventHistory& history, const std::string& problem) {
         AcceptR1(history, problem);
         history.Decide("r1", DecisionReason::kUnavailable);
       },
       "reject unavailable: the reason was lost in a crash"},
      {"the same candidate is live in the search",
       [](EventHistory& history, const std::string& problem) {
         history.StartSearch(history.Spec(problem, GeneratorKind::kExternal));
         history.Accept("r0", problem, "// 1\n", "s1");
         history.Accept("r1", problem, "// 1\n", "s1");
       },
       "reject duplicate: r0"},
      {"a crash between a duplicate's decision and settlement",
       [](EventHistory& history, const std::string& problem) {
         history.StartSearch(history.Spec(problem, GeneratorKind::kExternal));
         history.Accept("r0", problem, "// 1\n", "s1");
         history.Accept("r1", problem, "// 1\n", "s1");
         history.Decide("r1", DecisionReason::kDuplicate);
       },
       "reject duplicate: r0"},
      {"the same candidate is live, and a final measurement is wanted",
       [](EventHistory& history, const std::string& problem) {
         history.StartSearch(history.Spec(problem, GeneratorKind::kExternal));
         history.Accept("r0", problem, "// 1\n", "s1");
         history.Accept("r1", problem, "// 1\n", "s1", EvaluateMode::kFinal);
       },
       "compile"},
      {"the same candidate is live outside searches",
       [](EventHistory& history, const std::string& problem) {
         history.Accept("r0", problem, "// 1\n");
         history.Accept("r1", problem, "// 1\n");
       },
       "compile"},
      {"the search has considered all its candidates",
       [](EventHistory& history, const std::string& problem) {
         SearchSpec spec = history.Spec(problem, GeneratorKind::kExternal);
         spec.budget.max_candidates = 1;
         history.StartSearch(spec);
         history.Accept("a", problem, "// a\n", "s1");
         history.Accept("b", problem, "// b\n", "s1");
         history.Accept("r1", problem, "// 1\n", "s1");
       },
       "reject budget: max_candidates"},
      {"the search's measurements are spent: forecasts still decide",
       [](EventHistory& history, const std::string& problem) {
         SpendBudget(history, problem, 0);
         history.Accept("r1", problem, "// 1\n", "s1");
         history.Compile("r1");
         history.Forecast("r1", 4);
       },
       "decide prune budget"},
      {"the search's measurements are spent, and there is no forecast",
       [](EventHistory& history, const std::string& problem) {
         SpendBudget(history, problem, 0);
         history.Accept("r1", problem, "// 1\n", "s1");
         history.Compile("r1");
         history.Abstain("r1");
       },
       "decide reject budget: max_measurements"},
  };
  return cases;
}

TEST_CASE("The next action of an evaluation follows from its events") {
  for (const Case& one : Cases()) {
    CAPTURE(one.name);
    EventHistory history;
    const std::string problem = history.PutProblem();
    one.events(history, problem);
    CHECK(Text(PlanEvaluation(history.state(), history.evaluation("r1"), history.now_ns())) ==
          one.action);
  }
}

TEST_CASE("A forecast compares with the best kernel so far") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  history.DescribeReference(problem);
  history.Accept("r0", problem, "// 0\n");
  history.Compile("r0");
  history.Decide("r0", DecisionReason::kNoForecast);
  history.Measure("r0", 2);
  history.Accept("r1", problem, "// 1\n");
  history.Compile("r1");
  const EvaluationAction action =
      PlanEvaluation(history.state(), history.evaluation("r1"), history.now_ns());
  const ForecastQuery& query = std::get<ForecastCandidate>(action).query;
  CHECK(query.candidate.source == "// 1\n");
  REQUIRE(query.anchor != nullptr);
  CHECK(query.anchor->candidate.source == "// 0\n");
  CHECK_FALSE(query.again);
}

std::string Text(const std::optional<SearchAction>& action) {
  struct Writer {
    std::string operator()(const ProposeCandidate& propose) const {
      return "propose " + propose.request_id;
    }
    std::string operator()(const RequestKernel& request) const {
      return "request kernel " + std::to_string(request.number);
    }
    std::string operator()(const RankPruned& ranking) const {
      return "rank " + std::to_string(ranking.candidate_ids.size());
    }
    std::string operator()(const LookFurther& further) const {
      return "look further to " + std::to_string(further.to);
    }
    std::string operator()(const FinishSearch& finish) const { return "finish: " + finish.reason; }
    std::string operator()(const MeasureFinals& finals) const {
      return "measure " + std::to_string(finals.candidate_ids.size()) + " finally";
    }
    std::string operator()(const CloseSearch& close) const {
      return "close with '" + close.confirmed_request_id + "'";
    }
  };
  return action ? std::visit(Writer(), *action) : "wait";
}

Candidate Point(const EventHistory& history) { return *history.search().generator->Next(); }

TEST_CASE("A search finishes, measures its best again and closes") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  history.StartSearch(history.Spec(problem));
  const auto plan = [&](int64_t now_ns = 0) {
    SearchInputs inputs;
    inputs.now_ns = now_ns;
    inputs.capacity = {2, 1};
    return Text(PlanSearch(history.state(), history.search(), inputs));
  };
  CHECK(plan() == "propose s1/1");
  const Candidate best = Point(history);
  history.ProposeMeasured("s1/1", best, 3);
  CHECK(plan() == "propose s1/2");
  history.Propose("s1/2", Point(history));
  history.Add(SearchFinishing{"s1", std::string(kStoppedReason)});
  // The candidate in flight.
  CHECK(plan() == "wait");
  history.FailToCompile("s1/2");
  history.Decide("s1/2", DecisionReason::kCompileError);
  history.Add(EvaluationSettled{"s1/2", Rejection{}, false});
  CHECK(plan() == "measure 1 finally");
  history.Propose("s1/confirm/1", best, "s1", EvaluateMode::kFinal);
  CHECK(plan() == "wait");
  history.Compile("s1/confirm/1");
  history.Decide("s1/confirm/1", DecisionReason::kRequested);
  history.Measure("s1/confirm/1", 2.9);
  CHECK(plan() == "close with 's1/confirm/1'");
  history.Add(SearchClosed{"s1", "s1/confirm/1", false, ""});
  CHECK(plan() == "wait");
}

TEST_CASE("A search that measured nothing closes without a result") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  history.StartSearch(history.Spec(problem));
  history.Add(SearchFinishing{"s1", std::string(kStoppedReason)});
  CHECK(Text(PlanSearch(history.state(), history.search(), {})) == "close with ''");
}

TEST_CASE("A search ends with its budget") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  SearchSpec spec = history.Spec(problem);
  std::string limit;
  SECTION("measurements, counting those in progress") {
    spec.budget.max_measurements = 1;
    limit = "max_measurements";
  }
  SECTION("device time") {
    spec.budget = {};
    spec.budget.max_device_time_ns = 1'000'000;
    limit = "max_device_time";
  }
  SECTION("wall time") {
    spec.budget = {};
    spec.budget.max_wall_time_ns = 6 * EventHistory::kSecondNs;
    limit = "max_wall_time";
  }
  history.StartSearch(spec);
  SearchInputs inputs;
  inputs.capacity = {2, 1};
  inputs.now_ns = history.now_ns();
  CHECK(Text(PlanSearch(history.state(), history.search(), inputs)) == "propose s1/1");
  history.Propose("s1/1", Point(history));
  history.Compile("s1/1");
  history.Decide("s1/1", DecisionReason::kSelected);
  if (limit != "max_measurements") history.Measure("s1/1", 2);
  inputs.now_ns = history.now_ns() + 3 * EventHistory::kSecondNs;
  CHECK(Text(PlanSearch(history.state(), history.search(), inputs)) == "finish: budget: " + limit);
}

}  // namespace
}  // namespace kernelcast::orchestrator
