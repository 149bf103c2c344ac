// Decides on evaluations and settles them.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "services/orchestrator/core/engine.h"
#include "services/orchestrator/core/engine_ids.h"
#include "services/orchestrator/core/engine_inbox.h"
#include "services/orchestrator/core/plan.h"

namespace kernelcast::orchestrator {

void Engine::Advance(const std::string& request_id, bool is_next) {
  const Evaluation* evaluation = state_.FindEvaluation(request_id);
  if (evaluation == nullptr || acting_.contains(request_id)) {
    return;
  }
  EvaluationInputs inputs;
  inputs.now_ns = NowNs();
  inputs.is_next = is_next;
  if (evaluation->device_model.empty()) {
    inputs.device = DeviceInputsFor(evaluation->candidate.target, evaluation->wanted_device_model);
  }
  inputs.set_aside =
      CrashJournal::SetsAside(options_.crash_journal, HandlingName(evaluation->stage, request_id));
  if (inputs.set_aside) {
    Log(LogLevel::kError, "set aside: handling it crashed the orchestrator twice",
        {{"request_id", request_id}});
  }
  Perform(*evaluation, PlanEvaluation(state_, *evaluation, inputs));
}

void Engine::Perform(const Evaluation& evaluation, EvaluationAction action) {
  struct Performer {
    Engine& engine;
    const Evaluation& evaluation;

    void operator()(ChooseDevice& choose) const {
      const std::string request_id = evaluation.request_id;
      if (engine.Emit(DeviceChosen{"", request_id, std::move(choose.device_model)})) {
        engine.Advance(request_id);
      }
    }
    void operator()(WaitForDevice&) const {}
    void operator()(WaitForOthers&) const {}
    void operator()(ReuseMeasurement& reuse) const { engine.Reuse(evaluation, reuse.request_id); }
    void operator()(CompileCandidate&) const { engine.StartCompile(evaluation); }
    void operator()(DescribeReference&) const {
      engine.StartReference(evaluation.candidate.problem_id, evaluation.candidate.target,
                            evaluation.device_model);
    }
    void operator()(ForecastCandidate& forecast) const {
      engine.StartForecast(evaluation, std::move(forecast.query));
    }
    void operator()(DecideCandidate& decide) const { engine.Decide(evaluation, std::move(decide)); }
    void operator()(MeasureCandidate& measure) const { engine.StartMeasure(evaluation, measure); }
    void operator()(SettlePruned&) const {
      engine.Settle(EvaluationSettled{evaluation.request_id, Pruned{}, false});
    }
    void operator()(RejectCandidate& reject) const {
      engine.Reject(evaluation.request_id, reject.reason, std::move(reject.rejection));
    }
  };
  std::visit(Performer{*this, evaluation}, action);
}

void Engine::Reuse(const Evaluation& evaluation, const std::string& earlier_request_id) {
  const std::string request_id = evaluation.request_id;
  if (settling_.contains(earlier_request_id)) {
    AfterCommit([this, request_id] { Post([this, request_id] { Advance(request_id); }); });
    return;
  }
  if (!inbox_->may_block) {
    inbox_->PostToThread([this, request_id] { Advance(request_id); });
    return;
  }
  absl::StatusOr<std::vector<StoredEvent>> events = store_->ReadEvaluation(earlier_request_id);
  std::optional<EvaluationRecord> record;
  if (events.ok()) record = FoldEvaluation(*events);
  if (!record || !std::holds_alternative<Measurement>(record->result)) {
    Rejection rejection;
    rejection.cause = Rejection::Cause::kUnavailable;
    rejection.detail = absl::StrCat("the measurement of ", earlier_request_id,
                                    " cannot be read: ", std::string(events.status().message()));
    return Reject(request_id, DecisionReason::kUnavailable, std::move(rejection));
  }
  const bool decided_now = !evaluation.decision.has_value();
  if (decided_now) {
    Decision decision = record->decision;
    decision.kind = DecisionKind::kMeasure;
    decision.reason = DecisionReason::kReused;
    decision.audit_propensity = 1;
    Emit(EvaluationDecided{request_id, std::move(decision)});
  }
  EvaluationSettled settled;
  settled.request_id = request_id;
  settled.result = std::move(std::get<Measurement>(record->result));
  settled.reused = true;
  Settle(std::move(settled), decided_now);
}

void Engine::Decide(const Evaluation& evaluation, DecideCandidate action) {
  const std::string request_id = evaluation.request_id;
  const Decision& decision = action.decision;
  Span span = traces_.Part(request_id, "kernelcast.decide");
  if (span.recording()) {
    span.Set("kernelcast.decision", std::string(Name(decision.kind)));
    span.Set("kernelcast.reason", std::string(Name(decision.reason)));
    span.Set("kernelcast.win_probability", decision.win_probability);
    EndAfterCommit(std::move(span));
  }
  if (action.rejection) {
    return Reject(request_id, decision.reason, *std::move(action.rejection));
  }
  if (!Emit(EvaluationDecided{request_id, decision})) return;
  if (decision.kind == DecisionKind::kPrune) {
    return Settle(EvaluationSettled{request_id, Pruned{}, false}, /*decided_now=*/true);
  }
  if (observer_ != nullptr) {
    AfterCommit(
        [this, evaluation = evaluation, decision] { observer_->OnDecided(evaluation, decision); });
  }
  Advance(request_id);
}

void Engine::Reject(const std::string& request_id, DecisionReason reason, Rejection rejection) {
  const Evaluation* evaluation = state_.FindEvaluation(request_id);
  if (evaluation == nullptr) return;
  const bool decided_now = !evaluation->decision.has_value();
  if (decided_now) {
    Decision decision;
    decision.kind = DecisionKind::kReject;
    decision.reason = reason;
    Emit(EvaluationDecided{request_id, decision});
  }
  Settle(EvaluationSettled{request_id, std::move(rejection), false}, decided_now);
}

void Engine::Settle(EvaluationSettled settled, bool decided_now) {
  const Evaluation* live = state_.FindEvaluation(settled.request_id);
  if (live == nullptr) return;
  // Shared by the effects below.
  const auto kept = std::make_shared<const Evaluation>(*live);
  const Evaluation& evaluation = *kept;
  Span commit = traces_.Part(settled.request_id, "kernelcast.commit");
  if (!Emit(settled)) return;
  acting_.erase(settled.request_id);
  settling_.insert(settled.request_id);
  batch_.settled.push_back(settled.request_id);
  EndAfterCommit(std::move(commit));
  EndAfterCommit(traces_.Settle(evaluation, settled));
  if (observer_ != nullptr) {
    AfterCommit([this, kept, settled, decided_now] {
      if (decided_now) observer_->OnDecided(*kept, *kept->decision);
      observer_->OnSettled(*kept, settled);
    });
  }
  if (!waiters_.contains(settled.request_id)) return;
  AfterCommit([this, record = MakeRecord(evaluation, settled, batch_.events.back()->time_ns,
                                         state_.last_sequence())]() mutable {
    auto waiting = waiters_.extract(record.request_id);
    std::vector<EvaluateDone>& dones = waiting.mapped();
    for (size_t i = 1; i < dones.size(); ++i) dones[i](record);
    dones.front()(std::move(record));
  });
}

}  // namespace kernelcast::orchestrator
