// Measures candidates, and offers the labels to forecasters.

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
namespace {

constexpr int64_t kLabelRetryNs = 2'000'000'000;
constexpr size_t kManyLabels = 4096;
constexpr int64_t kManyLabelsPauseNs = 100'000'000;

}  // namespace

void Engine::StartMeasure(const Evaluation& evaluation, const MeasureCandidate& action) {
  acting_.insert(evaluation.request_id);
  AfterCommit([this, id = evaluation.request_id, candidate = evaluation.candidate, action,
               device_model = evaluation.device_model,
               problem = state_.FindProblem(evaluation.candidate.problem_id)]() mutable {
    traces_.BeginStage(id, "kernelcast.measure");
    const TraceScope scope(traces_.Of(id));
    workers_->Measure(id, std::move(problem), std::move(candidate), device_model, action.spec,
                      action.profile,
                      [this, inbox = inbox_, id](absl::StatusOr<MeasureResult> result) {
                        inbox->Post([this, id, result = std::move(result)]() mutable {
                          OnMeasured(id, std::move(result));
                        });
                      });
  });
}

void Engine::OnMeasured(const std::string& request_id, absl::StatusOr<MeasureResult> result) {
  const CrashJournal::Hold hold(options_.crash_journal, HandlingName(Stage::kMeasure, request_id));
  acting_.erase(request_id);
  traces_.EndStage(request_id, result.status());
  const Evaluation* evaluation = state_.FindEvaluation(request_id);
  if (evaluation == nullptr || evaluation->stage != Stage::kMeasure) {
    return;
  }
  EvaluationSettled settled;
  settled.request_id = request_id;
  if (!result.ok()) {
    Rejection rejection;
    rejection.cause = Rejection::Cause::kUnavailable;
    rejection.detail = absl::StrCat("measure: ", std::string(result.status().message()));
    settled.result = std::move(rejection);
  } else if (auto* error = std::get_if<CompileError>(&*result)) {
    Rejection rejection;
    rejection.cause = Rejection::Cause::kCompileError;
    rejection.compile_error = std::move(*error);
    settled.result = std::move(rejection);
  } else {
    auto& measurement = std::get<Measurement>(*result);
    if (RepeatsMeasurement(*evaluation, measurement, options_.unstable_retries)) {
      Emit(MeasurementRepeated{request_id,
                               {measurement.device_time_ns, measurement.preparation_time_ns}});
      return Advance(request_id);
    }
    settled.result = std::move(measurement);
  }
  Settle(std::move(settled));
}

void Engine::OfferLabels() {
  if (state_.pending_labels().size() == labels_offered_.size() ||
      clock_->MonotonicNs() < next_label_offer_ns_) {
    return;
  }
  // Many labels wait if a forecaster is unavailable, and iterating over them takes a while.
  if (labels_offered_.size() > kManyLabels) {
    next_label_offer_ns_ = clock_->MonotonicNs() + kManyLabelsPauseNs;
  }
  // An offer may take long if one of several forecasters is unavailable. Later labels do not wait
  // for it.
  for (LabelOffer& offer : PlanLabels(state_, labels_offered_)) {
    std::vector<std::string> request_ids;
    for (const Label& label : offer.labels) request_ids.push_back(label.label_id);
    labels_offered_.insert(request_ids.begin(), request_ids.end());
    AfterCommit([this, problem_id = offer.problem_id, labels = std::move(offer.labels),
                 request_ids = std::move(request_ids),
                 problem = state_.FindProblem(offer.problem_id)]() mutable {
      forecasters_->Observe(
          problem, std::move(labels),
          [this, inbox = inbox_, problem_id, request_ids](const absl::Status& status) {
            inbox->Post([this, problem_id, request_ids, status] {
              for (const std::string& id : request_ids) labels_offered_.erase(id);
              if (status.ok()) {
                Emit(LabelsObserved{request_ids});
              } else {
                next_label_offer_ns_ = clock_->MonotonicNs() + kLabelRetryNs;
                Log(LogLevel::kWarning, "labels not accepted by the forecaster",
                    {{"problem_id", problem_id},
                     {"labels", request_ids.size()},
                     {"error", std::string(status.ToString())}});
              }
            });
          });
    });
  }
}

}  // namespace kernelcast::orchestrator
