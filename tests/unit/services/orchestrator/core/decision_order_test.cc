#include "services/orchestrator/core/decision_order.h"

#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "tests/unit/services/orchestrator/event_history.h"

namespace kernelcast::orchestrator {
namespace {

using testing::EventHistory;
using testing::FakeForecasters;

// A search whose kernels a model writes, after the measurements of its start.
struct Written {
  Written() {
    SearchSpec spec = history.Spec(problem, GeneratorKind::kLlm);
    spec.budget = {};
    spec.generator_limits.max_requests = 100;
    history.DescribeReference(problem);
    history.StartSearch(spec);
    for (int i = 0; i < 6; ++i) {
      const std::string id = absl::StrCat("start", i);
      Add(id, 2, std::nullopt);
      history.Decide(id, DecisionReason::kBootstrap);
      history.Measure(id, 2);
    }
  }
  void Add(const std::string& id, double speedup, std::optional<uint64_t> labels,
           CandidateKind kind = CandidateKind::kUnspecified) {
    Candidate candidate;
    candidate.kind = kind;
    candidate.problem_id = problem;
    candidate.target = "cpu";
    candidate.source = absl::StrCat("// ", id, "\n");
    candidate.candidate_id = CandidateId(candidate);
    history.Propose(id, candidate);
    history.Compile(id);
    Forecast(id, speedup, labels);
  }
  void Forecast(const std::string& id, double speedup, std::optional<uint64_t> labels) {
    history.Add(EvaluationForecast{
        id, FakeForecasters::Make(history.evaluation(id).candidate, speedup, 0.2, labels)});
  }
  std::string Next(bool forecasts_next = false) const {
    return NextToDecide(history.state(), history.search(), {history.now_ns(), 1, forecasts_next})
        .value_or("");
  }

  EventHistory history;
  std::string problem = history.PutProblem();
};

TEST_CASE(
    "What would be measured waits while the device is busy, and the likeliest winner is next") {
  Written search;
  search.Add("good", 2.2, 6);
  search.Add("better", 2.6, 6);
  search.Add("fair", 2.1, 6);
  CHECK(std::holds_alternative<WaitForOthers>(search.history.Plan("better", false)));
  CHECK(search.Next() == "better");
  CHECK(search.Next(/*forecasts_next=*/true).empty());
  search.history.Decide("better", DecisionReason::kPromising);
  CHECK(search.Next() == "good");
  search.history.Decide("good", DecisionReason::kPromising);
  // One is running and one is queued.
  CHECK(search.Next().empty());
  search.history.Measure("better", 2.5);
  CHECK(search.Next() == "fair");
}

TEST_CASE("Eight Python candidates are measured or wait, because a worker loads them ahead") {
  Written search;
  for (int i = 0; i < 9; ++i) {
    const std::string id = absl::StrCat("python", i);
    search.Add(id, 2.2, std::nullopt, CandidateKind::kPython);
    CHECK(search.Next() == (i < 8 ? id : ""));
    if (i < 8) search.history.Decide(id, DecisionReason::kPromising);
  }
}

TEST_CASE("A candidate that is pruned does not wait for the device") {
  Written search;
  search.Add("good", 2.6, 6);
  search.Add("other", 2.6, 6);
  search.history.Decide("good", DecisionReason::kPromising);
  search.history.Decide("other", DecisionReason::kPromising);
  search.Add("waits", 2.4, 6);
  CHECK(search.Next().empty());
  search.Add("slow", 0.5, 6);
  const EvaluationAction action = search.history.Plan("slow", false);
  CHECK(std::get<DecideCandidate>(action).decision.reason == DecisionReason::kUnpromising);
}

TEST_CASE("A candidate that has waited for a result is forecast again before it is decided") {
  Written search;
  search.Add("first", 2.6, 6);
  search.Add("waits", 2.4, 6);
  search.Add("like it", 2.4, std::nullopt);  // by a forecaster that does not learn
  search.history.Decide("first", DecisionReason::kPromising);
  search.history.Measure("first", 4);
  CHECK(search.Next() == "like it");
  CHECK(std::get<DecideCandidate>(search.history.Plan("like it", true)).decision.reason ==
        DecisionReason::kUnpromising);
  search.history.Decide("like it", DecisionReason::kUnpromising);
  search.history.Prune("like it");

  CHECK(search.Next() == "waits");
  const EvaluationAction action = search.history.Plan("waits", true);
  REQUIRE(std::holds_alternative<ForecastCandidate>(action));
  CHECK(std::get<ForecastCandidate>(action).query.again);
  search.Forecast("waits", 4.5, 7);
  CHECK(search.Next() == "waits");
  const EvaluationAction decided = search.history.Plan("waits", true);
  REQUIRE(std::holds_alternative<DecideCandidate>(decided));
  CHECK(std::get<DecideCandidate>(decided).decision.reason == DecisionReason::kPromising);
  CHECK(std::get<DecideCandidate>(decided).decision.incumbent_speedup == Approx(4));
}

TEST_CASE("A candidate that has waited for 32 results is next") {
  Written search;
  search.Add("unlikely", 2.1, std::nullopt);
  for (int i = 0; i < 32; ++i) {
    const std::string likely = absl::StrCat("likely", i);
    search.Add(likely, 2.2, std::nullopt);
    CHECK(search.Next() == likely);
    search.history.Decide(likely, DecisionReason::kPromising);
    search.history.Measure(likely, 2);
  }
  search.Add("likely", 2.2, std::nullopt);
  CHECK(search.Next() == "unlikely");
}

TEST_CASE("Candidates of callers are decided as they arrived, in searches and outside") {
  const std::string search_id = GENERATE("s1", "");
  CAPTURE(search_id);
  EventHistory history;
  const std::string problem = history.PutProblem();
  history.DescribeReference(problem);
  history.StartSearch(history.Spec(problem, GeneratorKind::kExternal));
  const auto add = [&](const std::string& id, double speedup, EvaluateMode mode) {
    history.Accept(id, problem, absl::StrCat("// ", id, "\n"), search_id, mode);
    history.Compile(id);
    history.Forecast(id, speedup);
  };
  const auto next = [&](uint64_t measure_slots) {
    const OrderInputs inputs{history.now_ns(), measure_slots, false};
    const State& state = history.state();
    if (!search_id.empty()) return NextToDecide(state, history.search(), inputs).value_or("");
    const Candidate& candidate = history.evaluation("waits").candidate;
    return NextToDecide(state, *state.FindHistory(problem, candidate.target, EventHistory::kDevice),
                        inputs)
        .value_or("");
  };
  for (int i = 0; i < 6; ++i) {
    const std::string id = absl::StrCat("start", i);
    add(id, 2, EvaluateMode::kRoute);
    CHECK(std::holds_alternative<DecideCandidate>(history.Plan(id)));
    history.Decide(id, DecisionReason::kBootstrap);
    history.Measure(id, 2);
  }
  for (const std::string id : {"first", "second"}) {
    add(id, 2.6, EvaluateMode::kRoute);
    history.Decide(id, DecisionReason::kPromising);
  }
  add("waits", 2.4, EvaluateMode::kRoute);
  add("likelier", 2.8, EvaluateMode::kRoute);
  CHECK(std::holds_alternative<WaitForOthers>(history.Plan("waits")));
  CHECK(next(1).empty());
  CHECK(next(2) == "waits");
  // Without a worker nobody waits for others.
  CHECK(next(0) == "waits");
  history.Measure("first", 2.1);
  CHECK(next(1) == "waits");
  history.Decide("waits", DecisionReason::kPromising);
  history.Measure("second", 2.1);
  CHECK(next(1) == "likelier");

  add("slow", 0.5, EvaluateMode::kRoute);
  CHECK(std::holds_alternative<DecideCandidate>(history.Plan("slow")));
  // A measurement that a caller requests does not wait.
  add("wanted", 0.5, EvaluateMode::kMeasure);
  CHECK(std::holds_alternative<DecideCandidate>(history.Plan("wanted")));
}

// Candidates of a caller, outside searches, whose forecasts rest on their launches.
struct Compared {
  Compared() { history.DescribeReference(problem); }
  void Add(const std::string& id, double speedup) {
    history.Accept(id, problem, absl::StrCat("// ", id, "\n"));
    history.Compile(id);
    Forecast(id, speedup, 0);
  }
  void Forecast(const std::string& id, double speedup, uint64_t labels) {
    kernelcast::Forecast forecast =
        FakeForecasters::Make(history.evaluation(id).candidate, speedup, 0.2, labels);
    forecast.basis = ForecastBasis::kRecording;
    history.Add(EvaluationForecast{id, std::move(forecast)});
  }
  std::string Next(uint64_t measure_slots = 1) const {
    const ProblemHistory* const known =
        history.state().FindHistory(problem, "cpu", EventHistory::kDevice);
    return NextToDecide(history.state(), *known, {history.now_ns(), measure_slots, false})
        .value_or("");
  }
  DecisionReason ReasonOf(const std::string& id) const {
    return std::get<DecideCandidate>(history.Plan(id, true)).decision.reason;
  }

  EventHistory history;
  std::string problem = history.PutProblem();
};

TEST_CASE("Where forecasts compare launches, the four likeliest winners are the start") {
  Compared pool;
  pool.Add("slow", 0.5);
  pool.Add("fourth", 1.5);
  pool.Add("best", 4);
  pool.Add("third", 2);
  pool.Add("second", 3);
  for (const std::string id : {"slow", "best", "fourth"}) {
    CHECK(std::holds_alternative<WaitForOthers>(pool.history.Plan(id)));
  }
  for (const std::string id : {"best", "second", "third", "fourth"}) {
    CHECK(pool.Next() == id);
    CHECK(pool.ReasonOf(id) == DecisionReason::kBootstrap);
    pool.history.Decide(id, DecisionReason::kBootstrap);
  }
  // More devices do not make the start larger.
  CHECK(pool.Next(4).empty());
  // Not even a hopeless candidate is pruned before a result has shown what the forecasts are worth.
  CHECK(std::holds_alternative<WaitForOthers>(pool.history.Plan("slow")));

  // All forecasts were too low by the same factor.
  for (const std::string id : {"second", "third", "fourth"}) pool.history.Measure(id, 12);
  CHECK(pool.Next() == "slow");
  CHECK(std::holds_alternative<ForecastCandidate>(pool.history.Plan("slow", true)));
  pool.Forecast("slow", 2, 3);
  CHECK(pool.ReasonOf("slow") == DecisionReason::kUnpromising);
}

TEST_CASE("A wrong result does not end the start of compared candidates") {
  Compared pool;
  pool.Add("wrong", 4);
  pool.Add("slow", 0.5);
  pool.history.Decide("wrong", DecisionReason::kBootstrap);
  pool.history.Add(EvaluationSettled{"wrong", pool.history.Measured("wrong", Crash{}), false});
  CHECK(std::holds_alternative<WaitForOthers>(pool.history.Plan("slow")));
  CHECK(pool.Next() == "slow");
  pool.Forecast("slow", 0.5, 1);
  CHECK(pool.ReasonOf("slow") == DecisionReason::kBootstrap);
}

TEST_CASE("Without a worker, a start of compared candidates does not wait for others") {
  Compared pool;
  pool.Add("slow", 0.5);
  pool.Add("best", 4);
  CHECK(pool.Next(0) == "best");
  pool.history.Decide("best", DecisionReason::kBootstrap);
  CHECK(pool.Next(0) == "slow");
}

TEST_CASE("Of compared Python candidates three are measured or wait") {
  Written search;
  for (int i = 0; i < 4; ++i) {
    const std::string id = absl::StrCat("python", i);
    search.Add(id, 2.2, std::nullopt, CandidateKind::kPython);
    kernelcast::Forecast forecast = *search.history.evaluation(id).forecast;
    forecast.basis = ForecastBasis::kRecording;
    search.history.Add(EvaluationForecast{id, std::move(forecast)});
    CHECK(search.Next() == (i < 3 ? id : ""));
    if (i < 3) search.history.Decide(id, DecisionReason::kPromising);
  }
}

}  // namespace
}  // namespace kernelcast::orchestrator
