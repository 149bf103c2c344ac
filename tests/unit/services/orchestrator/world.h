#ifndef KERNELCAST_TESTS_UNIT_SERVICES_ORCHESTRATOR_WORLD_H_
#define KERNELCAST_TESTS_UNIT_SERVICES_ORCHESTRATOR_WORLD_H_

#include <catch2/catch.hpp>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "services/orchestrator/core/engine.h"
#include "tests/unit/services/orchestrator/fakes.h"

namespace kernelcast::orchestrator::testing {

// An engine with everything it needs. Members are destroyed in reverse: first the engine, then the
// thread that runs the fakes' callbacks, then the fakes.
struct World {
  explicit World(std::unique_ptr<MemoryEventStore> disk = nullptr, EngineOptions options = {})
      : store(disk != nullptr ? std::move(disk) : std::make_unique<MemoryEventStore>()),
        workers(&thread),
        forecasters(&thread),
        engine_options(options) {
    engine_options.tick = absl::Milliseconds(20);
  }

  void Start() {
    auto started = Engine::Start(engine_options, store.get(), &workers, &forecasters,
                                 &Clock::Real(), observer, writer.get());
    REQUIRE(started.ok());
    engine = *std::move(started);
  }

  std::string PutToy(std::vector<ProblemFile> files = SmallProblemFiles()) {
    auto id = std::make_shared<std::promise<std::string>>();
    engine->PutProblem(
        std::make_shared<const Problem>(*ParseProblem(std::move(files))),
        [id](auto problem) { id->set_value(problem.ok() ? (*problem)->problem_id : ""); });
    return id->get_future().get();
  }

  using Answer = std::future<absl::StatusOr<EvaluationRecord>>;
  Answer EvaluateLater(Engine::EvaluateCommand command) {
    auto result = std::make_shared<std::promise<absl::StatusOr<EvaluationRecord>>>();
    engine->Evaluate(std::move(command), [result](auto record) { result->set_value(record); });
    return result->get_future();
  }
  absl::StatusOr<EvaluationRecord> Evaluate(Engine::EvaluateCommand command) {
    return EvaluateLater(std::move(command)).get();
  }

  absl::StatusOr<SearchSnapshot> StartSearch(const std::string& id, SearchSpec spec) {
    auto result = std::make_shared<std::promise<absl::StatusOr<SearchSnapshot>>>();
    engine->StartSearch(id, std::move(spec), [result](auto search) { result->set_value(search); });
    return result->get_future().get();
  }

  SearchSnapshot GetSearch(const std::string& id) {
    auto result = std::make_shared<std::promise<absl::StatusOr<SearchSnapshot>>>();
    engine->GetSearch(id, [result](auto search) { result->set_value(search); });
    return result->get_future().get().value();
  }

  // Waits for the search's end by listening to commits, not by sleeping.
  SearchSnapshot WaitForEnd(const std::string& id) {
    struct Latch {
      std::mutex mutex;
      std::condition_variable changed;
      uint64_t commits = 0;
    } latch;
    const int handle = engine->AddListener([&](uint64_t) {
      std::lock_guard lock(latch.mutex);
      ++latch.commits;
      latch.changed.notify_all();
    });
    uint64_t seen = 0;
    SearchSnapshot snapshot;
    while (true) {
      snapshot = GetSearch(id);
      if (snapshot.ended_ns != 0) break;
      std::unique_lock lock(latch.mutex);
      latch.changed.wait(lock, [&] { return latch.commits > seen; });
      seen = latch.commits;
    }
    engine->RemoveListener(handle);
    return snapshot;
  }

  Candidate ToyCandidate(const std::string& problem_id, const std::string& source = "// mine\n") {
    Candidate candidate;
    candidate.problem_id = problem_id;
    candidate.target = "cpu";
    candidate.source = source;
    candidate.tunables = {{"BLOCK", "8"}, {"UNROLL", "4"}};
    return candidate;
  }

  std::unique_ptr<MemoryEventStore> store;
  FakeWorkers workers;
  FakeForecasters forecasters;
  // Null: the engine has none.
  std::unique_ptr<FakeWriter> writer;
  EngineObserver* observer = nullptr;
  EngineOptions engine_options;
  CallbackThread thread;
  std::unique_ptr<Engine> engine;
};

inline SearchSpec TemplateSearch(const std::string& problem_id, uint64_t measurements) {
  SearchSpec spec;
  spec.problem_id = problem_id;
  spec.target = "cpu";
  spec.budget.max_measurements = measurements;
  spec.seed = 11;
  return spec;
}

// A search whose candidates callers send.
inline SearchSpec ExternalSearch(const std::string& problem_id, uint64_t measurements) {
  SearchSpec spec = TemplateSearch(problem_id, measurements);
  spec.generator = GeneratorKind::kExternal;
  return spec;
}

inline Engine::EvaluateCommand Command(const std::string& request_id, Candidate candidate,
                                       EvaluateMode mode = EvaluateMode::kMeasure,
                                       const std::string& search_id = "") {
  return {request_id, search_id, mode, std::move(candidate)};
}

inline void CheckEachSettledOnce(const MemoryEventStore& store) {
  std::map<std::string, int> accepted, settled;
  for (const auto& event : store.All<EvaluationAccepted>()) ++accepted[event.request_id];
  for (const auto& event : store.All<EvaluationSettled>()) ++settled[event.request_id];
  for (const auto& [id, count] : accepted) {
    INFO(id);
    CHECK(count == 1);
    CHECK(settled[id] == 1);
  }
  CHECK(settled.size() == accepted.size());
}

// The log up to an event, as a crash after it would leave it.
inline std::unique_ptr<MemoryEventStore> Prefix(const MemoryEventStore& store, size_t length) {
  auto prefix = std::make_unique<MemoryEventStore>();
  REQUIRE(store
              .Replay(1,
                      [&](StoredEvent stored) {
                        if (stored.sequence > length) return absl::OkStatus();
                        State state;
                        AppendEntry entry;
                        entry.event = &stored.event;
                        std::visit(
                            [&](const auto& body) {
                              if constexpr (requires { body.request_id; }) {
                                entry.request_id = body.request_id;
                                if (body.request_id.starts_with("s1/")) entry.search_id = "s1";
                              }
                              if constexpr (requires { body.search_id; }) {
                                entry.search_id = body.search_id;
                              }
                            },
                            stored.event.body);
                        return prefix->Append(std::span(&entry, 1)).status();
                      })
              .ok());
  return prefix;
}

// Checks that replaying the durable log gives the engine's state.
inline void CheckReplayGivesTheState(World& world) {
  auto digested = std::make_shared<std::promise<std::pair<uint64_t, std::string>>>();
  world.engine->DigestState([digested](uint64_t sequence, std::string digest) {
    digested->set_value({sequence, std::move(digest)});
  });
  const auto [sequence, digest] = digested->get_future().get();
  State replayed;
  bool compared = false;
  REQUIRE(world.store
              ->Replay(1,
                       [&, seq = sequence, want = digest](const StoredEvent& event) {
                         REQUIRE(replayed.Apply(event).ok());
                         if (event.sequence == seq) {
                           compared = true;
                           CHECK(replayed.DigestHash() == want);
                         }
                         return absl::OkStatus();
                       })
              .ok());
  CHECK(compared);
}

}  // namespace kernelcast::orchestrator::testing

#endif  // KERNELCAST_TESTS_UNIT_SERVICES_ORCHESTRATOR_WORLD_H_
