// Compiles and forecasts candidates.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "services/orchestrator/core/engine.h"
#include "services/orchestrator/core/engine_ids.h"
#include "services/orchestrator/core/engine_inbox.h"
#include "services/orchestrator/core/plan.h"

namespace kernelcast::orchestrator {

void Engine::StartCompile(const Evaluation& evaluation) {
  acting_.insert(evaluation.request_id);
  RunNow([this, id = evaluation.request_id, candidate = evaluation.candidate,
          device_model = evaluation.device_model,
          problem = state_.FindProblem(evaluation.candidate.problem_id)]() mutable {
    traces_.BeginStage(id, "kernelcast.compile");
    const TraceScope scope(traces_.Of(id));
    workers_->Compile(id, std::move(problem), std::move(candidate), device_model,
                      [this, inbox = inbox_, id](absl::StatusOr<CompileResult> result) {
                        inbox->Post([this, id, result = std::move(result)]() mutable {
                          OnCompiled(id, std::move(result));
                        });
                      });
  });
}

void Engine::OnCompiled(const std::string& request_id, absl::StatusOr<CompileResult> result) {
  const CrashJournal::Hold hold(options_.crash_journal, HandlingName(Stage::kCompile, request_id));
  acting_.erase(request_id);
  traces_.EndStage(request_id, result.status());
  const Evaluation* evaluation = state_.FindEvaluation(request_id);
  if (evaluation == nullptr || evaluation->stage != Stage::kCompile) {
    return;
  }
  if (!result.ok()) {
    Rejection rejection;
    rejection.cause = Rejection::Cause::kUnavailable;
    rejection.detail = absl::StrCat("compile: ", std::string(result.status().message()));
    return Reject(request_id, DecisionReason::kUnavailable, std::move(rejection));
  }
  EvaluationCompiled event;
  event.request_id = request_id;
  if (auto* error = std::get_if<CompileError>(&*result)) {
    event.result = std::move(*error);
  } else {
    auto& compiled = std::get<CompiledCandidate>(*result);
    event.result = std::move(compiled.facts);
    event.artifact = std::move(compiled.artifact);
    event.artifact.content.clear();
  }
  Emit(std::move(event));
  Advance(request_id);
}

void Engine::StartReference(const std::string& problem_id, const std::string& target,
                            const std::string& device_model) {
  if (!describing_references_.emplace(problem_id, target, device_model).second) {
    return;
  }
  RunNow([this, problem_id, target, device_model, problem = state_.FindProblem(problem_id)] {
    workers_->CompileReference(
        problem, target, device_model,
        [this, inbox = inbox_, problem_id, target,
         device_model](absl::StatusOr<CompileResult> result) {
          inbox->Post(
              [this, problem_id, target, device_model, result = std::move(result)]() mutable {
                OnReferenceDescribed(problem_id, target, device_model, std::move(result));
              });
        });
  });
}

void Engine::OnReferenceDescribed(const std::string& problem_id, const std::string& target,
                                  const std::string& device_model,
                                  absl::StatusOr<CompileResult> result) {
  describing_references_.erase({problem_id, target, device_model});
  std::string failure;
  if (!result.ok()) {
    failure = std::string(result.status().message());
  } else if (const auto* error = std::get_if<CompileError>(&*result)) {
    failure =
        absl::StrCat("the problem's reference does not compile: ", error->log.substr(0, 2000));
  } else {
    auto& compiled = std::get<CompiledCandidate>(*result);
    Emit(ReferenceDescribed{problem_id, target, std::move(compiled.facts),
                            compiled.artifact.toolchain, device_model});
  }
  if (failure.empty()) {
    for (const std::string& id : WaitingForReference(state_, problem_id, target, device_model)) {
      Advance(id);
    }
    return;
  }
  Log(LogLevel::kWarning, "reference cannot be described",
      {{"problem_id", problem_id}, {"target", target}, {"error", failure}});
  const MissingReference ends = PlanWithoutReference(state_, problem_id, target, device_model);
  for (const std::string& id : ends.request_ids) {
    Rejection rejection;
    rejection.cause = Rejection::Cause::kUnavailable;
    rejection.detail = failure;
    Reject(id, DecisionReason::kUnavailable, std::move(rejection));
  }
  for (const std::string& id : ends.search_ids) Emit(SearchClosed{id, "", true, failure});
}

void Engine::StartForecast(const Evaluation& evaluation, ForecastQuery query) {
  acting_.insert(evaluation.request_id);
  RunNow([this, id = evaluation.request_id, query = std::move(query),
          problem = state_.FindProblem(evaluation.candidate.problem_id)]() mutable {
    traces_.BeginStage(id, "kernelcast.forecast");
    const TraceScope scope(traces_.Of(id));
    forecasters_->Forecast(std::move(problem), std::move(query),
                           [this, inbox = inbox_, id](absl::StatusOr<ForecastResult> result) {
                             inbox->Post([this, id, result = std::move(result)]() mutable {
                               OnForecast(id, std::move(result));
                             });
                           });
  });
}

void Engine::OnForecast(const std::string& request_id, absl::StatusOr<ForecastResult> result) {
  const CrashJournal::Hold hold(options_.crash_journal, HandlingName(Stage::kForecast, request_id));
  traces_.EndStage(request_id, result.status());
  const Evaluation* evaluation = state_.FindEvaluation(request_id);
  const bool wanted =
      evaluation != nullptr && !evaluation->decision &&
      (evaluation->stage == Stage::kForecast || evaluation->stage == Stage::kDecide);
  if (wanted && result.ok()) {
    const auto* forecast = std::get_if<Forecast>(&*result);
    if (forecast != nullptr && WaitsToLearn(*evaluation, *forecast)) return;
  }
  learning_waits_.erase(request_id);
  acting_.erase(request_id);
  if (!wanted) return;
  EvaluationForecast event;
  event.request_id = request_id;
  if (result.ok()) {
    if (auto* forecast = std::get_if<Forecast>(&*result)) {
      if (absl::Status valid = ValidateForecast(*forecast); valid.ok()) {
        event.result = std::move(*forecast);
      } else {
        event.result = Abstention{Abstention::Cause::kUnparsable, forecast->backend,
                                  std::string(valid.message())};
      }
    } else {
      event.result = std::get<Abstention>(*result);
    }
  } else {
    event.result = Abstention{Abstention::Cause::kEndpointUnavailable, "",
                              std::string(result.status().message())};
  }
  Emit(std::move(event));
  Advance(request_id);
}

}  // namespace kernelcast::orchestrator
