#include "tests/integration/orchestrator/crash_points_world.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <future>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/base/hash.h"
#include "services/orchestrator/core/decision_order.h"
#include "services/orchestrator/core/plan.h"
#include "services/orchestrator/store/event_codec.h"
#include "tests/unit/services/orchestrator/fakes.h"

namespace kernelcast::orchestrator::testing {
namespace {

constexpr const char* kSearch = "s1";
constexpr const char* kDevice = "fake cpu";
constexpr int64_t kStartNs = 1'000'000'000'000;
constexpr int64_t kStepNs = 1'000'000;
constexpr int64_t kIdleNs = 100'000'000;

constexpr int kLabelsFirst = 0;
constexpr int kRankingsNext = 1;
constexpr int kOthers = 2;

// A number from 0 to 1 that depends on the texts alone.
double Draw(const std::string& what, const std::string& id) {
  const std::string hex = ContentHasher().Add(what).Add(id).Hex128();
  return static_cast<double>(std::stoull(hex.substr(0, 13), nullptr, 16)) * 0x1.0p-52;
}

double Truth(const Candidate& candidate) {
  return ToySpeedup(candidate) * (1 + 0.05 * Draw("truth", candidate.candidate_id));
}

MeasureOutcome Recorded(const Candidate& candidate, MeasureLevel level) {
  const double fate = Draw("fate", candidate.candidate_id);
  if (fate < 0.06) return WrongResult{};
  if (fate < 0.12 && level == MeasureLevel::kScreen) return EnvironmentUnstable{};
  const std::string name = level == MeasureLevel::kFinal ? "final" : "screen";
  return FakeWorkers::Ok(Truth(candidate) * (1 + 0.02 * Draw(name, candidate.candidate_id)));
}

std::vector<Lesson> LessonsAboutToys() {
  std::vector<Lesson> lessons;
  for (const char* const value : {"1", "2", "4", "16", "32"}) {
    lessons.push_back({.family = "toy",
                       .target = "cpu",
                       .device_model = kDevice,
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
  return lessons;
}

SearchSpec SpecOf(const Scenario& scenario, const std::string& problem_id) {
  SearchSpec spec;
  spec.problem_id = problem_id;
  spec.target = "cpu";
  spec.generator = scenario.kind;
  spec.policy = scenario.policy;
  spec.strategy = scenario.strategy;
  if (MakeStrategy(scenario.strategy, {}).value()->batches()) {
    // So that a search has several batches. A single parameter, because the bytes of an event with
    // more vary with their order.
    spec.strategy_parameters = {{"children", 4}};
  }
  spec.seed = scenario.seed;
  spec.max_in_flight = scenario.max_in_flight;
  spec.budget.max_measurements = 10;
  if (scenario.kind == GeneratorKind::kLlm) {
    spec.generator_limits.max_requests = 18;
    spec.generator_limits.max_in_flight = 2;
    spec.critic = scenario.seed % 2 == 0;
    if (scenario.seed % 2 == 1) spec.lessons = LessonsAboutToys();
  }
  return spec;
}

// The caller of an external search. It asks for some evaluations at a time and stops the search
// when it has all results. After a crash it asks for all of them again, under the same ids.
class Caller {
 public:
  Caller(Engine* engine, std::string problem_id, uint64_t seed)
      : engine_(engine), problem_id_(std::move(problem_id)), seed_(seed) {}

  // Returns whether it has asked for something.
  bool Ask() {
    if (stopped_) return false;
    const uint64_t answered = *answers_;
    if (asked_ == kRequests) {
      if (answered < kRequests) return false;
      engine_->StopSearch(kSearch, [](const auto&) {});
      stopped_ = true;
      return true;
    }
    if (asked_ - answered >= kAtATime) return false;
    engine_->Evaluate(Command(asked_++), [answers = answers_](const auto&) { ++*answers; });
    return true;
  }
  uint64_t answers() const { return *answers_; }

 private:
  static constexpr uint64_t kRequests = 30;
  static constexpr uint64_t kAtATime = 4;

  Engine::EvaluateCommand Command(uint64_t number) const {
    Engine::EvaluateCommand command;
    command.request_id = absl::StrCat("r", number);
    command.search_id = kSearch;
    const double draw = Draw(absl::StrCat("request ", seed_), command.request_id);
    if (number % 5 == 2) command.mode = EvaluateMode::kMeasure;
    if (number % 7 == 6) command.mode = EvaluateMode::kForecast;
    // Some candidates come several times, at once or later.
    const uint64_t kernel = number % 6 == 5 ? number - 1 - (number % 4) * 2 : number;
    command.candidate = ToyKernel(absl::StrCat("// ", seed_, " ", kernel, "\n"), 1 << (kernel % 6),
                                  1 << ((kernel / 6) % 5));
    if (draw < 0.1) command.candidate.source += "// unlike others\n";
    command.candidate.problem_id = problem_id_;
    command.candidate.target = "cpu";
    return command;
  }

  Engine* const engine_;
  const std::string problem_id_;
  const uint64_t seed_;
  uint64_t asked_ = 0;
  // Shared with callbacks, which may come while the engine ends.
  const std::shared_ptr<std::atomic<uint64_t>> answers_ =
      std::make_shared<std::atomic<uint64_t>>(0);
  bool stopped_ = false;
};

// The call that the plan of an evaluation needs, or the index of another action. Nothing: it waits
// for others.
std::optional<std::string> CallFor(const State& state, const Evaluation& evaluation, int64_t now_ns,
                                   bool is_next) {
  EvaluationInputs inputs;
  inputs.now_ns = now_ns;
  inputs.is_next = is_next;
  const EvaluationAction action = PlanEvaluation(state, evaluation, inputs);
  if (std::holds_alternative<WaitForOthers>(action)) return std::nullopt;
  if (std::holds_alternative<DescribeReference>(action)) return "reference";
  if (std::holds_alternative<CompileCandidate>(action)) return "compile " + evaluation.request_id;
  if (std::holds_alternative<MeasureCandidate>(action)) return "measure " + evaluation.request_id;
  if (std::holds_alternative<ForecastCandidate>(action)) {
    return "forecast " + evaluation.candidate.candidate_id;
  }
  return absl::StrCat("action ", action.index(), " for ", evaluation.request_id);
}

// Actions of the plan that an idle engine has not done, and calls for labels beyond the plan.
std::vector<std::string> Undone(const State& state, const Workers& workers,
                                const PendingCalls& calls, int64_t now_ns) {
  const std::set<std::string> waiting = calls.names();
  std::vector<std::string> wanted;
  for (const std::string& id : state.EvaluationIds()) {
    const auto call = CallFor(state, *state.FindEvaluation(id), now_ns, /*is_next=*/false);
    if (call) wanted.push_back(*call);
  }
  for (const std::string& id : state.open_searches()) {
    const Search& search = *state.FindSearch(id);
    SearchInputs inputs;
    inputs.now_ns = now_ns;
    inputs.capacity = workers.CapacityFor(search.spec.target, search.device_model);
    inputs.ranking = true;  // or it pauses before the next one
    inputs.has_writer = true;
    const EngineOptions defaults;
    inputs.generation_backoff = defaults.generation_backoff;
    inputs.max_generation_backoff = defaults.max_generation_backoff;
    inputs.generation_patience = defaults.generation_patience;
    inputs.confirmation.candidates = defaults.confirm_candidates;
    const bool forecasts_next =
        std::ranges::any_of(search.undecided, [&](const std::string& request_id) {
          const Candidate& candidate = state.FindEvaluation(request_id)->candidate;
          return waiting.contains("forecast " + candidate.candidate_id);
        });
    if (const auto next =
            NextToDecide(state, search, {now_ns, inputs.capacity.measure_slots, forecasts_next})) {
      const auto call = CallFor(state, *state.FindEvaluation(*next), now_ns, /*is_next=*/true);
      wanted.push_back(call.value_or("decision of " + *next));
    }
    if (const auto action = PlanSearch(state, search, inputs)) {
      wanted.push_back(absl::StrCat("action ", action->index(), " for ", id));
    }
    const SearchCalls needed = PlanCalls(state, search, inputs);
    if (needed.reference) wanted.push_back("reference");
    for (const uint64_t number : needed.kernels) {
      wanted.push_back(absl::StrCat("kernel ", id, "/", number));
    }
    for (const uint64_t number : needed.advice) {
      wanted.push_back(absl::StrCat("advice ", id, "/", number));
    }
  }
  std::erase_if(wanted, [&](const std::string& name) { return waiting.contains(name); });
  std::set<std::string> offered;
  for (const std::string& name : waiting) {
    if (!name.starts_with("labels ")) continue;
    for (const auto& id : absl::StrSplit(name.substr(7), ' ')) offered.emplace(id);
  }
  for (const LabelOffer& offer : PlanLabels(state, offered)) {
    wanted.push_back("labels of " + offer.problem_id);
  }
  for (const LabelOffer& offer : PlanLabels(state, {})) {
    for (const Label& label : offer.labels) offered.erase(label.label_id);
  }
  for (const std::string& id : offered) wanted.push_back("no label " + id);
  return wanted;
}

}  // namespace

void PendingCalls::Add(int priority, const std::string& name, std::function<void()> complete) {
  std::lock_guard lock(mutex_);
  const std::string hash = ContentHasher().Add(seed_).Add(name).Hex128();
  waiting_[{priority, hash}] = Call{name, std::move(complete)};
  ++made_;
}

bool PendingCalls::CompleteNext() {
  std::function<void()> complete;
  {
    std::lock_guard lock(mutex_);
    if (waiting_.empty()) return false;
    complete = std::move(waiting_.begin()->second.complete);
    waiting_.erase(waiting_.begin());
  }
  complete();
  return true;
}

std::set<std::string> PendingCalls::names() const {
  std::lock_guard lock(mutex_);
  std::set<std::string> names;
  for (const auto& [order, call] : waiting_) names.insert(call.name);
  return names;
}

uint64_t PendingCalls::made() const {
  std::lock_guard lock(mutex_);
  return made_;
}

void ReplayWorkers::Compile(const std::string& request_id, std::shared_ptr<const Problem>,
                            Candidate candidate, const std::string&, CompileDone done) {
  calls_->Add(kOthers, "compile " + request_id, [candidate = std::move(candidate), done] {
    if (Draw("compiles", candidate.candidate_id) < 0.08) {
      done(CompileResult(CompileError{CompileStage::kCompiler, "x.cc:1: error"}));
    } else {
      done(CompileResult(CompiledCandidate{FakeWorkers::Facts(), Artifact{}}));
    }
  });
}

void ReplayWorkers::CompileReference(std::shared_ptr<const Problem>, const std::string&,
                                     const std::string&, CompileDone done) {
  calls_->Add(kOthers, "reference", [done] {
    done(CompileResult(CompiledCandidate{FakeWorkers::Facts(), Artifact{}}));
  });
}

void ReplayWorkers::Measure(const std::string& request_id, std::shared_ptr<const Problem>,
                            Candidate candidate, const std::string& device_model, MeasureSpec spec,
                            bool, MeasureDone done) {
  calls_->Add(kOthers, "measure " + request_id,
              [candidate = std::move(candidate), device_model, spec, done] {
                Measurement measurement;
                measurement.candidate_id = candidate.candidate_id;
                measurement.problem_id = candidate.problem_id;
                measurement.target = candidate.target;
                measurement.level = spec.level;
                measurement.device_time_ns = 1'000'000;
                measurement.device.model = device_model;
                measurement.outcome = Recorded(candidate, spec.level);
                done(MeasureResult(std::move(measurement)));
              });
}

std::string ReplayWorkers::DeviceModelFor(const std::string&, const std::string&) const {
  return kDevice;
}

std::vector<Workers::Device> ReplayWorkers::Devices() const { return {{"cpu", kDevice, slots_}}; }

void DeterministicForecasters::Learn(const std::vector<std::string>& label_ids) {
  labels_.insert(label_ids.begin(), label_ids.end());
}

ForecastResult DeterministicForecasters::Answer(const ForecastQuery& query) const {
  const std::string& id = query.candidate.candidate_id;
  if (Draw("abstains", id) < 0.05) {
    return Abstention{Abstention::Cause::kEndpointUnavailable, "fake", "unavailable"};
  }
  // Each label changes the forecasts and makes them more precise.
  const uint64_t labels = labels_.size();
  const double blur = 0.2 + 1.0 / (1 + static_cast<double>(labels));
  const double error = blur * (Draw(absl::StrCat("error ", labels), id) - 0.5);
  return FakeForecasters::Make(query.candidate, Truth(query.candidate) * std::exp2(error), blur,
                               labels);
}

void DeterministicForecasters::Forecast(std::shared_ptr<const Problem>, ForecastQuery query,
                                        ForecastDone done) {
  const std::string name = "forecast " + query.candidate.candidate_id;
  calls_->Add(kOthers, name, [this, query = std::move(query), done] { done(Answer(query)); });
}

void DeterministicForecasters::ForecastAll(std::shared_ptr<const Problem>,
                                           std::vector<ForecastQuery> queries,
                                           ForecastAllDone done) {
  calls_->Add(kRankingsNext, "ranking", [this, queries = std::move(queries), done] {
    std::vector<ForecastResult> results;
    for (const ForecastQuery& query : queries) results.push_back(Answer(query));
    done(std::move(results));
  });
}

void DeterministicForecasters::Observe(std::shared_ptr<const Problem>, std::vector<Label> labels,
                                       ObserveDone done) {
  std::string name = "labels";
  for (const Label& label : labels) absl::StrAppend(&name, " ", label.label_id);
  calls_->Add(kLabelsFirst, name, [this, labels = std::move(labels), done] {
    for (const Label& label : labels) labels_.insert(label.label_id);
    done(absl::OkStatus());
  });
}

void ScriptedWriter::Write(GenerationQuery query, WriteDone done) {
  calls_->Add(kOthers, "kernel " + query.request_id, [this, id = query.request_id, done] {
    const uint64_t number = std::stoull(id.substr(id.rfind('/') + 1));
    const double draw = Draw(absl::StrCat("kernel ", seed_), id);
    if (number >= 7 && number <= 10) return done(FakeWriter::Away());
    if (draw < 0.15) return done(FakeWriter::SaysNothingUseful("prose"));
    const uint64_t kernel = draw < 0.3 ? number / 2 : number;
    done(FakeWriter::Says(ToyKernel(absl::StrCat("int k", kernel, ";\n"), 1 << (kernel % 6),
                                    1 << ((kernel / 2) % 5))));
  });
}

void ScriptedWriter::Advise(GenerationQuery query, AdviseDone done) {
  calls_->Add(kOthers, "advice " + query.request_id, [id = query.request_id, done] {
    AdviceReply reply;
    const uint64_t number = std::stoull(id.substr(id.rfind('/') + 1));
    if (number % 4 != 0) reply.advice = absl::StrCat("Advice ", number);
    reply.usage = {10, 0, 5, false, 0.25};
    done(std::move(reply));
  });
}

absl::StatusOr<uint64_t> CrashingStore::Append(std::span<const AppendEntry> entries) {
  {
    std::lock_guard lock(mutex_);
    if (appends_left_ == 0) {
      crashed_ = true;
      return absl::UnavailableError("crashed");
    }
    --appends_left_;
  }
  absl::StatusOr<uint64_t> first = disk_->Append(entries);
  std::lock_guard lock(mutex_);
  if (!first.ok()) {
    crashed_ = true;
    return first;
  }
  boundaries_.push_back(*first + entries.size() - 1);
  for (const AppendEntry& entry : entries) Note(*entry.event);
  return first;
}

void CrashingStore::Note(const Event& event) {
  last_ns_ = event.time_ns;
  if (std::holds_alternative<EvaluationSettled>(event.body) ||
      std::holds_alternative<GenerationSettled>(event.body)) {
    settled_ns_ = event.time_ns;
  }
  if (const auto* observed = std::get_if<LabelsObserved>(&event.body)) {
    delivered_.insert(delivered_.end(), observed->request_ids.begin(), observed->request_ids.end());
  }
}

absl::Status CrashingStore::ReadAll() {
  return disk_->Replay(1, [this](const StoredEvent& stored) {
    std::lock_guard lock(mutex_);
    Note(stored.event);
    return absl::OkStatus();
  });
}

bool CrashingStore::crashed() const {
  std::lock_guard lock(mutex_);
  return crashed_;
}

std::vector<uint64_t> CrashingStore::boundaries() const {
  std::lock_guard lock(mutex_);
  return boundaries_;
}

int64_t CrashingStore::last_ns() const {
  std::lock_guard lock(mutex_);
  return last_ns_;
}

bool CrashingStore::SettlesAt(int64_t time_ns) const {
  std::lock_guard lock(mutex_);
  return settled_ns_ == time_ns;
}

std::string DecisionText(const StoredEvent& stored) {
  struct Writer {
    std::string operator()(const ProblemPut&) const { return "problem"; }
    std::string operator()(const ReferenceDescribed&) const { return "reference"; }
    std::string operator()(const SearchCreated& e) const { return "search " + e.search_id; }
    std::string operator()(const EvaluationAccepted& e) const {
      return absl::StrCat("accepted ", e.request_id, " ", e.candidate.candidate_id);
    }
    std::string operator()(const EvaluationCompiled& e) const { return "compiled " + e.request_id; }
    std::string operator()(const EvaluationForecast& e) const { return "forecast " + e.request_id; }
    std::string operator()(const EvaluationDecided& e) const {
      return absl::StrCat("decided ", e.request_id, " ", std::string(Name(e.decision.kind)), " ",
                          std::string(Name(e.decision.reason)));
    }
    std::string operator()(const EvaluationSettled& e) const {
      return absl::StrCat("settled ", e.request_id, " ", e.result.index(),
                          e.reused ? " reused" : "");
    }
    std::string operator()(const GenerationRequested& e) const {
      return absl::StrCat("kernel ", e.number, " from ", e.parent_candidate_id);
    }
    std::string operator()(const GenerationAdvised& e) const {
      return absl::StrCat("advice ", e.number, " ", e.advice);
    }
    std::string operator()(const GenerationSettled& e) const {
      return absl::StrCat("answer ", e.number, " ", std::string(Name(e.outcome)), " ", e.detail);
    }
    std::string operator()(const LabelsObserved&) const { return ""; }
    std::string operator()(const SearchFinishing& e) const { return "finishing: " + e.reason; }
    std::string operator()(const SearchClosed& e) const {
      return absl::StrCat("closed with ", e.confirmed_request_id, " ", e.reason);
    }
    std::string operator()(const DeviceChosen& e) const { return "device " + e.device_model; }
    std::string operator()(const MeasurementRepeated& e) const {
      return "repeated " + e.request_id;
    }
    std::string operator()(const PrunedRanked& e) const {
      return absl::StrCat("ranked ", e.pruned, " after ", e.measurements, " with ", e.labels_seen,
                          " labels: ", e.candidate_id);
    }
  };
  std::string text = std::visit(Writer(), stored.event.body);
  if (text.empty()) return text;
  // The rest of the event.
  const Event timeless{0, stored.event.body};
  AppendEntry entry;
  entry.event = &timeless;
  std::string payload;
  EncodeEvent(1, entry, payload);
  return absl::StrCat(text, " #", ContentHasher().Add(payload).Hex128().substr(0, 12));
}

Outcome Run(const Scenario& scenario, const OpenStore& open, uint64_t appends) {
  PendingCalls calls(scenario.seed);
  CrashingStore store(open(), appends);
  REQUIRE(store.ReadAll().ok());
  FakeClock clock(std::max(kStartNs, store.last_ns()));
  ReplayWorkers workers(&calls, scenario.slots);
  DeterministicForecasters forecasters(&calls);
  forecasters.Learn(store.delivered());
  ScriptedWriter writer(&calls, scenario.seed);
  EngineOptions options;
  options.tick = absl::Nanoseconds(kStepNs);
  options.log.interval = std::chrono::nanoseconds(0);
  options.log.max_delay = std::chrono::nanoseconds(0);
  auto started = Engine::Start(options, &store, &workers, &forecasters, &clock, nullptr, &writer);
  INFO(started.status().ToString());
  REQUIRE(started.ok());
  std::unique_ptr<Engine> engine = *std::move(started);
  const std::string problem_id = ParseProblem(SmallProblemFiles())->problem_id;
  Caller caller(engine.get(), problem_id, scenario.seed);
  bool ended = false;

  // Waits until all events so far are durable and their effects have run.
  const auto pass = [&] {
    const auto passed = std::make_shared<std::promise<bool>>();
    std::future<bool> end = passed->get_future();
    engine->GetSearch(kSearch, [passed](const absl::StatusOr<SearchSnapshot>& search) {
      passed->set_value(search.ok() && search->ended_ns != 0);
    });
    while (end.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready) {
      if (store.crashed()) return;
    }
    if (!store.crashed()) ended = end.get();
  };
  // Waits until the engine has nothing left to do by itself.
  const auto rest = [&] {
    for (int quiet = 0; quiet < 2 && !store.crashed();) {
      const uint64_t before = calls.made() + store.boundaries().size() + caller.answers();
      pass();
      const uint64_t now = calls.made() + store.boundaries().size() + caller.answers();
      quiet = now == before ? quiet + 1 : 0;
    }
    if (store.crashed()) return;
    std::vector<std::string> undone;
    engine->Inspect(
        [&](const State& state) { undone = Undone(state, workers, calls, clock.MonotonicNs()); });
    CHECK(undone == std::vector<std::string>{});
    // Time passes with each settlement.
    if (store.SettlesAt(clock.MonotonicNs())) clock.Advance(kStepNs);
  };

  engine->PutProblem(std::make_shared<const Problem>(*ParseProblem(SmallProblemFiles())),
                     [](const auto&) {});
  engine->StartSearch(kSearch, SpecOf(scenario, problem_id), [](const auto&) {});
  rest();
  for (int idle = 0; !ended && !store.crashed();) {
    if (scenario.kind == GeneratorKind::kExternal && caller.Ask()) {
      rest();
      continue;
    }
    if (calls.CompleteNext()) {
      idle = 0;
    } else {
      clock.Advance(kIdleNs);
      REQUIRE(++idle < 1000);
    }
    rest();
  }
  engine.reset();
  Outcome outcome;
  outcome.crashed = store.crashed();
  outcome.boundaries = store.boundaries();
  REQUIRE(store
              .Replay(1,
                      [&](const StoredEvent& stored) {
                        std::string text = DecisionText(stored);
                        if (!text.empty()) outcome.decisions.push_back(std::move(text));
                        return absl::OkStatus();
                      })
              .ok());
  return outcome;
}

}  // namespace kernelcast::orchestrator::testing
