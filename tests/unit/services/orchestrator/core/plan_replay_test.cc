// Compares plans with what the engine did: after each event of a recorded log, the plan of the
// replayed state must contain the engine's next event.

#include <catch2/catch.hpp>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/eventually.h"
#include "tests/unit/services/orchestrator/core/plan_comparison.h"
#include "tests/unit/services/orchestrator/world.h"

namespace kernelcast::orchestrator {
namespace {

using kernelcast::testing::Eventually;
using testing::Command;
using testing::ExternalSearch;
using testing::FakeWriter;
using testing::MemoryEventStore;
using testing::PlanComparison;
using testing::TemplateSearch;
using testing::ToyKernel;
using testing::World;

TEST_CASE("The engine follows the plan in a template search") {
  World world;
  world.workers.compile = [](const Candidate& candidate) {
    for (const Tunable& tunable : candidate.tunables) {
      if (tunable.name == "BLOCK" && tunable.value == "32") {
        return CompileResult(CompileError{CompileStage::kCompiler, "too large"});
      }
    }
    return CompileResult(CompiledCandidate{CompileFacts{"", {}}, Artifact{}});
  };
  world.Start();
  SearchSpec spec = TemplateSearch(world.PutToy(), 12);
  spec.policy = GENERATE("threshold", "top_k", "risk");
  REQUIRE(world.StartSearch("s1", spec).ok());
  world.WaitForEnd("s1");
  world.engine->Stop();
  PlanComparison comparison(world.engine_options, false);
  comparison.Run(*world.store);
  CHECK(comparison.planned["proposed"] == 40);
  CHECK(comparison.planned["rejected"] == 5);
  CHECK(comparison.planned["pruned"] > 0);
  CHECK(comparison.planned["ranked"] >= comparison.planned["selected"]);
  CHECK(comparison.planned["selected"] > 0);
  CHECK(comparison.planned["final"] > 0);
  CHECK(comparison.planned["finished"] == 1);
  CHECK(comparison.planned["closed"] == 1);
}

TEST_CASE("Workers are asked to stop below the bound that follows from the log") {
  World world;
  world.Start();
  SearchSpec spec = TemplateSearch(world.PutToy(), 40);
  spec.measure_everything = true;
  spec.time_in_full = GENERATE(false, true);
  REQUIRE(world.StartSearch("s1", spec).ok());
  world.WaitForEnd("s1");
  world.engine->Stop();
  PlanComparison comparison(world.engine_options, false);
  comparison.Run(*world.store);
  CHECK(comparison.specs == world.workers.specs());
  size_t bounded = 0;
  for (const auto& [candidate_id, specs] : comparison.specs) {
    for (const MeasureSpec& one : specs) {
      bounded += one.stop_below > 0 ? 1 : 0;
      CHECK((one.level == MeasureLevel::kScreen || one.stop_below == 0));
    }
  }
  // All but the first one, or the few that were measured with it.
  CHECK((spec.time_in_full ? bounded == 0 : bounded >= 30));
}

TEST_CASE("The engine follows the plan at held-out shapes") {
  World world;
  world.Start();
  std::vector<ProblemFile> files = testing::SmallProblemFiles();
  files.front().content += "held_out_bench_shapes: [{n: 1000}]\n";
  const std::string problem = world.PutToy(files);
  // None of the first three carries over.
  world.workers.measure = [problem](const Candidate& candidate) {
    const double speedup = testing::ToySpeedup(candidate);
    if (candidate.problem_id == problem) return testing::FakeWorkers::Ok(speedup);
    return testing::FakeWorkers::Ok(speedup > 2.85 ? 0.5 : speedup);
  };
  SearchSpec spec = TemplateSearch(problem, 40);
  spec.measure_everything = true;
  REQUIRE(world.StartSearch("s1", spec).ok());
  world.WaitForEnd("s1");
  world.engine->Stop();
  PlanComparison comparison(world.engine_options, false);
  comparison.Run(*world.store);
  CHECK(comparison.planned["final"] >= 3);
  CHECK(comparison.planned["held out"] == 3);
  CHECK(comparison.planned["closed"] == 1);
}

TEST_CASE("The engine follows the plan with each strategy over a space") {
  World world;
  world.Start();
  SearchSpec spec = TemplateSearch(world.PutToy(), 12);
  spec.strategy = GENERATE("puct", "islands", "map_elites", "beam", "random", "measure_all");
  CAPTURE(spec.strategy);
  REQUIRE(world.StartSearch("s1", spec).ok());
  const SearchSnapshot ended = world.WaitForEnd("s1");
  world.engine->Stop();
  PlanComparison comparison(world.engine_options, false);
  comparison.Run(*world.store);
  CHECK(ended.counts.measurements <= 12);
  CHECK(comparison.planned["proposed"] >= 12);
  CHECK(comparison.planned["measured"] > 5);
  const bool derives = spec.strategy != "random" && spec.strategy != "measure_all";
  CHECK((comparison.planned["selected"] > 4) == derives);
  CHECK(comparison.planned["finished"] == 1);
  CHECK(comparison.planned["closed"] == 1);
}

// About the toy space, on the device of the fake workers and on another.
std::vector<Lesson> ToyLessons() {
  std::vector<Lesson> lessons;
  for (const char* const value : {"1", "2", "4", "16", "32"}) {
    for (const char* const device : {"Fake CPU", "Other CPU"}) {
      lessons.push_back({.family = "toy",
                         .target = "cpu",
                         .device_model = device,
                         .bottleneck = "",
                         .aspect = "vector bytes",
                         .from = value,
                         .to = "8",
                         .trials = 9,
                         .held = 8,
                         .mean_log2_gain = 0.7,
                         .stddev_log2_gain = 0.3,
                         .searches = 3,
                         .text = ""});
    }
  }
  return lessons;
}

TEST_CASE("The engine follows the plan in a search whose kernels a model writes") {
  EngineOptions options;
  // The plan is made a little before the time of its event, so it must not depend on the time.
  options.generation_backoff = absl::ZeroDuration();
  World world(nullptr, options);
  world.writer = std::make_unique<FakeWriter>(&world.thread);
  world.writer->write = [](int number, const GenerationQuery&) {
    if (number % 7 == 0) return FakeWriter::SaysNothingUseful("prose");
    if (number > 10 && number < 15) return FakeWriter::Away();
    return FakeWriter::Says(
        ToyKernel(absl::StrCat("int k", number % 9, ";\n"), 1 << (number % 6), 1 << (number % 5)));
  };
  world.Start();
  SearchSpec spec = TemplateSearch(world.PutToy(), 0);
  spec.generator = GeneratorKind::kLlm;
  spec.generator_limits.max_requests = 25;
  spec.strategy = GENERATE("selection", "puct", "islands", "map_elites", "beam", "random");
  spec.critic = spec.strategy == "selection" || spec.strategy == "puct";
  spec.lessons = ToyLessons();
  CAPTURE(spec.strategy);
  REQUIRE(world.StartSearch("s1", spec).ok());
  world.WaitForEnd("s1");
  world.engine->Stop();
  PlanComparison comparison(world.engine_options, true);
  comparison.Run(*world.store);
  CHECK(comparison.planned["requested"] > 25);
  CHECK(comparison.planned["advised"] == (spec.critic ? comparison.planned["requested"] : 0));
  CHECK(comparison.planned["decided"] > 10);
  CHECK(comparison.planned["finished"] == 1);
  CHECK(comparison.planned["closed"] == 1);
}

TEST_CASE("The engine follows the plan when forecasts are older than results") {
  World world;
  world.writer = std::make_unique<FakeWriter>(&world.thread);
  world.writer->write = [](int number, const GenerationQuery&) {
    return FakeWriter::Says(ToyKernel(absl::StrCat("int k", number, ";\n"), 8, 1 << (number % 5)));
  };
  world.workers.hold_measurements = true;
  world.Start();
  SearchSpec spec = TemplateSearch(world.PutToy(), 0);
  spec.generator = GeneratorKind::kLlm;
  spec.generator_limits.max_requests = 10;
  spec.generator_limits.max_in_flight = 10;
  spec.max_in_flight = 10;
  REQUIRE(world.StartSearch("s1", spec).ok());
  REQUIRE(Eventually([&] { return world.store->All<EvaluationForecast>().size() == 10; }));
  world.workers.Release();
  world.WaitForEnd("s1");
  world.engine->Stop();
  PlanComparison comparison(world.engine_options, true);
  comparison.Run(*world.store);
  CHECK(comparison.planned["in order"] >= 2);
  CHECK(comparison.planned["forecast again"] > 0);
}

TEST_CASE("The engine follows the plan when callers send many candidates before the first result") {
  const std::string search = GENERATE("s1", "");
  CAPTURE(search);
  World world;
  world.workers.hold_measurements = true;
  world.Start();
  const std::string problem = world.PutToy();
  REQUIRE(world.StartSearch("s1", ExternalSearch(problem, 0)).ok());
  std::vector<World::Answer> answers;
  for (int i = 0; i < 20; ++i) {
    Candidate candidate = ToyKernel(absl::StrCat("int k", i, ";\n"), 8, 1 << (i % 5));
    candidate.problem_id = problem;
    candidate.target = "cpu";
    answers.push_back(world.EvaluateLater(
        Command(absl::StrCat("e", i), std::move(candidate), EvaluateMode::kRoute, search)));
  }
  REQUIRE(Eventually([&] { return world.store->All<EvaluationForecast>().size() == 20; }));
  world.workers.Release();
  for (auto& answer : answers) CHECK(answer.get().ok());
  world.engine->StopSearch("s1", [](const auto&) {});
  world.WaitForEnd("s1");
  world.engine->Stop();
  PlanComparison comparison(world.engine_options, true);
  comparison.Run(*world.store);
  CHECK(comparison.planned["in order"] >= 8);
  CHECK(comparison.planned["forecast again"] > 0);
  CHECK(comparison.planned["pruned"] > 0);
}

TEST_CASE("The engine follows the plan in an external search and outside searches") {
  World world;
  world.workers.hold_measurements = true;
  world.Start();
  const std::string problem = world.PutToy();
  REQUIRE(world.StartSearch("s1", ExternalSearch(problem, 2)).ok());
  std::vector<World::Answer> answers;
  const auto evaluate = [&](const std::string& id, const std::string& source, EvaluateMode mode,
                            const std::string& search) {
    answers.push_back(
        world.EvaluateLater(Command(id, world.ToyCandidate(problem, source), mode, search)));
  };
  evaluate("a", "// a\n", EvaluateMode::kMeasure, "s1");
  evaluate("b", "// a\n", EvaluateMode::kMeasure, "s1");  // a duplicate
  evaluate("c", "// c\n", EvaluateMode::kMeasure, "s1");
  CHECK(answers[1].get().ok());
  world.workers.Release();
  CHECK(answers[0].get().ok());
  CHECK(answers[2].get().ok());
  evaluate("d", "// d\n", EvaluateMode::kRoute, "s1");    // the budget is spent
  evaluate("e", "// a\n", EvaluateMode::kMeasure, "s1");  // reused
  for (int i = 0; i < 30; ++i) {
    evaluate(absl::StrCat("r", i), absl::StrCat("// r", i, "\n"),
             i % 3 == 0 ? EvaluateMode::kForecast : EvaluateMode::kRoute, "");
  }
  for (size_t i = 3; i < answers.size(); ++i) CHECK(answers[i].get().ok());
  world.engine->StopSearch("s1", [](const auto&) {});
  world.WaitForEnd("s1");
  world.engine->Stop();
  PlanComparison comparison(world.engine_options, false);
  comparison.Run(*world.store);
  CHECK(comparison.planned["rejected"] == 1);
  CHECK(comparison.planned["reused"] == 1);
  CHECK(comparison.planned["decided"] >= 33);
  CHECK(comparison.planned["pruned"] >= 11);
  CHECK(comparison.planned["closed"] == 1);
}

// When the last event was written.
int64_t LastTime(const MemoryEventStore& store) {
  int64_t last_ns = 0;
  REQUIRE(store
              .Replay(1,
                      [&](const StoredEvent& stored) {
                        last_ns = stored.event.time_ns;
                        return absl::OkStatus();
                      })
              .ok());
  return last_ns;
}

TEST_CASE("The engine follows the plan when the first worker starts later") {
  World world;
  world.workers.SetDevices({});
  world.Start();
  const std::string problem = world.PutToy();
  REQUIRE(world.StartSearch("s1", TemplateSearch(problem, 5)).ok());
  REQUIRE(world.StartSearch("s2", ExternalSearch(problem, 5)).ok());
  std::vector<World::Answer> answers;
  for (const char* id : {"a", "b", "c"}) {
    answers.push_back(
        world.EvaluateLater(Command(id, world.ToyCandidate(problem, absl::StrCat("// ", id, "\n")),
                                    EvaluateMode::kRoute, id == std::string("c") ? "s2" : "")));
  }
  CHECK(world.GetSearch("s2").status == SearchStatus::kRunning);  // after the evaluations
  PlanComparison comparison(world.engine_options, false);
  // No events follow until there is a device.
  comparison.device_from_ns = LastTime(*world.store) + 1;
  world.workers.SetDevices({{"cpu", "fake cpu", 1}});
  world.engine->CapacityChanged();
  for (World::Answer& answer : answers) CHECK(answer.get().ok());
  world.WaitForEnd("s1");
  world.engine->StopSearch("s2", [](const auto&) {});
  world.WaitForEnd("s2");
  world.engine->Stop();
  comparison.Run(*world.store);
  CHECK(comparison.planned["device"] == 3);
  CHECK(comparison.planned["device of a search"] == 2);
  CHECK(comparison.planned["described"] == 1);
  CHECK(comparison.planned["labelled"] > 0);
  CHECK(comparison.planned["closed"] == 2);
}

TEST_CASE("The engine follows the plan when no worker starts") {
  EngineOptions options;
  options.device_grace = absl::ZeroDuration();
  World world(nullptr, options);
  world.workers.SetDevices({{"cuda", "NVIDIA H200", 1}});
  world.Start();
  const std::string problem = world.PutToy();
  REQUIRE(world.Evaluate(Command("a", world.ToyCandidate(problem))).ok());
  REQUIRE(world.StartSearch("s1", TemplateSearch(problem, 5)).ok());
  world.WaitForEnd("s1");
  world.engine->Stop();
  PlanComparison comparison(world.engine_options, false);
  comparison.device_from_ns = INT64_MAX;
  comparison.other_devices = {{"cuda", "NVIDIA H200", 1}};
  comparison.Run(*world.store);
  CHECK(comparison.planned["given up"] == 1);
  CHECK(comparison.planned["abandoned search"] == 1);
}

TEST_CASE("The engine follows the plan when a stopped search has lost its worker") {
  World world;
  world.workers.hold_measurements = true;
  world.Start();
  const std::string problem = world.PutToy();
  REQUIRE(world.StartSearch("s1", ExternalSearch(problem, 5)).ok());
  auto done = std::make_shared<std::promise<bool>>();
  world.engine->Evaluate(Command("a", world.ToyCandidate(problem), EvaluateMode::kMeasure, "s1"),
                         [done](const auto& record) { done->set_value(record.ok()); });
  REQUIRE(Eventually([&] { return world.workers.held() == 1; }));
  PlanComparison comparison(world.engine_options, false);
  // No events follow until the search is stopped.
  comparison.device_until_ns = LastTime(*world.store) + 1;
  comparison.other_devices = {{"cpu", "fake cpu", 0}};
  world.workers.SetDevices(comparison.other_devices);
  world.engine->StopSearch("s1", [](const auto&) {});
  world.WaitForEnd("s1");
  CHECK(done->get_future().get());
  world.engine->Stop();
  comparison.Run(*world.store);
  CHECK(comparison.planned["abandoned"] == 1);
  CHECK(comparison.planned["abandoned search"] == 1);
}

TEST_CASE("The engine follows the plan when the reference does not compile") {
  World world;
  world.workers.reference_compiles = false;
  world.Start();
  REQUIRE(world.StartSearch("s1", TemplateSearch(world.PutToy(), 5)).ok());
  world.WaitForEnd("s1");
  // Its candidates may be rejected after it.
  REQUIRE(Eventually([&] {
    return world.store->All<EvaluationSettled>().size() ==
           world.store->All<EvaluationAccepted>().size();
  }));
  world.engine->Stop();
  PlanComparison comparison(world.engine_options, false);
  comparison.Run(*world.store);
  CHECK(comparison.planned["described"] == 0);
  CHECK(comparison.planned["failed"] == 1);
}

TEST_CASE("The engine follows the plan when measurements are unstable") {
  World world;
  int calls = 0;
  world.workers.measure = [&](const Candidate& candidate) {
    // The first candidate is measured again until it succeeds, the second until the last retry.
    const bool unstable = candidate.source == "// a\n" ? ++calls < 2 : true;
    if (unstable) return MeasureOutcome(EnvironmentUnstable{"noisy", 9, 10, {}});
    return testing::FakeWorkers::Ok(2);
  };
  world.Start();
  const std::string problem = world.PutToy();
  REQUIRE(world.Evaluate(Command("a", world.ToyCandidate(problem, "// a\n"))).ok());
  REQUIRE(world.Evaluate(Command("b", world.ToyCandidate(problem, "// b\n"))).ok());
  world.engine->Stop();
  PlanComparison comparison(world.engine_options, false);
  comparison.Run(*world.store);
  CHECK(comparison.planned["repeated"] == 1 + world.engine_options.unstable_retries);
  CHECK(comparison.planned["measured"] == 2);
}

TEST_CASE("The state at each commit is the state that its events give when replayed") {
  World world;
  std::mutex mutex;
  std::map<uint64_t, std::string> digests;
  world.Start();
  const std::string problem = world.PutToy();
  const int handle = world.engine->AddListener([&](uint64_t) {
    world.engine->DigestState([&](uint64_t sequence, std::string digest) {
      std::lock_guard lock(mutex);
      digests[sequence] = std::move(digest);
    });
  });
  REQUIRE(world.StartSearch("s1", TemplateSearch(problem, 12)).ok());
  world.WaitForEnd("s1");
  world.engine->RemoveListener(handle);
  world.engine->Stop();
  State state;
  size_t compared = 0;
  REQUIRE(world.store
              ->Replay(1,
                       [&](const StoredEvent& stored) {
                         REQUIRE(state.Apply(stored).ok());
                         const auto digest = digests.find(stored.sequence);
                         if (digest == digests.end()) return absl::OkStatus();
                         ++compared;
                         CHECK(state.DigestHash() == digest->second);
                         return absl::OkStatus();
                       })
              .ok());
  CHECK(compared == digests.size());
  CHECK(compared > 20);
}

}  // namespace
}  // namespace kernelcast::orchestrator
