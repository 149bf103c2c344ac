#include "services/orchestrator/core/engine.h"

#include <catch2/catch.hpp>
#include <future>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/support/eventually.h"
#include "tests/unit/services/orchestrator/world.h"

namespace kernelcast::orchestrator {
namespace {

using kernelcast::testing::Eventually;
using testing::CheckEachSettledOnce;
using testing::CheckReplayGivesTheState;
using testing::Command;
using testing::ExternalSearch;
using testing::MemoryEventStore;
using testing::TemplateSearch;
using testing::World;

TEST_CASE("A candidate is compiled, forecast, measured and learnt from") {
  World world;
  world.Start();
  const std::string problem = world.PutToy();
  const auto record = world.Evaluate(Command("r1", world.ToyCandidate(problem)));
  REQUIRE(record.ok());
  REQUIRE(std::holds_alternative<Measurement>(record->result));
  CHECK(MeasuredSpeedup(std::get<Measurement>(record->result))->value == Approx(3.2));
  CHECK(record->decision.reason == DecisionReason::kRequested);
  CHECK(record->decided_on.has_value());
  CHECK(record->facts.has_value());
  CheckEachSettledOnce(*world.store);
}

TEST_CASE("A repeated request id gets the first result and measures nothing again") {
  World world;
  world.Start();
  const std::string problem = world.PutToy();
  const Candidate candidate = world.ToyCandidate(problem);
  const auto first = world.Evaluate(Command("r1", candidate));
  const auto second = world.Evaluate(Command("r1", candidate));
  REQUIRE(second.ok());
  CHECK(second->settled_ns == first->settled_ns);
  CHECK(world.workers.measurements() == 1);

  const auto other = world.Evaluate(Command("r1", world.ToyCandidate(problem, "// other\n")));
  CHECK(other.status().code() == absl::StatusCode::kAlreadyExists);
}

TEST_CASE("A request id in flight is joined") {
  World world;
  world.workers.hold_measurements = true;
  world.Start();
  const std::string problem = world.PutToy();
  auto both = std::make_shared<std::promise<void>>();
  std::atomic<int> answers = 0, failed = 0;
  auto done = [&answers, &failed, both](const absl::StatusOr<EvaluationRecord>& record) {
    failed += !record.ok();
    if (++answers == 2) both->set_value();
  };
  world.engine->Evaluate(Command("r1", world.ToyCandidate(problem)), done);
  world.engine->Evaluate(Command("r1", world.ToyCandidate(problem)), done);
  size_t evaluations = 0;
  world.engine->Inspect([&](const State& state) { evaluations = state.evaluations().size(); });
  CHECK(evaluations == 1);
  world.workers.Release();
  both->get_future().wait();
  CHECK(failed == 0);
  CHECK(world.workers.measurements() == 1);
}

TEST_CASE("A candidate that does not compile is rejected with the compiler's messages") {
  World world;
  world.workers.compile = [](const Candidate&) {
    return CompileResult(CompileError{CompileStage::kCompiler, "k.cc:1: expected ';'"});
  };
  world.Start();
  const auto record = world.Evaluate(Command("r1", world.ToyCandidate(world.PutToy())));
  REQUIRE(record.ok());
  const auto* rejection = std::get_if<Rejection>(&record->result);
  REQUIRE(rejection != nullptr);
  CHECK(rejection->cause == Rejection::Cause::kCompileError);
  CHECK(rejection->compile_error.log == "k.cc:1: expected ';'");
  CHECK(record->decision.kind == DecisionKind::kReject);
  CHECK(world.workers.measurements() == 0);
}

TEST_CASE("forecast mode never measures") {
  World world;
  world.Start();
  const auto record =
      world.Evaluate(Command("r1", world.ToyCandidate(world.PutToy()), EvaluateMode::kForecast));
  REQUIRE(record.ok());
  CHECK(std::holds_alternative<Pruned>(record->result));
  CHECK(record->decision.reason == DecisionReason::kForecastOnly);
  CHECK(world.workers.measurements() == 0);
}

TEST_CASE("A check is no measurement: nothing learns from it") {
  World world;
  world.workers.measure = [](const Candidate& candidate) -> MeasureOutcome {
    if (candidate.source == "// wrong\n") return WrongResult{};
    return Passed{.correctness_cases = 7};
  };
  world.Start();
  const std::string problem = world.PutToy();
  const auto right =
      world.Evaluate(Command("r1", world.ToyCandidate(problem), EvaluateMode::kCheck));
  REQUIRE(right.ok());
  REQUIRE(std::holds_alternative<Measurement>(right->result));
  const auto& measurement = std::get<Measurement>(right->result);
  CHECK(measurement.level == MeasureLevel::kCheck);
  CHECK(std::holds_alternative<Passed>(measurement.outcome));
  const auto wrong = world.Evaluate(
      Command("r2", world.ToyCandidate(problem, "// wrong\n"), EvaluateMode::kCheck));
  REQUIRE(wrong.ok());
  CHECK(std::holds_alternative<WrongResult>(std::get<Measurement>(wrong->result).outcome));
  CHECK(world.workers.measurements() == 2);
  bool has_labels = true;
  world.engine->Inspect([&](const State& state) { has_labels = !state.pending_labels().empty(); });
  CHECK_FALSE(has_labels);
  CheckReplayGivesTheState(world);
  REQUIRE(world.StartSearch("s1", ExternalSearch(problem, 5)).ok());
  const auto in_search =
      world.Evaluate(Command("r3", world.ToyCandidate(problem), EvaluateMode::kCheck, "s1"));
  CHECK(absl::IsInvalidArgument(in_search.status()));
}

TEST_CASE("A profile measures what was measured before, and the search counts it") {
  World world;
  world.Start();
  const std::string problem = world.PutToy();
  REQUIRE(world.StartSearch("s1", ExternalSearch(problem, 2)).ok());
  const Candidate candidate = world.ToyCandidate(problem);
  REQUIRE(world.Evaluate(Command("r1", candidate, EvaluateMode::kMeasure, "s1")).ok());
  CHECK(world.workers.profiles() == 0);
  const auto profiled = world.Evaluate(Command("r2", candidate, EvaluateMode::kProfile, "s1"));
  REQUIRE(profiled.ok());
  REQUIRE(std::holds_alternative<Measurement>(profiled->result));
  CHECK_FALSE(profiled->reused);
  CHECK(world.workers.profiles() == 1);
  CHECK(world.workers.measurements() == 2);
  CHECK(world.GetSearch("s1").counts.measurements == 2);
  // The budget is spent.
  const auto refused = world.Evaluate(
      Command("r3", world.ToyCandidate(problem, "// other\n"), EvaluateMode::kProfile, "s1"));
  REQUIRE(refused.ok());
  CHECK(refused->decision.reason == DecisionReason::kBudget);
  CHECK(world.workers.measurements() == 2);
  CheckReplayGivesTheState(world);
}

TEST_CASE("A cancelled evaluation is rejected, and its work is stopped") {
  World world;
  world.workers.hold_measurements = true;
  world.Start();
  const std::string problem = world.PutToy();
  auto cancelled = std::make_shared<std::promise<absl::StatusOr<EvaluationRecord>>>();
  world.engine->Evaluate(Command("r1", world.ToyCandidate(problem), EvaluateMode::kMeasure),
                         [cancelled](auto record) { cancelled->set_value(record); });
  auto other = std::make_shared<std::promise<absl::StatusOr<EvaluationRecord>>>();
  world.engine->Evaluate(
      Command("r2", world.ToyCandidate(problem, "// other\n"), EvaluateMode::kMeasure),
      [other](auto record) { other->set_value(record); });
  REQUIRE(Eventually([&] { return world.workers.held() == 2; }));
  world.engine->CancelEvaluation("r1");
  world.engine->CancelEvaluation("unknown");
  const auto record = cancelled->get_future().get();
  REQUIRE(record.ok());
  CHECK(std::get<Rejection>(record->result).cause == Rejection::Cause::kCancelled);
  REQUIRE(Eventually([&] { return world.workers.held() == 1; }));
  world.workers.Release();
  REQUIRE(other->get_future().get().ok());
  CHECK(world.workers.measurements() == 1);
  // A settled evaluation stays as it is.
  world.engine->CancelEvaluation("r2");
  CHECK(std::holds_alternative<Measurement>(
      world.Evaluate(Command("r2", world.ToyCandidate(problem, "// other\n"))).value().result));
  CheckEachSettledOnce(*world.store);
  CheckReplayGivesTheState(world);
}

TEST_CASE("An abandoned search ends at once, without confirmations") {
  World world;
  world.Start();
  const std::string problem = world.PutToy();
  REQUIRE(world.StartSearch("s1", ExternalSearch(problem, 5)).ok());
  REQUIRE(world.Evaluate(Command("r1", world.ToyCandidate(problem), EvaluateMode::kMeasure, "s1"))
              .ok());
  world.workers.hold_measurements = true;
  auto evaluated = std::make_shared<std::promise<absl::StatusOr<EvaluationRecord>>>();
  world.engine->Evaluate(
      Command("r2", world.ToyCandidate(problem, "// other\n"), EvaluateMode::kMeasure, "s1"),
      [evaluated](auto record) { evaluated->set_value(record); });
  REQUIRE(Eventually([&] { return world.workers.held() == 1; }));
  world.engine->StopSearch(
      "s1", [](const auto&) {}, /*abandon=*/true);
  const SearchSnapshot ended = world.WaitForEnd("s1");
  CHECK(ended.status == SearchStatus::kDone);
  CHECK(ended.end_reason == kStoppedReason);
  CHECK(ended.incumbent.has_value());
  CHECK_FALSE(ended.confirmed.has_value());
  const auto record = evaluated->get_future().get();
  REQUIRE(record.ok());
  CHECK(std::get<Rejection>(record->result).cause == Rejection::Cause::kCancelled);
  REQUIRE(Eventually([&] { return world.workers.held() == 0; }));
  CHECK(world.workers.measurements() == 1);
  CheckEachSettledOnce(*world.store);
  CheckReplayGivesTheState(world);
}

TEST_CASE("Without a forecaster candidates are measured, and labels wait for one") {
  World world;
  world.forecasters.away = true;
  world.Start();
  const auto record =
      world.Evaluate(Command("r1", world.ToyCandidate(world.PutToy()), EvaluateMode::kRoute));
  REQUIRE(record.ok());
  CHECK(record->decision.reason == DecisionReason::kNoForecast);
  CHECK(std::holds_alternative<Measurement>(record->result));
  size_t labels = 0;
  world.engine->Inspect([&](const State& state) { labels = state.pending_labels().size(); });
  CHECK(labels == 1);
}

TEST_CASE("Bad requests are refused with the right code and write nothing") {
  World world;
  world.Start();
  const std::string problem = world.PutToy();
  const uint64_t events = world.store->LastSequence().value();
  auto code = [&](Engine::EvaluateCommand command) {
    return world.Evaluate(std::move(command)).status().code();
  };
  Candidate good = world.ToyCandidate(problem);
  CHECK(code(Command("", good)) == absl::StatusCode::kInvalidArgument);
  CHECK(code(Command("with blank", good)) == absl::StatusCode::kInvalidArgument);
  CHECK(code(Command(std::string(200, 'x'), good)) == absl::StatusCode::kInvalidArgument);
  Candidate unknown = good;
  unknown.problem_id = "p_00000000000000000000000000000000";
  CHECK(code(Command("r1", unknown)) == absl::StatusCode::kNotFound);
  Candidate other_target = good;
  other_target.target = "h100";
  CHECK(code(Command("r1", other_target)) == absl::StatusCode::kInvalidArgument);
  Candidate huge = good;
  huge.source.assign(kMaxSourceBytes + 1, ' ');
  CHECK(code(Command("r1", huge)) == absl::StatusCode::kInvalidArgument);
  Candidate binary = good;
  binary.source = "\xff\xfe";
  CHECK(code(Command("r1", binary)) == absl::StatusCode::kInvalidArgument);
  CHECK(code(Command("r1", good, EvaluateMode::kRoute, "s_none")) == absl::StatusCode::kNotFound);
  CHECK(world.store->LastSequence().value() == events);
}

TEST_CASE("Excess requests are refused until others settle") {
  EngineOptions options;
  options.max_live_evaluations = 2;
  World world(nullptr, options);
  world.workers.hold_measurements = true;
  world.Start();
  const std::string problem = world.PutToy();
  auto settled = std::make_shared<std::promise<void>>();
  std::atomic<int> count = 0;
  for (int i = 0; i < 2; ++i) {
    world.engine->Evaluate(
        Command("r" + std::to_string(i), world.ToyCandidate(problem, std::to_string(i))),
        [&count, settled](const auto&) {
          if (++count == 2) settled->set_value();
        });
  }
  const auto refused = world.Evaluate(Command("r9", world.ToyCandidate(problem, "9")));
  CHECK(refused.status().code() == absl::StatusCode::kResourceExhausted);
  world.workers.Release();
  settled->get_future().wait();
  CHECK(world.Evaluate(Command("r9", world.ToyCandidate(problem, "9"))).ok());
}

TEST_CASE("A search measures part of the space, finds its best and confirms it") {
  World world;
  world.Start();
  const std::string problem = world.PutToy();
  REQUIRE(world.StartSearch("s1", TemplateSearch(problem, 16)).ok());
  const SearchSnapshot search = world.WaitForEnd("s1");
  CHECK(search.status == SearchStatus::kDone);
  CHECK(search.counts.considered == 40);
  CHECK(search.counts.measured <= 16);
  CHECK(search.counts.pruned >= 20);
  REQUIRE(search.confirmed.has_value());
  CHECK(search.confirmed->measurement.level == MeasureLevel::kFinal);
  CHECK(MeasuredSpeedup(search.confirmed->measurement)->value == Approx(3.2));
  CHECK(search.counts.confirmations == 3);
  CHECK(search.counts.live == 0);
  CHECK(search.counts.considered == search.counts.decided());
  CheckEachSettledOnce(*world.store);
}

TEST_CASE("Candidate counts match the log's decisions before and after a replay") {
  World world;
  std::atomic<int> calls = 0;
  world.workers.measure = [&](const Candidate& candidate) -> MeasureOutcome {
    if (++calls % 5 == 0) return WrongResult{};
    MeasuredOk ok;
    const double speedup = testing::ToySpeedup(candidate);
    ok.speedup = Ratio{speedup, speedup * 0.99, speedup * 1.01, 0.95};
    return ok;
  };
  world.Start();
  const std::string problem = world.PutToy();
  REQUIRE(world.StartSearch("s1", TemplateSearch(problem, 16)).ok());
  const SearchSnapshot search = world.WaitForEnd("s1");
  world.engine->Stop();

  CandidateCounts counts;
  std::map<std::string, CountedCandidate> candidates;
  std::map<std::string, std::string> candidate_of;
  std::map<std::string, Decision> decision_of;
  REQUIRE(world.store
              ->Replay(1,
                       [&](const StoredEvent& stored) {
                         const EventBody& body = stored.event.body;
                         if (const auto* accepted = std::get_if<EvaluationAccepted>(&body)) {
                           if (accepted->mode == EvaluateMode::kFinal) return absl::OkStatus();
                           candidate_of[accepted->request_id] = accepted->candidate.candidate_id;
                           candidates[accepted->candidate.candidate_id].Accept(counts);
                         } else if (const auto* decided = std::get_if<EvaluationDecided>(&body)) {
                           decision_of[decided->request_id] = decided->decision;
                         } else if (const auto* settled = std::get_if<EvaluationSettled>(&body)) {
                           const auto candidate = candidate_of.find(settled->request_id);
                           if (candidate == candidate_of.end()) return absl::OkStatus();
                           const auto* measured = std::get_if<Measurement>(&settled->result);
                           candidates[candidate->second].Settle(
                               decision_of[settled->request_id].reason,
                               measured != nullptr ? OutcomeOf(*measured)
                                                   : EvaluationOutcome::kPruned,
                               counts);
                         }
                         return absl::OkStatus();
                       })
              .ok());
  CHECK(static_cast<const CandidateCounts&>(search.counts) == counts);
  CHECK(counts.selected > 0);
  CHECK(counts.deferred == 0);
  CHECK(counts.measured == search.counts.measurements);
  CHECK(counts.proposed > counts.considered);
  CHECK(search.counts.device_time_spent_ns ==
        1'000'000 * static_cast<int64_t>(search.counts.measurements + search.counts.confirmations));
  CHECK(search.counts.device_time_confirming_ns ==
        1'000'000 * static_cast<int64_t>(search.counts.confirmations));

  World again(world.store->Copy());
  again.Start();
  const SearchSnapshot replayed = again.GetSearch("s1");
  CHECK(replayed.counts == search.counts);
  REQUIRE_FALSE(search.finalists.empty());
  REQUIRE(replayed.finalists.size() == search.finalists.size());
  CHECK(replayed.finalists[0].candidate_id == search.finalists[0].candidate_id);
}

TEST_CASE(
    "A search measures the most promising candidate next, and an uninformed one starts with each "
    "template") {
  World world;
  world.forecasters.slow_to_learn = GENERATE(0, 3);
  // Forecasts two octaves wide are uninformative before there are labels.
  const bool informed = GENERATE(true, false);
  if (!informed) world.forecasters.blur_octaves = 2;
  const int start = informed ? 0 : 2;
  world.Start();
  const std::string problem = world.PutToy();
  SearchSpec spec = TemplateSearch(problem, 8);
  spec.policy_parameters = {{"audit_share", 0}};
  REQUIRE(world.StartSearch("s1", spec).ok());
  const SearchSnapshot search = world.WaitForEnd("s1");
  REQUIRE(search.confirmed.has_value());
  CHECK(MeasuredSpeedup(search.confirmed->measurement)->value == Approx(3.2));
  std::map<DecisionReason, int> reasons;
  for (const auto& event : world.store->All<EvaluationDecided>()) {
    if (event.decision.kind == DecisionKind::kMeasure) ++reasons[event.decision.reason];
    if (event.decision.policy_version.empty()) continue;
    CHECK(event.decision.policy_version == "threshold/6");
  }
  CHECK(reasons[DecisionReason::kBootstrap] == start);
  CHECK(reasons[DecisionReason::kSelected] == static_cast<int>(search.counts.measured) - start);
  // The fake's forecasts are right, so the first selected candidate is the best.
  std::vector<double> measured;
  for (const auto& event : world.store->All<EvaluationSettled>()) {
    if (const auto* measurement = std::get_if<Measurement>(&event.result)) {
      if (const Ratio* speedup = MeasuredSpeedup(*measurement)) measured.push_back(speedup->value);
    }
  }
  REQUIRE(measured.size() > static_cast<size_t>(start));
  CHECK(measured[static_cast<size_t>(start)] == Approx(3.2));
}

TEST_CASE("A forecaster that counts no labels is not waited for") {
  World world;
  world.forecasters.forgetful = true;
  world.Start();
  REQUIRE(world.StartSearch("s1", TemplateSearch(world.PutToy(), 12)).ok());
  const SearchSnapshot search = world.WaitForEnd("s1");
  CHECK(search.status == SearchStatus::kDone);
  CHECK(search.counts.measured > 2);
}

TEST_CASE("An external candidate is decided immediately, even in a selecting search") {
  World world;
  world.Start();
  const std::string problem = world.PutToy();
  SearchSpec spec = TemplateSearch(problem, 30);
  spec.max_in_flight = 1;
  REQUIRE(world.StartSearch("s1", spec).ok());
  const auto record =
      world.Evaluate(Command("mine", world.ToyCandidate(problem), EvaluateMode::kRoute, "s1"));
  if (record.ok()) CHECK(record->decision.reason != DecisionReason::kBudgetPace);
  world.WaitForEnd("s1");
}

TEST_CASE("Measure-everything searches make no forecasts") {
  World world;
  world.Start();
  SearchSpec spec = TemplateSearch(world.PutToy(), 12);
  spec.measure_everything = true;
  REQUIRE(world.StartSearch("s1", spec).ok());
  const SearchSnapshot search = world.WaitForEnd("s1");
  CHECK(search.counts.measured == 12);
  CHECK(search.counts.pruned == 0);
  CHECK(world.store->All<EvaluationForecast>().empty());
  CHECK(world.store->All<ReferenceDescribed>().size() == 1);
}

TEST_CASE("An external search dedupes, reuses measurements and keeps to its budget") {
  World world;
  world.Start();
  const std::string problem = world.PutToy();
  REQUIRE(world.StartSearch("s1", ExternalSearch(problem, 2)).ok());
  auto evaluate = [&](const std::string& id, const std::string& source) {
    return world.Evaluate(
        Command(id, world.ToyCandidate(problem, source), EvaluateMode::kMeasure, "s1"));
  };
  REQUIRE(evaluate("a", "1").ok());
  const auto again = evaluate("b", "1");
  REQUIRE(again.ok());
  CHECK(again->reused);
  CHECK(again->decision.reason == DecisionReason::kReused);
  CHECK(world.workers.measurements() == 1);
  REQUIRE(evaluate("c", "2").ok());
  // The budget is spent: later candidates are settled on their forecasts until the owner ends the
  // search.
  for (const auto mode : {EvaluateMode::kMeasure, EvaluateMode::kRoute}) {
    const auto late = world.Evaluate(Command(
        absl::StrCat("d", static_cast<int>(mode)),
        world.ToyCandidate(problem, absl::StrCat("late", static_cast<int>(mode))), mode, "s1"));
    REQUIRE(late.ok());
    CHECK(late->decision.kind == DecisionKind::kPrune);
    CHECK(late->decision.reason == DecisionReason::kBudget);
    CHECK(late->decision.audit_propensity == 0);
    CHECK(std::holds_alternative<Pruned>(late->result));
    CHECK(late->decided_on.has_value());
  }
  CHECK(world.workers.measurements() == 2);
  CHECK(world.GetSearch("s1").status == SearchStatus::kRunning);
  world.engine->StopSearch("s1", [](const auto&) {});
  const SearchSnapshot ended = world.WaitForEnd("s1");
  CHECK(ended.end_reason == kStoppedReason);
  CHECK(ended.confirmed.has_value());
  CHECK(evaluate("e", "4").status().code() == absl::StatusCode::kFailedPrecondition);
  CheckReplayGivesTheState(world);
}

TEST_CASE("Without a forecast an external search with a spent budget rejects as a result") {
  World world;
  world.forecasters.away = true;
  world.Start();
  const std::string problem = world.PutToy();
  REQUIRE(world.StartSearch("s1", ExternalSearch(problem, 1)).ok());
  for (const char* source : {"1", "2"}) {
    const auto record = world.Evaluate(
        Command(source, world.ToyCandidate(problem, source), EvaluateMode::kRoute, "s1"));
    REQUIRE(record.ok());
    const bool late = *source == '2';
    CHECK(record->decision.kind == (late ? DecisionKind::kReject : DecisionKind::kMeasure));
    if (late) CHECK(record->decision.reason == DecisionReason::kBudget);
  }
}

TEST_CASE("Concurrent duplicates in a search are measured once") {
  World world;
  world.workers.hold_measurements = true;
  world.Start();
  const std::string problem = world.PutToy();
  REQUIRE(world.StartSearch("s1", ExternalSearch(problem, 10)).ok());
  auto first = std::make_shared<std::promise<bool>>();
  world.engine->Evaluate(Command("a", world.ToyCandidate(problem), EvaluateMode::kMeasure, "s1"),
                         [first](const auto& record) { first->set_value(record.ok()); });
  const auto twin =
      world.Evaluate(Command("b", world.ToyCandidate(problem), EvaluateMode::kMeasure, "s1"));
  REQUIRE(twin.ok());
  const auto* rejection = std::get_if<Rejection>(&twin->result);
  REQUIRE(rejection != nullptr);
  CHECK(rejection->cause == Rejection::Cause::kDuplicate);
  CHECK(rejection->detail == "a");
  world.workers.Release();
  CHECK(first->get_future().get());
}

TEST_CASE("An unstable environment is retried before it is accepted") {
  World world;
  std::atomic<int> calls = 0;
  world.workers.measure = [&](const Candidate&) -> MeasureOutcome {
    if (++calls < 3) return EnvironmentUnstable{"noisy", 9, 10, {}};
    MeasuredOk ok;
    ok.speedup = Ratio{2, 1.9, 2.1, 0.95};
    return ok;
  };
  world.Start();
  const auto record = world.Evaluate(Command("r1", world.ToyCandidate(world.PutToy())));
  REQUIRE(record.ok());
  CHECK(calls == 3);
  CHECK(MeasuredSpeedup(std::get<Measurement>(record->result))->value == 2);
}

TEST_CASE("A search whose reference does not compile fails with the reason") {
  World world;
  world.workers.reference_compiles = false;
  world.Start();
  REQUIRE(world.StartSearch("s1", TemplateSearch(world.PutToy(), 5)).ok());
  const SearchSnapshot search = world.WaitForEnd("s1");
  CHECK(search.status == SearchStatus::kFailed);
  CHECK_THAT(search.end_reason, Catch::Contains("reference.cc:1: error"));
}

TEST_CASE("A caller's request with the id of a search's next candidate delays the search") {
  World world;
  world.workers.hold_measurements = true;
  world.Start();
  const std::string problem = world.PutToy();
  auto answered = std::make_shared<std::promise<bool>>();
  world.engine->Evaluate(Command("s1/1", world.ToyCandidate(problem)),
                         [answered](const auto& record) { answered->set_value(record.ok()); });
  REQUIRE(world.StartSearch("s1", TemplateSearch(problem, 5)).ok());
  CHECK(world.GetSearch("s1").counts.proposed == 0);
  world.workers.Release();
  CHECK(answered->get_future().get());
  CHECK(world.WaitForEnd("s1").counts.measured == 5);
}

TEST_CASE("Invalid searches are refused with the reason") {
  World world;
  world.Start();
  const std::string problem = world.PutToy();
  SearchSpec spec = TemplateSearch(problem, 5);
  auto code = [&](SearchSpec bad) { return world.StartSearch("", bad).status().code(); };
  SearchSpec no_budget = spec;
  no_budget.budget = {};
  CHECK(code(no_budget) == absl::StatusCode::kInvalidArgument);
  SearchSpec no_problem = spec;
  no_problem.problem_id = "p_x";
  CHECK(code(no_problem) == absl::StatusCode::kNotFound);
  SearchSpec no_target = spec;
  no_target.target = "h100";
  CHECK(code(no_target) == absl::StatusCode::kInvalidArgument);
  SearchSpec bad_policy = spec;
  bad_policy.policy = "magic";
  CHECK(code(bad_policy) == absl::StatusCode::kInvalidArgument);
  REQUIRE(world.StartSearch("s1", spec).ok());
  CHECK(world.StartSearch("s1", spec).ok());
  spec.seed = 12;
  CHECK(world.StartSearch("s1", spec).status().code() == absl::StatusCode::kAlreadyExists);
}

TEST_CASE("When the log cannot be written nothing is acknowledged") {
  World world;
  world.Start();
  const std::string problem = world.PutToy();
  world.store->FailFromNowOn();
  const auto record = world.Evaluate(Command("r1", world.ToyCandidate(problem)));
  CHECK(record.status().code() == absl::StatusCode::kUnavailable);
  CHECK_FALSE(world.engine->failure().ok());
  CHECK(world.workers.measurements() == 0);
}

// Evaluates from within a callback. Returns the thread that answered.
std::thread::id AnswerFrom(World& world, std::vector<Engine::EvaluateCommand> commands) {
  auto answered = std::make_shared<std::promise<std::thread::id>>();
  std::future<std::thread::id> thread = answered->get_future();
  {
    const CallbackScope scope;
    std::vector<Engine::EvaluateCall> calls;
    for (size_t i = 0; i < commands.size(); ++i) {
      calls.push_back({std::move(commands[i]), [i, answered](const auto&) {
                         if (i == 0) answered->set_value(std::this_thread::get_id());
                       }});
    }
    world.engine->Evaluate(std::move(calls));
  }
  return thread.get();
}

TEST_CASE("A callback that brings one candidate to an idle engine handles it itself") {
  World world;
  world.engine_options.tick = absl::Hours(1);
  world.Start();
  bool own = false;
  // The engine may still be busy with earlier work.
  for (int i = 0; i < 1000 && !own; ++i) {
    own = AnswerFrom(world, {Command("r", world.ToyCandidate("p_unknown"))}) ==
          std::this_thread::get_id();
  }
  CHECK(own);
}

TEST_CASE("A callback that brings many candidates leaves them to the engine thread") {
  World world;
  world.engine_options.tick = absl::Hours(1);
  world.Start();
  std::vector<Engine::EvaluateCommand> many;
  for (int i = 0; i < 5; ++i) {
    many.push_back(Command("r" + std::to_string(i), world.ToyCandidate("p_unknown")));
  }
  CHECK(AnswerFrom(world, many) != std::this_thread::get_id());
}

TEST_CASE("The log is read only for ids it may contain and never in a callback") {
  World world;
  world.Start();
  const std::string problem = world.PutToy();
  REQUIRE(world.Evaluate(Command("r1", world.ToyCandidate(problem))).ok());
  CHECK(world.store->evaluations_read() == 0);
  for (int i = 0; i < 100; ++i) {
    AnswerFrom(world, {Command("r1", world.ToyCandidate(problem))});
    REQUIRE(world.store->evaluations_read() == i + 1);
    REQUIRE(world.store->reader() != std::this_thread::get_id());
  }
  // The same after a replay.
  World again(world.store->Copy());
  again.Start();
  const auto record = again.Evaluate(Command("r1", world.ToyCandidate(problem)));
  REQUIRE(record.ok());
  CHECK(again.store->evaluations_read() == 1);
  CHECK(again.workers.measurements() == 0);
}

TEST_CASE("A stopped engine answers or drops requests and never hangs") {
  World world;
  world.Start();
  const std::string problem_id = world.PutToy();
  // One that is pending when it stops, and one that arrives later.
  world.workers.hold_measurements = true;
  std::promise<absl::Status> waiting, late;
  world.engine->Evaluate(Command("r1", world.ToyCandidate(problem_id)),
                         [&](const auto& record) { waiting.set_value(record.status()); });
  world.engine->Inspect([](const State&) {});
  world.engine->Stop();
  CHECK(waiting.get_future().get().code() == absl::StatusCode::kUnavailable);
  world.engine->Evaluate(Command("r2", world.ToyCandidate(problem_id)),
                         [&](const auto& record) { late.set_value(record.status()); });
  CHECK(late.get_future().get().code() == absl::StatusCode::kUnavailable);
  CHECK(!world.engine->Inspect([](const State&) { FAIL("nobody is there to do it"); }));
  // A dropped request is freed immediately with everything it holds.
  auto held = std::make_shared<int>(0);
  world.engine->GetSearch("s", [held](const auto&) { FAIL("nobody is there to answer"); });
  CHECK(held.use_count() == 1);
  world.engine->Stop();
  CHECK(world.engine->figures().live_evaluations == 1);
}

TEST_CASE("Replaying the log restores the state") {
  World world;
  world.Start();
  const std::string problem = world.PutToy();
  REQUIRE(world.StartSearch("s1", TemplateSearch(problem, 12)).ok());
  world.WaitForEnd("s1");

  testing::CheckReplayGivesTheState(world);
}

TEST_CASE("A crash after any event loses nothing and settles nothing twice") {
  // Record one undisturbed run, then start again from every tenth prefix of its log.
  World first;
  first.Start();
  const std::string problem = first.PutToy();
  REQUIRE(first.StartSearch("s1", TemplateSearch(problem, 12)).ok());
  first.WaitForEnd("s1");
  first.engine.reset();
  const size_t events = first.store->LastSequence().value();

  for (size_t length = 2; length < events; length += 10) {
    auto prefix = testing::Prefix(*first.store, length);
    World again(std::move(prefix));
    again.Start();
    const SearchSnapshot search = again.WaitForEnd("s1");
    INFO("crash after event " << length);
    CHECK(search.status == SearchStatus::kDone);
    CHECK(search.counts.measured <= 12);
    CHECK(MeasuredSpeedup(search.confirmed->measurement)->value == Approx(3.2));
    CheckEachSettledOnce(*again.store);
  }
}

}  // namespace
}  // namespace kernelcast::orchestrator
