// Tests which steps of an evaluation wait for the log.

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/base/id.h"
#include "services/orchestrator/core/engine.h"
#include "tests/support/crashed_with.h"
#include "tests/unit/services/orchestrator/world.h"

namespace kernelcast::orchestrator {
namespace {

using testing::CheckEachSettledOnce;
using testing::Command;
using testing::World;

using Answer = std::future<absl::StatusOr<EvaluationRecord>>;

Answer EvaluateLater(World& world, Engine::EvaluateCommand command) {
  auto result = std::make_shared<std::promise<absl::StatusOr<EvaluationRecord>>>();
  world.engine->Evaluate(std::move(command), [result](auto record) { result->set_value(record); });
  return result->get_future();
}

bool Answered(const Answer& answer) {
  return answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

// Returns whether the engine's state satisfies the condition within 20 s.
bool Comes(World& world, const std::function<bool(const State&)>& so_far) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < until) {
    bool there = false;
    world.engine->Inspect([&](const State& state) { there = so_far(state); });
    if (there) return true;
    std::this_thread::yield();
  }
  return false;
}

// Evaluates r1 until the engine has settled it while the log holds its appends.
Answer SettleBeforeTheLog(World& world, const std::string& problem) {
  world.store->HoldAppends();
  Answer answer =
      EvaluateLater(world, Command("r1", world.ToyCandidate(problem), EvaluateMode::kForecast));
  REQUIRE(Comes(world, [](const State& state) {
    return state.last_sequence() > 1 && state.FindEvaluation("r1") == nullptr;
  }));
  return answer;
}

TEST_CASE("Compiling and forecasting do not wait for the log, but measuring and replies do") {
  World world;
  world.Start();
  const std::string problem = world.PutToy();
  world.store->HoldAppends();
  const Answer answer = EvaluateLater(world, Command("r1", world.ToyCandidate(problem)));
  REQUIRE(Comes(world, [](const State& state) {
    const Evaluation* evaluation = state.FindEvaluation("r1");
    return evaluation != nullptr && evaluation->stage == Stage::kMeasure;
  }));
  CHECK(world.workers.measurements() == 0);
  CHECK_FALSE(Answered(answer));
  CHECK(world.store->All<EvaluationDecided>().empty());
  world.store->ReleaseAppends();
  answer.wait();
  CHECK(world.workers.measurements() == 1);
  CHECK(world.store->All<EvaluationSettled>().size() == 1);
}

TEST_CASE("A pruned candidate is answered only after its settlement is logged") {
  World world;
  world.Start();
  const std::string problem = world.PutToy();
  const Answer answer = SettleBeforeTheLog(world, problem);
  // A repeated request meanwhile also waits and gets the same answer.
  const Answer again =
      EvaluateLater(world, Command("r1", world.ToyCandidate(problem), EvaluateMode::kForecast));
  world.engine->Inspect([](const State&) {});
  CHECK_FALSE(Answered(answer));
  CHECK_FALSE(Answered(again));
  CHECK(world.engine->figures().events < 4);
  world.store->ReleaseAppends();
  answer.wait();
  again.wait();
  CHECK(world.store->All<EvaluationAccepted>().size() == 1);
  CHECK(world.store->All<EvaluationSettled>().size() == 1);
}

TEST_CASE("An evaluation lost in a crash was not acknowledged and can be requested again") {
  World first;
  first.Start();
  const std::string problem = first.PutToy();
  const Answer lost = SettleBeforeTheLog(first, problem);
  World second(first.store->Copy());
  CHECK_FALSE(Answered(lost));
  second.Start();
  const auto record =
      second.Evaluate(Command("r1", second.ToyCandidate(problem), EvaluateMode::kForecast));
  REQUIRE(record.ok());
  CHECK(std::holds_alternative<Pruned>(record->result));
  CheckEachSettledOnce(*second.store);
  first.store->ReleaseAppends();
}

TEST_CASE("An engine that only reads answers questions, and continues and writes nothing") {
  World first;
  first.workers.hold_measurements = true;
  first.Start();
  const std::string problem = first.PutToy();
  const Answer lost =
      EvaluateLater(first, Command("r1", first.ToyCandidate(problem), EvaluateMode::kMeasure));
  // Accepted, compiled and decided on when the process ends.
  REQUIRE(Comes(first, [&](const State&) { return first.store->LastSequence().value_or(0) > 3; }));
  EngineOptions read_only;
  read_only.read_only = true;
  World reader(first.store->Copy(), read_only);
  reader.Start();
  const uint64_t events = reader.store->LastSequence().value();
  bool live = false;
  reader.engine->Inspect([&](const State& state) { live = state.FindEvaluation("r1") != nullptr; });
  CHECK(live);
  CHECK(reader.PutToy().empty());
  const auto evaluated = reader.Evaluate(Command("r2", reader.ToyCandidate(problem)));
  CHECK(evaluated.status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK(reader.StartSearch("s", SearchSpec()).status().code() ==
        absl::StatusCode::kFailedPrecondition);
  std::promise<size_t> searches;
  reader.engine->ListSearches([&](const auto& all) { searches.set_value(all.size()); });
  CHECK(searches.get_future().get() == 0);
  reader.engine->Stop();
  CHECK(reader.store->LastSequence().value() == events);
  CHECK(reader.workers.measurements() == 0);
  first.workers.Release();
}

TEST_CASE("A pruned candidate costs one append") {
  EngineOptions options;
  options.log.max_delay = std::chrono::seconds(60);
  World world(nullptr, options);
  world.Start();
  const std::string problem = world.PutToy();
  const auto forecast = [&](const std::string& id) {
    return world.Evaluate(Command(id, world.ToyCandidate(problem, id), EvaluateMode::kForecast));
  };
  // The first one also describes the reference.
  REQUIRE(forecast("r0").ok());
  const int before = world.store->appends();
  for (int i = 1; i <= 10; ++i) REQUIRE(forecast(absl::StrCat("r", i)).ok());
  CHECK(world.store->appends() == before + 10);
  CheckEachSettledOnce(*world.store);
}

TEST_CASE("Commits keep a minimum interval and intermediate events share one") {
  constexpr auto kInterval = std::chrono::milliseconds(200);
  EngineOptions options;
  options.log.interval = kInterval;
  World world(nullptr, options);
  world.Start();
  const std::string problem = world.PutToy();
  const int before = world.store->appends();
  const auto began = std::chrono::steady_clock::now();
  std::vector<Answer> answers;
  for (int i = 0; i < 50; ++i) {
    const std::string id = absl::StrCat("r", i);
    answers.push_back(EvaluateLater(
        world, Command(id, world.ToyCandidate(problem, id), EvaluateMode::kForecast)));
  }
  for (Answer& answer : answers) CHECK(answer.get().ok());
  const auto intervals = (std::chrono::steady_clock::now() - began) / kInterval;
  CHECK(world.store->appends() - before <= intervals + 1);
  CheckEachSettledOnce(*world.store);
}

TEST_CASE("Events without a waiter are written after a delay") {
  EngineOptions options;
  options.log.max_delay = std::chrono::milliseconds(GENERATE(0, 5));
  World world(nullptr, options);
  world.Start();
  const std::string problem = world.PutToy();
  std::promise<void> compile_may_end;
  const std::shared_future<void> may_end = compile_may_end.get_future().share();
  world.workers.compile = [may_end](const Candidate&) {
    may_end.wait();
    return CompileResult(CompiledCandidate{CompileFacts{"", {}}, Artifact{}});
  };
  std::promise<void> accepted;
  const int handle = world.engine->AddListener([&, notified = false](uint64_t sequence) mutable {
    if (sequence == 2 && !notified) accepted.set_value();
    notified = sequence == 2;
  });
  const Answer answer = EvaluateLater(world, Command("r1", world.ToyCandidate(problem)));
  CHECK(accepted.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready);
  CHECK(world.store->All<EvaluationAccepted>().size() == 1);
  compile_may_end.set_value();
  answer.wait();
  world.engine->RemoveListener(handle);
}

TEST_CASE("A stopping engine writes what it has applied") {
  EngineOptions options;
  options.log.max_delay = std::chrono::seconds(60);
  World world(nullptr, options);
  world.workers.hold_measurements = true;
  world.Start();
  const std::string problem = world.PutToy();
  const bool under_way = GENERATE(false, true);
  if (under_way) world.store->HoldAppends();
  const Answer answer = EvaluateLater(world, Command("r1", world.ToyCandidate(problem)));
  REQUIRE(Comes(world, [](const State& state) { return state.FindEvaluation("r1") != nullptr; }));
  std::string digest;
  std::thread stopping([&] { world.engine->Stop(); });
  world.store->ReleaseAppends();
  stopping.join();
  CHECK(answer.wait_for(std::chrono::seconds(20)) == std::future_status::ready);
  CHECK(world.store->All<EvaluationAccepted>().size() == 1);
  CHECK(world.engine->figures().events == world.store->LastSequence().value());
}

TEST_CASE("A log failure while events are batched answers every caller once") {
  World world;
  world.Start();
  const std::string problem = world.PutToy();
  world.store->HoldAppends();
  std::vector<Answer> answers;
  for (int i = 0; i < 20; ++i) {
    const std::string id = absl::StrCat("r", i);
    answers.push_back(EvaluateLater(
        world, Command(id, world.ToyCandidate(problem, id), EvaluateMode::kForecast)));
  }
  REQUIRE(Comes(world, [](const State& state) {
    return state.last_sequence() > 20 && state.evaluations().empty();
  }));
  // Another one that waits for the settled evaluation.
  answers.push_back(EvaluateLater(
      world, Command("r0", world.ToyCandidate(problem, "r0"), EvaluateMode::kForecast)));
  world.engine->Inspect([](const State&) {});
  world.store->FailFromNowOn();
  world.store->ReleaseAppends();
  for (Answer& answer : answers) {
    REQUIRE(answer.wait_for(std::chrono::seconds(20)) == std::future_status::ready);
    CHECK(answer.get().status().code() == absl::StatusCode::kUnavailable);
  }
  CHECK_FALSE(world.engine->failure().ok());
  CHECK(world.store->All<EvaluationSettled>().empty());
}

TEST_CASE("A restart does not allow more attempts in an unstable environment") {
  World first;
  first.workers.measure = [](const Candidate&) -> MeasureOutcome {
    return EnvironmentUnstable{"noisy", 9, 10, {}};
  };
  first.Start();
  const std::string problem = first.PutToy();
  const auto unstable = first.Evaluate(Command("r1", first.ToyCandidate(problem)));
  REQUIRE(unstable.ok());
  CHECK(unstable->unstable_time == DeviceTime{2'000'000, 0});
  first.engine->Stop();
  CHECK(first.workers.measurements() == 3);
  const auto repeated = first.store->All<MeasurementRepeated>();
  REQUIRE(repeated.size() == 2);
  CHECK(repeated[0].time == DeviceTime{1'000'000, 0});
  // A crash before the last attempt.
  const uint64_t last = first.store->LastSequence().value();
  World again(testing::Prefix(*first.store, last - 1));
  again.workers.measure = first.workers.measure;
  again.Start();
  const auto record = again.Evaluate(Command("r1", again.ToyCandidate(problem)));
  REQUIRE(record.ok());
  CHECK(again.workers.measurements() == 1);
}

TEST_CASE("An evaluation that crashed the process twice is quarantined after the restart") {
  const std::string path =
      (std::filesystem::temp_directory_path() / RandomId("kernelcast-crash-")).string();
  const std::string handling = absl::StrCat("stage ", static_cast<int>(Stage::kMeasure), ":r1");
  std::unique_ptr<testing::MemoryEventStore> disk;
  std::string problem;
  {
    World world;
    world.Start();
    problem = world.PutToy();
    world.workers.hold_measurements = true;
    const Answer answer = EvaluateLater(world, Command("r1", world.ToyCandidate(problem)));
    REQUIRE(Comes(world, [&](const State&) { return world.workers.held() == 1; }));
    disk = world.store->Copy();
  }
  for (const int crashes : {1, 2}) {
    kernelcast::testing::CrashedWith(path, handling, 1);
    auto journal = CrashJournal::Open(path);
    REQUIRE(journal.ok());
    EngineOptions options;
    options.crash_journal = journal->get();
    World world(disk->Copy(), options);
    world.workers.hold_measurements = crashes == 1;
    world.Start();
    const Answer answer = EvaluateLater(world, Command("r1", world.ToyCandidate(problem)));
    if (crashes == 1) {
      CHECK(Comes(world, [&](const State&) { return world.workers.held() == 1; }));
      continue;
    }
    answer.wait();
    CHECK(world.workers.measurements() == 0);
    const auto settled = world.store->All<EvaluationSettled>();
    REQUIRE(settled.size() == 1);
    CHECK_THAT(std::get<Rejection>(settled[0].result).detail, Catch::StartsWith("set aside: "));
    // The same kernel in another request is not quarantined.
    CHECK(world.Evaluate(Command("r2", world.ToyCandidate(problem))).ok());
    CHECK(world.workers.measurements() == 1);
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace kernelcast::orchestrator
