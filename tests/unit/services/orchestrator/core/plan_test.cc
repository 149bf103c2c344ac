#include "services/orchestrator/core/plan.h"

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/services/orchestrator/event_history.h"

namespace kernelcast::orchestrator {
namespace {

using testing::EventHistory;

// The action in words, with what distinguishes it.
std::string Text(const EvaluationAction& action) {
  struct Writer {
    std::string operator()(const ChooseDevice& choose) const {
      return "choose " + choose.device_model;
    }
    std::string operator()(const WaitForDevice&) const { return "wait for a device"; }
    std::string operator()(const ReuseMeasurement& reuse) const {
      return "reuse " + reuse.request_id;
    }
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
    std::string operator()(const WaitForOthers&) const { return "wait for others"; }
    std::string operator()(const MeasureCandidate& measure) const {
      return measure.spec.level == MeasureLevel::kFinal ? "measure finally" : "measure";
    }
    std::string operator()(const SettlePruned&) const { return "settle as pruned"; }
    std::string operator()(const RejectCandidate& reject) const {
      return "reject " + std::string(Name(reject.reason)) + ": " + reject.rejection.detail +
             reject.rejection.compile_error.log;
    }
  };
  return std::visit(Writer(), action);
}

// A worker-less world's inputs, changed by the case.
using Change = std::function<void(EvaluationInputs&)>;

struct Case {
  const char* name;
  // The events so far. The evaluation in question is r1.
  std::function<void(EventHistory&, const std::string& problem)> events;
  const char* action;
  Change change = {};
};

// Accepts r1 before a device model is known.
void AcceptWithoutDevice(EventHistory& history, const std::string& problem,
                         const std::string& search_id = "", const std::string& wanted = "",
                         EvaluateMode mode = EvaluateMode::kRoute) {
  Candidate candidate;
  candidate.problem_id = problem;
  candidate.target = "cpu";
  history.Add(EvaluationAccepted{"r1", search_id, mode, candidate, false, wanted, ""});
}

// An external search that has measured r0, whose source is "// 0".
void MeasureR0(EventHistory& history, const std::string& problem, uint64_t max_candidates = 1) {
  SearchSpec spec = history.Spec(problem, GeneratorKind::kExternal);
  spec.budget.max_candidates = max_candidates;
  history.StartSearch(spec);
  history.Accept("r0", problem, "// 0\n", "s1");
  history.Compile("r0");
  history.Decide("r0", DecisionReason::kRequested);
  history.Measure("r0", 2);
  history.Accept("other", problem, "// other\n", "s1");
}

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
      {"accepted before any worker is known",
       [](EventHistory& history, const std::string& problem) {
         AcceptWithoutDevice(history, problem);
       },
       "wait for a device"},
      {"a worker is found",
       [](EventHistory& history, const std::string& problem) {
         AcceptWithoutDevice(history, problem);
       },
       "choose fast cpu", [](EvaluationInputs& inputs) { inputs.device.found = "fast cpu"; }},
      {"no worker came in time",
       [](EventHistory& history, const std::string& problem) {
         AcceptWithoutDevice(history, problem, "", "slow cpu");
       },
       "reject unavailable: no worker measures cpu on slow cpu; there are: cuda on NVIDIA H200, "
       "cpu on fast cpu (away)",
       [](EvaluationInputs& inputs) {
         inputs.now_ns += absl::ToInt64Nanoseconds(inputs.device.grace);
         inputs.device.devices = {{"cuda", "NVIDIA H200", 1}, {"cpu", "fast cpu", 0}};
       }},
      {"the process started a moment ago, and a worker may be starting too",
       [](EventHistory& history, const std::string& problem) {
         AcceptWithoutDevice(history, problem);
       },
       "wait for a device",
       [](EvaluationInputs& inputs) {
         inputs.now_ns += 100 * absl::ToInt64Nanoseconds(inputs.device.grace);
         inputs.device.start_ns = inputs.now_ns;
       }},
      {"only a forecast is wanted, and a worker compiles",
       [](EventHistory& history, const std::string& problem) {
         AcceptWithoutDevice(history, problem, "", "", EvaluateMode::kForecast);
       },
       "choose cpu",
       [](EvaluationInputs& inputs) {
         inputs.device.start_ns = inputs.now_ns - 2'000'000'000;
         inputs.device.can_compile = true;
       }},
      {"only a forecast is wanted, for a device that no worker has",
       [](EventHistory& history, const std::string& problem) {
         AcceptWithoutDevice(history, problem, "", "slow cpu", EvaluateMode::kForecast);
       },
       "choose slow cpu",
       [](EvaluationInputs& inputs) {
         inputs.device.start_ns = inputs.now_ns - absl::ToInt64Nanoseconds(inputs.device.grace);
         inputs.device.can_compile = true;
       }},
      {"only a forecast is wanted, and a worker that measures may be starting",
       [](EventHistory& history, const std::string& problem) {
         AcceptWithoutDevice(history, problem, "", "", EvaluateMode::kForecast);
       },
       "wait for a device",
       [](EvaluationInputs& inputs) {
         inputs.device.start_ns = inputs.now_ns - 1'999'999'999;
         inputs.device.can_compile = true;
       }},
      {"only a forecast is wanted, and no worker compiles",
       [](EventHistory& history, const std::string& problem) {
         AcceptWithoutDevice(history, problem, "", "", EvaluateMode::kForecast);
       },
       "reject unavailable: no worker measures cpu; no worker measures anything",
       [](EvaluationInputs& inputs) {
         inputs.now_ns += absl::ToInt64Nanoseconds(inputs.device.grace);
       }},
      {"a measurement is wanted, and a worker only compiles",
       [](EventHistory& history, const std::string& problem) {
         AcceptWithoutDevice(history, problem, "", "", EvaluateMode::kMeasure);
       },
       "reject unavailable: no worker measures cpu; no worker measures anything",
       [](EvaluationInputs& inputs) {
         inputs.now_ns += absl::ToInt64Nanoseconds(inputs.device.grace);
         inputs.device.can_compile = true;
       }},
      {"its search has no device model yet",
       [](EventHistory& history, const std::string& problem) {
         history.Add(SearchCreated{"s1", history.Spec(problem, GeneratorKind::kExternal), ""});
         AcceptWithoutDevice(history, problem, "s1");
       },
       "wait for a device",
       [](EvaluationInputs& inputs) {
         inputs.now_ns += absl::ToInt64Nanoseconds(inputs.device.grace);
         inputs.device.found = "another";
       }},
      {"its search has found a device model",
       [](EventHistory& history, const std::string& problem) {
         history.Add(SearchCreated{"s1", history.Spec(problem, GeneratorKind::kExternal), ""});
         AcceptWithoutDevice(history, problem, "s1");
         history.Add(DeviceChosen{"s1", "", "fast cpu"});
       },
       "choose fast cpu"},
      {"handling its result crashed the process twice", AcceptR1,
       "reject unavailable: set aside: handling it crashed the orchestrator twice",
       [](EvaluationInputs& inputs) { inputs.set_aside = true; }},
      {"pruned, so that no result is handled any more",
       [](EventHistory& history, const std::string& problem) {
         CompileR1(history, problem);
         history.Forecast("r1", 0.1);
         history.Decide("r1", DecisionReason::kUnpromising);
       },
       "settle as pruned", [](EvaluationInputs& inputs) { inputs.set_aside = true; }},
      {"the search has measured the candidate, and its budget is spent",
       [](EventHistory& history, const std::string& problem) {
         MeasureR0(history, problem);
         history.Accept("r1", problem, "// 0\n", "s1");
       },
       "reuse r0"},
      {"a crash between a reused measurement's decision and settlement",
       [](EventHistory& history, const std::string& problem) {
         MeasureR0(history, problem);
         history.Accept("r1", problem, "// 0\n", "s1");
         history.Decide("r1", DecisionReason::kReused);
       },
       "reuse r0"},
      {"another request reuses the same measurement",
       [](EventHistory& history, const std::string& problem) {
         MeasureR0(history, problem);
         history.Accept("r2", problem, "// 0\n", "s1");
         history.Accept("r1", problem, "// 0\n", "s1");
       },
       "reuse r0"},
      {"measured before, and a final measurement is wanted",
       [](EventHistory& history, const std::string& problem) {
         MeasureR0(history, problem, 3);
         history.Accept("r1", problem, "// 0\n", "s1", EvaluateMode::kFinal);
       },
       "compile"},
      {"its device model has been chosen",
       [](EventHistory& history, const std::string& problem) {
         AcceptWithoutDevice(history, problem);
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
       "decide reject unavailable: no forecast: unavailable"},
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
    EvaluationInputs inputs;
    inputs.now_ns = history.now_ns();
    if (one.change) one.change(inputs);
    CHECK(Text(PlanEvaluation(history.state(), history.evaluation("r1"), inputs)) == one.action);
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
  const EvaluationAction action = history.Plan("r1");
  const ForecastQuery& query = std::get<ForecastCandidate>(action).query;
  CHECK(query.candidate.source == "// 1\n");
  REQUIRE(query.anchor != nullptr);
  CHECK(query.anchor->candidate.source == "// 0\n");
  CHECK_FALSE(query.again);
}

std::string Text(const std::optional<SearchAction>& action) {
  struct Writer {
    std::string operator()(const ChooseDevice& choose) const {
      return "choose " + choose.device_model;
    }
    std::string operator()(const AbandonSearch& abandon) const {
      return std::string(abandon.failed ? "fail " : "end ") + std::string(Name(abandon.reason)) +
             ": " + abandon.rejection.detail;
    }
    std::string operator()(const ProposeCandidate& propose) const {
      return "propose " + propose.request_id;
    }
    std::string operator()(const RequestKernel& request) const {
      return "request kernel " + std::to_string(request.number);
    }
    std::string operator()(const RankPruned& ranking) const {
      return "rank " + std::to_string(ranking.candidate_ids.size());
    }
    std::string operator()(const FinishSearch& finish) const { return "finish: " + finish.reason; }
    std::string operator()(const MeasureFinals& finals) const {
      return "measure " + std::to_string(finals.candidate_ids.size()) + " finally";
    }
    std::string operator()(const MeasureHeldOut& held_out) const {
      return "measure " + std::to_string(held_out.candidate_ids.size()) + " at held-out shapes";
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

TEST_CASE("Screenings of a search may stop early, final measurements and audits may not") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  SearchSpec spec = history.Spec(problem);
  history.StartSearch(spec);
  spec.time_in_full = true;
  history.StartSearch(spec, "full");
  const auto stop_below = [&](const std::string& id, DecisionReason reason,
                              const std::string& search = "s1",
                              EvaluateMode mode = EvaluateMode::kRoute) {
    if (search.empty()) {
      history.Accept(id, problem, "// " + id + "\n", search, mode);
    } else {
      history.Propose(id, *history.search(search).generator->Next(), search, mode);
    }
    history.Compile(id);
    history.Abstain(id);
    history.Decide(id, reason);
    return std::get<MeasureCandidate>(history.Plan(id)).spec.stop_below;
  };
  // Nothing to be behind of.
  CHECK(stop_below("s1/1", DecisionReason::kNoForecast) == 0);
  history.Measure("s1/1", 2);
  CHECK(stop_below("s1/2", DecisionReason::kNoForecast) == Approx(kBehindMargin * 2 * 0.99));
  history.Measure("s1/2", 3);
  CHECK(stop_below("s1/3", DecisionReason::kSelected) == Approx(kBehindMargin * 3 * 0.99));
  history.Measure("s1/3", 1);
  CHECK(stop_below("s1/4", DecisionReason::kSelected) == Approx(kBehindMargin * 3 * 0.99));
  CHECK(stop_below("s1/5", DecisionReason::kAudit) == 0);
  // Only the log matters: the same events give the same bound.
  State replayed;
  for (const StoredEvent& event : history.events()) REQUIRE(replayed.Apply(event).ok());
  EvaluationInputs inputs;
  inputs.now_ns = history.now_ns() + 1;
  CHECK(
      std::get<MeasureCandidate>(PlanEvaluation(replayed, *replayed.FindEvaluation("s1/4"), inputs))
          .spec == MeasureSpec(MeasureLevel::kScreen, kBehindMargin * (3 * 0.99)));

  CHECK(stop_below("full/1", DecisionReason::kNoForecast, "full") == 0);
  history.Measure("full/1", 2);
  CHECK(stop_below("full/2", DecisionReason::kNoForecast, "full") == 0);
  CHECK(stop_below("r1", DecisionReason::kRequested, "") == 0);
  const Candidate best = history.evaluation("s1/4").candidate;
  history.Propose("s1/confirm/1", best, "s1", EvaluateMode::kFinal);
  history.Compile("s1/confirm/1");
  history.Decide("s1/confirm/1", DecisionReason::kRequested);
  CHECK(std::get<MeasureCandidate>(history.Plan("s1/confirm/1")).spec ==
        MeasureSpec(MeasureLevel::kFinal));
}

TEST_CASE("A search that measured nothing closes without a result") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  history.StartSearch(history.Spec(problem));
  SearchInputs inputs;
  inputs.capacity = {2, 1};
  inputs.confirmation.candidates = 3;
  history.Add(SearchFinishing{"s1", "budget: max_measurements"});
  CHECK(Text(PlanSearch(history.state(), history.search(), inputs)) == "close with ''");
}

TEST_CASE("A search waits for a worker, fails without one, or ends when it is stopped") {
  const char* const nobody = "no worker measures cpu; no worker measures anything";
  const char* const away = "no worker measures cpu on fake cpu; there are: cpu on fake cpu (away)";
  struct SearchCase {
    const char* name;
    std::string device_model;
    bool stopped;
    std::string found;
    uint32_t slots;
    int64_t waited_seconds;
    int64_t started_seconds_ago;
    std::string action;
    std::string missing;
  };
  const std::vector<SearchCase> cases = {
      {"no worker yet", "", false, "", 0, 1, 100, "wait", nobody},
      {"no worker in time", "", false, "", 0, 10, 100, absl::StrCat("fail unavailable: ", nobody),
       nobody},
      {"the process has just started", "", false, "", 0, 100, 1, "wait", nobody},
      {"stopped before a worker came", "", true, "", 0, 1, 100,
       absl::StrCat("end cancelled: the search was stopped, and ", nobody), nobody},
      {"a worker has come", "", false, "fake cpu", 0, 100, 100, "choose fake cpu", ""},
      {"its worker is there", "fake cpu", false, "", 1, 100, 100, "propose s1/1", ""},
      {"its worker is away", "fake cpu", false, "", 0, 100, 100, "propose s1/1", away},
      {"stopped while its worker is away", "fake cpu", true, "", 0, 1, 100,
       absl::StrCat("end cancelled: the search was stopped, and ", away), away},
      {"stopped", "fake cpu", true, "", 1, 1, 100, "close with ''", ""},
  };
  for (const SearchCase& one : cases) {
    CAPTURE(one.name);
    EventHistory history;
    history.Add(SearchCreated{"s1", history.Spec(history.PutProblem()), one.device_model});
    if (one.stopped) history.Add(SearchFinishing{"s1", std::string(kStoppedReason)});
    SearchInputs inputs;
    inputs.now_ns = history.search().started_ns + one.waited_seconds * EventHistory::kSecondNs;
    inputs.capacity = {2 * one.slots, one.slots};
    inputs.device.found = one.found;
    if (!one.device_model.empty()) inputs.device.devices = {{"cpu", "fake cpu", one.slots}};
    inputs.device.start_ns = inputs.now_ns - one.started_seconds_ago * EventHistory::kSecondNs;
    CHECK(Text(PlanSearch(history.state(), history.search(), inputs)) == one.action);
    CHECK(MissingWorker(history.search(), inputs) == one.missing);
  }
}

TEST_CASE("A measurement is repeated as often as allowed while the environment is unstable") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  CompileR1(history, problem);
  history.Decide("r1", DecisionReason::kNoForecast);
  const Measurement unstable = history.Measured("r1", EnvironmentUnstable{});
  CHECK_FALSE(RepeatsMeasurement(history.evaluation("r1"), unstable, 0));
  CHECK(RepeatsMeasurement(history.evaluation("r1"), unstable, 1));
  history.Add(MeasurementRepeated{"r1"});
  CHECK_FALSE(RepeatsMeasurement(history.evaluation("r1"), unstable, 1));
  CHECK(RepeatsMeasurement(history.evaluation("r1"), unstable, 2));
  CHECK_FALSE(RepeatsMeasurement(history.evaluation("r1"),
                                 history.Measured("r1", testing::FakeWorkers::Ok(2)), 2));
  CHECK_FALSE(
      RepeatsMeasurement(history.evaluation("r1"), history.Measured("r1", WrongResult{}), 2));
}

// The calls in words.
std::string Text(const SearchCalls& calls) {
  std::string text = calls.reference ? "reference" : "";
  for (const uint64_t number : calls.kernels) absl::StrAppend(&text, " ", number);
  for (const uint64_t number : calls.advice) absl::StrAppend(&text, " advice ", number);
  return text;
}

TEST_CASE("A running search needs its reference, and answers to its requests for kernels") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  SearchInputs inputs;
  inputs.capacity = {2, 1};
  inputs.has_writer = true;
  const auto calls = [&] { return Text(PlanCalls(history.state(), history.search(), inputs)); };
  SECTION("a search with a model") {
    SearchSpec spec = history.Spec(problem, GeneratorKind::kLlm);
    spec.budget.max_wall_time_ns = 1000 * EventHistory::kSecondNs;
    history.StartSearch(spec);
    CHECK(calls() == "reference");
    history.DescribeReference(problem);
    CHECK(calls().empty());
    const std::string parent =
        ReferenceCandidate(*history.state().FindProblem(problem), "cpu")->candidate_id;
    history.Add(GenerationRequested{"s1", 1, parent});
    history.Add(GenerationRequested{"s1", 2, parent});
    CHECK(calls() == " 1 2");
    GenerationSettled answer;
    answer.search_id = "s1";
    answer.number = 1;
    history.Add(answer);
    CHECK(calls() == " 2");
    inputs.now_ns = 2000 * EventHistory::kSecondNs;
    CHECK(calls().empty());
    inputs.now_ns = 0;
    inputs.has_writer = false;
    CHECK(calls().empty());
    inputs.has_writer = true;
    history.Add(SearchFinishing{"s1", std::string(kStoppedReason)});
    CHECK(calls().empty());
  }
  SECTION("a search with a critic") {
    SearchSpec spec = history.Spec(problem, GeneratorKind::kLlm);
    spec.critic = true;
    history.StartSearch(spec);
    history.DescribeReference(problem);
    const std::string parent =
        ReferenceCandidate(*history.state().FindProblem(problem), "cpu")->candidate_id;
    history.Add(GenerationRequested{"s1", 1, parent});
    history.Add(GenerationRequested{"s1", 2, parent});
    CHECK(calls() == " advice 1 advice 2");
    history.Add(GenerationAdvised{.search_id = "s1", .number = 2, .advice = "Unroll."});
    CHECK(calls() == " 2 advice 1");
    // A critic that is away does not hold up the kernel.
    history.Add(GenerationAdvised{.search_id = "s1", .number = 1, .detail = "unreachable"});
    CHECK(calls() == " 1 2");
  }
  SECTION("a search whose device model is not known yet") {
    history.Add(SearchCreated{"s1", history.Spec(problem), ""});
    CHECK(calls().empty());
    history.Add(DeviceChosen{"s1", "", EventHistory::kDevice});
    CHECK(calls() == "reference");
  }
  SECTION("a search whose callers propose") {
    history.StartSearch(history.Spec(problem, GeneratorKind::kExternal));
    CHECK(calls().empty());
  }
}

TEST_CASE("A reference that does not compile ends what needs it on its device model") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  history.StartSearch(history.Spec(problem), "s1");
  history.Add(SearchCreated{"s2", history.Spec(problem), "another"});
  history.Accept("r2", problem, "// 2\n");
  history.Compile("r2");
  history.Accept("r1", problem, "// 1\n");
  history.Compile("r1");
  history.Accept("r3", problem, "// 3\n");  // not compiled yet
  const MissingReference ends =
      PlanWithoutReference(history.state(), problem, "cpu", EventHistory::kDevice);
  CHECK(ends.request_ids == std::vector<std::string>{"r1", "r2"});
  CHECK(ends.search_ids == std::vector<std::string>{"s1"});
  CHECK(WaitingForReference(history.state(), problem, "cpu", "another").empty());
}

TEST_CASE("Pending labels are offered by problem, in bounded numbers, once at a time") {
  EventHistory history;
  const std::string one = history.PutProblem();
  const std::string two = history.PutProblem(testing::ProblemFilesWithoutSpace());
  const auto measure = [&](const std::string& id, const std::string& problem) {
    history.Accept(id, problem, absl::StrCat("// ", id, "\n"));
    history.Compile(id);
    history.Decide(id, DecisionReason::kNoForecast);
    history.Measure(id, 2);
  };
  const auto offers = [&](const std::set<std::string>& offered) {
    std::map<std::string, std::vector<std::string>> ids;
    for (const LabelOffer& offer : PlanLabels(history.state(), offered)) {
      for (const Label& label : offer.labels) ids[offer.problem_id].push_back(label.label_id);
    }
    return ids;
  };
  using Offers = std::map<std::string, std::vector<std::string>>;
  CHECK(offers({}).empty());
  measure("a", one);
  measure("b", two);
  measure("c", one);
  CHECK(offers({}) == Offers{{one, {"a", "c"}}, {two, {"b"}}});
  CHECK(offers({"a", "b"}) == Offers{{one, {"c"}}});
  history.Add(LabelsObserved{{"a"}});
  CHECK(offers({}) == Offers{{one, {"c"}}, {two, {"b"}}});
  for (size_t i = 0; i < LabelOffer::kMaxLabels; ++i) measure(absl::StrCat("d", i), one);
  CHECK(offers({})[one].size() == LabelOffer::kMaxLabels);
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
