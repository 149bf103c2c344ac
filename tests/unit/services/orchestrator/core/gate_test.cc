#include "services/orchestrator/core/gate.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/services/orchestrator/event_history.h"
#include "tests/unit/services/orchestrator/world.h"

namespace kernelcast::orchestrator {
namespace {

using testing::EventHistory;
using testing::FakeWorkers;
using testing::MemoryEventStore;
using testing::SmallProblemFiles;
using testing::TemplateSearch;
using testing::ToySpeedup;
using testing::World;

using IdList = std::vector<std::string>;

Ratio About(double value, double half_width = 0.01) {
  return {value, value * (1 - half_width), value * (1 + half_width), 0.95};
}

// As RankFinalists returns it.
Finalist Ranked(const std::string& candidate_id, double speedup, double half_width = 0.01) {
  Finalist one;
  one.candidate_id = candidate_id;
  one.speedup = About(speedup, half_width);
  one.measurements = 2;
  return one;
}

FinalMeasurement HeldOut(const std::string& candidate_id, double speedup,
                         double half_width = 0.01) {
  return {candidate_id, "s/held-out/" + candidate_id, true, About(speedup, half_width), false};
}

FinalMeasurement Failed(const std::string& candidate_id) {
  return {candidate_id, "s/held-out/" + candidate_id, true, {}, true, "wrong_result"};
}

FinalMeasurement Lost(const std::string& candidate_id) {
  return {candidate_id, "s/held-out/" + candidate_id, true, {}, false};
}

IdList IdsOf(const std::vector<Finalist>& finalists) {
  IdList ids;
  for (const Finalist& one : finalists) ids.push_back(one.candidate_id);
  return ids;
}

TEST_CASE("Without measurements at held-out shapes the ranking is unchanged", "[gate]") {
  std::vector<Finalist> ranked = {Ranked("a", 3), Ranked("b", 2.99)};
  ranked[1].tied = true;
  const std::vector<Finalist> gated = ApplyGate(ranked, {});
  CHECK(IdsOf(gated) == IdList{"a", "b"});
  CHECK(gated[1].tied);
  CHECK(gated[0].gate == Gate::kNotMeasured);
  CHECK_FALSE(NothingCarriesOver(gated));
  CHECK_FALSE(NothingCarriesOver({}));
}

TEST_CASE("A finalist that is slower than the reference at held-out shapes does not carry over",
          "[gate]") {
  const std::vector<FinalMeasurement> gates = {HeldOut("a", 0.9), HeldOut("b", 1.5)};
  const std::vector<Finalist> gated = ApplyGate({Ranked("a", 3), Ranked("b", 2)}, gates);
  CHECK(IdsOf(gated) == IdList{"b", "a"});
  CHECK(gated[0].gate == Gate::kCarriesOver);
  CHECK(gated[0].held_out->speedup.value == 1.5);
  CHECK(gated[0].held_out->request_id == "s/held-out/b");
  CHECK(gated[1].gate == Gate::kDoesNotCarryOver);
  CHECK_FALSE(MayWin(gated[1]));
  // 0.995 with an interval that reaches 1.005: it may be as fast as the reference.
  CHECK(ApplyGate({Ranked("a", 3)}, std::vector{HeldOut("a", 0.995)})[0].gate ==
        Gate::kCarriesOver);
  // It is no faster at the bench shapes either.
  CHECK(ApplyGate({Ranked("a", 0.95)}, std::vector{HeldOut("a", 0.9)})[0].gate ==
        Gate::kCarriesOver);
}

TEST_CASE("A finalist that loses more at held-out shapes than it gains does not carry over",
          "[gate]") {
  // 3 x 1.2 = 3.6 against 2 x 2 = 4.
  const std::vector<FinalMeasurement> loses = {HeldOut("a", 1.2), HeldOut("b", 2)};
  CHECK(IdsOf(ApplyGate({Ranked("a", 3), Ranked("b", 2)}, loses)) == IdList{"b", "a"});
  // 3 x 1.4 = 4.2 against 4.
  const std::vector<FinalMeasurement> gains = {HeldOut("a", 1.4), HeldOut("b", 2)};
  const std::vector<Finalist> kept = ApplyGate({Ranked("a", 3), Ranked("b", 2)}, gains);
  CHECK(IdsOf(kept) == IdList{"a", "b"});
  CHECK(kept[1].gate == Gate::kCarriesOver);
  // A slower finalist that is slower there too is no failure of the gate.
  const std::vector<FinalMeasurement> slower = {HeldOut("a", 3), HeldOut("b", 1.5)};
  CHECK(ApplyGate({Ranked("a", 3), Ranked("b", 2)}, slower)[1].gate == Gate::kCarriesOver);
}

TEST_CASE("A difference within the error of the measurements rejects nothing", "[gate]") {
  // ln(2 x 2 / (3 x 1.25)) = 0.0645. The standard error of each value of +-1% is
  // max(0.01 / 1.96, 0.006) = 0.006, and 1.96 x sqrt(4) x 0.006 = 0.0235.
  const std::vector<FinalMeasurement> exact = {HeldOut("a", 1.25), HeldOut("b", 2)};
  CHECK(ApplyGate({Ranked("a", 3), Ranked("b", 2)}, exact)[0].candidate_id == "b");
  // With +-5% at the held-out shapes it is 1.96 x sqrt(2 x 0.0255^2 + 2 x 0.006^2) = 0.0727.
  const std::vector<FinalMeasurement> noisy = {HeldOut("a", 1.25, 0.05), HeldOut("b", 2, 0.05)};
  CHECK(ApplyGate({Ranked("a", 3), Ranked("b", 2)}, noisy)[0].candidate_id == "a");
}

TEST_CASE("A finalist that fails at a held-out shape is rejected with its outcome", "[gate]") {
  const std::vector<FinalMeasurement> gates = {Failed("a"), HeldOut("b", 1.9)};
  const std::vector<Finalist> gated = ApplyGate({Ranked("a", 3), Ranked("b", 2)}, gates);
  CHECK(IdsOf(gated) == IdList{"b", "a"});
  CHECK(gated[1].gate == Gate::kFailed);
  CHECK(gated[1].failed);
  CHECK(gated[1].held_out->outcome == "wrong_result");
}

TEST_CASE("Finalists without a verdict come after those that carry over", "[gate]") {
  const std::vector<FinalMeasurement> gates = {Lost("a"), HeldOut("b", 0.5), HeldOut("c", 1.5)};
  const std::vector<Finalist> gated =
      ApplyGate({Ranked("a", 3), Ranked("b", 2.5), Ranked("c", 2)}, gates);
  CHECK(IdsOf(gated) == IdList{"c", "a", "b"});
  CHECK(gated[1].gate == Gate::kNotMeasured);
  CHECK_FALSE(gated[1].held_out);
  // If no worker could measure any, the ranking stands.
  CHECK(ApplyGate({Ranked("a", 3), Ranked("b", 2)}, std::vector{Lost("a"), Lost("b")})[0]
            .candidate_id == "a");
}

TEST_CASE("If nothing carries over, no finalist may win", "[gate]") {
  const std::vector<FinalMeasurement> gates = {HeldOut("a", 0.5), Failed("b")};
  const std::vector<Finalist> gated = ApplyGate({Ranked("a", 3), Ranked("b", 2)}, gates);
  CHECK(NothingCarriesOver(gated));
  CHECK_FALSE(MayWin(gated[0]));
  // Final measurements that fail are not the gate's.
  std::vector<Finalist> broken = {Ranked("a", 3)};
  broken[0].failed = true;
  CHECK_FALSE(NothingCarriesOver(ApplyGate(broken, {})));
}

TEST_CASE("Ties are those with the finalist that wins", "[gate]") {
  std::vector<Finalist> ranked = {Ranked("a", 3), Ranked("b", 2.99), Ranked("c", 2.985),
                                  Ranked("d", 2)};
  ranked[1].tied = ranked[2].tied = true;
  const std::vector<FinalMeasurement> gates = {HeldOut("a", 0.9), HeldOut("b", 2), HeldOut("c", 2)};
  const std::vector<Finalist> gated = ApplyGate(ranked, gates);
  CHECK(IdsOf(gated) == IdList{"b", "c", "d", "a"});
  CHECK_FALSE(gated[0].tied);
  CHECK(gated[1].tied);
  CHECK_FALSE(gated[2].tied);
  CHECK_FALSE(gated[3].tied);
}

TEST_CASE("Three finalists are measured at held-out shapes, and more if none may win", "[gate]") {
  std::vector<Finalist> ranked = {Ranked("a", 8), Ranked("b", 7), Ranked("c", 6), Ranked("d", 5),
                                  Ranked("e", 4), Ranked("f", 3), Ranked("g", 2)};
  CHECK(NextGated(ranked, {}) == IdList{"a", "b", "c"});
  CHECK(NextGated({}, {}).empty());
  // After a crash in the round, the rest of it.
  std::vector<FinalMeasurement> gates = {HeldOut("a", 0.5)};
  CHECK(NextGated(ranked, gates) == IdList{"b", "c"});
  gates.push_back(Failed("b"));
  std::vector<FinalMeasurement> good = gates;
  good.push_back(HeldOut("c", 2));
  CHECK(NextGated(ranked, good).empty());
  std::vector<FinalMeasurement> lost = gates;
  lost.push_back(Lost("c"));
  CHECK(NextGated(ranked, lost).empty());
  for (const char* id : {"c", "d", "e", "f", "g"}) {
    CHECK(NextGated(ranked, gates) == IdList{id});
    gates.push_back(HeldOut(id, 0.5));
  }
  CHECK(NextGated(ranked, gates).empty());
  ranked[0].failed = true;
  CHECK(NextGated(ranked, {}) == IdList{"b", "c", "d"});
}

// --- Searches ---

std::vector<ProblemFile> GatedProblemFiles() {
  std::vector<ProblemFile> files = SmallProblemFiles();
  files.front().content += "held_out_bench_shapes:\n  - {n: 1000}\n  - {n: 3000}\n";
  return files;
}

bool IsBlock8Unroll4(const Candidate& candidate) { return ToySpeedup(candidate) > 3.19; }

// A worker on which the fastest kernel of the space is fast at the bench shapes of `problem_id`
// alone.
void TuneBestToTheBenchShape(World& world, const std::string& problem_id,
                             const MeasureOutcome& elsewhere) {
  world.workers.measure = [problem_id, elsewhere](const Candidate& candidate) -> MeasureOutcome {
    if (candidate.problem_id == problem_id) return FakeWorkers::Ok(ToySpeedup(candidate));
    if (IsBlock8Unroll4(candidate)) return elsewhere;
    return FakeWorkers::Ok(0.95 * ToySpeedup(candidate));
  };
}

SearchSnapshot SearchAll(World& world, SearchSpec spec) {
  spec.measure_everything = true;
  REQUIRE(world.StartSearch("s1", std::move(spec)).ok());
  return world.WaitForEnd("s1");
}

TEST_CASE("A kernel tuned to the bench shape alone does not win the search", "[gate]") {
  World world;
  world.Start();
  const std::string problem = world.PutToy(GatedProblemFiles());
  TuneBestToTheBenchShape(world, problem, FakeWorkers::Ok(0.7));
  const SearchSnapshot search = SearchAll(world, TemplateSearch(problem, 40));
  CHECK(MeasuredSpeedup(search.incumbent->measurement)->value == Approx(3.2));
  REQUIRE(search.confirmed);
  CHECK(MeasuredSpeedup(search.confirmed->measurement)->value < 3.1);
  CHECK(search.confirmed->candidate.problem_id == problem);
  CHECK(search.confirmed->candidate.candidate_id == search.finalists[0].candidate_id);
  CHECK(search.finalists[0].gate == Gate::kCarriesOver);
  const Finalist& last = search.finalists.back();
  CHECK(last.candidate_id == search.incumbent->candidate.candidate_id);
  CHECK(last.gate == Gate::kDoesNotCarryOver);
  CHECK(last.held_out->speedup.value == Approx(0.7));

  // The measurements are evaluations of the search on another problem.
  std::set<std::string> asked;
  for (const auto& event : world.store->All<EvaluationAccepted>()) {
    if (event.candidate.problem_id == problem) continue;
    CHECK(event.mode == EvaluateMode::kFinal);
    CHECK(event.search_id == "s1");
    asked.insert(event.request_id);
  }
  CHECK(asked == std::set<std::string>{"s1/held-out/1", "s1/held-out/2", "s1/held-out/3"});
  CHECK(search.counts.confirmations > 3);
  // Forecasters learn nothing from them.
  for (const auto& observed : world.store->All<LabelsObserved>()) {
    for (const std::string& id : observed.request_ids) CHECK(asked.count(id) == 0);
  }
  testing::CheckEachSettledOnce(*world.store);
  testing::CheckReplayGivesTheState(world);
}

TEST_CASE("A finalist that is wrong at a held-out shape is rejected", "[gate]") {
  World world;
  world.Start();
  const std::string problem = world.PutToy(GatedProblemFiles());
  TuneBestToTheBenchShape(world, problem, WrongResult{});
  const SearchSnapshot search = SearchAll(world, TemplateSearch(problem, 40));
  REQUIRE(search.confirmed);
  CHECK_FALSE(IsBlock8Unroll4(search.confirmed->candidate));
  CHECK(search.finalists.back().failed);
  CHECK(search.finalists.back().gate == Gate::kFailed);
  CHECK(search.finalists.back().held_out->outcome == "wrong_result");
}

TEST_CASE("If no finalist carries over, the search has no best kernel", "[gate]") {
  World world;
  world.Start();
  const std::string problem = world.PutToy(GatedProblemFiles());
  world.workers.measure = [problem](const Candidate& candidate) {
    return FakeWorkers::Ok(candidate.problem_id == problem ? ToySpeedup(candidate) : 0.5);
  };
  const SearchSnapshot search = SearchAll(world, TemplateSearch(problem, 40));
  CHECK(search.status == SearchStatus::kDone);
  CHECK(search.incumbent);
  CHECK_FALSE(search.confirmed);
  CHECK(NothingCarriesOver(search.finalists));
}

TEST_CASE("The gate can be switched off, and needs held-out shapes", "[gate]") {
  World world;
  world.Start();
  const bool declared = GENERATE(false, true);
  const std::string problem = world.PutToy(declared ? GatedProblemFiles() : SmallProblemFiles());
  TuneBestToTheBenchShape(world, problem, FakeWorkers::Ok(0.7));
  SearchSpec spec = TemplateSearch(problem, 40);
  // The bench size of the toy's axis is outside its range, so that nothing can be drawn.
  spec.gate = declared ? GateMode::kOff : GateMode::kDrawn;
  const SearchSnapshot search = SearchAll(world, std::move(spec));
  CHECK(IsBlock8Unroll4(search.confirmed->candidate));
  CHECK(search.finalists[0].gate == Gate::kNotMeasured);
  CHECK(world.store->All<ProblemPut>().size() == 1);
}

TEST_CASE("Shapes are drawn for a search that asks for them", "[gate]") {
  World world;
  world.Start();
  std::vector<ProblemFile> files = SmallProblemFiles();
  std::string& yaml = files.front().content;
  yaml.replace(yaml.find("[1, 64]"), 7, "[1, 4096]");
  const std::string problem = world.PutToy(files);
  TuneBestToTheBenchShape(world, problem, FakeWorkers::Ok(0.7));
  SearchSpec spec = TemplateSearch(problem, 40);
  spec.gate = GateMode::kDrawn;
  const SearchSnapshot search = SearchAll(world, std::move(spec));
  CHECK_FALSE(IsBlock8Unroll4(search.confirmed->candidate));
  const auto put = world.store->All<ProblemPut>();
  REQUIRE(put.size() == 2);
  const auto held_out = ParseProblem(put[1].files);
  REQUIRE(held_out.ok());
  CHECK(held_out->targets.at("cpu").bench_shapes.size() == 3);
}

TEST_CASE("After a crash at any event of the gate the search ends with the same best", "[gate]") {
  World first;
  first.Start();
  const std::string problem = first.PutToy(GatedProblemFiles());
  TuneBestToTheBenchShape(first, problem, FakeWorkers::Ok(0.7));
  const SearchSnapshot ended = SearchAll(first, TemplateSearch(problem, 40));
  first.engine->Stop();
  const size_t events = *first.store->LastSequence();
  size_t begin = 0;
  REQUIRE(first.store
              ->Replay(1,
                       [&](const StoredEvent& stored) {
                         if (std::holds_alternative<ProblemPut>(stored.event.body)) {
                           begin = stored.sequence;
                         }
                         return absl::OkStatus();
                       })
              .ok());
  REQUIRE(begin > 40);  // the held-out problem
  for (size_t length = begin - 1; length < events; ++length) {
    INFO("after event " << length << " of " << events);
    World restarted(testing::Prefix(*first.store, length));
    TuneBestToTheBenchShape(restarted, problem, FakeWorkers::Ok(0.7));
    restarted.Start();
    const SearchSnapshot again = restarted.WaitForEnd("s1");
    CHECK(again.confirmed->candidate.candidate_id == ended.confirmed->candidate.candidate_id);
    CHECK(IdsOf(again.finalists) == IdsOf(ended.finalists));
    CHECK(again.counts.confirmations == ended.counts.confirmations);
    CHECK(restarted.store->All<ProblemPut>().size() == 2);
    testing::CheckEachSettledOnce(*restarted.store);
  }
}

}  // namespace
}  // namespace kernelcast::orchestrator
