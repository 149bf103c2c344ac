#include <catch2/catch.hpp>
#include <cmath>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/eventually.h"
#include "tests/unit/services/orchestrator/world.h"

namespace kernelcast::orchestrator::testing {
namespace {

using Catch::Contains;
using kernelcast::testing::Eventually;

// Small blocks are fast on one device and large ones on the other.
double PlantedSpeedup(const Candidate& candidate, const std::string& device_model) {
  double block = 0;
  for (const Tunable& tunable : candidate.tunables) {
    if (tunable.name == "WIDTH") return 0.3;
    if (tunable.name == "BLOCK") block = std::log2(std::stod(tunable.value));
  }
  const double best = device_model == "Big" ? 5 : 0;
  return 4 * std::exp2(-0.6 * std::abs(block - best));
}

std::string BlockOf(const Candidate& candidate) {
  for (const Tunable& tunable : candidate.tunables) {
    if (tunable.name == "BLOCK") return tunable.value;
  }
  return "";
}

// The search once it waits; the engine checks it once per round.
SearchSnapshot AwaitWaiting(World& world, const std::string& id) {
  SearchSnapshot search;
  do {
    search = world.GetSearch(id);
  } while (search.wait_reason.empty() && search.ended_ns == 0);
  return search;
}

struct TwoPools : World {
  TwoPools() {
    workers.SetDevices({{"cpu", "Small", 1}, {"cpu", "Big", 1}});
    workers.measure_on = [](const Candidate& candidate, const std::string& model) {
      return FakeWorkers::Ok(PlantedSpeedup(candidate, model));
    };
    forecasters.truth = PlantedSpeedup;
    Start();
    problem = PutToy();
  }
  std::string problem;
};

TEST_CASE("A search on two device models names the right kernel for each") {
  TwoPools world;
  SearchSpec spec = TemplateSearch(world.problem, 10);
  spec.device_models = {"Small", "Big"};
  const auto started = world.StartSearch("s1", spec);
  REQUIRE(started.ok());
  REQUIRE(started->further.size() == 1);
  std::map<std::string, SearchSnapshot> by_model;
  for (const char* id : {"s1@small", "s1@big"}) {
    SearchSnapshot search = world.WaitForEnd(id);
    by_model.emplace(search.device_model, std::move(search));
  }
  REQUIRE(by_model.size() == 2);
  for (const auto& [model, search] : by_model) {
    INFO(model);
    REQUIRE(search.confirmed.has_value());
    CHECK(search.confirmed->measurement.device.model == model);
    CHECK(BlockOf(search.confirmed->candidate) == (model == "Big" ? "32" : "1"));
    CHECK(search.counts.measured <= 10);
  }
  // One id for both searches.
  const SearchSnapshot both = world.GetSearch("s1");
  CHECK(both.further.size() == 1);
  // Repeating the request starts nothing.
  REQUIRE(world.StartSearch("s1", spec).ok());
  CHECK(world.store->All<SearchCreated>().size() == 2);
  CheckReplayGivesTheState(world);
}

TEST_CASE("A candidate is evaluated on each requested device model") {
  TwoPools world;
  Candidate small = ToyKernel("// small\n", 1, 1);
  small.problem_id = world.problem;
  small.target = "cpu";
  Engine::EvaluateCommand command = Command("r1", small);
  command.device_models = {"Big", "Small"};
  const auto record = world.Evaluate(command);
  REQUIRE(record.ok());
  REQUIRE(record->further.size() == 1);
  CHECK(record->device_model == "Big");
  CHECK(record->further[0].device_model == "Small");
  CHECK(MeasuredSpeedup(std::get<Measurement>(record->result))->value == Approx(0.5));
  CHECK(MeasuredSpeedup(std::get<Measurement>(record->further[0].result))->value == Approx(4));
  // Repeating the request measures nothing.
  REQUIRE(world.Evaluate(command).ok());
  CHECK(world.workers.measurements() == 2);

  // Each has its own incumbent.
  command = Command("r2", world.ToyCandidate(world.problem), EvaluateMode::kForecast);
  command.device_models = {"Big", "Small"};
  const auto forecast = world.Evaluate(command);
  REQUIRE(forecast.ok());
  CHECK(forecast->decision.incumbent_speedup == 1);
  CHECK(forecast->further[0].decision.incumbent_speedup == Approx(4));
  CheckReplayGivesTheState(world);
}

TEST_CASE("Candidates for searches on several device models go to all of them") {
  TwoPools world;
  SearchSpec spec = ExternalSearch(world.problem, 10);
  spec.device_models = {"Small", "Big"};
  REQUIRE(world.StartSearch("s1", spec).ok());
  const auto record = world.Evaluate(
      Command("r1", world.ToyCandidate(world.problem), EvaluateMode::kMeasure, "s1"));
  REQUIRE(record.ok());
  CHECK(record->further.size() == 1);
  CHECK(world.GetSearch("s1@small").counts.measured == 1);
  CHECK(world.GetSearch("s1@big").counts.measured == 1);
  world.engine->StopSearch("s1", [](const auto&) {});
  CHECK(world.WaitForEnd("s1@small").end_reason == kStoppedReason);
  CHECK(world.WaitForEnd("s1@big").end_reason == kStoppedReason);
}

TEST_CASE("Labels, references and incumbents belong to one device model") {
  TwoPools world;
  for (const char* model : {"Small", "Big"}) {
    Engine::EvaluateCommand command = Command(model, world.ToyCandidate(world.problem));
    command.device_models = {model};
    REQUIRE(world.Evaluate(command).ok());
  }
  const auto references = world.store->All<ReferenceDescribed>();
  REQUIRE(references.size() == 2);
  CHECK(references[0].device_model != references[1].device_model);
}

TEST_CASE(
    "A search or evaluation without a suitable device fails soon and lists the available ones") {
  EngineOptions options;
  options.device_grace = absl::Milliseconds(60);
  World world(nullptr, options);
  world.Start();
  const std::string problem = world.PutToy();
  SearchSpec spec = TemplateSearch(problem, 5);
  spec.device_models = {"NVIDIA H200"};
  REQUIRE(world.StartSearch("s1", spec).ok());
  const SearchSnapshot search = world.WaitForEnd("s1");
  CHECK(search.status == SearchStatus::kFailed);
  CHECK_THAT(search.end_reason, Contains("no worker measures cpu on NVIDIA H200") &&
                                    Contains("there are: cpu on fake cpu"));

  Engine::EvaluateCommand command = Command("r1", world.ToyCandidate(problem));
  command.device_models = {"NVIDIA H200"};
  const auto record = world.Evaluate(command);
  REQUIRE(record.ok());
  CHECK(record->decision.reason == DecisionReason::kUnavailable);
  CHECK_THAT(std::get<Rejection>(record->result).detail, Contains("there are: cpu on fake cpu"));
  CheckReplayGivesTheState(world);
}

TEST_CASE("A forecast needs only a worker that compiles") {
  EngineOptions options;
  options.device_grace = absl::Milliseconds(60);
  World world(nullptr, options);
  world.workers.SetDevices({});
  world.workers.compile_credits = 2;
  world.Start();
  const Candidate candidate = world.ToyCandidate(world.PutToy());
  const auto forecast = world.Evaluate(Command("r1", candidate, EvaluateMode::kForecast));
  REQUIRE(forecast.ok());
  CHECK(forecast->decision.reason == DecisionReason::kForecastOnly);
  CHECK(forecast->device_model == "cpu");
  Engine::EvaluateCommand command = Command("r2", candidate, EvaluateMode::kForecast);
  command.device_models = {"NVIDIA H200"};
  const auto named = world.Evaluate(command);
  REQUIRE(named.ok());
  CHECK(named->decision.reason == DecisionReason::kForecastOnly);
  CHECK(named->device_model == "NVIDIA H200");
  const auto measured = world.Evaluate(Command("r3", candidate, EvaluateMode::kMeasure));
  REQUIRE(measured.ok());
  CHECK(measured->decision.reason == DecisionReason::kUnavailable);
  CheckReplayGivesTheState(world);
}

TEST_CASE("A search whose worker arrives within the grace period continues") {
  World world;
  world.workers.SetDevices({});
  world.Start();
  const std::string problem = world.PutToy();
  REQUIRE(world.StartSearch("s1", TemplateSearch(problem, 5)).ok());
  auto evaluated = std::make_shared<std::promise<absl::StatusOr<EvaluationRecord>>>();
  world.engine->Evaluate(Command("r1", world.ToyCandidate(problem)),
                         [evaluated](auto record) { evaluated->set_value(record); });
  CHECK_THAT(AwaitWaiting(world, "s1").wait_reason, Contains("no worker measures anything"));
  world.workers.SetDevices({{"cpu", "late", 1}});
  world.engine->CapacityChanged();
  const SearchSnapshot search = world.WaitForEnd("s1");
  CHECK(search.status == SearchStatus::kDone);
  CHECK(search.device_model == "late");
  const auto record = evaluated->get_future().get();
  REQUIRE(record.ok());
  CHECK(record->device_model == "late");
  CheckReplayGivesTheState(world);
}

TEST_CASE("A search whose worker is away shows that it waits, and stop ends it") {
  EngineOptions options;
  options.device_grace = absl::ZeroDuration();
  World world(nullptr, options);
  world.Start();
  const std::string problem = world.PutToy();
  REQUIRE(world.StartSearch("s1", ExternalSearch(problem, 5)).ok());
  CHECK(world.GetSearch("s1").wait_reason.empty());

  world.workers.SetDevices({{"cpu", "fake cpu", 0}});
  world.engine->CapacityChanged();
  auto evaluated = std::make_shared<std::promise<absl::StatusOr<EvaluationRecord>>>();
  world.engine->Evaluate(Command("r1", world.ToyCandidate(problem), EvaluateMode::kMeasure, "s1"),
                         [evaluated](auto record) { evaluated->set_value(record); });
  const SearchSnapshot waiting = AwaitWaiting(world, "s1");
  CHECK(waiting.status == SearchStatus::kRunning);
  CHECK_THAT(waiting.wait_reason,
             Contains("no worker measures cpu on fake cpu") && Contains("(away)"));
  CHECK(waiting.waiting_since_ns > 0);

  // A restart gives the same result.
  bool after_restart = GENERATE(false, true);
  if (after_restart) {
    world.engine.reset();
    world.Start();
    CHECK_FALSE(AwaitWaiting(world, "s1").wait_reason.empty());
  }
  world.engine->StopSearch("s1", [](const auto&) {});
  const SearchSnapshot ended = world.WaitForEnd("s1");
  CHECK(ended.status == SearchStatus::kDone);
  CHECK(ended.end_reason == kStoppedReason);
  if (!after_restart) {
    const auto record = evaluated->get_future().get();
    REQUIRE(record.ok());
    CHECK(std::get<Rejection>(record->result).cause == Rejection::Cause::kCancelled);
  }
  // A returning worker is not given abandoned work.
  REQUIRE(Eventually([&] { return world.workers.held() == 0; }));
  world.workers.SetDevices({{"cpu", "fake cpu", 1}});
  world.workers.Release();
  CHECK(world.workers.measurements() == 0);
  CheckEachSettledOnce(*world.store);
  CheckReplayGivesTheState(world);
}

TEST_CASE("Stop ends a search that waits for a worker to confirm its best") {
  World world;
  world.Start();
  const std::string problem = world.PutToy();
  SearchSpec spec = TemplateSearch(problem, 3);
  world.workers.measure = [&](const Candidate& candidate) {
    // The last measurement of the budget: from here on the worker is away.
    if (world.workers.measurements() == 2) world.workers.SetDevices({{"cpu", "fake cpu", 0}});
    return FakeWorkers::Ok(ToySpeedup(candidate));
  };
  REQUIRE(world.StartSearch("s1", spec).ok());
  SearchSnapshot search = AwaitWaiting(world, "s1");
  while (search.status == SearchStatus::kRunning) search = world.GetSearch("s1");
  CHECK(search.status == SearchStatus::kFinishing);
  world.engine->StopSearch("s1", [](const auto&) {});
  search = world.WaitForEnd("s1");
  CHECK(search.end_reason == "budget: max_measurements");
  CHECK_FALSE(search.confirmed.has_value());
  CheckReplayGivesTheState(world);
}

TEST_CASE("A log without device models is replayed using the devices of its measurements") {
  World world;
  world.Start();
  const std::string problem = world.PutToy();
  REQUIRE(world.StartSearch("s1", ExternalSearch(problem, 100)).ok());
  REQUIRE(world
              .Evaluate(Command("s1/a", world.ToyCandidate(problem, "// a\n"),
                                EvaluateMode::kMeasure, "s1"))
              .ok());
  REQUIRE(world.Evaluate(Command("r1", world.ToyCandidate(problem, "// b\n"))).ok());
  world.engine.reset();

  auto old = std::make_unique<MemoryEventStore>();
  REQUIRE(world.store
              ->Replay(1,
                       [&](StoredEvent stored) {
                         EventBody& body = stored.event.body;
                         if (auto* event = std::get_if<SearchCreated>(&body)) {
                           event->device_model.clear();
                         } else if (auto* accepted = std::get_if<EvaluationAccepted>(&body)) {
                           accepted->device_model.clear();
                         } else if (auto* reference = std::get_if<ReferenceDescribed>(&body)) {
                           reference->device_model.clear();
                         }
                         AppendEntry entry;
                         entry.event = &stored.event;
                         return old->Append(std::span(&entry, 1)).status();
                       })
              .ok());
  World later(std::move(old));
  later.Start();
  CHECK(later.GetSearch("s1").device_model == "fake cpu");
  const auto record = later.Evaluate(
      Command("r2", later.ToyCandidate(problem, "// c\n"), EvaluateMode::kRoute, "s1"));
  REQUIRE(record.ok());
  CHECK(record->device_model == "fake cpu");
  CHECK(record->decision.incumbent_speedup == Approx(3.2));
  bool known = false;
  REQUIRE(later.engine->Inspect([&](const State& state) {
    const ProblemHistory* history = state.FindHistory(problem, "cpu", "fake cpu");
    known = history != nullptr && history->incumbent_speedup() > 3;
  }));
  CHECK(known);
  CheckReplayGivesTheState(later);
}

}  // namespace
}  // namespace kernelcast::orchestrator::testing
