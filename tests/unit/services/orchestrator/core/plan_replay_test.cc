// Compares plans with what the engine did: after each event of a recorded log, the plan of the
// replayed state must contain the engine's next event.

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/orchestrator/core/engine.h"
#include "services/orchestrator/core/plan.h"
#include "tests/unit/services/orchestrator/world.h"

namespace kernelcast::orchestrator {
namespace {

using testing::Command;
using testing::FakeWriter;
using testing::MemoryEventStore;
using testing::TemplateSearch;
using testing::ToyKernel;
using testing::World;

bool IsSame(const Decision& a, const Decision& b) {
  return a.kind == b.kind && a.reason == b.reason && a.policy == b.policy &&
         a.policy_version == b.policy_version && a.audit_propensity == b.audit_propensity &&
         a.win_probability == b.win_probability && a.threshold == b.threshold &&
         a.incumbent_speedup == b.incumbent_speedup && a.audited_reason == b.audited_reason;
}

// Decisions that follow from the outside world: workers that fail and callers that cancel.
bool IsFromOutside(DecisionReason reason) {
  return reason == DecisionReason::kUnavailable || reason == DecisionReason::kCancelled;
}

// Whether the action needs nothing from outside, so that the engine performs it at once.
bool IsImmediate(const EvaluationAction& action) {
  return std::holds_alternative<DecideCandidate>(action) ||
         std::holds_alternative<SettlePruned>(action) ||
         std::holds_alternative<RejectCandidate>(action);
}

// Replays a log event by event and compares.
class Comparison {
 public:
  explicit Comparison(const EngineOptions& options, bool has_writer) {
    inputs_.capacity = {2, 1};  // of the fake workers
    inputs_.has_writer = has_writer;
    inputs_.generation_backoff = options.generation_backoff;
    inputs_.max_generation_backoff = options.max_generation_backoff;
    inputs_.generation_patience = options.generation_patience;
    inputs_.confirmation.candidates = options.confirm_candidates;
  }

  void Run(const MemoryEventStore& store) {
    REQUIRE(store
                .Replay(1,
                        [&](StoredEvent stored) {
                          INFO("event " << stored.sequence << " of kind "
                                        << stored.event.body.index());
                          CheckImmediate(stored.event);
                          NoteRanking(stored.event);
                          std::visit([&](const auto& body) { Check(stored.event.time_ns, body); },
                                     stored.event.body);
                          REQUIRE(state_.Apply(stored).ok());
                          last_ = stored.event.body;
                          NoteSpec(stored.event);
                          return absl::OkStatus();
                        })
                .ok());
    CHECK(finals_.empty());
    for (const std::string& id : state_.open_searches()) {
      CHECK_FALSE(PlanSearch(state_, *state_.FindSearch(id), inputs_).has_value());
    }
    CHECK(state_.evaluations().empty());
  }

  // How the candidates were to be measured when that was decided.
  std::map<std::string, std::vector<MeasureSpec>> specs;
  // Number of events that a plan contained, by kind.
  std::map<std::string, int> planned;

 private:
  // If an evaluation can be decided or settled without anything from outside, the next event does.
  void CheckImmediate(const Event& next) {
    for (const std::string& id : state_.EvaluationIds()) {
      if (!IsImmediate(PlanAt(*state_.FindEvaluation(id), next.time_ns))) continue;
      const auto* decided = std::get_if<EvaluationDecided>(&next.body);
      const auto* settled = std::get_if<EvaluationSettled>(&next.body);
      REQUIRE((decided != nullptr || settled != nullptr));
      CHECK((decided != nullptr ? decided->request_id : settled->request_id) == id);
    }
  }

  void NoteSpec(const Event& event) {
    const auto* decided = std::get_if<EvaluationDecided>(&event.body);
    if (decided == nullptr) return;
    const Evaluation& evaluation = *state_.FindEvaluation(decided->request_id);
    const EvaluationAction action = PlanAt(evaluation, event.time_ns);
    if (const auto* measure = std::get_if<MeasureCandidate>(&action)) {
      specs[evaluation.candidate.candidate_id].push_back(measure->spec);
    }
  }

  // A ranking may end after the plan has changed, for example when a model is back.
  void NoteRanking(const Event& next) {
    for (const std::string& id : state_.open_searches()) {
      if (auto plan = PlanAt<RankPruned>(*state_.FindSearch(id), next.time_ns)) {
        rankings_.push_back(*std::move(plan));
      }
    }
  }

  // One of the rankings planned since the last one ended.
  void Check(int64_t, const PrunedRanked& event) {
    // Several may differ only in the broods that are complete.
    const bool began = std::any_of(rankings_.begin(), rankings_.end(), [&](const auto& ranking) {
      return ranking.measurements == event.measurements && ranking.pruned == event.pruned &&
             (event.candidate_id.empty() ||
              std::count(ranking.candidate_ids.begin(), ranking.candidate_ids.end(),
                         event.candidate_id) == 1);
    });
    CHECK(began);
    rankings_.clear();
    ++planned["ranked"];
  }

  template <class Body>
  void Check(int64_t, const Body&) {}  // a command or a result from outside

  void Check(int64_t time_ns, const EvaluationDecided& event) {
    if (IsFromOutside(event.decision.reason)) return;
    const EvaluationAction action = PlanAt(*state_.FindEvaluation(event.request_id), time_ns);
    if (event.decision.reason == DecisionReason::kReused) {
      CHECK(std::holds_alternative<ReuseMeasurement>(action));
      ++planned["reused"];
      return;
    }
    if (const auto* reject = std::get_if<RejectCandidate>(&action)) {
      CHECK(event.decision.kind == DecisionKind::kReject);
      CHECK(event.decision.reason == reject->reason);
      ++planned["rejected"];
      return;
    }
    const auto* decide = std::get_if<DecideCandidate>(&action);
    REQUIRE(decide != nullptr);
    if (decide->rejection) {
      CHECK(event.decision.kind == DecisionKind::kReject);
      CHECK(event.decision.reason == decide->decision.reason);
    } else {
      CHECK(IsSame(event.decision, decide->decision));
    }
    ++planned["decided"];
  }

  void Check(int64_t time_ns, const EvaluationSettled& event) {
    const Evaluation& evaluation = *state_.FindEvaluation(event.request_id);
    const EvaluationAction action = PlanAt(evaluation, time_ns);
    if (std::holds_alternative<Pruned>(event.result)) {
      CHECK(std::holds_alternative<SettlePruned>(action));
      ++planned["pruned"];
    } else if (const auto* rejection = std::get_if<Rejection>(&event.result)) {
      if (IsFromOutside(evaluation.decision->reason)) return;
      const auto* reject = std::get_if<RejectCandidate>(&action);
      REQUIRE(reject != nullptr);
      CHECK(reject->rejection.cause == rejection->cause);
      CHECK(reject->rejection.detail == rejection->detail);
      CHECK(reject->rejection.compile_error.log == rejection->compile_error.log);
    } else if (!event.reused) {
      CHECK(std::holds_alternative<MeasureCandidate>(action));
      ++planned["measured"];
    }
  }

  void Check(int64_t time_ns, const EvaluationCompiled& event) {
    const EvaluationAction action = PlanAt(*state_.FindEvaluation(event.request_id), time_ns);
    CHECK(std::holds_alternative<CompileCandidate>(action));
    ++planned["compiled"];
  }

  void Check(int64_t time_ns, const EvaluationForecast& event) {
    const EvaluationAction action = PlanAt(*state_.FindEvaluation(event.request_id), time_ns);
    CHECK(std::holds_alternative<ForecastCandidate>(action));
    ++planned["forecast"];
  }

  void Check(int64_t time_ns, const EvaluationAccepted& event) {
    if (!event.generated) return;
    const Search& search = *state_.FindSearch(event.search_id);
    if (event.mode == EvaluateMode::kFinal && search.IsHeldOut(event.candidate)) {
      if (finals_.empty()) {
        const auto plan = PlanAt<MeasureHeldOut>(search, time_ns);
        REQUIRE(plan);
        CHECK(state_.FindProblem(plan->problem_id) != nullptr);
        CHECK(plan->problem_id == event.candidate.problem_id);
        finals_.assign(plan->candidate_ids.begin(), plan->candidate_ids.end());
      }
      CHECK(ForProblem(event.candidate, search.spec.problem_id).candidate_id == finals_.front());
      finals_.pop_front();
      ++planned["held out"];
      return;
    }
    if (event.mode == EvaluateMode::kFinal) {
      if (finals_.empty()) {
        const auto plan = PlanAt<MeasureFinals>(search, time_ns);
        REQUIRE(plan);
        finals_.assign(plan->candidate_ids.begin(), plan->candidate_ids.end());
      }
      CHECK(event.candidate.candidate_id == finals_.front());
      finals_.pop_front();
      ++planned["final"];
      return;
    }
    // A kernel that a model wrote.
    const auto* generated = std::get_if<GenerationSettled>(&last_);
    if (generated != nullptr && generated->detail == event.request_id) return;
    const auto plan = PlanAt<ProposeCandidate>(search, time_ns);
    REQUIRE(plan);
    CHECK(plan->request_id == event.request_id);
    CHECK(plan->mode == event.mode);
    CHECK(plan->candidate.candidate_id == event.candidate.candidate_id);
    ++planned[search.history.contains(event.candidate.candidate_id) ? "selected" : "proposed"];
  }

  void Check(int64_t time_ns, const GenerationRequested& event) {
    const auto plan = PlanAt<RequestKernel>(*state_.FindSearch(event.search_id), time_ns);
    REQUIRE(plan);
    CHECK(plan->number == event.number);
    CHECK(plan->parent_candidate_id == event.parent_candidate_id);
    ++planned["requested"];
  }

  // A kernel is written when the critic has answered, if the search has one.
  void Check(int64_t, const GenerationAdvised& event) {
    const Search& search = *state_.FindSearch(event.search_id);
    CHECK(search.spec.critic);
    CHECK_FALSE(search.generation->in_flight.at(event.number).advice);
    CHECK(std::ranges::count(PlanCalls(state_, search, inputs_).advice, event.number) == 1);
    ++planned["advised"];
  }
  void Check(int64_t, const GenerationSettled& event) {
    const Search& search = *state_.FindSearch(event.search_id);
    const Generation::Request& request = search.generation->in_flight.at(event.number);
    CHECK(request.advice.has_value() == search.spec.critic);
    CHECK(std::ranges::count(PlanCalls(state_, search, inputs_).kernels, event.number) == 1);
  }

  void Check(int64_t time_ns, const SearchFinishing& event) {
    if (event.reason == kStoppedReason) return;
    const auto plan = PlanAt<FinishSearch>(*state_.FindSearch(event.search_id), time_ns);
    REQUIRE(plan);
    CHECK(plan->reason == event.reason);
    ++planned["finished"];
  }

  void Check(int64_t time_ns, const SearchClosed& event) {
    if (event.failed) return;
    const auto plan = PlanAt<CloseSearch>(*state_.FindSearch(event.search_id), time_ns);
    REQUIRE(plan);
    CHECK(plan->confirmed_request_id == event.confirmed_request_id);
    ++planned["closed"];
  }

  EvaluationAction PlanAt(const Evaluation& evaluation, int64_t time_ns) const {
    EvaluationInputs inputs;
    inputs.now_ns = time_ns;
    return PlanEvaluation(state_, evaluation, inputs);
  }

  template <class Action>
  std::optional<Action> PlanAt(const Search& search, int64_t time_ns) {
    inputs_.now_ns = time_ns;
    std::optional<SearchAction> plan = PlanSearch(state_, search, inputs_);
    if (!plan || !std::holds_alternative<Action>(*plan)) return std::nullopt;
    return std::get<Action>(*std::move(plan));
  }

  State state_;
  SearchInputs inputs_;
  EventBody last_;
  std::deque<std::string> finals_;    // the rest of a round
  std::vector<RankPruned> rankings_;  // planned since the last one ended
};

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
  spec.policy = GENERATE("threshold", "top_k", "value", "risk");
  REQUIRE(world.StartSearch("s1", spec).ok());
  world.WaitForEnd("s1");
  world.engine->Stop();
  Comparison comparison(world.engine_options, false);
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
  Comparison comparison(world.engine_options, false);
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
  Comparison comparison(world.engine_options, false);
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
  Comparison comparison(world.engine_options, false);
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
                         .aspect = "parameter BLOCK",
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

TEST_CASE("The engine follows the plan in a search with lessons") {
  World world;
  world.Start();
  SearchSpec spec = TemplateSearch(world.PutToy(), 12);
  spec.strategy = GENERATE("selection", "puct", "map_elites", "measure_all");
  CAPTURE(spec.strategy);
  spec.lessons = ToyLessons();
  REQUIRE(world.StartSearch("s1", spec).ok());
  const SearchSnapshot ended = world.WaitForEnd("s1");
  world.engine->Stop();
  Comparison comparison(world.engine_options, false);
  comparison.Run(*world.store);
  CHECK(ended.counts.measurements <= 12);
  CHECK(comparison.planned["proposed"] >= 12);
  CHECK(comparison.planned["closed"] == 1);
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
  CAPTURE(spec.strategy);
  REQUIRE(world.StartSearch("s1", spec).ok());
  world.WaitForEnd("s1");
  world.engine->Stop();
  Comparison comparison(world.engine_options, true);
  comparison.Run(*world.store);
  CHECK(comparison.planned["requested"] > 25);
  CHECK(comparison.planned["advised"] == (spec.critic ? comparison.planned["requested"] : 0));
  CHECK(comparison.planned["decided"] > 10);
  CHECK(comparison.planned["finished"] == 1);
  CHECK(comparison.planned["closed"] == 1);
}

TEST_CASE("The engine follows the plan in an external search and outside searches") {
  World world;
  world.workers.hold_measurements = true;
  world.Start();
  const std::string problem = world.PutToy();
  SearchSpec spec = TemplateSearch(problem, 2);
  spec.generator = GeneratorKind::kExternal;
  REQUIRE(world.StartSearch("s1", spec).ok());
  std::vector<std::future<bool>> answers;
  const auto evaluate = [&](const std::string& id, const std::string& source, EvaluateMode mode,
                            const std::string& search) {
    auto done = std::make_shared<std::promise<bool>>();
    answers.push_back(done->get_future());
    world.engine->Evaluate(Command(id, world.ToyCandidate(problem, source), mode, search),
                           [done](const auto& record) { done->set_value(record.ok()); });
  };
  evaluate("a", "// a\n", EvaluateMode::kMeasure, "s1");
  evaluate("b", "// a\n", EvaluateMode::kMeasure, "s1");  // a duplicate
  evaluate("c", "// c\n", EvaluateMode::kMeasure, "s1");
  CHECK(answers[1].get());
  world.workers.Release();
  CHECK(answers[0].get());
  CHECK(answers[2].get());
  evaluate("d", "// d\n", EvaluateMode::kRoute, "s1");    // the budget is spent
  evaluate("e", "// a\n", EvaluateMode::kMeasure, "s1");  // reused
  for (int i = 0; i < 30; ++i) {
    evaluate(absl::StrCat("r", i), absl::StrCat("// r", i, "\n"),
             i % 3 == 0 ? EvaluateMode::kForecast : EvaluateMode::kRoute, "");
  }
  for (size_t i = 3; i < answers.size(); ++i) CHECK(answers[i].get());
  world.engine->StopSearch("s1", [](const auto&) {});
  world.WaitForEnd("s1");
  world.engine->Stop();
  Comparison comparison(world.engine_options, false);
  comparison.Run(*world.store);
  CHECK(comparison.planned["rejected"] == 1);
  CHECK(comparison.planned["reused"] == 1);
  CHECK(comparison.planned["decided"] >= 33);
  CHECK(comparison.planned["pruned"] >= 11);
  CHECK(comparison.planned["closed"] == 1);
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
