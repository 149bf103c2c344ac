#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/services/orchestrator/world.h"

namespace kernelcast::orchestrator::testing {
namespace {

// Kernels of the toy problem with speedups from 0.1 to 3.2.
std::vector<Candidate> ManyKernels(const std::string& problem) {
  std::vector<Candidate> kernels;
  for (int copy = 0; copy < 8; ++copy) {
    for (int block : {1, 2, 4, 8, 16, 32}) {
      for (int unroll : {1, 2, 4, 8, 16}) {
        Candidate kernel = ToyKernel(absl::StrCat("// ", copy, "\n"), block, unroll);
        kernel.problem_id = problem;
        kernel.target = "cpu";
        kernels.push_back(std::move(kernel));
      }
    }
  }
  std::shuffle(kernels.begin(), kernels.end(), std::mt19937(7));
  return kernels;
}

// A normal number, fixed for each text.
double Drawn(const std::string& text) {
  std::mt19937_64 random(std::hash<std::string>{}(text));
  return std::normal_distribution<double>()(random);
}

std::string Text(const Candidate& candidate) {
  std::string text = candidate.source;
  for (const Tunable& tunable : candidate.tunables) {
    absl::StrAppend(&text, tunable.name, "=", tunable.value, " ");
  }
  return text;
}

// The distribution of kernel speedups.
struct PlantedSpace {
  const char* name;
  std::function<double(const Candidate&)> speedup;
};
const std::array<PlantedSpace, 3>& Spaces() {
  static const auto& spaces = *new std::array<PlantedSpace, 3>{
      PlantedSpace{"toy", [](const Candidate& one) { return ToySpeedup(one); }},
      PlantedSpace{"one far ahead",
                   [](const Candidate& one) { return std::exp2(Drawn("tail" + Text(one))); }},
      PlantedSpace{"all alike", [](const Candidate& one) {
                     return 1.5 * std::exp2(0.05 * Drawn("alike" + Text(one)));
                   }}};
  return spaces;
}

// Forecast errors in octaves: `offset` for all kernels, `error` for each; `stated` is the stated
// uncertainty. A blind forecaster says the same for all.
struct PlantedForecasts {
  const char* name;
  double offset;
  double error;
  double stated;
  bool blind;
  // One per space.
  std::array<double, 3> most_measured;
  std::array<double, 3> least_found;
};

TEST_CASE("Candidates about which nothing is known are measured, in any order and at any pace") {
  const bool best_first = GENERATE(true, false);
  const bool at_once = GENERATE(true, false);
  const bool in_search = GENERATE(true, false);
  CAPTURE(best_first, at_once, in_search);
  World world;
  uint64_t labels = 0;
  // Labels shift the forecasts of all candidates alike.
  world.forecasters.answer = [&](const ForecastQuery& query) -> std::optional<ForecastResult> {
    Forecast forecast = FakeForecasters::Make(query.candidate, 0.5, 0.3, labels++ / 4);
    forecast.basis = ForecastBasis::kPriorOnly;
    forecast.evidence_id = "nothing";
    return forecast;
  };
  world.Start();
  std::vector<Candidate> kernels = ManyKernels(world.PutToy());
  kernels.resize(30);
  std::ranges::sort(kernels, [&](const Candidate& a, const Candidate& b) {
    return best_first ? ToySpeedup(a) > ToySpeedup(b) : ToySpeedup(a) < ToySpeedup(b);
  });
  std::string search;
  if (in_search) {
    search = "s1";
    REQUIRE(world.StartSearch(search, ExternalSearch(kernels[0].problem_id, 100)).ok());
  }
  std::vector<World::Answer> answers;
  for (size_t i = 0; i < kernels.size(); ++i) {
    answers.push_back(world.EvaluateLater(
        Command(absl::StrCat("r", i), kernels[i], EvaluateMode::kRoute, search)));
    if (!at_once) answers.back().wait();
  }
  for (World::Answer& answer : answers) {
    const auto record = answer.get();
    REQUIRE(record.ok());
    CHECK(std::holds_alternative<Measurement>(record->result));
    CHECK(record->decision.reason == DecisionReason::kNoForecast);
    CHECK(record->decision.audit_propensity == 1);
  }
}

TEST_CASE("Outside searches, trusted forecasts leave few candidates to measure") {
  const size_t number = GENERATE(0u, 1u, 2u);
  const PlantedSpace& space = Spaces()[number];
  const PlantedForecasts said = GENERATE(
      PlantedForecasts{"knows", 0, 0.1, 0.1, false, {0.2, 0.14, 0.4}, {1, 1, 0.99}},
      PlantedForecasts{"errs and says so", 0, 0.4, 0.4, false, {0.42, 0.18, 0.8}, {1, 1, 0.99}},
      PlantedForecasts{"vague", 0, 1, 1, false, {0.65, 0.25, 0.9}, {1, 1, 0.99}},
      PlantedForecasts{"too high for all", 0.5, 0.3, 0.6, false, {0.75, 0.22, 1}, {1, 1, 0.99}},
      PlantedForecasts{"too low for all", -0.5, 0.3, 0.6, false, {0.22, 0.14, 0.46}, {1, 1, 0.99}},
      PlantedForecasts{"too sure", 0, 0.7, 0.2, false, {0.4, 0.18, 0.65}, {1, 1, 0.99}},
      // Nothing can be left out.
      PlantedForecasts{"blind", 0, 0, 1, true, {1, 1, 1}, {1, 1, 1}});
  CAPTURE(space.name, said.name);
  World world;
  world.workers.measure = [&](const Candidate& candidate) {
    return FakeWorkers::Ok(space.speedup(candidate));
  };
  world.forecasters.forgetful = true;
  world.forecasters.answer = [&](const ForecastQuery& query) -> std::optional<ForecastResult> {
    const double truth = std::log2(space.speedup(query.candidate));
    const double location =
        said.blind ? 0 : truth + said.offset + said.error * Drawn("error" + Text(query.candidate));
    return FakeForecasters::Make(query.candidate, std::exp2(location), said.stated, 0);
  };
  world.Start();
  const std::vector<Candidate> kernels = ManyKernels(world.PutToy());
  int measured = 0;
  double found = 0;
  double best = 0;
  for (size_t i = 0; i < kernels.size(); ++i) {
    best = std::max(best, space.speedup(kernels[i]));
    const auto record =
        world.Evaluate(Command(absl::StrCat("r", i), kernels[i], EvaluateMode::kRoute));
    REQUIRE(record.ok());
    if (const auto* measurement = std::get_if<Measurement>(&record->result)) {
      ++measured;
      found = std::max(found, MeasuredSpeedup(*measurement)->value);
    }
  }
  const double share = measured / static_cast<double>(kernels.size());
  CHECK(share <= said.most_measured[number]);
  CHECK(found / best >= Approx(said.least_found[number]));
}

TEST_CASE("A candidate is not compared with a result that its forecast has not learnt from") {
  // In forecasts. A forecaster that never learns is waited for once.
  const int late = GENERATE(3, 1'000'000);
  World world;
  world.workers.measure = [](const Candidate& candidate) {
    return FakeWorkers::Ok(ToySpeedup(candidate));
  };
  world.workers.hold_measurements = true;
  std::atomic<int> asked = 0;
  // Without labels all forecasts are too low by the same factor.
  world.forecasters.answer = [&](const ForecastQuery& query) -> std::optional<ForecastResult> {
    const bool learnt = world.forecasters.labels() > 0 && ++asked > late;
    Forecast forecast =
        FakeForecasters::Make(query.candidate, ToySpeedup(query.candidate) / (learnt ? 1 : 8), 0.1,
                              learnt ? world.forecasters.labels() : 0);
    forecast.basis = ForecastBasis::kRecording;
    return forecast;
  };
  world.Start();
  std::vector<Candidate> kernels = ManyKernels(world.PutToy());
  kernels.resize(20);
  std::vector<World::Answer> answers;
  for (size_t i = 0; i < kernels.size(); ++i) {
    answers.push_back(
        world.EvaluateLater(Command(absl::StrCat("r", i), kernels[i], EvaluateMode::kRoute)));
  }
  while (world.forecasters.queries().size() < kernels.size()) std::this_thread::yield();
  world.workers.Release();
  int unlearnt = 0;
  for (World::Answer& answer : answers) {
    const auto record = answer.get();
    REQUIRE(record.ok());
    REQUIRE(record->decided_on.has_value());
    const bool pruned = record->decision.kind == DecisionKind::kPrune;
    unlearnt += pruned && record->decided_on->labels_seen == 0 ? 1 : 0;
  }
  if (late == 3) {
    CHECK(unlearnt == 0);
  } else {
    CHECK(unlearnt > 0);
  }
}

TEST_CASE("Outside searches most candidates are pruned and the best is found") {
  World world;
  // This forecaster counts no labels, so measurements count instead of its progress.
  world.forecasters.forgetful = true;
  world.forecasters.blur_octaves = 0.1;
  world.Start();
  const std::string problem = world.PutToy();
  const std::vector<Candidate> kernels = ManyKernels(problem);
  int measured = 0;
  int audited = 0;
  double best = 0;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const auto record =
        world.Evaluate(Command(absl::StrCat("r", i), kernels[i], EvaluateMode::kRoute));
    REQUIRE(record.ok());
    if (i == 0) CHECK(record->decision.reason == DecisionReason::kBootstrap);
    if (record->decision.reason == DecisionReason::kAudit) ++audited;
    if (const auto* measurement = std::get_if<Measurement>(&record->result)) {
      ++measured;
      best = std::max(best, MeasuredSpeedup(*measurement)->value);
    }
  }
  CHECK(best == Approx(3.2));
  CHECK(measured < static_cast<int>(kernels.size()) / 3);
  CHECK(audited > 0);
  CheckReplayGivesTheState(world);

  // A restart changes nothing: later candidates are not taken for the start.
  world.engine.reset();
  world.Start();
  Candidate slow = ToyKernel("// slow\n", 1, 1);
  slow.problem_id = problem;
  slow.target = "cpu";
  const auto record = world.Evaluate(Command("after", slow, EvaluateMode::kRoute));
  REQUIRE(record.ok());
  CHECK(record->decision.incumbent_speedup == Approx(3.2));
  CHECK((record->decision.reason == DecisionReason::kUnpromising ||
         record->decision.reason == DecisionReason::kAudit));
}

TEST_CASE("Later candidates outside searches must beat the best of a search") {
  World world;
  world.Start();
  const std::string problem = world.PutToy();
  REQUIRE(world.StartSearch("s1", TemplateSearch(problem, 12)).ok());
  const SearchSnapshot search = world.WaitForEnd("s1");
  const double found = MeasuredSpeedup(search.incumbent->measurement)->value;
  const auto record =
      world.Evaluate(Command("r", world.ToyCandidate(problem, "// other\n"), EvaluateMode::kRoute));
  REQUIRE(record.ok());
  CHECK(record->decision.incumbent_speedup == Approx(found));
}

TEST_CASE("Models are asked to compare with the best measured so far") {
  World world;
  world.Start();
  const std::string problem = world.PutToy();
  Candidate first = world.ToyCandidate(problem, "// first\n");
  REQUIRE(world.Evaluate(Command("first", first)).ok());
  REQUIRE(world.Evaluate(Command("next", world.ToyCandidate(problem, "// next\n"))).ok());
  const std::vector<ForecastQuery> queries = world.forecasters.queries();
  REQUIRE(queries.size() == 2);
  CHECK(queries[0].anchor == nullptr);
  REQUIRE(queries[1].anchor != nullptr);
  CHECK(queries[1].anchor->candidate.source == "// first\n");
  CHECK(queries[1].anchor->speedup.value == Approx(3.2));
  CHECK(queries[1].anchor->facts.schema == kCpuAssemblySchemaId);
  CHECK(queries[1].device_model == "fake cpu");
}

TEST_CASE("A model that declines defers, even in a pool that would prune") {
  World world;
  const bool pool = GENERATE(false, true);
  world.forecasters.answer = [pool](const ForecastQuery& query) -> std::optional<ForecastResult> {
    if (query.candidate.source != "declined") return std::nullopt;
    const ModelAnswer declined{ModelOutcome::kDeclined, "", "too close to tell", {}};
    if (pool) {
      Forecast forecast = FakeForecasters::Make(query.candidate, 0.1, 0.2, 0);
      forecast.model = declined;
      return forecast;
    }
    Abstention abstention{Abstention::Cause::kModelDeferred, "llm", "too close to tell"};
    abstention.model = declined;
    return abstention;
  };
  world.Start();
  const std::string problem = world.PutToy();
  REQUIRE(world.StartSearch("s1", ExternalSearch(problem, 100)).ok());
  // Past the start of the search.
  for (int i = 0; i < 25; ++i) {
    REQUIRE(
        world
            .Evaluate(Command(absl::StrCat("r", i), world.ToyCandidate(problem, absl::StrCat(i)),
                              EvaluateMode::kMeasure, "s1"))
            .ok());
  }
  const auto record = world.Evaluate(
      Command("d", world.ToyCandidate(problem, "declined"), EvaluateMode::kRoute, "s1"));
  REQUIRE(record.ok());
  CHECK(record->decision.reason == DecisionReason::kDeclined);
  CHECK(world.GetSearch("s1").counts.deferred == 1);
  CHECK(world.GetSearch("s1").counts.unforecast == 0);
}

TEST_CASE("A search counts the models' contributions to its forecasts") {
  World world;
  world.forecasters.answer = [](const ForecastQuery& query) -> std::optional<ForecastResult> {
    if (query.again) return std::nullopt;
    const std::string& source = query.candidate.source;
    if (source == "unreadable") {
      Abstention abstention{Abstention::Cause::kUnparsable, "llm", "no JSON"};
      abstention.model = ModelAnswer{ModelOutcome::kUnreadable, "no_json", "Well.", {9, 0, 3, 0}};
      return abstention;
    }
    if (source == "declined") {
      Abstention abstention{Abstention::Cause::kModelDeferred, "llm", "too close"};
      abstention.model = ModelAnswer{ModelOutcome::kDeclined, "", "too close", {8, 0, 2, 0}};
      return abstention;
    }
    Forecast forecast = FakeForecasters::Make(query.candidate, 0.2, 0);
    forecast.model = ModelAnswer{ModelOutcome::kUsed, "", "", {10, 0, 5, 0.5}};
    return forecast;
  };
  world.Start();
  const std::string problem = world.PutToy();
  REQUIRE(world.StartSearch("s1", ExternalSearch(problem, 100)).ok());
  for (const char* source : {"used", "declined", "unreadable"}) {
    REQUIRE(world
                .Evaluate(Command(source, world.ToyCandidate(problem, source), EvaluateMode::kRoute,
                                  "s1"))
                .ok());
  }
  const SearchCounts counts = world.GetSearch("s1").counts;
  // The answer with a cost is not among them.
  CHECK(counts.unpriced_tokens == TokenUsage{17, 0, 5, 0});
  const ModelUse use = counts.model_use;
  CHECK(use.asked == 3);
  CHECK(use.used == 1);
  CHECK(use.declined == 1);
  CHECK(use.unreadable.at("no_json") == ModelUse::Unreadable{1, "Well."});
  CHECK(use.token_usage == TokenUsage{27, 0, 10, 0.5});
  CheckReplayGivesTheState(world);
}

}  // namespace
}  // namespace kernelcast::orchestrator::testing
