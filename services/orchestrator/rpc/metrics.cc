#include "services/orchestrator/rpc/metrics.h"

#include <algorithm>
#include <set>

#include "common/domain/decision.h"
#include "common/domain/measurement.h"
#include "common/metrics/gpu_model_label.h"

namespace kernelcast::orchestrator {
namespace {

constexpr const char* kOutcomes[] = {"ok",      "wrong_result", "crash",
                                     "timeout", "exploit",      "environment_unstable",
                                     "passed",  "pruned",       "rejected"};
constexpr DecisionKind kKinds[] = {DecisionKind::kMeasure, DecisionKind::kPrune,
                                   DecisionKind::kReject};
// Phases of device time. "screen" is measuring candidates, without preparation.
constexpr const char* kScreen = "screen";
constexpr const char* kPrepare = "prepare";
constexpr const char* kConfirm = "confirm";

// A spent budget prunes candidates with a forecast and rejects those without one.
bool MayDecide(DecisionKind kind, DecisionReason reason) {
  return kind == kernelcast::KindOf(reason) ||
         (kind == DecisionKind::kPrune && reason == DecisionReason::kBudget);
}

// The kind in the series that counts the decision.
DecisionKind KindOf(const Decision& decision) {
  return MayDecide(decision.kind, decision.reason) ? decision.kind
                                                   : kernelcast::KindOf(decision.reason);
}

// Whether the forecast alone would prune the candidate, as defined by RouteHistory.
bool IsPrunable(const Decision& decision) {
  if (decision.audit_propensity <= 0) return false;
  const DecisionReason reason = decision.audited_reason.value_or(decision.reason);
  return reason == DecisionReason::kUnpromising || reason == DecisionReason::kLikelyFailure ||
         reason == DecisionReason::kAudit;
}

constexpr std::pair<Stage, const char*> kStages[] = {{Stage::kCompile, "compile"},
                                                     {Stage::kForecast, "forecast"},
                                                     {Stage::kDecide, "decide"},
                                                     {Stage::kMeasure, "measure"}};
constexpr const char* kBestSpeedup = "kernelcast_orchestrator_best_speedup_ratio";
constexpr const char* kOtherProblem = "other";

}  // namespace

OrchestratorMetrics::OrchestratorMetrics(MetricsRegistry* registry,
                                         std::function<AllPeerFigures()> look_at_peers)
    : registry_(registry),
      look_at_peers_(std::move(look_at_peers)),
      in_flight_(registry->Gauge("kernelcast_orchestrator_candidates_in_flight",
                                 "Evaluations accepted and not yet settled.")),
      events_(registry->Gauge("kernelcast_orchestrator_log_events", "Events in the log.")),
      running_searches_(
          registry->Gauge("kernelcast_orchestrator_running_searches", "Searches in progress.")),
      pending_labels_(registry->Gauge("kernelcast_orchestrator_pending_labels",
                                      "Labels not yet acknowledged by the forecaster.")),
      generations_in_flight_(registry->Gauge("kernelcast_orchestrator_generations_in_flight",
                                             "Requests to a model for kernels in progress.")),
      workers_(registry, PeerMetrics::kWorkers),
      forecasters_(registry, PeerMetrics::kForecasters) {
  for (const GenerationOutcome outcome : kGenerationOutcomes) {
    generations_[outcome] =
        &registry->Counter("kernelcast_orchestrator_generations_total",
                           "Requests to a model for a kernel, by outcome.",
                           {{"outcome", std::string(orchestrator::Name(outcome))}});
  }
  for (const char* outcome : {"given", "none"}) {
    advice_[outcome] = &registry->Counter("kernelcast_orchestrator_advice_total",
                                          "Requests to a critic for the next step, by outcome.",
                                          {{"outcome", outcome}});
  }
  for (const char* kind : {"input", "cached_input", "output"}) {
    generation_tokens_[kind] = &registry->Counter(
        "kernelcast_orchestrator_generation_tokens_total",
        "Tokens of those requests; cached ones are also input.", {{"kind", kind}});
  }
  for (const std::string_view known : kGpuModelLabels) {
    PerModel& series = models_[known];
    const std::string model(known);
    for (const DecisionKind kind : kKinds) {
      for (const DecisionReason reason : kAllDecisionReasons) {
        if (!MayDecide(kind, reason)) continue;
        series.decisions[{kind, reason}] =
            &registry->Counter("kernelcast_orchestrator_decisions_total",
                               "Decisions on candidates by kind and reason, without confirmations.",
                               {{"gpu_model", model},
                                {"decision", std::string(Name(kind))},
                                {"reason", std::string(Name(reason))}});
      }
    }
    series.candidates_decided = &registry->Counter(
        "kernelcast_orchestrator_candidates_decided_total",
        "Candidates decided on, each counted once per search.", {{"gpu_model", model}});
    for (const char* outcome : kOutcomes) {
      series.settled[outcome] = &registry->Counter("kernelcast_orchestrator_candidates_total",
                                                   "Evaluations settled, by outcome.",
                                                   {{"gpu_model", model}, {"outcome", outcome}});
    }
    for (const auto& [stage, name] : kStages) {
      const Labels queue = {{"gpu_model", model}, {"stage", name}};
      series.queues[stage] = {
          &registry->Gauge("kernelcast_orchestrator_queue_depth",
                           "Evaluations accepted and not yet settled, by what they wait for.",
                           queue),
          &registry->Gauge("kernelcast_orchestrator_queue_oldest_age_seconds",
                           "Time since the oldest of them was accepted; 0: none.", queue)};
    }
    const Labels labels = {{"gpu_model", model}};
    series.risk = &registry->Gauge(
        "kernelcast_orchestrator_selective_risk_ratio",
        "Estimated share of winners among candidates that running searches pruned or audited.",
        labels);
    series.risk_low = &registry->Gauge(
        "kernelcast_orchestrator_selective_risk_low_ratio",
        "Lower end of the 95% interval of the estimated risk, highest of the running searches.",
        labels);
    series.risk_limit = &registry->Gauge("kernelcast_orchestrator_selective_risk_limit_ratio",
                                         "Risk limit: the lowest of the running searches.", labels);
    series.prune_threshold = &registry->Gauge(
        "kernelcast_orchestrator_prune_threshold_ratio",
        "Highest win probability below which a running search is certified to prune.", labels);
    series.risk_alarms = &registry->Counter("kernelcast_orchestrator_risk_alarms_total",
                                            "Certificates withdrawn by searches.", labels);
    for (const char* phase : {kScreen, kPrepare, kConfirm}) {
      series.device_seconds_spent[phase] =
          &registry->Counter("kernelcast_orchestrator_gpu_seconds_spent_total",
                             "Time that timing leases were held, by phase: measuring candidates, "
                             "preparing problems, confirming the best of searches.",
                             {{"gpu_model", model}, {"phase", phase}});
    }
    series.device_seconds_avoided =
        &registry->Counter("kernelcast_orchestrator_gpu_seconds_avoided_total",
                           "Estimated time of measuring the candidates that searches pruned, at "
                           "the marginal cost of measured candidates.",
                           labels);
    series.prunable =
        &registry->Counter("kernelcast_orchestrator_prunable_total",
                           "Candidates that were pruned, or audited instead.", labels);
    series.prunable_winners = &registry->Counter(
        "kernelcast_orchestrator_prunable_winners_total",
        "Estimated number of those that were faster than the incumbent, from audits.", labels);
    series.audits = &registry->Counter(
        "kernelcast_orchestrator_audits_total",
        "Candidates measured by an audit although the policy would prune them.", labels);
  }
}

OrchestratorMetrics::PerModel& OrchestratorMetrics::For(std::string_view target,
                                                        std::string_view device_model) {
  return models_.find(GpuModelLabel(target, device_model))->second;
}

void OrchestratorMetrics::OnDecided(const Evaluation& evaluation, const Decision& decision) {
  if (evaluation.mode == EvaluateMode::kFinal && evaluation.generated) return;
  PerModel& series = For(evaluation.candidate.target, evaluation.device_model);
  series.decisions.at({KindOf(decision), decision.reason})->Increment();
  if (!evaluation.repeated) series.candidates_decided->Increment();
  if (decision.reason == DecisionReason::kAudit) series.audits->Increment();
  if (IsPrunable(decision)) series.prunable->Increment();
}

void OrchestratorMetrics::CountSpent(const Evaluation& evaluation, const DeviceTime& time,
                                     PerModel& series) {
  const bool confirmation = evaluation.mode == EvaluateMode::kFinal && evaluation.generated;
  const double preparing = static_cast<double>(time.preparation_time_ns) * 1e-9;
  series.device_seconds_spent.at(kPrepare)->Increment(preparing);
  series.device_seconds_spent.at(confirmation ? kConfirm : kScreen)
      ->Increment(static_cast<double>(time.device_time_ns) * 1e-9 - preparing);
}

void OrchestratorMetrics::OnSettled(const Evaluation& evaluation,
                                    const EvaluationSettled& settled) {
  PerModel& series = For(evaluation.candidate.target, evaluation.device_model);
  CountSpent(evaluation, evaluation.unstable_time, series);
  if (const auto* measurement = std::get_if<Measurement>(&settled.result)) {
    series.settled.at(std::string(OutcomeName(measurement->outcome)))->Increment();
    if (settled.reused) return;
    CountSpent(evaluation, {measurement->device_time_ns, measurement->preparation_time_ns}, series);
    const Decision& decision = *evaluation.decision;
    const Ratio* const speedup = MeasuredSpeedup(*measurement);
    if (decision.reason == DecisionReason::kAudit && IsPrunable(decision) && speedup != nullptr &&
        speedup->value > decision.incumbent_speedup) {
      series.prunable_winners->Increment(1 / decision.audit_propensity);
    }
  } else if (std::holds_alternative<Pruned>(settled.result)) {
    series.settled.at("pruned")->Increment();
  } else {
    series.settled.at("rejected")->Increment();
  }
}

void OrchestratorMetrics::OnGenerated(const GenerationSettled& settled) {
  generations_.at(settled.outcome)->Increment();
  CountTokens(settled.usage);
}

void OrchestratorMetrics::OnAdvised(const GenerationAdvised& advised) {
  advice_.at(advised.advice.empty() ? "none" : "given")->Increment();
  CountTokens(advised.usage);
}

void OrchestratorMetrics::CountTokens(const GenerationUsage& usage) {
  generation_tokens_.at("input")->Increment(static_cast<double>(usage.input_tokens));
  generation_tokens_.at("cached_input")->Increment(static_cast<double>(usage.cached_input_tokens));
  generation_tokens_.at("output")->Increment(static_cast<double>(usage.output_tokens));
}

void OrchestratorMetrics::OnFigures(const EngineFigures& figures) {
  in_flight_.Set(static_cast<double>(figures.live_evaluations));
  events_.Set(static_cast<double>(figures.events));
  running_searches_.Set(static_cast<double>(figures.running_searches));
  pending_labels_.Set(static_cast<double>(figures.pending_labels));
  generations_in_flight_.Set(static_cast<double>(figures.live_generations));
}

void OrchestratorMetrics::OnOverview(const EngineOverview& overview) {
  ++overviews_;
  if (look_at_peers_ != nullptr) {
    const AllPeerFigures peers = look_at_peers_();
    workers_.Show(peers.workers);
    forecasters_.Show(peers.forecasters);
  }
  ShowQueues(overview);
  CountAvoided(overview);
  ShowRisks(overview);
  ShowBest(overview);
}

void OrchestratorMetrics::ShowQueues(const EngineOverview& overview) {
  std::map<std::pair<std::string_view, Stage>, EngineOverview::Queue> merged;
  for (const EngineOverview::Queue& queue : overview.queues) {
    EngineOverview::Queue& sum =
        merged[{GpuModelLabel(queue.target, queue.device_model), queue.stage}];
    sum.oldest_accepted_ns = sum.depth == 0
                                 ? queue.oldest_accepted_ns
                                 : std::min(sum.oldest_accepted_ns, queue.oldest_accepted_ns);
    sum.depth += queue.depth;
  }
  for (auto& [model, series] : models_) {
    for (auto& [stage, gauges] : series.queues) {
      const EngineOverview::Queue& queue = merged[{model, stage}];
      gauges.depth->Set(static_cast<double>(queue.depth));
      const int64_t age_ns = queue.depth == 0 ? 0 : overview.now_ns - queue.oldest_accepted_ns;
      gauges.oldest_age_seconds->Set(static_cast<double>(std::max<int64_t>(age_ns, 0)) * 1e-9);
    }
  }
}

void OrchestratorMetrics::CountAvoided(const EngineOverview& overview) {
  std::set<std::string_view> running;
  for (const EngineOverview::SearchFigures& search : overview.searches) {
    const auto seconds = static_cast<double>(search.counts.device_time_avoided_ns) * 1e-9;
    // Savings from before the process started were counted by the previous process.
    const auto [counted, is_new] =
        avoided_.try_emplace(search.search_id, overviews_ == 1 ? seconds : 0);
    const bool ended = search.ended_ns != 0;
    if (!ended) running.insert(search.search_id);
    // A search that selects first prunes everything and then measures the best. It has saved what
    // remains when it ends.
    if ((ended || !search.selects) && seconds > counted->second) {
      For(search.target, search.device_model)
          .device_seconds_avoided->Increment(seconds - counted->second);
      counted->second = seconds;
    }
  }
  std::erase_if(avoided_, [&](const auto& entry) { return !running.contains(entry.first); });
}

void OrchestratorMetrics::ShowRisks(const EngineOverview& overview) {
  struct Pooled {
    double winners = 0;
    double pruned = 0;
    double low = 0;
    double limit = 1;
    double threshold = 0;
  };
  std::map<std::string_view, Pooled> pooled;
  std::set<std::string_view> running;
  for (const EngineOverview::SearchFigures& search : overview.searches) {
    const RiskReport& risk = search.risk;
    // Alarms from before the search was first seen do not count.
    const auto [alarms, is_new] = alarms_.try_emplace(search.search_id, risk.alarms);
    if (risk.alarms > alarms->second) {
      For(search.target, search.device_model)
          .risk_alarms->Increment(static_cast<double>(risk.alarms - alarms->second));
      alarms->second = risk.alarms;
    }
    if (search.ended_ns != 0) continue;
    running.insert(search.search_id);
    Pooled& pool = pooled[GpuModelLabel(search.target, search.device_model)];
    const auto pruned = static_cast<double>(risk.selective_risk.pruned);
    pool.winners += risk.selective_risk.estimate * pruned;
    pool.pruned += pruned;
    pool.low = std::max(pool.low, risk.selective_risk.low);
    pool.limit = std::min(pool.limit, risk.options.alpha);
    pool.threshold = std::max(pool.threshold, risk.threshold);
  }
  std::erase_if(alarms_, [&](const auto& entry) { return !running.contains(entry.first); });
  for (auto& [model, series] : models_) {
    const auto found = pooled.find(model);
    const Pooled pool = found != pooled.end() ? found->second : Pooled();
    series.risk->Set(pool.pruned > 0 ? pool.winners / pool.pruned : 0);
    series.risk_low->Set(pool.low);
    series.risk_limit->Set(found != pooled.end() ? pool.limit : RiskOptions().alpha);
    series.prune_threshold->Set(pool.threshold);
  }
}

void OrchestratorMetrics::ShowBest(const EngineOverview& overview) {
  // If a problem has several searches, the best running one counts, or else the best that has
  // ended.
  std::map<std::pair<std::string, std::string_view>, std::pair<bool, double>> best;
  for (const EngineOverview::SearchFigures& search : overview.searches) {
    const std::string& name = search.problem_name;
    if (name.empty()) continue;
    auto& entry = best[{RoomFor(name) ? name : kOtherProblem,
                        GpuModelLabel(search.target, search.device_model)}];
    entry = std::max(entry, {search.ended_ns == 0, search.best.value});
  }
  for (const auto& [key, entry] : best) {
    const auto& [name, model] = key;
    Problem& problem = name == kOtherProblem ? other_problems_ : problems_[name];
    prometheus::Gauge*& gauge = problem.best_speedup[model];
    if (gauge == nullptr) {
      gauge = &registry_->Gauge(kBestSpeedup,
                                "Speedup of the best kernel of the problem's running searches, or "
                                "of the last searches that ended; 0: none yet.",
                                {{"gpu_model", std::string(model)}, {"problem", name}});
    }
    gauge->Set(entry.second);
  }
}

bool OrchestratorMetrics::RoomFor(const std::string& name) {
  if (name == kOtherProblem) return false;
  const auto known = problems_.find(name);
  if (known == problems_.end() && problems_.size() >= kMaxProblems) {
    // Removes the problem that was not searched for the longest time, unless all are being
    // searched.
    const auto oldest = std::min_element(
        problems_.begin(), problems_.end(),
        [](const auto& a, const auto& b) { return a.second.searched_at < b.second.searched_at; });
    if (oldest->second.searched_at == overviews_) return false;
    for (const auto& [model, gauge] : oldest->second.best_speedup) {
      registry_->RemoveGauge(kBestSpeedup, *gauge);
    }
    problems_.erase(oldest);
  }
  problems_[name].searched_at = overviews_;
  return true;
}

}  // namespace kernelcast::orchestrator
