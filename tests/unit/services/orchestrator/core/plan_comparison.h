#ifndef KERNELCAST_TESTS_UNIT_SERVICES_ORCHESTRATOR_CORE_PLAN_COMPARISON_H_
#define KERNELCAST_TESTS_UNIT_SERVICES_ORCHESTRATOR_CORE_PLAN_COMPARISON_H_

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "services/orchestrator/core/decision_order.h"
#include "services/orchestrator/core/engine.h"
#include "services/orchestrator/core/plan.h"
#include "tests/unit/services/orchestrator/fakes.h"

namespace kernelcast::orchestrator::testing {

inline bool IsSame(const Decision& a, const Decision& b) {
  return a.kind == b.kind && a.reason == b.reason && a.policy == b.policy &&
         a.policy_version == b.policy_version && a.audit_propensity == b.audit_propensity &&
         a.win_probability == b.win_probability && a.threshold == b.threshold &&
         a.incumbent_speedup == b.incumbent_speedup && a.audited_reason == b.audited_reason;
}

// Decisions that follow from the outside world: workers that fail and callers that cancel.
inline bool IsFromOutside(DecisionReason reason) {
  return reason == DecisionReason::kUnavailable || reason == DecisionReason::kCancelled;
}

// Whether the action needs nothing from outside, so that the engine performs it at once.
inline bool IsImmediate(const EvaluationAction& action) {
  return std::holds_alternative<ChooseDevice>(action) ||
         std::holds_alternative<DecideCandidate>(action) ||
         std::holds_alternative<SettlePruned>(action) ||
         std::holds_alternative<RejectCandidate>(action);
}

// Replays a log event by event and compares.
class PlanComparison {
 public:
  explicit PlanComparison(const EngineOptions& options, bool has_writer)
      : grace_(options.device_grace), unstable_retries_(options.unstable_retries) {
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

  // When the fake workers' device was there, as times of events: from, inclusive, and until.
  int64_t device_from_ns = 0;
  int64_t device_until_ns = INT64_MAX;
  // The workers' report while it is not.
  std::vector<Workers::Device> other_devices;

  // How the candidates were to be measured when that was decided.
  std::map<std::string, std::vector<MeasureSpec>> specs;
  // Number of events that a plan contained, by kind.
  std::map<std::string, int> planned;

 private:
  // If an evaluation can be given a device, decided or settled without anything from outside, the
  // next event does so. One that has waited for others is decided at the end of a round, in which
  // the engine may have more events, and not while another one is being forecast again.
  void CheckImmediate(const Event& next) {
    std::set<std::string> immediate;
    for (const std::string& id : state_.EvaluationIds()) {
      const Evaluation& evaluation = *state_.FindEvaluation(id);
      const EvaluationAction action = PlanAt(evaluation, next.time_ns);
      if (std::holds_alternative<WaitForOthers>(action)) {
        have_waited_.insert(id);
        if (IsOutdated(state_, evaluation)) have_been_outdated_.insert(id);
      }
      const bool waits = !evaluation.decision && have_waited_.contains(id);
      if (IsImmediate(action) && !waits) immediate.insert(id);
    }
    if (immediate.empty()) return;
    if (const auto* chosen = std::get_if<DeviceChosen>(&next.body)) {
      // The searches and evaluations that wait for one device get it one after the other.
      CHECK((!chosen->search_id.empty() || immediate.contains(chosen->request_id)));
      return;
    }
    const auto* decided = std::get_if<EvaluationDecided>(&next.body);
    const auto* settled = std::get_if<EvaluationSettled>(&next.body);
    REQUIRE((decided != nullptr || settled != nullptr));
    CHECK(immediate.contains(decided != nullptr ? decided->request_id : settled->request_id));
  }

  // A search decides what has waited before it asks for another candidate.
  void CheckNoneIsLate(const Search& search, int64_t time_ns) {
    bool late = false;
    bool outdated = false;  // one may be being forecast again
    for (const std::string& id : search.undecided) {
      const Evaluation& evaluation = *state_.FindEvaluation(id);
      late = late || IsImmediate(PlanAt(evaluation, time_ns));
      outdated = outdated || IsOutdated(state_, evaluation);
    }
    CHECK((!late || outdated));
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
    // Several may differ only in the batches that are complete.
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

  // Commands of callers.
  void Check(int64_t, const ProblemPut&) {}
  void Check(int64_t, const SearchCreated&) {}

  void Check(int64_t time_ns, const DeviceChosen& event) {
    if (!event.search_id.empty()) {
      const auto plan = PlanAt<ChooseDevice>(*state_.FindSearch(event.search_id), time_ns);
      REQUIRE(plan);
      CHECK(plan->device_model == event.device_model);
      ++planned["device of a search"];
      return;
    }
    const Evaluation& evaluation = *state_.FindEvaluation(event.request_id);
    const EvaluationAction action = PlanAt(evaluation, time_ns);
    const auto* choose = std::get_if<ChooseDevice>(&action);
    REQUIRE(choose != nullptr);
    CHECK(choose->device_model == event.device_model);
    // It waited until then.
    CHECK((device_from_ns == 0 ||
           std::holds_alternative<WaitForDevice>(PlanAt(evaluation, device_from_ns - 1)) ||
           !evaluation.search_id.empty()));
    ++planned["device"];
  }

  // An evaluation or a search needs it.
  void Check(int64_t time_ns, const ReferenceDescribed& event) {
    const auto concerns = [&](const std::string& problem_id, const std::string& target,
                              const std::string& device_model) {
      return problem_id == event.problem_id && target == event.target &&
             device_model == event.device_model;
    };
    bool wanted = false;
    for (const auto& [id, evaluation] : state_.evaluations()) {
      const Candidate& candidate = evaluation.candidate;
      if (concerns(candidate.problem_id, candidate.target, evaluation.device_model)) {
        wanted |= std::holds_alternative<DescribeReference>(PlanAt(evaluation, time_ns));
      }
    }
    for (const std::string& id : state_.open_searches()) {
      const Search& search = *state_.FindSearch(id);
      if (concerns(search.spec.problem_id, search.spec.target, search.device_model)) {
        wanted |= PlanCalls(state_, search, InputsAt(time_ns)).reference;
      }
    }
    CHECK(wanted);
    CHECK(state_.FindReference(event.problem_id, event.target, event.device_model) == nullptr);
    ++planned["described"];
  }

  void Check(int64_t time_ns, const MeasurementRepeated& event) {
    const Evaluation& evaluation = *state_.FindEvaluation(event.request_id);
    CHECK(std::holds_alternative<MeasureCandidate>(PlanAt(evaluation, time_ns)));
    Measurement unstable;
    unstable.outcome = EnvironmentUnstable{};
    CHECK(RepeatsMeasurement(evaluation, unstable, unstable_retries_));
    ++planned["repeated"];
  }

  void Check(int64_t, const LabelsObserved& event) {
    std::set<std::string> offered;
    for (const LabelOffer& offer : PlanLabels(state_, {})) {
      for (const Label& label : offer.labels) offered.insert(label.label_id);
    }
    for (const std::string& id : event.request_ids) {
      CHECK(offered.contains(id));
      ++planned["labelled"];
    }
  }

  // An evaluation that workers, or their absence, or a caller have ended.
  void CheckFromOutside(int64_t time_ns, const Evaluation& evaluation, DecisionReason reason) {
    const Search* const search = state_.FindSearch(evaluation.search_id);
    if (search != nullptr) {
      if (const auto abandon = PlanAt<AbandonSearch>(*search, time_ns)) {
        CHECK(abandon->reason == reason);
        ++planned["abandoned"];
        return;
      }
    }
    const EvaluationAction action = PlanAt(evaluation, time_ns);
    if (const auto* reject = std::get_if<RejectCandidate>(&action)) {
      CHECK(reject->reason == reason);
      ++planned["given up"];
      return;
    }
    // A call has failed, or a measurement cannot be read.
    CHECK(reason == DecisionReason::kUnavailable);
    CHECK((std::holds_alternative<CompileCandidate>(action) ||
           std::holds_alternative<DescribeReference>(action) ||
           std::holds_alternative<ForecastCandidate>(action) ||
           std::holds_alternative<MeasureCandidate>(action) ||
           std::holds_alternative<ReuseMeasurement>(action)));
    ++planned["failed call"];
  }

  void Check(int64_t time_ns, const EvaluationDecided& event) {
    const Evaluation& decided = *state_.FindEvaluation(event.request_id);
    if (IsFromOutside(event.decision.reason)) {
      CHECK(event.decision.kind == DecisionKind::kReject);
      return CheckFromOutside(time_ns, decided, event.decision.reason);
    }
    EvaluationAction action = PlanAt(decided, time_ns);
    if (std::holds_alternative<WaitForOthers>(action)) {
      CHECK(NextIn(time_ns, decided) == event.request_id);
      action = PlanAt(decided, time_ns, /*is_next=*/true);
      ++planned["in order"];
    }
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
      if (evaluation.decision->kind == DecisionKind::kMeasure) {
        // It is not measured after all.
        CHECK(std::holds_alternative<MeasureCandidate>(action));
        if (rejection->cause == Rejection::Cause::kCompileError) return;
        CheckFromOutside(time_ns, evaluation,
                         rejection->cause == Rejection::Cause::kCancelled
                             ? DecisionReason::kCancelled
                             : DecisionReason::kUnavailable);
        return CheckDetail(time_ns, evaluation, rejection->detail);
      }
      if (IsFromOutside(evaluation.decision->reason)) {
        CHECK(rejection->cause == CauseOf(evaluation.decision->reason));
        return CheckDetail(time_ns, evaluation, rejection->detail);
      }
      const auto* reject = std::get_if<RejectCandidate>(&action);
      REQUIRE(reject != nullptr);
      CHECK(reject->rejection.cause == rejection->cause);
      CHECK(reject->rejection.detail == rejection->detail);
      CHECK(reject->rejection.compile_error.log == rejection->compile_error.log);
    } else if (!event.reused) {
      CHECK(std::holds_alternative<MeasureCandidate>(action));
      CHECK_FALSE(
          RepeatsMeasurement(evaluation, std::get<Measurement>(event.result), unstable_retries_));
      ++planned["measured"];
    }
  }

  // The reason that callers see, where it follows from the plan.
  void CheckDetail(int64_t time_ns, const Evaluation& evaluation, const std::string& detail) {
    const Search* const search = state_.FindSearch(evaluation.search_id);
    if (search != nullptr) {
      if (const auto abandon = PlanAt<AbandonSearch>(*search, time_ns)) {
        CHECK(abandon->rejection.detail == detail);
      }
      return;
    }
    if (!evaluation.device_model.empty()) return;
    Evaluation undecided = evaluation;
    undecided.decision.reset();
    const EvaluationAction action = PlanAt(undecided, time_ns);
    const auto* reject = std::get_if<RejectCandidate>(&action);
    REQUIRE(reject != nullptr);
    CHECK(reject->rejection.detail == detail);
  }

  void Check(int64_t time_ns, const EvaluationCompiled& event) {
    const EvaluationAction action = PlanAt(*state_.FindEvaluation(event.request_id), time_ns);
    CHECK(std::holds_alternative<CompileCandidate>(action));
    ++planned["compiled"];
  }

  void Check(int64_t time_ns, const EvaluationForecast& event) {
    const Evaluation& evaluation = *state_.FindEvaluation(event.request_id);
    const EvaluationAction action = PlanAt(evaluation, time_ns);
    if (evaluation.forecast) {
      // NextToDecide returned it some events ago. Its search may have ended since.
      CHECK(have_been_outdated_.erase(event.request_id) == 1);
      ++planned["forecast again"];
      return;
    }
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
        CHECK(state_.FindProblem(plan->problem->problem_id) != nullptr);
        CHECK(plan->problem->problem_id == event.candidate.problem_id);
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
    CheckNoneIsLate(search, time_ns);
    const auto plan = PlanAt<ProposeCandidate>(search, time_ns);
    REQUIRE(plan);
    CHECK(plan->request_id == event.request_id);
    CHECK(plan->mode == event.mode);
    CHECK(plan->candidate.candidate_id == event.candidate.candidate_id);
    ++planned[search.history.contains(event.candidate.candidate_id) ? "selected" : "proposed"];
  }

  void Check(int64_t time_ns, const GenerationRequested& event) {
    CheckNoneIsLate(*state_.FindSearch(event.search_id), time_ns);
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
    const Search& search = *state_.FindSearch(event.search_id);
    if (const auto abandon = PlanAt<AbandonSearch>(search, time_ns)) {
      CHECK(event.failed == abandon->failed);
      CHECK(event.reason == (abandon->failed ? abandon->rejection.detail : ""));
      CHECK(event.confirmed_request_id.empty());
      ++planned["abandoned search"];
      return;
    }
    if (event.failed) {
      // Its reference does not compile.
      const MissingReference ends = PlanWithoutReference(state_, search.spec.problem_id,
                                                         search.spec.target, search.device_model);
      CHECK(std::ranges::count(ends.search_ids, event.search_id) == 1);
      CHECK(ends.request_ids.empty());
      CHECK(state_.FindReference(search.spec.problem_id, search.spec.target, search.device_model) ==
            nullptr);
      ++planned["failed"];
      return;
    }
    const auto plan = PlanAt<CloseSearch>(search, time_ns);
    REQUIRE(plan);
    CHECK(plan->confirmed_request_id == event.confirmed_request_id);
    ++planned["closed"];
  }

  DeviceInputs DeviceAt(int64_t time_ns) const {
    DeviceInputs device;
    device.grace = grace_;
    if (device_from_ns <= time_ns && time_ns < device_until_ns) {
      device.found = "fake cpu";
    } else {
      device.devices = other_devices;
    }
    return device;
  }

  EvaluationAction PlanAt(const Evaluation& evaluation, int64_t time_ns,
                          bool is_next = false) const {
    EvaluationInputs inputs;
    inputs.is_next = is_next;
    inputs.now_ns = time_ns;
    inputs.device = DeviceAt(time_ns);
    return PlanEvaluation(state_, evaluation, inputs);
  }

  // The next candidate to decide in the queue of an evaluation.
  std::optional<std::string> NextIn(int64_t time_ns, const Evaluation& evaluation) {
    const OrderInputs order{time_ns, InputsAt(time_ns).capacity.measure_slots, false};
    if (const Search* const search = state_.FindSearch(evaluation.search_id)) {
      return NextToDecide(state_, *search, order);
    }
    const Candidate& candidate = evaluation.candidate;
    const ProblemHistory* const history =
        state_.FindHistory(candidate.problem_id, candidate.target, evaluation.device_model);
    REQUIRE(history != nullptr);
    return NextToDecide(state_, *history, order);
  }

  const SearchInputs& InputsAt(int64_t time_ns) {
    inputs_.now_ns = time_ns;
    inputs_.device = DeviceAt(time_ns);
    // The capacity of the fake workers.
    inputs_.capacity = inputs_.device.found.empty() ? Workers::Capacity{} : Workers::Capacity{2, 1};
    return inputs_;
  }

  template <class Action>
  std::optional<Action> PlanAt(const Search& search, int64_t time_ns) {
    std::optional<SearchAction> plan = PlanSearch(state_, search, InputsAt(time_ns));
    if (!plan || !std::holds_alternative<Action>(*plan)) return std::nullopt;
    return std::get<Action>(*std::move(plan));
  }

  const absl::Duration grace_;
  const int unstable_retries_;
  State state_;
  SearchInputs inputs_;
  EventBody last_;
  std::set<std::string> have_waited_;
  std::set<std::string> have_been_outdated_;  // since their last forecast, while they waited
  std::deque<std::string> finals_;            // the rest of a round
  std::vector<RankPruned> rankings_;          // planned since the last one ended
};

}  // namespace kernelcast::orchestrator::testing

#endif  // KERNELCAST_TESTS_UNIT_SERVICES_ORCHESTRATOR_CORE_PLAN_COMPARISON_H_
