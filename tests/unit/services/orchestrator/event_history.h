#ifndef KERNELCAST_TESTS_UNIT_SERVICES_ORCHESTRATOR_EVENT_HISTORY_H_
#define KERNELCAST_TESTS_UNIT_SERVICES_ORCHESTRATOR_EVENT_HISTORY_H_

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "services/orchestrator/core/plan.h"
#include "services/orchestrator/core/state.h"
#include "tests/unit/services/orchestrator/fakes.h"

namespace kernelcast::orchestrator::testing {

// Events made by hand, and the state after them. Each event is one second after the one before it.
class EventHistory {
 public:
  static constexpr int64_t kSecondNs = 1'000'000'000;
  static constexpr const char* kDevice = "fake cpu";

  const State& state() const { return state_; }
  const std::vector<StoredEvent>& events() const { return events_; }
  // Time of the last event.
  int64_t now_ns() const { return kSecondNs * static_cast<int64_t>(events_.size()); }
  const Evaluation& evaluation(const std::string& id) const { return *state_.FindEvaluation(id); }
  const Search& search(const std::string& id = "s1") const { return *state_.FindSearch(id); }
  // The next action of an evaluation. No worker is known.
  EvaluationAction Plan(const std::string& request_id, bool is_next = false) const {
    EvaluationInputs inputs;
    inputs.now_ns = now_ns();
    inputs.is_next = is_next;
    return PlanEvaluation(state_, evaluation(request_id), inputs);
  }

  absl::Status Try(EventBody body) {
    StoredEvent stored{events_.size() + 1,
                       Event{kSecondNs * static_cast<int64_t>(events_.size() + 1), body}};
    absl::Status applied = state_.Apply(stored);
    if (applied.ok()) events_.push_back(std::move(stored));
    return applied;
  }
  void Add(EventBody body) {
    const absl::Status applied = Try(std::move(body));
    INFO(applied.ToString());
    REQUIRE(applied.ok());
  }

  // Returns the problem's id.
  std::string PutProblem(std::vector<ProblemFile> files = SmallProblemFiles()) {
    const std::string id = ParseProblem(files)->problem_id;
    Add(ProblemPut{std::move(files)});
    return id;
  }
  void DescribeReference(const std::string& problem_id) {
    Add(ReferenceDescribed{problem_id, "cpu", FakeWorkers::Facts(), "fake toolchain", kDevice});
  }
  SearchSpec Spec(const std::string& problem_id,
                  GeneratorKind generator = GeneratorKind::kTemplate) const {
    SearchSpec spec;
    spec.problem_id = problem_id;
    spec.target = "cpu";
    spec.generator = generator;
    spec.budget.max_measurements = 10;
    spec.policy = "threshold";
    spec.seed = 11;
    return spec;
  }
  void StartSearch(SearchSpec spec, const std::string& id = "s1") {
    Add(SearchCreated{id, std::move(spec), kDevice});
  }
  // Accepts a candidate with this source.
  Candidate Accept(const std::string& request_id, const std::string& problem_id,
                   const std::string& source, const std::string& search_id = "",
                   EvaluateMode mode = EvaluateMode::kRoute) {
    Candidate candidate;
    candidate.problem_id = problem_id;
    candidate.target = "cpu";
    candidate.source = source;
    candidate.candidate_id = CandidateId(candidate);
    Add(EvaluationAccepted{request_id, search_id, mode, candidate, false, "", kDevice});
    return candidate;
  }
  // The search proposes this candidate.
  void Propose(const std::string& request_id, Candidate candidate,
               const std::string& search_id = "s1", EvaluateMode mode = EvaluateMode::kRoute) {
    Add(EvaluationAccepted{request_id, search_id, mode, std::move(candidate), true, "", kDevice});
  }
  void Compile(const std::string& request_id) {
    Add(EvaluationCompiled{request_id, FakeWorkers::Facts(), {}});
  }
  void FailToCompile(const std::string& request_id) {
    Add(EvaluationCompiled{request_id, CompileError{CompileStage::kCompiler, "x.cc:1: error"}, {}});
  }
  void Forecast(const std::string& request_id, double speedup, double blur = 0.2) {
    Add(EvaluationForecast{
        request_id, FakeForecasters::Make(evaluation(request_id).candidate, speedup, blur, 0)});
  }
  void Abstain(const std::string& request_id) {
    Add(EvaluationForecast{
        request_id, Abstention{Abstention::Cause::kEndpointUnavailable, "fake", "unavailable"}});
  }
  void Decide(const std::string& request_id, DecisionReason reason) {
    Decision decision;
    decision.kind = KindOf(reason);
    decision.reason = reason;
    Add(EvaluationDecided{request_id, decision});
  }
  Measurement Measured(const std::string& request_id, MeasureOutcome outcome) const {
    Measurement measurement;
    measurement.candidate_id = evaluation(request_id).candidate.candidate_id;
    measurement.device.model = kDevice;
    measurement.device_time_ns = 1'000'000;
    measurement.outcome = std::move(outcome);
    return measurement;
  }
  void Measure(const std::string& request_id, double speedup) {
    Add(EvaluationSettled{request_id, Measured(request_id, FakeWorkers::Ok(speedup)), false});
  }
  // The search has ranked its pruned candidates and found this one, or nothing.
  void Rank(const std::string& candidate_id, uint64_t labels_seen = 0) {
    const SearchCounts& counts = search().counts;
    Add(PrunedRanked{"s1", counts.measurements, counts.pruned, labels_seen, candidate_id});
  }
  void Prune(const std::string& request_id) { Add(EvaluationSettled{request_id, Pruned{}, false}); }
  // An evaluation that the search proposes, until it is pruned on this forecast.
  void ProposePruned(const std::string& request_id, Candidate candidate, double speedup) {
    Propose(request_id, std::move(candidate));
    Compile(request_id);
    Forecast(request_id, speedup);
    Decide(request_id, DecisionReason::kBudgetPace);
    Prune(request_id);
  }
  void ProposeMeasured(const std::string& request_id, Candidate candidate, double speedup) {
    Propose(request_id, std::move(candidate));
    Compile(request_id);
    Forecast(request_id, speedup);
    Decide(request_id, DecisionReason::kSelected);
    Measure(request_id, speedup);
  }

 private:
  State state_;
  std::vector<StoredEvent> events_;
};

}  // namespace kernelcast::orchestrator::testing

#endif  // KERNELCAST_TESTS_UNIT_SERVICES_ORCHESTRATOR_EVENT_HISTORY_H_
