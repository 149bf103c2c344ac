// Searches whose strategies derive candidates in batches, and candidates that return: tables of
// events and what follows.

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/orchestrator/core/decision_order.h"
#include "services/orchestrator/core/model_source.h"
#include "services/orchestrator/core/ranking.h"
#include "services/orchestrator/core/template_source.h"
#include "tests/unit/services/orchestrator/event_history.h"

namespace kernelcast::orchestrator {
namespace {

using testing::EventHistory;
using testing::FakeForecasters;
using testing::ToyKernel;

struct DerivedSearch {
  explicit DerivedSearch(const std::string& strategy,
                         const std::map<std::string, double>& parameters = {},
                         GeneratorKind generator = GeneratorKind::kTemplate) {
    problem = generator == GeneratorKind::kTemplate
                  ? history.PutProblem()
                  : history.PutProblem(testing::ProblemFilesWithoutSpace());
    SearchSpec spec = history.Spec(problem, generator);
    spec.strategy = strategy;
    spec.strategy_parameters = parameters;
    history.StartSearch(spec);
    history.DescribeReference(problem);
    inputs.capacity = {4, 1};
    inputs.has_writer = true;
  }
  std::optional<SourceAction> Next() {
    inputs.now_ns = history.now_ns();
    return SourceFor(search().spec.generator).Next(history.state(), search(), inputs);
  }
  template <class Action>
  std::optional<Action> NextAs() {
    const std::optional<SourceAction> next = Next();
    if (!next || !std::holds_alternative<Action>(*next)) return std::nullopt;
    return std::get<Action>(*next);
  }
  const Search& search() const { return history.search(); }
  // Proposes one candidate and prunes it.
  ProposeCandidate ProposePruned() {
    const auto propose = NextAs<ProposeCandidate>();
    REQUIRE(propose);
    history.ProposePruned(propose->request_id, propose->candidate, 0.9);
    return *propose;
  }
  // Requests a kernel, gets one, and prunes it. Returns its id.
  std::string WritePruned() {
    const auto request = NextAs<RequestKernel>();
    REQUIRE(request);
    history.Add(GenerationRequested{"s1", request->number, request->parent_candidate_id});
    const std::string id = absl::StrCat("s1/", search().counts.proposed + 1);
    GenerationSettled settled;
    settled.search_id = "s1";
    settled.number = request->number;
    settled.outcome = GenerationOutcome::kWritten;
    settled.detail = id;
    history.Add(settled);
    Candidate kernel = ToyKernel(absl::StrCat("int k", request->number, ";\n"), 8, 4);
    kernel.problem_id = problem;
    kernel.target = "cpu";
    kernel.parent_candidate_id = request->parent_candidate_id;
    kernel.candidate_id = CandidateId(kernel);
    history.ProposePruned(id, kernel, 0.9);
    return kernel.candidate_id;
  }
  // The best by this ranking is the last candidate. It is proposed and measured.
  Candidate MeasureLast(const RankPruned& ranking, double speedup) {
    history.Rank(ranking.candidate_ids.back());
    const auto propose = NextAs<ProposeCandidate>();
    REQUIRE(propose);
    CHECK(propose->candidate.candidate_id == ranking.candidate_ids.back());
    history.Propose(propose->request_id, propose->candidate);
    history.Compile(propose->request_id);
    history.Forecast(propose->request_id, speedup);
    history.Decide(propose->request_id, DecisionReason::kSelected);
    history.Measure(propose->request_id, speedup);
    return propose->candidate;
  }

  EventHistory history;
  std::string problem;
  SourceInputs inputs;
};

const std::vector<std::string> kDeriving = {"puct", "islands", "map_elites", "beam"};

TEST_CASE("A batch of points is ranked when it is complete, and the best of it are measured") {
  const std::string strategy = GENERATE(from_range(kDeriving));
  CAPTURE(strategy);
  DerivedSearch derived(strategy, {{"children", 3}, {"admit", 2}, {"parents", 1}});
  const std::string reference = derived.search().archive->reference_id();
  for (int child = 0; child < 3; ++child) {
    CHECK(derived.ProposePruned().candidate.parent_candidate_id == reference);
  }
  const auto first = derived.NextAs<RankPruned>();
  REQUIRE(first);
  CHECK(first->candidate_ids.size() == 3);
  const Candidate fastest = derived.MeasureLast(*first, 2);
  CHECK(fastest.parent_candidate_id == reference);
  CHECK(derived.search().archive->Find(fastest.candidate_id)->speedup == 2);
  // One more is admitted.
  const auto second = derived.NextAs<RankPruned>();
  REQUIRE(second);
  CHECK(second->candidate_ids.size() == 2);
  derived.MeasureLast(*second, 1.5);
  // The next batch.
  const auto next = derived.NextAs<ProposeCandidate>();
  REQUIRE(next);
  CHECK(derived.search().batches.Starts());
  const std::string parent = next->candidate.parent_candidate_id;
  CHECK((parent == reference || derived.search().archive->Find(parent) != nullptr));
  derived.ProposePruned();
  CHECK(derived.ProposePruned().candidate.parent_candidate_id == parent);
}

TEST_CASE("Children of a point differ from it in few tunables") {
  DerivedSearch derived("beam", {{"children", 1}, {"admit", 1}, {"width", 1}});
  derived.ProposePruned();
  const auto ranking = derived.NextAs<RankPruned>();
  REQUIRE(ranking);
  const Candidate parent = derived.MeasureLast(*ranking, 2);
  const auto child = derived.NextAs<ProposeCandidate>();
  REQUIRE(child);
  CHECK(child->candidate.parent_candidate_id == parent.candidate_id);
  REQUIRE(child->candidate.tunables.size() == parent.tunables.size());
  int changed = 0;
  for (size_t i = 0; i < parent.tunables.size(); ++i) {
    changed += child->candidate.tunables[i].value != parent.tunables[i].value ? 1 : 0;
  }
  CHECK(changed == 1);
}

TEST_CASE("Batches of as many parents as the strategy allows compete at once") {
  const double parents = GENERATE(1, 2);
  DerivedSearch derived("puct", {{"children", 2}, {"admit", 1}, {"parents", parents}});
  derived.ProposePruned();
  derived.ProposePruned();
  CHECK(derived.NextAs<ProposeCandidate>().has_value() == (parents == 2));
  CHECK(derived.NextAs<RankPruned>().has_value() == (parents == 1));
}

TEST_CASE("Measurements do not hold up the next batch") {
  DerivedSearch derived("puct", {{"children", 2}, {"admit", 1}, {"parents", 1}});
  derived.ProposePruned();
  derived.ProposePruned();
  derived.history.Rank(derived.NextAs<RankPruned>()->candidate_ids.front());
  const auto propose = derived.NextAs<ProposeCandidate>();
  derived.history.Propose(propose->request_id, propose->candidate);
  derived.history.Compile(propose->request_id);
  derived.history.Decide(propose->request_id, DecisionReason::kSelected);
  CHECK(derived.search().measuring == 1);
  CHECK(derived.NextAs<ProposeCandidate>());
}

TEST_CASE("If nothing of a batch is worth measuring the next one is started") {
  DerivedSearch derived("islands", {{"children", 2}, {"admit", 1}});
  derived.ProposePruned();
  derived.ProposePruned();
  REQUIRE(derived.NextAs<RankPruned>());
  derived.history.Rank("");
  CHECK(derived.NextAs<ProposeCandidate>());
  // At the end of the space the search ends.
  while (derived.search().generator->proposed() < derived.search().generator->space_size()) {
    if (derived.NextAs<RankPruned>()) {
      derived.history.Rank("");
    } else {
      derived.ProposePruned();
    }
  }
  if (derived.NextAs<RankPruned>()) derived.history.Rank("");
  CHECK(derived.NextAs<FinishSearch>()->reason == "nothing left worth measuring");
}

TEST_CASE("Candidates that lost return when a forecaster that has learnt expects them to win") {
  DerivedSearch derived("puct", {{"children", 2}, {"admit", 1}, {"parents", 1}});
  derived.ProposePruned();
  derived.ProposePruned();
  derived.MeasureLast(*derived.NextAs<RankPruned>(), 2);
  derived.ProposePruned();
  derived.ProposePruned();
  const auto ranking = derived.NextAs<RankPruned>();
  REQUIRE(ranking);
  REQUIRE(ranking->candidate_ids.size() == 3);
  const auto chosen = [&](double lost_speedup) {
    std::vector<ForecastResult> forecasts;
    for (size_t i = 0; i < 3; ++i) {
      const bool lost = *derived.search().history.at(ranking->candidate_ids[i]).turn < 2;
      forecasts.push_back(
          FakeForecasters::Make(ranking->queries[i].candidate, lost ? lost_speedup : 1.6, 0.2, 1));
    }
    const auto found = Conclude(derived.search(), *ranking, forecasts, 0);
    REQUIRE(found);
    return *derived.search().history.at(found->candidate_id).turn;
  };
  CHECK(chosen(8) < 2);
  CHECK(chosen(1.9) >= 2);
}

TEST_CASE("Kernels of a model compete in batches") {
  const std::string strategy = GENERATE(from_range(kDeriving));
  CAPTURE(strategy);
  DerivedSearch derived(strategy, {{"children", 3}, {"admit", 1}, {"parents", 1}},
                        GeneratorKind::kLlm);
  derived.WritePruned();
  // One answer is prose, so the batch has two kernels.
  const auto request = derived.NextAs<RequestKernel>();
  REQUIRE(request);
  derived.history.Add(GenerationRequested{"s1", 2, request->parent_candidate_id});
  const std::string last = derived.WritePruned();
  CHECK_FALSE(derived.Next());
  GenerationSettled prose;
  prose.search_id = "s1";
  prose.number = 2;
  prose.outcome = GenerationOutcome::kUnusable;
  derived.history.Add(prose);
  const auto ranking = derived.NextAs<RankPruned>();
  REQUIRE(ranking);
  CHECK(ranking->candidate_ids.size() == 2);
  CHECK(std::ranges::count(ranking->candidate_ids, last) == 1);
  const Candidate best = derived.MeasureLast(*ranking, 3);
  CHECK_FALSE(best.source.empty());
  CHECK(best.parent_candidate_id == derived.search().archive->reference_id());
  CHECK(derived.NextAs<RequestKernel>());
}

TEST_CASE("A kernel of a model that was pruned returns after a measurement") {
  DerivedSearch derived("selection", {}, GeneratorKind::kLlm);
  derived.inputs.capacity = {1, 1};
  const std::string pruned = derived.WritePruned();
  // The forecaster has learnt nothing yet.
  CHECK(derived.NextAs<RequestKernel>());
  Candidate measured = ToyKernel("int m;\n", 8, 4);
  measured.problem_id = derived.problem;
  measured.target = "cpu";
  measured.candidate_id = CandidateId(measured);
  derived.history.ProposeMeasured("s1/2", measured, 1.2);
  for (int i = 1; i <= 4; ++i) {
    const auto request = derived.NextAs<RequestKernel>();
    REQUIRE(request);
    derived.history.Add(GenerationRequested{"s1", request->number, request->parent_candidate_id});
  }
  const auto ranking = derived.NextAs<RankPruned>();
  REQUIRE(ranking);
  CHECK(ranking->candidate_ids == std::vector<std::string>{pruned});
  const auto conclude = [&](double speedup) {
    return Conclude(derived.search(), *ranking,
                    {FakeForecasters::Make(ranking->queries.front().candidate, speedup, 0.2, 1)}, 0)
        ->candidate_id;
  };
  CHECK(conclude(1.1).empty());
  CHECK(conclude(2) == pruned);
  derived.history.Rank(pruned, 1);
  CHECK(derived.NextAs<ProposeCandidate>()->candidate.candidate_id == pruned);
}

TEST_CASE("Random points are decided in order, and those of the start at once") {
  DerivedSearch derived("random");
  const auto propose = derived.NextAs<ProposeCandidate>();
  REQUIRE(propose);
  CHECK(propose->candidate.parent_candidate_id.empty());
  derived.history.Propose(propose->request_id, propose->candidate);
  derived.history.Compile(propose->request_id);
  derived.history.Forecast(propose->request_id, 8);
  CHECK(IsDecidedInOrder(derived.history.state(), derived.history.evaluation(propose->request_id)));
  // The start of a search without selection.
  const auto action = derived.history.Plan(propose->request_id);
  CHECK(std::get<DecideCandidate>(action).decision.reason == DecisionReason::kBootstrap);
}

TEST_CASE("Without forecasts a batch has as many children as are admitted, and all are measured") {
  DerivedSearch derived("puct");
  SearchSpec spec = derived.history.Spec(derived.problem);
  spec.strategy = "puct";
  spec.measure_everything = true;
  derived.history.StartSearch(spec, "s2");
  const Search& search = derived.history.search("s2");
  const auto next = [&] {
    return std::get<ProposeCandidate>(
        *TemplateSource().Next(derived.history.state(), search, derived.inputs));
  };
  const std::string reference = search.archive->reference_id();
  double speedup = 2;
  for (int child = 0; child < 4; ++child) {
    const ProposeCandidate propose = next();
    CHECK(propose.mode == EvaluateMode::kMeasure);
    CHECK(propose.candidate.parent_candidate_id == reference);
    derived.history.Propose(propose.request_id, propose.candidate, "s2", propose.mode);
    derived.history.Compile(propose.request_id);
    derived.history.Decide(propose.request_id, DecisionReason::kRequested);
    derived.history.Measure(propose.request_id, speedup += 1);
  }
  CHECK(next().candidate.parent_candidate_id != reference);
}

TEST_CASE("A search that has ended still shows what it derived candidates from") {
  const std::string strategy = GENERATE(from_range(kDeriving));
  CAPTURE(strategy);
  DerivedSearch derived(strategy, {{"children", 3}, {"admit", 2}, {"parents", 1}});
  for (int child = 0; child < 3; ++child) derived.ProposePruned();
  const auto ranking = derived.NextAs<RankPruned>();
  REQUIRE(ranking);
  const Candidate fastest = derived.MeasureLast(*ranking, 2);
  const auto best_of = [&]() -> std::string {
    const std::optional<ArchiveOverview> overview = derived.search().Overview();
    REQUIRE(overview);
    CHECK(overview->strategy == strategy);
    for (const ArchiveEntry& entry : overview->entries) {
      if (entry.speedup == 2) return entry.candidate_id;
    }
    return "";
  };
  CHECK(best_of() == fastest.candidate_id);
  derived.history.Add(SearchFinishing{"s1", "stopped"});
  derived.history.Add(SearchClosed{"s1", "", false, ""});
  CHECK(derived.search().archive == nullptr);
  CHECK(best_of() == fastest.candidate_id);
}

TEST_CASE("A search that derives no candidates has no archive") {
  const DerivedSearch derived("selection");
  CHECK_FALSE(derived.search().Overview());
}

TEST_CASE("The tokens of kernels and critics without a cost are counted") {
  DerivedSearch derived("selection", {}, GeneratorKind::kLlm);
  for (const double cost : {0.0, 0.25, 0.0}) {
    const auto request = derived.NextAs<RequestKernel>();
    REQUIRE(request);
    derived.history.Add(GenerationRequested{"s1", request->number, request->parent_candidate_id});
    GenerationAdvised advised;
    advised.search_id = "s1";
    advised.number = request->number;
    advised.usage = {10, 2, 1, false, cost};
    derived.history.Add(advised);
    GenerationSettled settled;
    settled.search_id = "s1";
    settled.number = request->number;
    settled.outcome = GenerationOutcome::kUnusable;
    settled.usage = {100, 20, 30, false, cost};
    derived.history.Add(settled);
  }
  CHECK(derived.search().counts.generation.cost == Approx(0.5));
  CHECK(derived.search().counts.generation.input_tokens == 330);
  CHECK(derived.search().counts.unpriced_tokens == TokenUsage{220, 44, 62, 0});
}

TEST_CASE("A search with candidates from outside has no strategy of its own") {
  EventHistory history;
  SearchSpec spec = history.Spec(history.PutProblem(), GeneratorKind::kExternal);
  const auto problem = history.state().FindProblem(spec.problem_id);
  CHECK(SourceFor(spec.generator).Check(spec, *problem, false).ok());
  spec.strategy = "beam";
  CHECK(SourceFor(spec.generator).Check(spec, *problem, false).code() ==
        absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kernelcast::orchestrator
