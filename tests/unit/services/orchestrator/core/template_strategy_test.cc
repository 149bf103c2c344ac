#include "services/orchestrator/core/template_strategy.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/services/orchestrator/event_history.h"

namespace kernelcast::orchestrator {
namespace {

using testing::EventHistory;
using testing::FakeForecasters;

struct SpaceSearch {
  explicit SpaceSearch(uint64_t measurements = 10, uint64_t candidates = 0) {
    problem = history.PutProblem();
    SearchSpec spec = history.Spec(problem);
    spec.budget.max_measurements = measurements;
    spec.budget.max_candidates = candidates;
    history.StartSearch(spec);
    history.DescribeReference(problem);
    inputs.capacity = {4, 1};
  }
  std::optional<StrategyAction> Next() const {
    return TemplateStrategy().Next(history.state(), history.search(), inputs);
  }
  template <class Action>
  std::optional<Action> NextAs() const {
    const std::optional<StrategyAction> next = Next();
    if (!next || !std::holds_alternative<Action>(*next)) return std::nullopt;
    return std::get<Action>(*next);
  }
  // Proposes the rest of the space and prunes it.
  void PruneAll() {
    while (std::optional<ProposeCandidate> propose = NextAs<ProposeCandidate>()) {
      history.ProposePruned(propose->request_id, propose->candidate, 0.9);
    }
  }

  EventHistory history;
  std::string problem;
  StrategyInputs inputs;
};

TEST_CASE("A template search needs a space and a budget") {
  EventHistory history;
  const SearchSpec spec = history.Spec(history.PutProblem());
  const auto problem = history.state().FindProblem(spec.problem_id);
  const TemplateStrategy strategy;
  CHECK(strategy.Check(spec, *problem, false).ok());
  SearchSpec unlimited = spec;
  unlimited.budget = {};
  CHECK(strategy.Check(unlimited, *problem, false).code() == absl::StatusCode::kInvalidArgument);
  const Problem without = *ParseProblem(testing::ProblemFilesWithoutSpace());
  CHECK(strategy.Check(spec, without, false).code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("A template search proposes points until its workers are busy") {
  SpaceSearch search;
  CHECK(InFlightLimit(search.history.search(), search.inputs.capacity) == 6);
  std::set<std::string> proposed;
  for (int number = 1; number <= 6; ++number) {
    const auto propose = search.NextAs<ProposeCandidate>();
    REQUIRE(propose);
    CHECK(propose->request_id == absl::StrCat("s1/", number));
    CHECK(propose->mode == EvaluateMode::kRoute);
    CHECK(proposed.insert(propose->candidate.candidate_id).second);
    search.history.Propose(propose->request_id, propose->candidate);
  }
  CHECK_FALSE(search.Next());
  search.inputs.capacity.compile_credits = 5;
  CHECK(search.NextAs<ProposeCandidate>());
}

TEST_CASE("Measurements that wait for the device hold back proposals") {
  SpaceSearch search;
  for (int number = 1; number <= 2; ++number) {
    const auto propose = search.NextAs<ProposeCandidate>();
    search.history.Propose(propose->request_id, propose->candidate);
    search.history.Compile(propose->request_id);
    search.history.Decide(propose->request_id, DecisionReason::kBootstrap);
  }
  CHECK_FALSE(search.Next());
  search.history.Measure("s1/1", 1.5);
  CHECK(search.NextAs<ProposeCandidate>());
}

TEST_CASE("A search that measures everything finishes after the last result") {
  SpaceSearch search;
  SearchSpec spec = search.history.Spec(search.problem);
  spec.measure_everything = true;
  spec.budget.max_candidates = 1;
  search.history.StartSearch(spec, "s2");
  const auto next = [&] {
    return TemplateStrategy().Next(search.history.state(), search.history.search("s2"),
                                   search.inputs);
  };
  const auto propose = std::get<ProposeCandidate>(*next());
  CHECK(propose.mode == EvaluateMode::kMeasure);
  search.history.Propose("s2/1", propose.candidate, "s2", EvaluateMode::kMeasure);
  CHECK_FALSE(next());
  search.history.Compile("s2/1");
  search.history.Decide("s2/1", DecisionReason::kRequested);
  search.history.Measure("s2/1", 2);
  CHECK(std::get<FinishSearch>(*next()).reason == "nothing left worth measuring");
}

TEST_CASE("When the space is known its pruned candidates are ranked") {
  SpaceSearch search;
  search.PruneAll();
  const auto ranking = search.NextAs<RankPruned>();
  REQUIRE(ranking);
  CHECK(ranking->candidate_ids.size() == 40);
  REQUIRE(ranking->queries.size() == 40);
  for (size_t i = 0; i < 40; ++i) {
    CHECK(ranking->queries[i].candidate.candidate_id == ranking->candidate_ids[i]);
    CHECK(ranking->queries[i].again);
  }
  search.inputs.ranking.busy = true;
  CHECK_FALSE(search.Next());
}

TEST_CASE("A search selects one candidate at a time, and each once per measurement") {
  SpaceSearch search;
  search.PruneAll();
  const auto ranking = search.NextAs<RankPruned>();
  REQUIRE(ranking);
  const std::string selected = ranking->candidate_ids.front();
  search.history.Propose("s1/41", ranking->queries.front().candidate);
  CHECK(search.history.search().selection == "s1/41");
  // It is not decided yet.
  CHECK_FALSE(search.Next());
  search.history.Compile("s1/41");
  search.history.Forecast("s1/41", 0.5);
  search.history.Decide("s1/41", DecisionReason::kUnpromising);
  search.history.Prune("s1/41");
  const auto without = search.NextAs<RankPruned>();
  REQUIRE(without);
  CHECK(without->candidate_ids.size() == 39);
  CHECK(std::count(without->candidate_ids.begin(), without->candidate_ids.end(), selected) == 0);
  // After a measurement it may be selected again.
  search.history.Propose("s1/42", without->queries.front().candidate);
  search.history.Compile("s1/42");
  search.history.Forecast("s1/42", 2);
  search.history.Decide("s1/42", DecisionReason::kSelected);
  search.history.Measure("s1/42", 2);
  const auto again = search.NextAs<RankPruned>();
  REQUIRE(again);
  CHECK(again->candidate_ids.size() == 39);
  CHECK(std::count(again->candidate_ids.begin(), again->candidate_ids.end(), selected) == 1);
}

TEST_CASE("A caller's candidate is not a selection") {
  SpaceSearch search;
  search.PruneAll();
  Candidate candidate = search.NextAs<RankPruned>()->queries.front().candidate;
  search.history.Add(EvaluationAccepted{"mine", "s1", EvaluateMode::kRoute, candidate, false, "",
                                        EventHistory::kDevice});
  CHECK(search.history.evaluation("mine").reconsidered);
  CHECK(search.history.search().selection.empty());
  search.history.Compile("mine");
  search.history.Forecast("mine", 0.5);
  search.history.Decide("mine", DecisionReason::kUnpromising);
  search.history.Prune("mine");
  // It can still be selected.
  const auto ranking = search.NextAs<RankPruned>();
  REQUIRE(ranking);
  CHECK(ranking->candidate_ids.size() == 40);
}

TEST_CASE("A search with nothing left to measure finishes") {
  SpaceSearch search;
  search.PruneAll();
  search.inputs.ranking.nothing_left_after = 0;
  CHECK(search.NextAs<FinishSearch>()->reason == "nothing left worth measuring");
  // A measurement since then changes the ranking.
  search.history.Propose("s1/41",
                         search.history.search()
                             .generator->Find(search.history.search().history.begin()->first)
                             .value());
  search.history.Compile("s1/41");
  search.history.Forecast("s1/41", 2);
  search.history.Decide("s1/41", DecisionReason::kSelected);
  search.history.Measure("s1/41", 2);
  CHECK(search.NextAs<RankPruned>());
}

TEST_CASE("The best candidate of a ranking is measured next") {
  SpaceSearch search;
  search.PruneAll();
  const auto ranking = search.NextAs<RankPruned>();
  std::vector<ForecastResult> forecasts(
      40, Abstention{Abstention::Cause::kEndpointUnavailable, "fake", ""});
  CHECK_FALSE(TemplateStrategy::ChooseSelection(search.history.search(), forecasts));
  forecasts[3] = FakeForecasters::Make(ranking->queries[3].candidate, 1.5, 0.2, 0);
  forecasts[7] = FakeForecasters::Make(ranking->queries[7].candidate, 2.5, 0.2, 0);
  forecasts[9] = FakeForecasters::Make(ranking->queries[9].candidate, 2, 0.2, 0);
  CHECK(TemplateStrategy::ChooseSelection(search.history.search(), forecasts) == 7u);
}

// A space with more points than a search looks ahead.
std::vector<ProblemFile> LargeProblemFiles() {
  std::vector<ProblemFile> files = testing::SmallProblemFiles();
  for (ProblemFile& file : files) {
    if (file.path != "space/cpu.yaml") continue;
    std::string values;
    for (int i = 1; i <= 600; ++i) absl::StrAppend(&values, i == 1 ? "" : ", ", i);
    file.content = absl::StrCat(R"(schema: 1
target: cpu
templates:
  - name: plain
    file: plain.cc
    description: Plain.
    tunables:
      WIDTH: [)",
                                values, "]\n");
  }
  std::erase_if(files, [](const ProblemFile& file) { return file.path == "space/blocked.cc"; });
  return files;
}

TEST_CASE("A search looks further only when nothing is worth measuring, and a restart knows it") {
  EventHistory history;
  const std::string problem = history.PutProblem(LargeProblemFiles());
  history.StartSearch(history.Spec(problem));
  history.DescribeReference(problem);
  StrategyInputs inputs;
  inputs.capacity = {4, 1};
  const TemplateStrategy strategy;
  const auto next = [&] { return strategy.Next(history.state(), history.search(), inputs); };
  const auto propose_all = [&] {
    uint64_t count = 0;
    for (auto action = next(); action && std::holds_alternative<ProposeCandidate>(*action);
         action = next()) {
      const auto& propose = std::get<ProposeCandidate>(*action);
      history.ProposePruned(propose.request_id, propose.candidate, 0.9);
      ++count;
    }
    return count;
  };
  CHECK(propose_all() == TemplateStrategy::kLookAhead);
  CHECK(std::get<RankPruned>(*next()).candidate_ids.size() == 512);
  CHECK(history.search().looked_further == 0);
  // The ranking found nothing.
  inputs.ranking.nothing_left_after = 0;
  const auto further = std::get<LookFurther>(*next());
  CHECK(further.to == 520);
  inputs.ranking = {};
  inputs.ranking.further_to = further.to;
  CHECK(propose_all() == 8);
  CHECK(history.search().looked_further == 8);
  CHECK(std::holds_alternative<RankPruned>(*next()));
  // A measurement allows 8 more, also after a restart, which has forgotten the ranking.
  const Candidate selected = std::get<RankPruned>(*next()).queries.front().candidate;
  history.Propose("s1/521", selected);
  history.Compile("s1/521");
  history.Forecast("s1/521", 2);
  history.Decide("s1/521", DecisionReason::kSelected);
  history.Measure("s1/521", 2);
  inputs.ranking = {};
  CHECK(TemplateStrategy::LookAhead(history.search()) == 528);
  CHECK(propose_all() == 8);
  CHECK(history.search().looked_further == 8);
}

TEST_CASE("Candidates proposed since the last ranking are ranked before a search looks further") {
  EventHistory history;
  const std::string problem = history.PutProblem(LargeProblemFiles());
  SearchSpec spec = history.Spec(problem);
  spec.max_in_flight = 1;
  spec.budget = {};
  spec.budget.max_wall_time_ns = 1'000'000 * EventHistory::kSecondNs;
  history.StartSearch(spec);
  history.DescribeReference(problem);
  StrategyInputs inputs;
  const TemplateStrategy strategy;
  const auto next = [&] { return strategy.Next(history.state(), history.search(), inputs); };
  auto propose = std::get<ProposeCandidate>(*next());
  history.ProposePruned(propose.request_id, propose.candidate, 0.9);
  propose = std::get<ProposeCandidate>(*next());
  history.Propose(propose.request_id, propose.candidate);
  CHECK(std::get<RankPruned>(*next()).candidate_ids.size() == 1);
  inputs.ranking.nothing_left_after = 0;
  CHECK(std::get<LookFurther>(*next()).to == 0);
}

TEST_CASE("A template search expects to decide on its space, as far as it looks ahead") {
  CHECK(TemplateStrategy().ExpectedDecisions(SpaceSearch().history.search()) == 40);
  CHECK(TemplateStrategy().ExpectedDecisions(SpaceSearch(10, 7).history.search()) == 7);
  EventHistory history;
  history.StartSearch(history.Spec(history.PutProblem(LargeProblemFiles())));
  CHECK(TemplateStrategy().ExpectedDecisions(history.search()) == 512);
}

}  // namespace
}  // namespace kernelcast::orchestrator
