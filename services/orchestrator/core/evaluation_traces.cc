#include "services/orchestrator/core/evaluation_traces.h"

#include <utility>
#include <variant>

namespace kernelcast::orchestrator {
namespace {

std::string_view ResultName(const EvaluationSettled& settled) {
  if (const auto* measurement = std::get_if<Measurement>(&settled.result)) {
    return OutcomeName(measurement->outcome);
  }
  return std::holds_alternative<Pruned>(settled.result) ? "pruned" : "rejected";
}

}  // namespace

void EvaluationTraces::BeginSearch(const Search& search, const TraceContext& parent) {
  Span span = StartSpan("kernelcast.search", SpanKind::kInternal, &parent);
  if (!span.context().valid()) return;
  span.Set("kernelcast.search_id", search.search_id);
  span.Set("kernelcast.problem_id", search.spec.problem_id);
  span.Set("kernelcast.target", search.spec.target);
  searches_[search.search_id] = std::move(span);
}

void EvaluationTraces::EndSearch(const std::string& search_id, std::string_view reason) {
  const auto found = searches_.find(search_id);
  if (found == searches_.end()) return;
  found->second.Set("kernelcast.end_reason", std::string(reason));
  searches_.erase(found);
}

TraceContext EvaluationTraces::OfSearch(const std::string& search_id) const {
  const auto found = searches_.find(search_id);
  return found != searches_.end() ? found->second.context() : TraceContext();
}

void EvaluationTraces::Begin(const Evaluation& evaluation, const TraceContext& parent) {
  const TraceContext* from = &parent;
  if (!from->valid()) {
    const auto search = searches_.find(evaluation.search_id);
    if (search == searches_.end()) return;
    from = &search->second.context();
  }
  Span span = StartSpan("kernelcast.evaluate", SpanKind::kInternal, from, /*may_begin=*/false,
                        evaluation.accepted_ns);
  if (!span.context().valid()) return;
  span.Set("kernelcast.request_id", evaluation.request_id);
  if (!evaluation.search_id.empty()) span.Set("kernelcast.search_id", evaluation.search_id);
  span.Set("kernelcast.candidate_id", evaluation.candidate.candidate_id);
  span.Set("kernelcast.target", evaluation.candidate.target);
  live_[evaluation.request_id].whole = std::move(span);
}

const TraceContext* EvaluationTraces::Of(const std::string& request_id) const {
  if (live_.empty()) return nullptr;
  const auto found = live_.find(request_id);
  if (found == live_.end()) return nullptr;
  const Live& live = found->second;
  return live.stage.context().valid() ? &live.stage.context() : &live.whole.context();
}

Span EvaluationTraces::Part(const std::string& request_id, std::string_view name) const {
  if (live_.empty()) return Span();
  const auto found = live_.find(request_id);
  if (found == live_.end()) return Span();
  return StartSpan(name, SpanKind::kInternal, &found->second.whole.context());
}

void EvaluationTraces::BeginStage(const std::string& request_id, std::string_view name) {
  if (live_.empty()) return;
  const auto found = live_.find(request_id);
  if (found == live_.end()) return;
  found->second.stage = StartSpan(name, SpanKind::kInternal, &found->second.whole.context());
}

void EvaluationTraces::EndStage(const std::string& request_id, const absl::Status& status) {
  if (live_.empty()) return;
  const auto found = live_.find(request_id);
  if (found == live_.end()) return;
  if (!status.ok()) {
    found->second.stage.Fail(std::string_view(status.message().data(), status.message().size()));
  }
  found->second.stage = Span();
}

Span EvaluationTraces::Settle(const Evaluation& evaluation, const EvaluationSettled& settled) {
  if (live_.empty()) return Span();
  const auto found = live_.find(evaluation.request_id);
  if (found == live_.end()) return Span();
  Span whole = std::move(found->second.whole);
  live_.erase(found);
  if (!whole.recording()) return whole;
  whole.Set("kernelcast.result", std::string(ResultName(settled)));
  if (evaluation.decision) {
    whole.Set("kernelcast.decision", std::string(Name(evaluation.decision->kind)));
    whole.Set("kernelcast.reason", std::string(Name(evaluation.decision->reason)));
  }
  return whole;
}

}  // namespace kernelcast::orchestrator
