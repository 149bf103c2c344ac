#include "services/orchestrator/rpc/metrics.h"

#include <algorithm>
#include <set>

#include "common/domain/decision.h"
#include "common/domain/measurement.h"
#include "common/metrics/gpu_model.h"

namespace kernelcast::orchestrator {
namespace {

constexpr const char* kOutcomes[] = {"ok",      "wrong_result",         "crash",  "timeout",
                                     "exploit", "environment_unstable", "pruned", "rejected"};
constexpr DecisionReason kReasons[] = {
    DecisionReason::kLowConfidence, DecisionReason::kPromising,    DecisionReason::kAudit,
    DecisionReason::kNoForecast,    DecisionReason::kRequested,    DecisionReason::kBootstrap,
    DecisionReason::kReused,        DecisionReason::kUnpromising,  DecisionReason::kBudgetPace,
    DecisionReason::kLikelyFailure, DecisionReason::kForecastOnly, DecisionReason::kCompileError,
    DecisionReason::kDuplicate,     DecisionReason::kBudget,       DecisionReason::kCancelled,
    DecisionReason::kUnavailable,
};

constexpr std::pair<Stage, const char*> kStages[] = {{Stage::kCompile, "compile"},
                                                     {Stage::kForecast, "forecast"},
                                                     {Stage::kDecide, "decide"},
                                                     {Stage::kMeasure, "measure"}};
constexpr const char* kBestSpeedup = "kernelcast_orchestrator_best_speedup_ratio";
constexpr const char* kOtherProblem = "other";
constexpr const char* kRepeatReasons[] = {"lost", "failed", "handed_back", "refused"};

}  // namespace

OrchestratorMetrics::OrchestratorMetrics(MetricsRegistry* registry,
                                         std::function<PeerFigures()> look_at_peers)
    : registry_(registry),
      look_at_peers_(std::move(look_at_peers)),
      in_flight_(registry->Gauge("kernelcast_orchestrator_candidates_in_flight",
                                 "Evaluations accepted and not settled.")),
      events_(registry->Gauge("kernelcast_orchestrator_log_events", "Events in the log.")),
      running_searches_(registry->Gauge("kernelcast_orchestrator_running_searches",
                                        "Searches that have not ended.")),
      pending_labels_(registry->Gauge("kernelcast_orchestrator_pending_labels",
                                      "Labels that the forecaster has not acknowledged.")),
      generations_in_flight_(registry->Gauge("kernelcast_orchestrator_generations_in_flight",
                                             "Kernels that a model is being asked for.")),
      workers_ready_(registry->Gauge("kernelcast_orchestrator_workers",
                                     "Workers that it was told of, by whether they answer.",
                                     {{"state", "ready"}})),
      workers_away_(registry->Gauge("kernelcast_orchestrator_workers",
                                    "Workers that it was told of, by whether they answer.",
                                    {{"state", "away"}})),
      workers_ejected_(registry->Gauge("kernelcast_orchestrator_workers",
                                       "Workers that it was told of, by whether they answer.",
                                       {{"state", "ejected"}})),
      forecasters_ready_(registry->Gauge("kernelcast_orchestrator_forecasters",
                                         "Forecasters that it was told of, by whether they answer.",
                                         {{"state", "ready"}})),
      forecasters_away_(registry->Gauge("kernelcast_orchestrator_forecasters",
                                        "Forecasters that it was told of, by whether they answer.",
                                        {{"state", "away"}})),
      ejections_(registry->Counter("kernelcast_orchestrator_worker_ejections_total",
                                   "Times that a worker was left out, since its calls failed.")) {
  for (const char* reason : kRepeatReasons) {
    repeated_calls_[reason] =
        &registry->Counter("kernelcast_orchestrator_worker_calls_repeated_total",
                           "Calls to workers that were made again, by why.", {{"reason", reason}});
  }
  for (const GenerationOutcome outcome : kGenerationOutcomes) {
    generations_[outcome] =
        &registry->Counter("kernelcast_orchestrator_generations_total",
                           "Requests to a model for a kernel, by what came of them.",
                           {{"outcome", std::string(orchestrator::Name(outcome))}});
  }
  for (const char* kind : {"input", "cached_input", "output"}) {
    generation_tokens_[kind] = &registry->Counter(
        "kernelcast_orchestrator_generation_tokens_total",
        "Tokens of those requests; cached ones are also input.", {{"kind", kind}});
  }
  for (const std::string_view known : kGpuModels) {
    PerModel& series = models_[known];
    const std::string model(known);
    for (DecisionReason reason : kReasons) {
      series.decisions[reason] = &registry->Counter(
          "kernelcast_orchestrator_decisions_total", "Decisions by kind and reason.",
          {{"gpu_model", model},
           {"decision", std::string(Name(KindOf(reason)))},
           {"reason", std::string(Name(reason))}});
    }
    for (const char* outcome : kOutcomes) {
      series.settled[outcome] = &registry->Counter("kernelcast_orchestrator_candidates_total",
                                                   "Evaluations settled, by outcome.",
                                                   {{"gpu_model", model}, {"outcome", outcome}});
    }
    for (const auto& [stage, name] : kStages) {
      const Labels queue = {{"gpu_model", model}, {"stage", name}};
      series.queues[stage] = {
          &registry->Gauge("kernelcast_orchestrator_queue_depth",
                           "Evaluations accepted and not settled, by what they wait for.", queue),
          &registry->Gauge("kernelcast_orchestrator_queue_oldest_age_seconds",
                           "Time since the oldest of them was accepted; 0: there are none.",
                           queue)};
    }
    const Labels labels = {{"gpu_model", model}};
    series.risk = &registry->Gauge(
        "kernelcast_orchestrator_selective_risk_ratio",
        "Share of winners among what running searches pruned or would have, estimated.", labels);
    series.risk_low = &registry->Gauge(
        "kernelcast_orchestrator_selective_risk_low_ratio",
        "Lower end of its 95% interval, in the running search where that is highest.", labels);
    series.risk_target =
        &registry->Gauge("kernelcast_orchestrator_selective_risk_target_ratio",
                         "What it may be at most: the least that a running search wants.", labels);
    series.prune_threshold = &registry->Gauge(
        "kernelcast_orchestrator_prune_threshold_ratio",
        "Highest win probability below which a running search is certified to prune.", labels);
    series.risk_alarms =
        &registry->Counter("kernelcast_orchestrator_risk_alarms_total",
                           "Times that a search found its certificates void.", labels);
    series.device_seconds_spent =
        &registry->Counter("kernelcast_orchestrator_gpu_seconds_spent_total",
                           "Time that timing leases were held.", labels);
    series.device_seconds_avoided = &registry->Counter(
        "kernelcast_orchestrator_gpu_seconds_avoided_total",
        "Pruned evaluations times the mean cost of a measured one so far.", labels);
    series.prunable =
        &registry->Counter("kernelcast_orchestrator_prunable_total",
                           "Candidates that were pruned, or audited instead.", labels);
    series.prunable_winners = &registry->Counter(
        "kernelcast_orchestrator_prunable_winners_total",
        "Those of them that were faster than the incumbent, estimated from audits.", labels);
    series.audits =
        &registry->Counter("kernelcast_orchestrator_audits_total",
                           "Candidates measured although they would be pruned.", labels);
  }
}

std::string_view OrchestratorMetrics::ModelOf(std::string_view target) const {
  return GpuModelOf(target, cuda_device_);
}

void OrchestratorMetrics::OnDecided(const Evaluation& evaluation, const Decision& decision) {
  PerModel& series = For(evaluation.candidate.target);
  series.decisions.at(decision.reason)->Increment();
  if (decision.reason == DecisionReason::kAudit) series.audits->Increment();
  if (decision.reason == DecisionReason::kAudit ||
      decision.reason == DecisionReason::kUnpromising ||
      decision.reason == DecisionReason::kLikelyFailure) {
    series.prunable->Increment();
  }
}

void OrchestratorMetrics::OnSettled(const Evaluation& evaluation,
                                    const EvaluationSettled& settled) {
  PerModel& series = For(evaluation.candidate.target);
  if (const auto* measurement = std::get_if<Measurement>(&settled.result)) {
    series.settled.at(std::string(OutcomeName(measurement->outcome)))->Increment();
    if (settled.reused) return;
    const double seconds = static_cast<double>(measurement->device_time_ns) * 1e-9;
    series.device_seconds_spent->Increment(seconds);
    series.measured += 1;
    series.device_seconds += seconds;
    const Decision& decision = *evaluation.decision;
    const Ratio* const speedup = MeasuredSpeedup(*measurement);
    if (decision.reason == DecisionReason::kAudit && speedup != nullptr &&
        speedup->value > decision.incumbent_speedup) {
      series.prunable_winners->Increment(1 / decision.audit_propensity);
    }
  } else if (std::holds_alternative<Pruned>(settled.result)) {
    series.settled.at("pruned")->Increment();
    if (series.measured > 0) {
      series.device_seconds_avoided->Increment(series.device_seconds / series.measured);
    }
  } else {
    series.settled.at("rejected")->Increment();
  }
}

void OrchestratorMetrics::OnGenerated(const GenerationSettled& settled) {
  generations_.at(settled.outcome)->Increment();
  const GenerationUsage& usage = settled.usage;
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
    const PeerFigures peers = look_at_peers_();
    workers_ready_.Set(static_cast<double>(peers.ready));
    workers_away_.Set(static_cast<double>(peers.away));
    workers_ejected_.Set(static_cast<double>(peers.ejected));
    forecasters_ready_.Set(static_cast<double>(peers.forecasters_ready));
    forecasters_away_.Set(static_cast<double>(peers.forecasters_away));
    ejections_.Increment(static_cast<double>(peers.ejections) - ejections_.Value());
    for (const auto& [reason, times] : peers.repeated_calls) {
      prometheus::Counter& counter = *repeated_calls_.at(reason);
      counter.Increment(static_cast<double>(times) - counter.Value());
    }
    // One that goes away is still the one that the last measurements were made on.
    if (!peers.cuda_device.empty()) cuda_device_ = peers.cuda_device;
  }
  ShowQueues(overview);
  ShowRisks(overview);
  ShowBest(overview);
}

void OrchestratorMetrics::ShowQueues(const EngineOverview& overview) {
  std::map<std::pair<std::string_view, Stage>, EngineOverview::Queue> merged;
  for (const EngineOverview::Queue& queue : overview.queues) {
    EngineOverview::Queue& sum = merged[{ModelOf(queue.target), queue.stage}];
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

void OrchestratorMetrics::ShowRisks(const EngineOverview& overview) {
  struct Pooled {
    double winners = 0;
    double pruned = 0;
    double low = 0;
    double target = 1;
    double threshold = 0;
  };
  std::map<std::string_view, Pooled> pooled;
  std::set<std::string_view> running;
  for (const EngineOverview::SearchFigures& search : overview.searches) {
    const RiskReport& risk = search.risk;
    // What a search had raised before it was first seen is not news.
    const auto [alarms, is_new] = alarms_.try_emplace(search.search_id, risk.alarms);
    if (risk.alarms > alarms->second) {
      For(search.target).risk_alarms->Increment(static_cast<double>(risk.alarms - alarms->second));
      alarms->second = risk.alarms;
    }
    if (search.ended_ns != 0) continue;
    running.insert(search.search_id);
    Pooled& pool = pooled[ModelOf(search.target)];
    const auto pruned = static_cast<double>(risk.selective_risk.pruned);
    pool.winners += risk.selective_risk.estimate * pruned;
    pool.pruned += pruned;
    pool.low = std::max(pool.low, risk.selective_risk.low);
    pool.target = std::min(pool.target, risk.options.alpha);
    pool.threshold = std::max(pool.threshold, risk.threshold);
  }
  std::erase_if(alarms_, [&](const auto& entry) { return !running.contains(entry.first); });
  for (auto& [model, series] : models_) {
    const auto found = pooled.find(model);
    const Pooled pool = found != pooled.end() ? found->second : Pooled();
    series.risk->Set(pool.pruned > 0 ? pool.winners / pool.pruned : 0);
    series.risk_low->Set(pool.low);
    series.risk_target->Set(found != pooled.end() ? pool.target : RiskOptions().alpha);
    series.prune_threshold->Set(pool.threshold);
  }
}

void OrchestratorMetrics::ShowBest(const EngineOverview& overview) {
  // Of several searches of a problem the best one that still runs counts, or the best that ended.
  std::map<std::pair<std::string, std::string_view>, std::pair<bool, double>> best;
  for (const EngineOverview::SearchFigures& search : overview.searches) {
    const std::string& name = search.problem_name;
    if (name.empty()) continue;
    auto& entry = best[{RoomFor(name) ? name : kOtherProblem, ModelOf(search.target)}];
    entry = std::max(entry, {search.ended_ns == 0, search.best.value});
  }
  for (const auto& [key, entry] : best) {
    const auto& [name, model] = key;
    Problem& problem = name == kOtherProblem ? other_problems_ : problems_[name];
    prometheus::Gauge*& gauge = problem.best_speedup[model];
    if (gauge == nullptr) {
      gauge = &registry_->Gauge(kBestSpeedup,
                                "Speedup of the best kernel of the problem's running searches, or "
                                "of the last ones that ended; 0: none yet.",
                                {{"gpu_model", std::string(model)}, {"problem", name}});
    }
    gauge->Set(entry.second);
  }
}

bool OrchestratorMetrics::RoomFor(const std::string& name) {
  if (name == kOtherProblem) return false;
  const auto known = problems_.find(name);
  if (known == problems_.end() && problems_.size() >= kMaxProblems) {
    // The one that has not been searched for longest goes, unless all are being searched.
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
