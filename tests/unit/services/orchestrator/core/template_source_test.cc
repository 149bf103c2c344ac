#include "services/orchestrator/core/template_source.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/orchestrator/core/ranking.h"
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
  std::optional<SourceAction> Next() const {
    return TemplateSource().Next(history.state(), history.search(), inputs);
  }
  template <class Action>
  std::optional<Action> NextAs() const {
    const std::optional<SourceAction> next = Next();
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
  SourceInputs inputs;
};

TEST_CASE("A template search needs a space and a budget") {
  EventHistory history;
  const SearchSpec spec = history.Spec(history.PutProblem());
  const auto problem = history.state().FindProblem(spec.problem_id);
  const TemplateSource source;
  CHECK(source.Check(spec, *problem, false).ok());
  SearchSpec unlimited = spec;
  unlimited.budget = {};
  CHECK(source.Check(unlimited, *problem, false).code() == absl::StatusCode::kInvalidArgument);
  const Problem without = *ParseProblem(testing::ProblemFilesWithoutSpace());
  CHECK(source.Check(spec, without, false).code() == absl::StatusCode::kInvalidArgument);
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
    return TemplateSource().Next(search.history.state(), search.history.search("s2"),
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
  search.inputs.ranking = true;
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
  search.history.Rank("");
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
  CHECK_FALSE(ChooseSelection(search.history.search(), ranking->candidate_ids, forecasts));
  forecasts[3] = FakeForecasters::Make(ranking->queries[3].candidate, 1.5, 0.2, 0);
  forecasts[7] = FakeForecasters::Make(ranking->queries[7].candidate, 2.5, 0.2, 0);
  forecasts[9] = FakeForecasters::Make(ranking->queries[9].candidate, 2, 0.2, 0);
  CHECK(ChooseSelection(search.history.search(), ranking->candidate_ids, forecasts) == 7u);
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

// A search over such a space.
struct LargeSearch {
  explicit LargeSearch(uint32_t max_in_flight = 0) {
    const std::string problem = history.PutProblem(LargeProblemFiles());
    SearchSpec spec = history.Spec(problem);
    spec.max_in_flight = max_in_flight;
    history.StartSearch(spec);
    history.DescribeReference(problem);
    inputs.capacity = {4, 1};
  }
  std::optional<SourceAction> Next() const {
    return TemplateSource().Next(history.state(), history.search(), inputs);
  }
  // Proposes and prunes at most this many candidates. Returns their number.
  uint64_t ProposePruned(uint64_t most = 10'000) {
    uint64_t count = 0;
    for (auto action = Next();
         count < most && action && std::holds_alternative<ProposeCandidate>(*action);
         action = Next()) {
      const auto& propose = std::get<ProposeCandidate>(*action);
      history.ProposePruned(propose.request_id, propose.candidate, 0.9);
      ++count;
    }
    return count;
  }

  EventHistory history;
  SourceInputs inputs;
};

TEST_CASE("A search looks further only when nothing is worth measuring") {
  LargeSearch search;
  EventHistory& history = search.history;
  CHECK(search.ProposePruned() == TemplateSource::kLookAhead);
  CHECK(std::get<RankPruned>(*search.Next()).candidate_ids.size() == 512);
  CHECK(history.search().looked_further == 0);
  history.Rank("");
  CHECK(search.ProposePruned() == 8);
  CHECK(history.search().looked_further == 8);
  CHECK(std::get<RankPruned>(*search.Next()).candidate_ids.size() == 520);
  // A measurement allows 8 more.
  const Candidate selected = std::get<RankPruned>(*search.Next()).queries.front().candidate;
  history.Propose("s1/521", selected);
  history.Compile("s1/521");
  history.Forecast("s1/521", 2);
  history.Decide("s1/521", DecisionReason::kSelected);
  history.Measure("s1/521", 2);
  CHECK(TemplateSource::LookAhead(history.search()) == 528);
  CHECK(search.ProposePruned() == 8);
  CHECK(history.search().looked_further == 8);
}

TEST_CASE("Candidates pruned since a ranking that found nothing are ranked some at a time") {
  LargeSearch search(2);
  EventHistory& history = search.history;
  search.ProposePruned();
  history.Rank("");
  const auto propose = [&] {
    const auto action = std::get<ProposeCandidate>(*search.Next());
    history.Propose(action.request_id, action.candidate);
    return action;
  };
  const auto prune = [&](const ProposeCandidate& proposed) {
    history.Compile(proposed.request_id);
    history.Forecast(proposed.request_id, 0.9);
    history.Decide(proposed.request_id, DecisionReason::kBudgetPace);
    history.Prune(proposed.request_id);
  };
  const ProposeCandidate slow = propose();
  const ProposeCandidate first = propose();
  // There is no room for more.
  CHECK_FALSE(search.Next());
  prune(first);
  for (uint64_t pruned = 1; pruned < TemplateSource::kLookAheadPerMeasurement; ++pruned) {
    prune(propose());
  }
  propose();
  CHECK(std::get<RankPruned>(*search.Next()).candidate_ids.size() == 520);
  // One is slow, and need not be awaited.
  CHECK(history.search().history.at(slow.candidate.candidate_id).standing ==
        CandidateHistory::Standing::kInFlight);
}

TEST_CASE("Candidates pruned since a ranking that found nothing are ranked when all are decided") {
  SpaceSearch search;
  search.inputs.capacity = {4, 2};
  const auto propose = [&] { return *search.NextAs<ProposeCandidate>(); };
  for (int i = 0; i < 38; ++i) {
    const ProposeCandidate one = propose();
    search.history.ProposePruned(one.request_id, one.candidate, 0.9);
  }
  search.history.Rank("");
  const ProposeCandidate pruned = propose();
  search.history.Propose(pruned.request_id, pruned.candidate);
  const ProposeCandidate measured = propose();
  search.history.Propose(measured.request_id, measured.candidate);
  CHECK_FALSE(search.Next());
  search.history.Compile(pruned.request_id);
  search.history.Forecast(pruned.request_id, 0.9);
  search.history.Decide(pruned.request_id, DecisionReason::kBudgetPace);
  search.history.Prune(pruned.request_id);
  CHECK_FALSE(search.Next());
  search.history.Compile(measured.request_id);
  search.history.Decide(measured.request_id, DecisionReason::kPromising);
  const auto ranking = search.NextAs<RankPruned>();
  REQUIRE(ranking);
  CHECK(ranking->candidate_ids.size() == 39);
}

TEST_CASE("The candidate that a ranking found is proposed, unless it was evaluated meanwhile") {
  SpaceSearch search;
  search.PruneAll();
  const auto ranking = search.NextAs<RankPruned>();
  REQUIRE(ranking);
  const Candidate& best = ranking->queries[7].candidate;
  search.history.Rank(best.candidate_id);
  const auto propose = search.NextAs<ProposeCandidate>();
  REQUIRE(propose);
  CHECK(propose->request_id == "s1/41");
  CHECK(propose->mode == EvaluateMode::kRoute);
  CHECK(propose->candidate.candidate_id == best.candidate_id);
  SECTION("it is proposed once") {
    search.history.Propose("s1/41", best);
    CHECK_FALSE(search.Next());
  }
  SECTION("a caller proposes it") {
    search.history.Add(EvaluationAccepted{"mine", "s1", EvaluateMode::kRoute, best, false, "",
                                          EventHistory::kDevice});
    CHECK_FALSE(search.Next());
    search.history.Compile("mine");
    search.history.Decide("mine", DecisionReason::kPromising);
    search.history.Measure("mine", 1.2);
    const auto again = search.NextAs<RankPruned>();
    REQUIRE(again);
    CHECK(again->candidate_ids.size() == 39);
  }
}

TEST_CASE("A ranking is repeated until the forecaster has learnt, for one second at most") {
  SpaceSearch search;
  search.PruneAll();
  EventHistory& history = search.history;
  const auto ranking = *search.NextAs<RankPruned>();
  const auto conclude = [&](std::optional<uint64_t> labels, int64_t waited_ns) {
    std::vector<ForecastResult> forecasts(
        ranking.candidate_ids.size(),
        Abstention{Abstention::Cause::kEndpointUnavailable, "fake", ""});
    forecasts[7] = FakeForecasters::Make(ranking.queries[7].candidate, 2.5, 0.2, labels);
    return Conclude(history.search(), ranking, forecasts, waited_ns);
  };
  constexpr int64_t kPatience = kLabelPatienceNs;
  // No measurement yet, so there is nothing to learn.
  auto ranked = conclude(0, 0);
  REQUIRE(ranked);
  CHECK(ranked->search_id == "s1");
  CHECK(ranked->measurements == 0);
  CHECK(ranked->pruned == 40);
  CHECK(ranked->labels_seen == 0);
  CHECK(ranked->candidate_id == ranking.candidate_ids[7]);
  history.Add(*ranked);
  history.Propose("s1/41", ranking.queries[7].candidate);
  history.Compile("s1/41");
  history.Forecast("s1/41", 2);
  history.Decide("s1/41", DecisionReason::kSelected);
  history.Measure("s1/41", 2);
  // The forecaster has labels of other searches too. Before the first ranking with labels, only
  // their number since then is known.
  CHECK_FALSE(conclude(0, 0));
  CHECK_FALSE(conclude(0, kPatience - 1));
  // A forecaster that does not learn is not awaited.
  CHECK(conclude(std::nullopt, 0));
  CHECK(conclude(1, 0));
  CHECK(conclude(7, 0));
  // It does not learn: the search no longer waits for it.
  history.Add(*conclude(0, kPatience));
  CHECK_FALSE(history.search().rankings.learns);
  CHECK(conclude(0, 0));
  // It does, after all.
  history.Add(*conclude(1, 0));
  CHECK(history.search().rankings.learns);
  CHECK(conclude(1, 0));
}

TEST_CASE("A template search expects to decide on its space, as far as it looks ahead") {
  CHECK(TemplateSource().ExpectedDecisions(SpaceSearch().history.search()) == 40);
  CHECK(TemplateSource().ExpectedDecisions(SpaceSearch(10, 7).history.search()) == 7);
  EventHistory history;
  history.StartSearch(history.Spec(history.PutProblem(LargeProblemFiles())));
  CHECK(TemplateSource().ExpectedDecisions(history.search()) == 512);
}

}  // namespace
}  // namespace kernelcast::orchestrator
