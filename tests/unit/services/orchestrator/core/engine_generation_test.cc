#include <atomic>
#include <catch2/catch.hpp>
#include <set>

#include "services/orchestrator/core/engine.h"
#include "tests/unit/services/orchestrator/world.h"

namespace kernelcast::orchestrator {
namespace {

using testing::CheckEachSettledOnce;
using testing::CheckReplayGivesTheState;
using testing::FakeWriter;
using testing::MemoryEventStore;
using testing::ProblemFilesWithoutSpace;
using testing::SmallProblemFiles;
using testing::ToyKernel;
using testing::World;

// A world whose engine has a writer.
struct WritingWorld : World {
  explicit WritingWorld(std::unique_ptr<MemoryEventStore> disk = nullptr,
                        EngineOptions options = Impatient())
      : World(std::move(disk), options) {
    writer = std::make_unique<FakeWriter>(&thread);
    // A different kernel each time, with the toy's parameters in turn.
    writer->write = [](int number, const GenerationQuery&) {
      return FakeWriter::Says(ToyKernel("// kernel\nint k" + std::to_string(number) + ";\n",
                                        1 << (number % 6), 1 << (number % 5)));
    };
  }

  static EngineOptions Impatient() {
    EngineOptions options;
    options.generation_backoff = absl::Milliseconds(5);
    options.max_generation_backoff = absl::Milliseconds(20);
    options.generation_patience = absl::Milliseconds(300);
    return options;
  }

  std::string Put(bool with_space = false) {
    return PutToy(with_space ? SmallProblemFiles() : ProblemFilesWithoutSpace());
  }
  template <class Outcome>
  std::vector<GenerationSettled> Settled(Outcome outcome) const {
    std::vector<GenerationSettled> result;
    for (const GenerationSettled& settled : store->All<GenerationSettled>()) {
      if (settled.outcome == outcome) result.push_back(settled);
    }
    return result;
  }
};

SearchSpec WrittenSearch(const std::string& problem_id, uint64_t requests) {
  SearchSpec spec;
  spec.problem_id = problem_id;
  spec.target = "cpu";
  spec.generator = GeneratorKind::kLlm;
  spec.generator_limits.max_requests = requests;
  spec.measure_everything = true;
  spec.seed = 11;
  return spec;
}

TEST_CASE("A search generates kernels, improves on the best and names it",
          "[orchestrator][generation]") {
  WritingWorld world;
  world.Start();
  const std::string problem = world.Put();
  REQUIRE(world.StartSearch("s1", WrittenSearch(problem, 30)).ok());
  const SearchSnapshot search = world.WaitForEnd("s1");
  CHECK(search.status == SearchStatus::kDone);
  CHECK(search.end_reason == "budget: generator_requests");
  CHECK(search.counts.generation.requested == 30);
  CHECK(search.counts.generation.written == 30);
  CHECK(search.counts.generation.input_tokens == 3000);
  CHECK(search.counts.generation.output_tokens == 600);
  CHECK(search.counts.generation.cost == Approx(15));
  CHECK(search.counts.measured == 30);
  REQUIRE(search.confirmed.has_value());
  CHECK(MeasuredSpeedup(search.confirmed->measurement)->value == Approx(3.2));
  CHECK(search.confirmed->candidate.origin == "llm:fake");
  CHECK_FALSE(search.confirmed->candidate.parent_candidate_id.empty());
  CheckEachSettledOnce(*world.store);
  CheckReplayGivesTheState(world);

  // Each answer is fully in the log, before its candidate.
  const auto settled = world.store->All<GenerationSettled>();
  REQUIRE(settled.size() == 30);
  std::set<uint64_t> numbers;
  for (const GenerationSettled& each : settled) {
    numbers.insert(each.number);
    CHECK(each.prompt_version == "fake/1@00000000");
    CHECK(each.model == "fake");
    CHECK_THAT(each.detail, Catch::StartsWith("s1/"));
    CHECK_FALSE(each.parent_candidate_id.empty());
  }
  CHECK(numbers.size() == 30);
  // Later requests start from the fastest measured kernels.
  const auto queries = world.writer->queries();
  CHECK_FALSE(queries.front().parent.has_value());
  int from_kernels = 0;
  for (const GenerationQuery& query : queries) from_kernels += query.parent.has_value() ? 1 : 0;
  CHECK(from_kernels > 15);
}

TEST_CASE("Several kernels are requested concurrently, and a straggler delays nobody",
          "[orchestrator][generation]") {
  WritingWorld world;
  world.writer->holds = [](int number) { return number == 1; };
  world.Start();
  const std::string problem = world.Put();
  SearchSpec spec = WrittenSearch(problem, 12);
  spec.generator_limits.max_in_flight = 3;
  REQUIRE(world.StartSearch("s1", spec).ok());
  REQUIRE(world.writer->WaitForRequests(12));
  // All others settle while the first is still being generated.
  while (world.GetSearch("s1").counts.measured < 11) {
  }
  const SearchSnapshot before = world.GetSearch("s1");
  CHECK(before.status == SearchStatus::kRunning);
  CHECK(before.counts.generation.written == 11);
  CheckReplayGivesTheState(world);
  world.writer->Release(1);
  const SearchSnapshot search = world.WaitForEnd("s1");
  CHECK(search.counts.generation.written == 12);
  CHECK(search.counts.measured == 12);
}

TEST_CASE("Concurrent requests stay within the limit", "[orchestrator][generation]") {
  WritingWorld world;
  world.writer->holds = [](int) { return true; };
  world.Start();
  const std::string problem = world.Put();
  SearchSpec spec = WrittenSearch(problem, 0);
  spec.budget.max_measurements = 100;
  spec.generator_limits.max_in_flight = 2;
  REQUIRE(world.StartSearch("s1", spec).ok());
  REQUIRE(world.writer->WaitForRequests(2));
  // The engine checks again and makes no third request.
  world.engine->CapacityChanged();
  CHECK(world.GetSearch("s1").counts.generation.requested == 2);
  CHECK(world.engine->figures().live_generations == 2);
  world.writer->Release(1);
  REQUIRE(world.writer->WaitForRequests(3));
  CHECK(world.GetSearch("s1").counts.generation.requested == 3);
}

TEST_CASE("Messages from compilers and judges are included in the next request",
          "[orchestrator][generation]") {
  WritingWorld world;
  world.workers.compile = [](const Candidate& candidate) {
    if (candidate.source.find("k1;") != std::string::npos) {
      return CompileResult(CompileError{CompileStage::kCompiler, "k.cc:7: expected ';'"});
    }
    return CompileResult(CompiledCandidate{CompileFacts{"", {}}, Artifact{}});
  };
  const auto measure = world.workers.measure;
  world.workers.measure = [measure](const Candidate& candidate) {
    if (candidate.source.find("k2;") == std::string::npos) return measure(candidate);
    WrongResult wrong;
    wrong.shape = {{"n", 7}};
    wrong.output = "y";
    wrong.mismatches = 3;
    wrong.elements = 7;
    wrong.index = 4;
    wrong.got = 1;
    wrong.expected = 2;
    return MeasureOutcome(wrong);
  };
  world.writer->write = [](int number, const GenerationQuery&) {
    if (number == 3) return FakeWriter::SaysNothingUseful("no fenced block of code");
    return FakeWriter::Says(ToyKernel("int k" + std::to_string(number) + ";\n", 8, 4));
  };
  world.Start();
  const std::string problem = world.Put();
  SearchSpec spec = WrittenSearch(problem, 6);
  spec.generator_limits.max_in_flight = 1;
  spec.max_in_flight = 1;
  REQUIRE(world.StartSearch("s1", spec).ok());
  const SearchSnapshot search = world.WaitForEnd("s1");
  CHECK(search.counts.generation.unusable == 1);
  CHECK(search.counts.rejected == 1);
  CHECK(search.counts.failures == 2);
  const auto queries = world.writer->queries();
  REQUIRE(queries.size() == 6);
  CHECK(queries[0].setbacks.empty());
  REQUIRE(queries[1].setbacks.size() == 1);
  CHECK(queries[1].setbacks[0].failure == FailureKind::kCompileError);
  CHECK_THAT(queries[1].setbacks[0].feedback, Catch::Contains("k.cc:7: expected ';'"));
  CHECK(queries[1].setbacks[0].candidate.source == "int k1;\n");
  REQUIRE(queries[2].setbacks.size() == 2);
  CHECK(queries[2].setbacks[0].failure == FailureKind::kWrongResult);
  CHECK_THAT(queries[2].setbacks[0].feedback,
             Catch::Contains("at n=7") && Catch::Contains("is 1 instead of 2"));
  CHECK(queries[3].unusable_answers == std::vector<std::string>{"no fenced block of code"});
  // The fourth was measured as fast.
  REQUIRE(queries[4].parent.has_value());
  CHECK(queries[4].parent->speedup == Approx(3.2));
  CHECK_THAT(queries[4].parent->feedback, Catch::Contains("Correct"));
  CHECK_FALSE(queries[4].parent->facts.schema.empty());
  CHECK_FALSE(queries[4].reference_facts.schema.empty());
}

TEST_CASE("A kernel that differs only in layout is not run again", "[orchestrator][generation]") {
  WritingWorld world;
  world.writer->write = [](int number, const GenerationQuery&) {
    return FakeWriter::Says(ToyKernel(
        "// try " + std::to_string(number) + "\nint   k;" + std::string(number, '\n'), 8, 4));
  };
  world.Start();
  const std::string problem = world.Put();
  REQUIRE(world.StartSearch("s1", WrittenSearch(problem, 9)).ok());
  const SearchSnapshot search = world.WaitForEnd("s1");
  CHECK(search.counts.generation.written == 1);
  CHECK(search.counts.generation.duplicates == 8);
  CHECK(search.counts.considered == 1);
  CHECK(search.counts.measured == 1);
  for (const GenerationSettled& settled : world.Settled(GenerationOutcome::kDuplicate)) {
    CHECK(settled.detail == search.incumbent->candidate.candidate_id);
  }
}

TEST_CASE("A candidate that breaks the rules is an unusable answer", "[orchestrator][generation]") {
  WritingWorld world;
  world.writer->write = [](int number, const GenerationQuery&) {
    Candidate candidate = ToyKernel("int k" + std::to_string(number) + ";\n", 8, 4);
    if (number == 1) candidate.flags = {"two words"};
    return FakeWriter::Says(candidate);
  };
  world.Start();
  const std::string problem = world.Put();
  REQUIRE(world.StartSearch("s1", WrittenSearch(problem, 4)).ok());
  CHECK(world.WaitForEnd("s1").counts.generation.unusable == 1);
  CHECK_THAT(world.Settled(GenerationOutcome::kUnusable).front().detail,
             Catch::Contains("flags[0]"));
}

TEST_CASE("Useless answers end the search with that reason", "[orchestrator][generation]") {
  WritingWorld world;
  world.writer->write = [](int, const GenerationQuery&) {
    return FakeWriter::SaysNothingUseful("no fenced block of code");
  };
  world.Start();
  const std::string problem = world.Put();
  REQUIRE(world.StartSearch("s1", WrittenSearch(problem, 1000)).ok());
  const SearchSnapshot search = world.WaitForEnd("s1");
  CHECK(search.status == SearchStatus::kDone);
  CHECK_THAT(search.end_reason,
             Catch::Contains("answers of the model were unusable: no fenced block of code"));
  CHECK(search.counts.generation.requested < 40);
}

TEST_CASE("The token budget of a search runs out", "[orchestrator][generation]") {
  WritingWorld world;
  world.Start();
  const std::string problem = world.Put();
  SearchSpec spec = WrittenSearch(problem, 0);
  spec.generator_limits.max_tokens = 1000;  // each costs 120
  REQUIRE(world.StartSearch("s1", spec).ok());
  const SearchSnapshot search = world.WaitForEnd("s1");
  CHECK(search.end_reason == "budget: generator_tokens");
  const uint64_t spent =
      search.counts.generation.input_tokens + search.counts.generation.output_tokens;
  CHECK(spent >= 1000);
  CHECK(spent <= 1000 + 4 * 120);
}

TEST_CASE("The other budgets also limit a search with generated kernels",
          "[orchestrator][generation]") {
  WritingWorld world;
  world.Start();
  const std::string problem = world.Put();
  SearchSpec candidates = WrittenSearch(problem, 0);
  candidates.budget.max_candidates = 7;
  REQUIRE(world.StartSearch("s1", candidates).ok());
  const SearchSnapshot first = world.WaitForEnd("s1");
  CHECK(first.end_reason == "budget: max_candidates");
  CHECK(first.counts.considered == 7);

  SearchSpec measurements = WrittenSearch(problem, 0);
  measurements.budget.max_measurements = 5;
  REQUIRE(world.StartSearch("s2", measurements).ok());
  const SearchSnapshot second = world.WaitForEnd("s2");
  CHECK(second.end_reason == "budget: max_measurements");
  CHECK(second.counts.measured == 5);
}

TEST_CASE("Forecasts also decide on generated kernels", "[orchestrator][generation]") {
  WritingWorld world;
  world.forecasters.blur_octaves = 0.1;
  world.Start();
  const std::string problem = world.Put();
  SearchSpec spec = WrittenSearch(problem, 30);
  spec.measure_everything = false;
  spec.budget.max_measurements = 20;
  REQUIRE(world.StartSearch("s1", spec).ok());
  const SearchSnapshot search = world.WaitForEnd("s1");
  CHECK(search.counts.pruned > 0);
  CHECK(search.counts.measured > 0);
  CHECK(search.counts.measured + search.counts.pruned == 30);
  CheckEachSettledOnce(*world.store);
}

TEST_CASE("A model that is away for good ends the search with the reason",
          "[orchestrator][generation]") {
  WritingWorld world;
  world.writer->write = [](int number, const GenerationQuery&) {
    if (number > 3) return FakeWriter::Away();
    return FakeWriter::Says(ToyKernel("int k" + std::to_string(number) + ";\n", 8, 4));
  };
  world.Start();
  const std::string problem = world.Put();
  REQUIRE(world.StartSearch("s1", WrittenSearch(problem, 1000)).ok());
  const SearchSnapshot search = world.WaitForEnd("s1");
  CHECK(search.status == SearchStatus::kDone);
  CHECK(search.end_reason == "the model is unavailable: unreachable");
  CHECK(search.counts.generation.written == 3);
  CHECK(search.counts.generation.unanswered > 3);
  CHECK(search.confirmed.has_value());
  CheckReplayGivesTheState(world);
}

TEST_CASE("While the model is unavailable the search uses the space, then returns to the model",
          "[orchestrator][generation]") {
  EngineOptions options = WritingWorld::Impatient();
  options.generation_patience = absl::Hours(1);
  WritingWorld world(nullptr, options);
  std::atomic<bool> away = true;
  world.writer->write = [&away](int number, const GenerationQuery&) {
    if (away) return FakeWriter::Away();
    return FakeWriter::Says(ToyKernel("int k" + std::to_string(number) + ";\n", 8, 4));
  };
  world.workers.hold_measurements = true;
  world.Start();
  const std::string problem = world.Put(/*with_space=*/true);
  SearchSpec spec = WrittenSearch(problem, 0);
  spec.budget.max_measurements = 20;
  REQUIRE(world.StartSearch("s1", spec).ok());
  // Requests continue, whatever part of the space is in flight.
  REQUIRE(world.writer->WaitForRequests(6));
  while (world.workers.held() == 0) {
  }
  CHECK(world.GetSearch("s1").counts.generation.written == 0);
  away = false;
  while (world.GetSearch("s1").counts.generation.written == 0) {
  }
  world.workers.Release();
  const SearchSnapshot search = world.WaitForEnd("s1");
  CHECK(search.counts.generation.written > 0);
  CHECK(search.counts.measured == 20);
  std::set<std::string> origins;
  for (const auto& accepted : world.store->All<EvaluationAccepted>()) {
    origins.insert(accepted.candidate.origin.substr(0, 4));
  }
  CHECK(origins == std::set<std::string>{"llm:", "temp"});
  CheckEachSettledOnce(*world.store);
  CheckReplayGivesTheState(world);
}

TEST_CASE("A search whose model never comes ends with the best of the space",
          "[orchestrator][generation]") {
  WritingWorld world;
  world.writer->write = [](int, const GenerationQuery&) { return FakeWriter::Away(); };
  world.Start();
  const std::string problem = world.Put(/*with_space=*/true);
  SearchSpec spec = WrittenSearch(problem, 1000);
  spec.measure_everything = GENERATE(true, false);
  REQUIRE(world.StartSearch("s1", spec).ok());
  const SearchSnapshot search = world.WaitForEnd("s1");
  CHECK(search.end_reason == "nothing left worth measuring; the model is unavailable: unreachable");
  REQUIRE(search.confirmed.has_value());
  CHECK(MeasuredSpeedup(search.confirmed->measurement)->value == Approx(3.2));
}

TEST_CASE("Ending a search stops its pending generations", "[orchestrator][generation]") {
  WritingWorld world;
  world.writer->holds = [](int number) { return number > 2; };
  world.Start();
  const std::string problem = world.Put();
  REQUIRE(world.StartSearch("s1", WrittenSearch(problem, 100)).ok());
  REQUIRE(world.writer->WaitForRequests(6));
  auto stopped = std::make_shared<std::promise<void>>();
  world.engine->StopSearch("s1", [stopped](const auto&) { stopped->set_value(); });
  stopped->get_future().wait();
  const SearchSnapshot search = world.WaitForEnd("s1");
  CHECK(search.end_reason == "stopped");
  CHECK(search.counts.generation.given_up == 4);
  for (size_t i = 2; i < 6; ++i) CHECK(world.writer->queries()[i].stop.stop_requested());
  // Late answers are ignored.
  for (int number = 3; number <= 6; ++number) world.writer->Release(number);
  auto drained = std::make_shared<std::promise<void>>();
  world.thread.Post([drained] { drained->set_value(); });
  drained->get_future().wait();
  world.engine->Inspect([](const State&) {});
  CHECK(world.store->All<GenerationSettled>().size() == 2);
}

TEST_CASE("Searches that cannot generate kernels are refused", "[orchestrator][generation]") {
  World without;
  without.Start();
  const std::string problem = without.PutToy();
  CHECK(without.StartSearch("", WrittenSearch(problem, 5)).status().code() ==
        absl::StatusCode::kFailedPrecondition);

  WritingWorld world;
  world.Start();
  SearchSpec spec = WrittenSearch(world.Put(), 0);
  CHECK(world.StartSearch("", spec).status().code() == absl::StatusCode::kInvalidArgument);
}

Lesson About(std::string aspect, double mean) {
  Lesson lesson;
  lesson.family = "toy";
  lesson.target = "cpu";
  lesson.device_model = "Fake CPU";
  lesson.aspect = std::move(aspect);
  lesson.from = "1";
  lesson.to = "2";
  lesson.trials = lesson.held = 50;
  lesson.mean_log2_gain = mean;
  lesson.searches = 10;
  return lesson;
}

TEST_CASE("The writer is shown the lessons that say most", "[orchestrator][generation]") {
  WritingWorld world;
  world.Start();
  SearchSpec spec = WrittenSearch(world.Put(), 3);
  for (int i = 0; i < 12; ++i) {
    spec.lessons.push_back(About("aspect " + std::to_string(i), 0.1 * (i + 2)));
  }
  spec.lessons.push_back(About("of another target", 5));
  spec.lessons.back().target = "cuda";
  REQUIRE(world.StartSearch("s1", spec).ok());
  world.WaitForEnd("s1");
  REQUIRE(world.writer->queries().size() == 3);
  for (const GenerationQuery& query : world.writer->queries()) {
    REQUIRE(query.lessons.size() == 8);
    CHECK(query.lessons.front().aspect == "aspect 11");
    CHECK(query.lessons.back().aspect == "aspect 4");
  }
}

TEST_CASE("Lessons are refused where no model is asked", "[orchestrator][generation]") {
  WritingWorld world;
  world.Start();
  SearchSpec spec = testing::TemplateSearch(world.Put(/*with_space=*/true), 12);
  spec.lessons = {About("vector bytes", 0.5)};
  const absl::Status refused = world.StartSearch("s1", spec).status();
  CHECK(refused.code() == absl::StatusCode::kInvalidArgument);
  CHECK(refused.message() == "spec.lessons: are set, but only generator llm takes them");
}

TEST_CASE("A crash after any event loses no kernel and repeats pending requests",
          "[orchestrator][generation]") {
  WritingWorld first;
  first.writer->write = [](int number, const GenerationQuery&) {
    if (number % 7 == 0) return FakeWriter::SaysNothingUseful("prose");
    return FakeWriter::Says(
        ToyKernel("int k" + std::to_string(number) + ";\n", 1 << (number % 6), 1 << (number % 5)));
  };
  first.Start();
  const std::string problem = first.Put();
  REQUIRE(first.StartSearch("s1", WrittenSearch(problem, 14)).ok());
  first.WaitForEnd("s1");
  first.engine.reset();
  const size_t events = first.store->LastSequence().value();
  for (size_t length = 2; length < events; length += 3) {
    WritingWorld again(testing::Prefix(*first.store, length));
    std::atomic<int> fresh = 1000;
    again.writer->write = [&fresh](int, const GenerationQuery&) {
      return FakeWriter::Says(ToyKernel("int k" + std::to_string(++fresh) + ";\n", 4, 4));
    };
    again.Start();
    const SearchSnapshot search = again.WaitForEnd("s1");
    INFO("crash after event " << length);
    CHECK(search.status == SearchStatus::kDone);
    const GenerationCounts& counts = search.counts.generation;
    CHECK(counts.requested == 14);
    CHECK(counts.written + counts.unusable == 14);
    CheckEachSettledOnce(*again.store);
  }
}

TEST_CASE("An orchestrator started without its model ends the searches that need it",
          "[orchestrator][generation]") {
  WritingWorld first;
  first.writer->holds = [](int number) { return number > 2; };
  first.Start();
  const std::string problem = first.Put();
  REQUIRE(first.StartSearch("s1", WrittenSearch(problem, 10)).ok());
  REQUIRE(first.writer->WaitForRequests(6));
  first.engine.reset();
  World again(first.store->Copy());
  again.Start();
  const SearchSnapshot search = again.WaitForEnd("s1");
  CHECK(search.end_reason == "this orchestrator was started without a language model");
}

TEST_CASE("A critic answers before each kernel, and after a crash its answer stands",
          "[orchestrator][generation]") {
  WritingWorld first;
  first.Start();
  const std::string problem = first.Put();
  SearchSpec spec = WrittenSearch(problem, 6);
  spec.critic = true;
  spec.generator_limits.max_in_flight = 1;
  REQUIRE(first.StartSearch("s1", spec).ok());
  const SearchSnapshot search = first.WaitForEnd("s1");
  CHECK(search.counts.generation.advised == 6);
  // The critic's tokens are among the others.
  CHECK(search.counts.generation.input_tokens == 6 * 110);
  CHECK(search.counts.generation.output_tokens == 6 * 25);
  CHECK(search.counts.generation.cost == Approx(6 * 0.75));
  CheckReplayGivesTheState(first);
  for (const GenerationQuery& query : first.writer->queries()) {
    CHECK(query.advice == "Advice for " + query.request_id);
  }
  first.engine.reset();
  // After a crash between the critic's answer and the kernel, the critic is not asked again.
  size_t length = 0;
  CHECK(first.store
            ->Replay(1,
                     [&](const StoredEvent& stored) {
                       const auto* advised = std::get_if<GenerationAdvised>(&stored.event.body);
                       if (advised != nullptr && advised->number == 3) length = stored.sequence;
                       return absl::OkStatus();
                     })
            .ok());
  REQUIRE(length > 0);
  WritingWorld again(testing::Prefix(*first.store, length));
  again.writer->advise = [](const GenerationQuery&) {
    return AdviceReply{.advice = "Advice after the crash"};
  };
  again.Start();
  CHECK(again.WaitForEnd("s1").counts.generation.requested == 6);
  CHECK(again.writer->advised() == 3);
  CHECK(again.writer->queries().front().advice == "Advice for s1/3");
  CHECK(again.writer->queries().back().advice == "Advice after the crash");
}

TEST_CASE("The writer sees what its parent was made from and what was measured of it",
          "[orchestrator][generation]") {
  WritingWorld world;
  // Each kernel is faster than the one before it, so that each is made from the last.
  world.workers.measure = [](const Candidate& candidate) {
    MeasuredOk ok = std::get<MeasuredOk>(
        testing::FakeWorkers::Ok(1 + 0.1 * std::stod(candidate.tunables.front().value)));
    ok.shapes.emplace_back().call_overhead_ns = 77;
    return MeasureOutcome(ok);
  };
  world.writer->write = [](int number, const GenerationQuery&) {
    return FakeWriter::Says(ToyKernel("int k" + std::to_string(number) + ";\n", number, 1));
  };
  world.Start();
  SearchSpec spec = WrittenSearch(world.Put(), 8);
  spec.generator_limits.max_in_flight = 1;
  spec.max_in_flight = 1;
  REQUIRE(world.StartSearch("s1", spec).ok());
  world.WaitForEnd("s1");
  int from_reference = 0;
  int from_kernel = 0;
  for (const GenerationQuery& query : world.writer->queries()) {
    if (!query.parent) continue;
    REQUIRE(query.parent->measured != nullptr);
    CHECK(query.parent->measured->shapes.front().call_overhead_ns == 77);
    REQUIRE(query.grandparent);
    CHECK(query.grandparent->candidate.candidate_id == query.parent->candidate.parent_candidate_id);
    CHECK(query.parent->speedup > query.grandparent->speedup);
    ++(query.grandparent->speedup == 1 ? from_reference : from_kernel);
  }
  CHECK(from_reference > 0);
  CHECK(from_kernel > 0);
}

}  // namespace
}  // namespace kernelcast::orchestrator
