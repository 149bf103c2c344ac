// Applies each kind of event, and checks what it changes and when it is refused.

#include "services/orchestrator/core/state.h"

#include <catch2/catch.hpp>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/orchestrator/core/engine_ids.h"
#include "services/orchestrator/core/search_budget.h"
#include "tests/unit/services/orchestrator/event_history.h"

namespace kernelcast::orchestrator {
namespace {

using testing::EventHistory;
using testing::FakeWorkers;
using testing::ToyKernel;
using Standing = CandidateHistory::Standing;

constexpr auto kPrecondition = absl::StatusCode::kFailedPrecondition;

// An event that does not fit must leave the state as it is.
void CheckRefused(EventHistory& history, const EventBody& body) {
  const std::string before = history.state().Digest();
  CHECK(history.Try(body).code() == kPrecondition);
  CHECK(history.state().Digest() == before);
}

Candidate KernelFrom(const std::string& problem, const std::string& source) {
  Candidate candidate = ToyKernel(source, 8, 4);
  candidate.problem_id = problem;
  candidate.target = "cpu";
  candidate.candidate_id = CandidateId(candidate);
  return candidate;
}

EvaluationAccepted Accepted(const std::string& request_id, const std::string& search_id = "",
                            Candidate candidate = {}) {
  EvaluationAccepted event;
  event.request_id = request_id;
  event.search_id = search_id;
  event.candidate = std::move(candidate);
  return event;
}

GenerationSettled Answered(uint64_t number, GenerationOutcome outcome, const std::string& detail) {
  GenerationSettled settled;
  settled.search_id = "s1";
  settled.number = number;
  settled.outcome = outcome;
  settled.detail = detail;
  settled.usage = {100, 10, 20, false, 0.5};
  return settled;
}

TEST_CASE("ProblemPut adds a problem") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  REQUIRE(history.state().FindProblem(problem) != nullptr);
  CHECK(history.state().FindProblem(problem)->name == "toy");
  CHECK(history.state().last_sequence() == 1);
  CHECK_FALSE(history.Try(ProblemPut{}).ok());
  // A problem that was parsed before is not parsed again.
  const auto parsed =
      std::make_shared<const Problem>(*ParseProblem(testing::ProblemFilesWithoutSpace()));
  State state;
  REQUIRE(state.Apply(1, Event{0, ProblemPut{parsed->files, parsed}}).ok());
  CHECK(state.FindProblem(parsed->problem_id) == parsed);
  CHECK(history.state().last_sequence() == 1);
}

TEST_CASE("Events are applied in order and once") {
  EventHistory history;
  history.PutProblem();
  State state;
  REQUIRE(state.Apply(history.events()[0]).ok());
  CHECK(state.Apply(history.events()[0]).code() == kPrecondition);
}

TEST_CASE("ReferenceDescribed belongs to one device model, and the latest counts") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  CHECK(history.state().FindReference(problem, "cpu", EventHistory::kDevice) == nullptr);
  history.DescribeReference(problem);
  history.Add(ReferenceDescribed{problem, "cpu", {}, "newer", EventHistory::kDevice});
  CHECK(history.state().FindReference(problem, "cpu", EventHistory::kDevice)->toolchain == "newer");
  CHECK(history.state().FindReference(problem, "cpu", "another") == nullptr);
}

TEST_CASE("SearchCreated opens a search with what its source needs") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  history.StartSearch(history.Spec(problem), "template");
  history.StartSearch(history.Spec(problem, GeneratorKind::kLlm), "model");
  history.StartSearch(history.Spec(problem, GeneratorKind::kExternal), "external");
  CHECK(history.search("template").generator != nullptr);
  CHECK(history.search("template").generation == nullptr);
  CHECK(history.search("model").generator != nullptr);
  REQUIRE(history.search("model").generation != nullptr);
  CHECK(history.search("model").generation->known.size() == 1);
  CHECK(history.search("external").generator == nullptr);
  CHECK(history.search("external").generation == nullptr);
  CHECK(history.search("external").policy != nullptr);
  CHECK(history.search("external").started_ns == history.now_ns());
  CHECK(history.search("external").last_sequence == 4);
  CHECK(history.state().open_searches().size() == 3);
  CheckRefused(history, SearchCreated{"model", history.Spec(problem), ""});
}

TEST_CASE("EvaluationAccepted makes an evaluation") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  CHECK_FALSE(history.state().MayHaveAccepted("r1"));
  history.Accept("r1", problem, "// 1\n");
  CHECK(history.state().MayHaveAccepted("r1"));
  CHECK(history.evaluation("r1").stage == Stage::kCompile);
  CHECK(history.evaluation("r1").accepted_ns == history.now_ns());
  CHECK(history.state().EvaluationIds() == std::vector<std::string>{"r1"});
  CheckRefused(history, Accepted("r1"));
  CheckRefused(history, Accepted("r2", "unknown"));
}

TEST_CASE("EvaluationAccepted in a search counts, and finds duplicates and spent budgets") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  SearchSpec spec = history.Spec(problem, GeneratorKind::kExternal);
  spec.budget.max_candidates = 1;
  history.StartSearch(spec);
  const std::string a = history.Accept("r1", problem, "// a\n", "s1").candidate_id;
  CHECK(history.search().in_flight == 1);
  CHECK(history.search().counts.proposed == 1);
  CHECK(history.search().history.at(a).request_id == "r1");
  history.Accept("r2", problem, "// a\n", "s1");
  CHECK(history.evaluation("r2").duplicate_of == "r1");
  CHECK(history.evaluation("r2").repeated);
  CHECK(history.search().history.at(a).request_id == "r1");
  CHECK(history.search().counts.considered == 1);
  history.Accept("r3", problem, "// b\n", "s1");
  CHECK(history.evaluation("r3").over_budget.empty());
  history.Accept("r4", problem, "// c\n", "s1");
  CHECK(history.evaluation("r4").over_budget == "max_candidates");
  CHECK(history.evaluation("r1").over_budget.empty());
}

TEST_CASE("EvaluationAccepted finds the earlier measurement of the same candidate") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  SearchSpec spec = history.Spec(problem, GeneratorKind::kExternal);
  spec.budget.max_candidates = 1;
  history.StartSearch(spec);
  const Candidate candidate = history.Accept("r1", problem, "// a\n", "s1");
  history.Compile("r1");
  history.Decide("r1", DecisionReason::kRequested);
  history.Measure("r1", 2);
  history.Accept("r2", problem, "// b\n", "s1");
  history.Accept("r3", problem, "// a\n", "s1");
  CHECK(history.evaluation("r3").measured_by == "r1");
  CHECK(history.evaluation("r3").duplicate_of.empty());
  CHECK(history.evaluation("r3").over_budget.empty());
  // While r3 is live, another request gets the same measurement.
  history.Accept("r4", problem, "// a\n", "s1");
  CHECK(history.evaluation("r4").measured_by == "r1");
  CHECK(history.evaluation("r4").duplicate_of.empty());
  // Final measurements, the search's own proposals and other searches are measured.
  history.Accept("r5", problem, "// a\n", "s1", EvaluateMode::kFinal);
  CHECK(history.evaluation("r5").measured_by.empty());
  history.Propose("s1/9", candidate);
  CHECK(history.evaluation("s1/9").measured_by.empty());
  history.Accept("r6", problem, "// a\n");
  CHECK(history.evaluation("r6").measured_by.empty());
}

TEST_CASE("EvaluationAccepted of a final measurement is a confirmation only if proposed") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  history.StartSearch(history.Spec(problem, GeneratorKind::kExternal));
  history.Accept("mine", problem, "// a\n", "s1", EvaluateMode::kFinal);
  CHECK(history.search().finals.empty());
  history.Propose("s1/confirm/1", KernelFrom(problem, "// a\n"), "s1", EvaluateMode::kFinal);
  REQUIRE(history.search().finals.size() == 1);
  CHECK(history.search().finals[0].request_id == "s1/confirm/1");
  CHECK(history.search().counts.proposed == 1);
}

TEST_CASE("EvaluationCompiled moves an evaluation on, or keeps the compiler's error") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  history.Accept("good", problem, "// 1\n");
  history.Accept("bad", problem, "// 2\n");
  history.Compile("good");
  CHECK(history.evaluation("good").stage == Stage::kForecast);
  CHECK_FALSE(history.evaluation("good").facts.values.empty());
  history.FailToCompile("bad");
  CHECK(history.evaluation("bad").stage == Stage::kDecide);
  CHECK(history.evaluation("bad").compile_error->log == "x.cc:1: error");
  CheckRefused(history, EvaluationCompiled{"good", CompileFacts{}, {}});
  CheckRefused(history, EvaluationCompiled{"unknown", CompileFacts{}, {}});
}

TEST_CASE("EvaluationForecast keeps the forecast, and whether the model declined") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  for (const char* id : {"forecast", "away", "declined"}) {
    history.Accept(id, problem, absl::StrCat("// ", id, "\n"));
  }
  CheckRefused(history, EvaluationForecast{"forecast", Abstention{}});
  for (const char* id : {"forecast", "away", "declined"}) history.Compile(id);
  history.Forecast("forecast", 2);
  CHECK(history.evaluation("forecast").stage == Stage::kDecide);
  CHECK(history.evaluation("forecast").forecast->expected_log2_speedup == Approx(1));
  history.Abstain("away");
  CHECK_FALSE(history.evaluation("away").forecast);
  CHECK_FALSE(history.evaluation("away").declined);
  history.Add(
      EvaluationForecast{"declined", Abstention{Abstention::Cause::kModelDeferred, "llm", ""}});
  CHECK(history.evaluation("declined").declined);
  // The one with a forecast waits for its decision, and may be forecast again.
  CheckRefused(history, EvaluationForecast{"away", Abstention{}});
  history.Decide("forecast", DecisionReason::kPromising);
  CheckRefused(history, EvaluationForecast{"forecast", Abstention{}});
}

TEST_CASE("EvaluationDecided counts measurements in progress") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  history.StartSearch(history.Spec(problem, GeneratorKind::kExternal));
  for (const char* id : {"measure", "prune"}) {
    history.Accept(id, problem, absl::StrCat("// ", id, "\n"), "s1");
    history.Compile(id);
    history.Forecast(id, 1);
  }
  history.Decide("measure", DecisionReason::kPromising);
  CHECK(history.search().measuring == 1);
  CHECK(history.evaluation("measure").stage == Stage::kMeasure);
  history.Decide("prune", DecisionReason::kUnpromising);
  CHECK(history.search().measuring == 1);
  CheckRefused(history, EvaluationDecided{"prune", Decision{}});
  CheckRefused(history, EvaluationDecided{"unknown", Decision{}});
}

TEST_CASE("EvaluationSettled with a measurement updates incumbent, leaders, costs and labels") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  history.StartSearch(history.Spec(problem));
  history.DescribeReference(problem);
  const Candidate first = *history.search().generator->Next();
  history.ProposeMeasured("s1/1", first, 1.5);
  const Candidate second = *history.search().generator->Next();
  history.ProposeMeasured("s1/2", second, 2.5);
  const Candidate third = *history.search().generator->Next();
  history.ProposeMeasured("s1/3", third, 2);
  const Search& search = history.search();
  CHECK(search.in_flight == 0);
  CHECK(search.measuring == 0);
  CHECK(search.counts.measurements == 3);
  CHECK(search.counts.device_time_spent_ns == 3'000'000);
  CHECK(search.incumbent->request_id == "s1/2");
  CHECK(search.anchor->speedup.value == 2.5);
  REQUIRE(search.leaders.size() == 3);
  CHECK(search.leaders[0].candidate_id == second.candidate_id);
  CHECK(search.leaders[1].candidate_id == third.candidate_id);
  CHECK(search.history.at(third.candidate_id).standing == Standing::kMeasured);
  CHECK(search.history.at(third.candidate_id).speedup == 2);
  CHECK(history.state().pending_labels().size() == 3);
  CHECK(history.state().FindEvaluation("s1/3") == nullptr);
  CHECK(history.state().FindHistory(problem, "cpu", EventHistory::kDevice)->incumbent_speedup() ==
        2.5);
  CheckRefused(history, EvaluationSettled{"s1/3", Pruned{}, false});
}

TEST_CASE("MeasurementRepeated counts the attempts of a measurement and their time") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  SearchSpec spec = history.Spec(problem);
  spec.budget.max_device_time_ns = 8'000'000;
  history.StartSearch(spec);
  history.Propose("s1/1", *history.search().generator->Next());
  history.Compile("s1/1");
  CheckRefused(history, MeasurementRepeated{"s1/1"});
  history.Decide("s1/1", DecisionReason::kSelected);
  const Search& search = history.search();
  history.Add(MeasurementRepeated{"s1/1", {5'000'000, 2'000'000}});
  CHECK(history.evaluation("s1/1").repeats == 1);
  CHECK(search.measuring == 1);
  CHECK(search.last_sequence == history.state().last_sequence());
  CHECK(search.counts.device_time_spent_ns == 5'000'000);
  CHECK(search.counts.device_time_preparing_ns == 2'000'000);
  CHECK(ExhaustedBudget(search, history.now_ns()).empty());
  history.Add(MeasurementRepeated{"s1/1", {3'000'000, 0}});
  CHECK(history.evaluation("s1/1").unstable_time == DeviceTime{8'000'000, 2'000'000});
  CHECK(ExhaustedBudget(search, history.now_ns()) == "max_device_time");
  CheckRefused(history, MeasurementRepeated{"unknown"});
  // The last attempt takes 1 ms.
  history.Measure("s1/1", 2);
  CHECK(search.counts.device_time_spent_ns == 9'000'000);
  CHECK(search.counts.device_time_confirming_ns == 0);
  CHECK(FoldEvaluation(history.events())->unstable_time == DeviceTime{8'000'000, 2'000'000});
}

TEST_CASE("Unstable attempts of a confirmation are no part of the limited device time") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  SearchSpec spec = history.Spec(problem);
  spec.budget.max_device_time_ns = 8'000'000;
  history.StartSearch(spec);
  const Candidate best = *history.search().generator->Next();
  history.ProposeMeasured("s1/1", best, 2);
  history.Add(SearchFinishing{"s1", "done"});
  history.Propose("s1/f1", best, "s1", EvaluateMode::kFinal);
  history.Compile("s1/f1");
  history.Decide("s1/f1", DecisionReason::kRequested);
  history.Add(MeasurementRepeated{"s1/f1", {20'000'000, 4'000'000}});
  const SearchCounts& counts = history.search().counts;
  CHECK(counts.device_time_spent_ns == 21'000'000);
  CHECK(counts.device_time_preparing_ns == 4'000'000);
  CHECK(counts.device_time_confirming_ns == 16'000'000);
  CHECK(ExhaustedBudget(history.search(), history.now_ns()).empty());
}

TEST_CASE("EvaluationSettled needs a decision") {
  EventHistory history;
  history.Accept("r1", history.PutProblem(), "// 1\n");
  CheckRefused(history, EvaluationSettled{"r1", Pruned{}, false});
}

TEST_CASE("EvaluationSettled without a verdict gives no label and no leader") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  history.StartSearch(history.Spec(problem));
  history.Propose("s1/1", *history.search().generator->Next());
  history.Compile("s1/1");
  history.Decide("s1/1", DecisionReason::kSelected);
  history.Add(EvaluationSettled{
      "s1/1", history.Measured("s1/1", EnvironmentUnstable{"noisy", 9, 10, {}}), false});
  CHECK(history.search().counts.measurements == 1);
  CHECK(history.search().counts.unstable == 1);
  CHECK(history.search().leaders.empty());
  CHECK(history.state().pending_labels().empty());
}

TEST_CASE("EvaluationSettled with a reused measurement counts no measurement") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  history.StartSearch(history.Spec(problem, GeneratorKind::kExternal));
  history.Accept("r1", problem, "// 1\n", "s1");
  history.Decide("r1", DecisionReason::kReused);
  history.Add(EvaluationSettled{"r1", history.Measured("r1", FakeWorkers::Ok(2)), true});
  CHECK(history.search().counts.measurements == 0);
  CHECK(history.search().counts.reused == 1);
  CHECK_FALSE(history.search().incumbent);
  CHECK(history.state().pending_labels().empty());
}

TEST_CASE("EvaluationSettled as pruned keeps the facts, so that it can be forecast again") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  history.StartSearch(history.Spec(problem));
  const Candidate candidate = *history.search().generator->Next();
  history.ProposePruned("s1/1", candidate, 0.9);
  const CandidateHistory& known = history.search().history.at(candidate.candidate_id);
  CHECK(known.standing == Standing::kPruned);
  CHECK(known.facts.values == FakeWorkers::Facts().values);
  CHECK_FALSE(known.selected_after);
  CHECK(history.search().counts.pruned == 1);
  // The search selects it.
  history.Propose("s1/2", candidate);
  CHECK(history.evaluation("s1/2").reconsidered);
  CHECK(history.search().selection == "s1/2");
  CHECK(history.search().history.at(candidate.candidate_id).selected_after == 0u);
}

TEST_CASE("EvaluationSettled of a duplicate leaves the first evaluation's standing") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  history.StartSearch(history.Spec(problem, GeneratorKind::kExternal));
  const std::string id = history.Accept("r1", problem, "// a\n", "s1").candidate_id;
  history.Accept("r2", problem, "// a\n", "s1");
  history.Decide("r2", DecisionReason::kDuplicate);
  history.Add(EvaluationSettled{"r2", Rejection{Rejection::Cause::kDuplicate, {}, "r1"}, false});
  CHECK(history.search().history.at(id).standing == Standing::kInFlight);
  CHECK(history.search().in_flight == 1);
}

TEST_CASE("EvaluationSettled of a final measurement is no further candidate") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  history.StartSearch(history.Spec(problem));
  const Candidate best = *history.search().generator->Next();
  history.ProposeMeasured("s1/1", best, 2);
  history.Propose("s1/confirm/1", best, "s1", EvaluateMode::kFinal);
  history.Compile("s1/confirm/1");
  history.Decide("s1/confirm/1", DecisionReason::kRequested);
  history.Measure("s1/confirm/1", 1.9);
  const Search& search = history.search();
  CHECK(search.counts.measurements == 1);
  CHECK(search.counts.confirmations == 1);
  CHECK(search.counts.proposed == 1);
  CHECK(search.finals[0].settled);
  CHECK(search.finals[0].speedup->value == 1.9);
  CHECK(search.confirmations.size() == 1);
  CHECK(search.leaders.size() == 1);
}

TEST_CASE("GenerationAdvised counts the critic's tokens and keeps its answer for the kernel") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  SearchSpec spec = history.Spec(problem, GeneratorKind::kLlm);
  spec.critic = true;
  history.StartSearch(spec);
  const std::string reference = history.search().archive->reference_id();
  const GenerationAdvised advice{
      .search_id = "s1", .number = 1, .advice = "Unroll.", .usage = {100, 60, 20, false, 0.5}};
  CheckRefused(history, advice);
  history.Add(GenerationRequested{"s1", 1, reference});
  history.Add(GenerationRequested{"s1", 2, reference});
  history.Add(advice);
  CheckRefused(history, advice);
  history.Add(GenerationAdvised{.search_id = "s1", .number = 2, .detail = "unreachable"});
  const Generation& generation = *history.search().generation;
  CHECK(generation.in_flight.at(1).advice == "Unroll.");
  CHECK(generation.in_flight.at(2).advice == "");
  // A critic that is away says nothing about the writer.
  CHECK(generation.outages == 0);
  const GenerationCounts& counts = history.search().counts.generation;
  CHECK(counts.advised == 1);
  CHECK(counts.input_tokens == 100);
  CHECK(counts.output_tokens == 20);
  CHECK(counts.cost == 0.5);
}

TEST_CASE("GenerationRequested and GenerationSettled count requests and answers") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  history.StartSearch(history.Spec(problem, GeneratorKind::kLlm));
  const std::string reference = history.search().archive->reference_id();
  CheckRefused(history, GenerationRequested{"s1", 2, reference});
  CheckRefused(history, GenerationRequested{"unknown", 1, reference});
  CheckRefused(history, Answered(1, GenerationOutcome::kUnusable, ""));
  for (uint64_t number = 1; number <= 5; ++number) {
    history.Add(GenerationRequested{"s1", number, reference});
  }
  CHECK(history.search().generation->in_flight.size() == 5);
  history.Add(Answered(1, GenerationOutcome::kUnusable, "prose"));
  history.Add(Answered(2, GenerationOutcome::kDuplicate, "c_1"));
  const Generation& generation = *history.search().generation;
  CHECK(generation.useless_answers == 2);
  CHECK(generation.reasons ==
        std::deque<std::string>{"prose", "the same kernel as an earlier one"});
  history.Add(Answered(3, GenerationOutcome::kWritten, "s1/1"));
  CHECK(generation.useless_answers == 0);
  history.Add(Answered(4, GenerationOutcome::kUnanswered, "unreachable"));
  CHECK(generation.outages == 1);
  CHECK(generation.away_since_ns == history.now_ns());
  CHECK(generation.outage == "unreachable");
  // Requested before the first failure was known.
  history.Add(Answered(5, GenerationOutcome::kUnanswered, "unreachable"));
  CHECK(generation.outages == 1);
  const GenerationCounts& counts = history.search().counts.generation;
  CHECK(counts.requested == 5);
  CHECK(counts.written == 1);
  CHECK(counts.duplicates == 1);
  CHECK(counts.unusable == 1);
  CHECK(counts.unanswered == 2);
  CHECK(counts.input_tokens == 500);
  CHECK(counts.cost == 2.5);
  CheckRefused(history, Answered(5, GenerationOutcome::kUnanswered, ""));
}

TEST_CASE("PrunedRanked keeps what the ranking found until something changes") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  history.StartSearch(history.Spec(problem));
  const Candidate point = *history.search().generator->Next();
  history.ProposePruned("s1/1", point, 0.9);
  CHECK_FALSE(history.search().rankings.nothing_left_after);
  SECTION("nothing") {
    history.Rank("");
    CHECK(history.search().rankings.nothing_left_after == 0u);
    CHECK(history.search().rankings.nothing_left_among == 1);
    CHECK(history.search().last_sequence == history.events().size());
    history.Rank(point.candidate_id);
    CHECK_FALSE(history.search().rankings.nothing_left_after);
  }
  SECTION("a candidate, until it is accepted") {
    history.Rank(point.candidate_id);
    CHECK(history.search().rankings.chosen == point.candidate_id);
    const Candidate other = *history.search().generator->Next();
    history.Propose("s1/2", other);
    CHECK(history.search().rankings.chosen == point.candidate_id);
    history.Propose("s1/3", point);
    CHECK(history.search().rankings.chosen.empty());
  }
  history.Add(SearchFinishing{"s1", std::string(kStoppedReason)});
  CheckRefused(history, PrunedRanked{"s1", 0, 1, 0, ""});
  CheckRefused(history, PrunedRanked{"unknown", 0, 1, 0, ""});
}

TEST_CASE("PrunedRanked shows whether the forecaster learns from measurements") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  history.StartSearch(history.Spec(problem));
  const auto measure = [&](const std::string& id) {
    history.ProposeMeasured(id, *history.search().generator->Next(), 2);
    CHECK(history.search().measured_ns == history.now_ns());
  };
  const auto expected = [&] {
    return history.search().rankings.ExpectedLabels(history.search().labels);
  };
  struct Step {
    const char* name;
    int measurements;
    uint64_t labels_seen;
    bool learns;
    uint64_t expects_before;
  };
  const std::vector<Step> steps = {
      {"labels of other searches", 0, 100, true, 0}, {"it has learnt", 2, 102, true, 102},
      {"it has learnt a part", 2, 103, true, 104},   {"it has not learnt", 1, 103, false, 104},
      {"nothing to learn", 0, 103, false, 103},      {"it learns again", 1, 104, true, 104},
  };
  int number = 0;
  for (const Step& step : steps) {
    CAPTURE(step.name);
    for (int i = 0; i < step.measurements; ++i) measure(absl::StrCat("s1/", ++number));
    CHECK(expected() == step.expects_before);
    history.Rank("", step.labels_seen);
    CHECK(history.search().rankings.learns == step.learns);
    CHECK(expected() == step.labels_seen);
  }
}

TEST_CASE("A search does not expect the forecaster to learn from an unstable measurement") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  history.StartSearch(history.Spec(problem));
  history.Propose("s1/1", *history.search().generator->Next());
  history.Compile("s1/1");
  history.Decide("s1/1", DecisionReason::kBootstrap);
  history.Add(EvaluationSettled{"s1/1", history.Measured("s1/1", EnvironmentUnstable{}), false});
  CHECK(history.search().counts.measurements == 1);
  CHECK(history.search().labels == 0);
  CHECK(history.search().measured_ns == 0);
}

TEST_CASE("LabelsObserved removes pending labels, and ignores unknown ones") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  for (const char* id : {"r1", "r2"}) {
    history.Accept(id, problem, absl::StrCat("// ", id, "\n"));
    history.Compile(id);
    history.Decide(id, DecisionReason::kNoForecast);
    history.Measure(id, 2);
  }
  history.Add(LabelsObserved{{"r1", "unknown"}});
  REQUIRE(history.state().pending_labels().size() == 1);
  CHECK(history.state().pending_labels().begin()->first == "r2");
}

TEST_CASE("SearchFinishing ends proposals, and a stop may follow") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  history.StartSearch(history.Spec(problem, GeneratorKind::kLlm));
  history.Add(GenerationRequested{"s1", 1, ""});
  history.Add(SearchFinishing{"s1", "budget: max_measurements"});
  CHECK(history.search().status == SearchStatus::kFinishing);
  CHECK(history.search().end_reason == "budget: max_measurements");
  CHECK(history.search().counts.generation.given_up == 1);
  CHECK(history.search().generation->in_flight.empty());
  CHECK_FALSE(history.search().stopped);
  CheckRefused(history, SearchFinishing{"s1", "budget: max_wall_time"});
  CheckRefused(history, GenerationRequested{"s1", 2, ""});
  history.Add(SearchFinishing{"s1", std::string(kStoppedReason)});
  CHECK(history.search().stopped);
  CHECK(history.search().end_reason == "budget: max_measurements");
}

TEST_CASE("SearchClosed names the result and drops what only an open search needs") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  history.StartSearch(history.Spec(problem));
  const Candidate best = *history.search().generator->Next();
  history.ProposeMeasured("s1/1", best, 2);
  history.Add(SearchFinishing{"s1", std::string(kStoppedReason)});
  history.Propose("s1/confirm/1", best, "s1", EvaluateMode::kFinal);
  history.Compile("s1/confirm/1");
  history.Decide("s1/confirm/1", DecisionReason::kRequested);
  history.Measure("s1/confirm/1", 1.9);
  history.Add(SearchClosed{"s1", "s1/confirm/1", false, ""});
  const Search& search = history.search();
  CHECK(search.status == SearchStatus::kDone);
  CHECK(search.end_reason == "stopped");
  CHECK(search.ended_ns == history.now_ns());
  CHECK(search.confirmed->request_id == "s1/confirm/1");
  REQUIRE(search.finalists.size() == 1);
  CHECK(search.finalists[0].candidate_id == best.candidate_id);
  CHECK(search.history.empty());
  CHECK(search.generator == nullptr);
  CHECK(search.policy == nullptr);
  CHECK(history.state().open_searches().empty());
  CheckRefused(history, SearchClosed{"s1", "", false, ""});
  CheckRefused(history, SearchFinishing{"s1", "again"});
}

TEST_CASE("SearchClosed after a failure has its reason") {
  EventHistory history;
  history.StartSearch(history.Spec(history.PutProblem()));
  history.Add(SearchClosed{"s1", "", true, "the problem's reference does not compile"});
  CHECK(history.search().status == SearchStatus::kFailed);
  CHECK(history.search().end_reason == "the problem's reference does not compile");
}

TEST_CASE("DeviceChosen is applied once, to a search or an evaluation") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  history.Add(SearchCreated{"s1", history.Spec(problem), ""});
  history.Add(Accepted("r1", "", KernelFrom(problem, "// 1\n")));
  history.Add(Accepted("r2", "s1", KernelFrom(problem, "// 2\n")));
  CHECK(history.state().without_device() == std::set<std::string, std::less<>>{"r1", "r2"});
  history.Add(DeviceChosen{"s1", "", "a"});
  CHECK(history.search().device_model == "a");
  history.Add(DeviceChosen{"", "r1", "b"});
  CHECK(history.evaluation("r1").device_model == "b");
  CHECK(history.state().without_device().size() == 1);
  CheckRefused(history, DeviceChosen{"s1", "", "c"});
  CheckRefused(history, DeviceChosen{"", "r1", "c"});
  CheckRefused(history, DeviceChosen{"", "unknown", "c"});
  history.Decide("r2", DecisionReason::kUnavailable);
  history.Add(EvaluationSettled{"r2", Rejection{}, false});
  CHECK(history.state().without_device().empty());
}

TEST_CASE("The searches of a request for several device models are found together") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  for (const char* device : {"NVIDIA H200", "NVIDIA L40S"}) {
    history.Add(SearchCreated{IdForDevice("s", device), history.Spec(problem), device});
  }
  history.StartSearch(history.Spec(problem), "s2");
  REQUIRE(history.state().FindSeveral("s").size() == 2);
  CHECK(history.state().FindSeveral("s")[0]->search_id == "s@nvidia-h200");
  CHECK(IdOfSeveral("s@nvidia-h200") == "s");
}

}  // namespace
}  // namespace kernelcast::orchestrator
