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

}  // namespace
}  // namespace kernelcast::orchestrator
