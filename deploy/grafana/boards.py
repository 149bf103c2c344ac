#!/usr/bin/env python3
"""Writes the boards: deploy/grafana/boards.py [FOLDER], by default the folder dashboards next to it.

A board is a list of rows, a row a title and its panels from left to right, 24 columns wide. panels.py makes the panels.
"""

import json
import os
import sys

from panels import (
    BLUE, DATASOURCE, GREEN, GREY, RED, YELLOW, bars, by_model, heatmap, lines, mean, panel, quantiles, stat, steps)

HERE = os.path.dirname(os.path.abspath(__file__))


# --- Panels shared by several boards -------------------------------------------------------------

def defer_rate(width=12):
    return lines(
        "Defer rate by GPU", "Share of candidates measured because the forecast is unsure. High: GPUs measure what "
        "forecasts should prune. Suddenly low: forecasts have become confident; check the calibration.",
        "percentunit",
        [("{{gpu_model}}",
          'sum by (gpu_model) (rate(kernelcast_orchestrator_decisions_total{reason=~"low_confidence|declined"}'
          "[$__rate_interval]))"
          " / (sum by (gpu_model) (rate(kernelcast_orchestrator_candidates_decided_total[$__rate_interval])) > 0)"),
         ("{{gpu_model}} over 1 h",
          "avg by (gpu_model) (instance_gpu_model:kernelcast_orchestrator_defer:ratio_rate1h)")],
        limit=0.6, width=width, height=9, runbook="KernelcastDeferRateHigh")


def decisions_by_reason(width=12):
    return lines(
        "Decisions by reason", "Warm colours: measured. Cold: pruned. Grey: rejected without either.", "cps",
        [("{{reason}}", "sum by (reason) (rate(kernelcast_orchestrator_decisions_total[$__rate_interval])) > 0")],
        stacked=True, width=width, height=9, runbook="KernelcastDeferRateCollapsed")


def prune_rate(width=8):
    return lines(
        "Prune rate by GPU", "Share of decisions that a forecast settled, without a GPU.", "percentunit",
        [("{{gpu_model}}",
          'sum by (gpu_model) (rate(kernelcast_orchestrator_decisions_total{decision="prune"}[$__rate_interval]))'
          " / (sum by (gpu_model) (rate(kernelcast_orchestrator_decisions_total[$__rate_interval])) > 0)")],
        width=width)


def selective_risk(width=8):
    used = "kernelcast_orchestrator_candidates_total"
    return lines(
        "Selective risk and limit", "Share of winners among pruned candidates, estimated by audits. An "
        "alert fires when the lower end of the interval exceeds the limit.", "percentunit",
        [("{{gpu_model}} now", by_model(used, "max by (gpu_model) (kernelcast_orchestrator_selective_risk_ratio)")),
         ("{{gpu_model}} at least",
          by_model(used, "max by (gpu_model) (kernelcast_orchestrator_selective_risk_low_ratio)")),
         ("{{gpu_model}} over 6 h",
          "max by (gpu_model) (instance_gpu_model:kernelcast_orchestrator_selective_risk:ratio_rate6h)"),
         ("limit", "min(kernelcast_orchestrator_selective_risk_limit_ratio)")],
        width=width, runbook="KernelcastRiskAboveLimit", defaults={"max": None},
        overrides=[{"matcher": {"id": "byName", "options": "limit"},
                    "properties": [{"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [8, 8]}}]}])


def reliability(width=8):
    probability = "kernelcast_forecaster_calibration_probability_total"
    outcomes = "kernelcast_forecaster_calibration_outcomes_total"
    total = f"(sum by (bucket) (increase({outcomes}[$__range])) > 0)"
    return bars(
        "Reliability diagram", "Forecast and observed share of correct predictions, for each tenth of probability. Equal bars are "
        "calibrated. Where the observed share is lower, forecasts are overconfident.", "percentunit",
        [("forecast", f"sum by (bucket) (increase({probability}[$__range])) / {total}"),
         ("observed", f'sum by (bucket) (increase({outcomes}{{outcome="hit"}}[$__range])) / {total}')],
        "bucket", width=width, runbook="KernelcastCalibrationDrift", defaults={"max": 1})


def calibration_error(width=8):
    return lines(
        "Calibration error", "Expected calibration error over 6 hours: mean difference between the share of "
        "correct forecasts and their probability.", "percentunit",
        [("{{target}} {{instance}}", "instance_target:kernelcast_forecaster_calibration_error:ratio_increase6h")],
        limit=0.15, width=width, runbook="KernelcastCalibrationDrift", defaults={"max": None})


def confidence(width=8):
    return heatmap(
        "Confidence", "Forecasts by the probability of the predicted bin. A single column over time: the same "
        "answer for everything.",
        "sum by (le) (increase(kernelcast_forecaster_forecast_confidence_bucket[$__rate_interval]))", width=width)


def queue_depth(width=8):
    return lines(
        "Queue", "Accepted candidates that are not settled, by stage.", "short",
        [("{{stage}}", "sum by (stage) (kernelcast_orchestrator_queue_depth)")], stacked=True, width=width,
        runbook="KernelcastQueueStale")


def queue_age(width=8):
    return lines(
        "Age of the oldest candidate", "By stage. A measurement is abandoned after 10 minutes.", "s",
        [("{{stage}}", "max by (stage) (kernelcast_orchestrator_queue_oldest_age_seconds)")], limit=1200, width=width,
        runbook="KernelcastQueueStale")


def slots(width=8):
    return lines(
        "Slots in use", "Requests running or queued on workers, compared with the maximum that they accept.", "short",
        [("{{kind}} in use", "sum by (kind) (kernelcast_worker_slots_in_use)"),
         ("{{kind}} of", "sum by (kind) (kernelcast_worker_slots)")], width=width)


def measure_duration(width=8):
    return lines(
        "Measurement latency", "Time to verify and time a candidate, including the wait for the timing lease.", "s",
        quantiles("kernelcast_worker_measure_duration_seconds", ["gpu_model"]), limit=120, width=width,
        runbook="KernelcastMeasureLatencyHigh")


def measurement_results(width=8):
    return lines(
        "Measurements by result", "environment_unstable: noise. error: caused by the worker. All others: caused by "
        "the candidates.",
        "cps",
        [("{{result}}", "sum by (result) (rate(kernelcast_worker_measurements_total[$__rate_interval]))")],
        stacked=True, width=width, runbook="KernelcastMeasurementsNoisy")


def gpu_time(width=8):
    spent, avoided = (f"kernelcast_orchestrator_gpu_seconds_{what}_total" for what in ("spent", "avoided"))
    return lines(
        "GPU time", "Device time by purpose, and the estimated time for measuring the pruned candidates, in "
        "seconds per second.",
        "none",
        [("{{phase}}", f"sum by (phase) (rate({spent}[$__rate_interval]))"),
         ("avoided", f"sum(rate({avoided}[$__rate_interval]))")],
        stacked=True, width=width)


def best_speedup(width=12):
    made = panel(
        "bargauge", "Best speedup by problem", "Best kernel of each problem's running searches, or of the last "
        "search, relative to the problem's reference.", "none",
        [("{{problem}} {{gpu_model}}",
          "sort_desc(max by (problem, gpu_model) (kernelcast_orchestrator_best_speedup_ratio))")],
        width=width, defaults={"decimals": 2, "thresholds": steps((None, GREY), (1.02, YELLOW), (1.5, GREEN))})
    made["options"] = {"orientation": "horizontal", "displayMode": "basic", "reduceOptions": {"calcs": ["lastNotNull"]}}
    return made


def service_panels():
    return [
        lines("Calls refused", "By reason: the token is missing or unknown, lacks the role, or exceeds its call rate. "
              "No data: tokens are not required.", "reqps",
              [("{{reason}} {{instance}}",
                "sum by (reason, instance) (rate(kernelcast_auth_refused_calls_total[$__rate_interval]))")],
              stacked=True, width=12, runbook="KernelcastCallsRefused"),
        lines("Spans", "Completed spans, by whether they were exported. No data: tracing is off.", "cps",
              [("{{outcome}} {{instance}}",
                "sum by (outcome, instance) (rate(kernelcast_tracing_spans_total[$__rate_interval]))")],
              stacked=True, width=12),
    ]


def state_disk(note=""):
    return lines("Disk of the state", "Free and used space on the file system with the service's state." + note, "bytes",
                 [("{{instance}} free", "kernelcast_state_disk_free_bytes"),
                  ("{{instance}} used", "kernelcast_state_disk_used_bytes")],
                 width=24, runbook="KernelcastStateDiskFilling")


def rpc_panels(job):
    return [
        lines("Calls by method", f"Calls completed by the {job}.", "reqps",
              [("{{grpc_method}}",
                'sum by (grpc_method) (rate(kernelcast_grpc_server_handled_total{grpc_service=~"kernelcast.+"}'
                "[$__rate_interval])) > 0")]),
        lines("Calls by status", "Calls with a status other than OK.", "reqps",
              [("{{grpc_code}}",
                'sum by (grpc_code) (rate(kernelcast_grpc_server_handled_total{grpc_service=~"kernelcast.+",grpc_code!="OK"}'
                "[$__rate_interval]))")],
              stacked=True, runbook="KernelcastRpcErrorBudgetBurnFast"),
        lines("Call latency", "99th percentile. A call that watches a search lasts as long as the search.", "s",
              [("{{grpc_method}}",
                "histogram_quantile(0.99, sum by (le, grpc_method) "
                '(rate(kernelcast_grpc_server_handling_seconds_bucket{grpc_service=~"kernelcast.+"}[$__rate_interval])))'
                " >= 0")]),
        *service_panels(),
    ]


def of_both(legend, metric, expression):
    """The same of the forecaster and of the orchestrator, which both may have endpoints."""
    return [(f"{service} {legend}".strip(), expression.replace(metric, f"kernelcast_{service}_llm_{metric}"))
            for service in ("forecaster", "orchestrator")]


def llm_panels(service):
    prefix = f"kernelcast_{service}_llm"
    rate = "[$__rate_interval]"
    return [
        lines("Requests by result", "Requests to endpoints, including retries.", "reqps",
              [("{{endpoint}} {{result}}", f"sum by (endpoint, result) (rate({prefix}_attempts_total{rate})) > 0")],
              stacked=True, runbook="KernelcastLlmEndpointErrors"),
        lines("Request latency", "From sending the request to the end of the answer.", "s",
              quantiles(f"{prefix}_attempt_duration_seconds", ["endpoint"])),
        lines("Time to first token", "From sending the request.", "s",
              quantiles(f"{prefix}_first_token_seconds", ["endpoint"])),
        lines("Calls by result", "A call is one or more requests.", "reqps",
              [("{{result}}", f"sum by (result) (rate({prefix}_calls_total{rate})) > 0")], stacked=True),
        lines("Pending calls", "Unfinished calls; calls without a request in flight; rejected calls.", "short",
              [("pending", f"sum({prefix}_pending_calls)"), ("queued", f"sum({prefix}_queued_calls)"),
               ("refused in 5 min", f"sum(increase({prefix}_calls_overloaded_total[5m]))")]),
        lines("Queueing time", "Time that calls wait because of the endpoints' limits.", "s", quantiles(f"{prefix}_queue_wait_seconds", [])),
        lines("Retries and hedges", "Retries by reason, second requests because the first was slow (hedges), and "
              "retries denied by their budget.", "reqps",
              [("retry: {{reason}}", f"sum by (reason) (rate({prefix}_retries_total{rate})) > 0"),
               ("hedge", f"sum(rate({prefix}_hedges_total{rate}))"),
               ("hedge won", f"sum(rate({prefix}_hedges_won_total{rate}))"),
               ("denied", f"sum(rate({prefix}_retries_denied_total{rate}))")]),
        lines("Tokens", "As counted by endpoints. cached_input is part of input.", "cps",
              [("{{endpoint}} {{kind}}", f"sum by (endpoint, kind) (rate({prefix}_tokens_total{rate}))")]),
        lines("Cost", "Cost per hour at the current rate, by the configured prices; 0 without prices.", "none",
              [("{{endpoint}}", f"sum by (endpoint) (rate({prefix}_cost_total{rate})) * 3600")]),
        lines("Requests in flight", "Requests in flight, and the concurrency limit, which adapts to the endpoint.", "short",
              [("{{endpoint}}", f"sum by (endpoint) ({prefix}_in_flight)"),
               ("{{endpoint}} of", f"sum by (endpoint) ({prefix}_concurrency_limit)")]),
        lines("Breaker", "0: closed. 1: open. 2: half-open, trying one request.", "short",
              [("{{endpoint}}", f"max by (endpoint) ({prefix}_breaker_state)")], limit=1,
              runbook="KernelcastLlmBreakerOpen"),
        lines("Answers without usage", "Answers without a token count: the cost is higher than shown.", "cps",
              [("{{endpoint}}", f"sum by (endpoint) (rate({prefix}_answers_without_usage_total{rate}))")]),
    ]


# --- Boards ---------------------------------------------------------------------------------------

def overview():
    good_if_any = [(None, RED), (1, GREEN)]
    good_if_none = [(None, GREEN), (1, RED)]
    rate = "[$__rate_interval]"
    return board("Kernelcast: overview", "overview", "kernelcast_build_info", [
        ("Now", [
            stat("Alerts", "Firing alerts of Kernelcast.", "short",
                 'count(ALERTS{alertname=~"Kernelcast.+", alertstate="firing"}) or vector(0)', good_if_none),
            stat("Services", "Services that Prometheus scrapes.", "short", "count(kernelcast_build_info)", good_if_any,
                 runbook="KernelcastServiceDown"),
            stat("Workers", "Workers that orchestrators can reach.", "short",
                 'sum(kernelcast_orchestrator_workers{state="ready"})', good_if_any, runbook="KernelcastPoolDown"),
            stat("Searches", "Searches that have not ended.", "short", "sum(kernelcast_orchestrator_running_searches)",
                 [(None, BLUE)]),
            stat("Defer rate", "Over the last hour, over all GPUs.", "percentunit",
                 'sum(rate(kernelcast_orchestrator_decisions_total{reason=~"low_confidence|declined"}[1h]))'
                 " / (sum(rate(kernelcast_orchestrator_candidates_decided_total[1h])) > 0)",
                 [(None, GREEN), (0.4, YELLOW), (0.6, RED)], runbook="KernelcastDeferRateHigh"),
            stat("GPU time avoided", "Share of the time for measuring everything, over the last hour.", "percentunit",
                 "sum(rate(kernelcast_orchestrator_gpu_seconds_avoided_total[1h])) / "
                 "(sum(rate(kernelcast_orchestrator_gpu_seconds_avoided_total[1h])) "
                 "+ sum(rate(kernelcast_orchestrator_gpu_seconds_spent_total[1h])) > 0)",
                 [(None, YELLOW), (0.3, GREEN)]),
        ]),
        ("Decisions", [defer_rate(), decisions_by_reason(), prune_rate(), selective_risk(), gpu_time()]),
        ("Calibration", [reliability(), calibration_error(), confidence()]),
        ("Work", [queue_depth(), queue_age(), slots(), measure_duration(), measurement_results(), best_speedup(8)]),
        ("Language models", [
            lines("Tokens", "For the forecaster's questions and for writing kernels. cached_input is part of input.",
                  "cps", of_both("{{kind}}", "tokens_total", f"sum by (kind) (rate(tokens_total{rate}))")),
            lines("Cost", "Cost per hour at the current rate, by the configured prices.", "none",
                  of_both("{{endpoint}}", "cost_total", f"sum by (endpoint) (rate(cost_total{rate})) * 3600")),
            lines("Retries and cache", "Retries, and the share of the forecaster's questions answered from the "
                  "cache.",
                  "none",
                  [*of_both("retries per second", "retries_total", f"sum(rate(retries_total{rate}))"),
                   ("answers known",
                    f'sum(rate(kernelcast_forecaster_llm_cache_total{{use!="miss"}}{rate}))'
                    f" / (sum(rate(kernelcast_forecaster_llm_cache_total{rate})) > 0)")]),
        ]),
    ])


def orchestrator():
    used = "kernelcast_orchestrator_candidates_total"
    shared = "kernelcast_orchestrator_leases_renewed_timestamp_seconds"  # 0: one with its own log
    rate = "[$__rate_interval]"
    return board("Kernelcast: orchestrator", "orchestrator", "kernelcast_orchestrator_log_events", [
        ("Decisions", [
            defer_rate(), decisions_by_reason(),
            lines("Candidates by outcome", "Evaluations settled.", "cps",
                  [("{{outcome}}", f"sum by (outcome) (rate(kernelcast_orchestrator_candidates_total{rate}))")],
                  stacked=True),
            prune_rate(), gpu_time(),
        ]),
        ("Risk", [
            selective_risk(),
            lines("Threshold", "Highest win probability below which a running search is certified to prune; 0: no "
                  "search is.",
                  "percentunit",
                  [("{{gpu_model}}", by_model(used, "max by (gpu_model) (kernelcast_orchestrator_prune_threshold_ratio)"))]),
            lines("Audits and alarms", "Audited candidates, candidates that were or would have been pruned, and "
                  "revoked certificates.", "cps",
                  [("audited", f"sum(rate(kernelcast_orchestrator_audits_total{rate}))"),
                   ("prunable", f"sum(rate(kernelcast_orchestrator_prunable_total{rate}))"),
                   ("alarms", f"sum(rate(kernelcast_orchestrator_risk_alarms_total{rate}))")],
                  runbook="KernelcastRiskAboveLimit"),
        ]),
        ("Work", [
            queue_depth(), queue_age(),
            lines("Workers", "Known workers by state. ejected: excluded for a while because calls to them fail.",
                  "short", [("{{state}} {{instance}}", "kernelcast_orchestrator_workers")], runbook="KernelcastWorkersAway"),
            lines("Forecasters", "Known forecasters by state. ejected: excluded for a while because calls to them fail. None "
                  "ready: everything is measured.", "short",
                  [("{{state}} {{instance}}", "kernelcast_orchestrator_forecasters")],
                  runbook="KernelcastForecasterAway"),
            lines("Repeated calls to workers", "lost: the worker was lost. failed: it returned an "
                  "error. handed_back: it drains. refused: it had no free slot.", "cps",
                  [("{{reason}}", f"sum by (reason) (rate(kernelcast_orchestrator_worker_calls_repeated_total{rate}))")],
                  stacked=True, runbook="KernelcastWorkersEjected"),
            lines("Worker ejections", "Ejections within 5 minutes, because calls failed.", "short",
                  [("{{instance}}", "increase(kernelcast_orchestrator_worker_ejections_total[5m])")],
                  runbook="KernelcastWorkersEjected"),
            lines("Searches", "Running searches, and candidates in flight.", "short",
                  [("searches", "sum(kernelcast_orchestrator_running_searches)"),
                   ("in flight", "sum(kernelcast_orchestrator_candidates_in_flight)")]),
            lines("Pending labels", "Labels that the forecaster has not yet written to disk.", "short",
                  [("{{instance}}", "kernelcast_orchestrator_pending_labels")], runbook="KernelcastLabelsPending"),
            lines("Event log", "Events appended.", "cps",
                  [("{{instance}}", "deriv(kernelcast_orchestrator_log_events[5m])")]),
            state_disk(" The orchestrator stops when it is full. No data: the log is in a database."),
            best_speedup(24),
        ]),
        ("Shared event log", [
            lines("Shards by holder", "Shards of the log in the database. unserved: held by no "
                  "orchestrator, or by one that cannot serve them yet; their searches stop.", "short",
                  [("{{instance}}", f"kernelcast_orchestrator_shards_held and {shared} > 0"),
                   ("unserved", f"max(kernelcast_orchestrator_shards_unserved and {shared} > 0)")],
                  stacked=True, runbook="KernelcastShardsUnserved", overrides=[
                      {"matcher": {"id": "byName", "options": "unserved"},
                       "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": RED}}]}]),
            lines("Time since lease renewal", "After the lease time, 10 s by default, an orchestrator serves "
                  "nothing and others take its shards.", "s",
                  [("{{instance}}", f"time() - ({shared} > 0)")], limit=60, runbook="KernelcastLeasesNotRenewed"),
            lines("Lease renewals", "failed: the database did not answer in time.", "cps",
                  [("{{instance}} {{result}}", f"rate(kernelcast_orchestrator_lease_renewals_total{rate}) > 0")],
                  runbook="KernelcastLeasesNotRenewed"),
            lines("Shard transfers", "Within 5 minutes. taken: unheld, or from an orchestrator that is "
                  "gone. lost: the lease expired. failed: could not be opened or written.", "short",
                  [(f"{{{{instance}}}} {name}", f"increase(kernelcast_orchestrator_shards_{name}_total[5m])")
                   for name in ("taken", "lost", "failed")], runbook="KernelcastShardsChangeHands"),
            lines("Forwarded calls", "Calls forwarded to the orchestrator that holds their shard. All calls: "
                  "clients call only one orchestrator.", "reqps",
                  [("{{instance}}", f"rate(kernelcast_orchestrator_forwarded_calls_total{rate})")]),
            lines("Orchestrators", "Orchestrators that are alive and not draining, as seen by each of them.", "short",
                  [("{{instance}}", f"kernelcast_orchestrator_replicas and {shared} > 0")],
                  runbook="KernelcastServiceDown"),
        ]),
        ("Generated kernels", [
            lines("Generated kernels by outcome", "Requests to a model for a kernel, by outcome.", "cps",
                  [("{{outcome}}", f"sum by (outcome) (rate(kernelcast_orchestrator_generations_total{rate}))")],
                  stacked=True),
            lines("Faults of answers", "Why no kernel could be read from an answer.", "cps",
                  [("{{fault}}", f"sum by (fault) (rate(kernelcast_orchestrator_generation_faults_total{rate}))")],
                  stacked=True),
            lines("Tokens for kernels", "Tokens for writing kernels, and kernel requests in flight.", "short",
                  [("{{kind}} per second", f"sum by (kind) (rate(kernelcast_orchestrator_generation_tokens_total{rate}))"),
                   ("asked for", "sum(kernelcast_orchestrator_generations_in_flight)")]),
            *llm_panels("orchestrator"),
        ]),
        ("Calls", rpc_panels("orchestrator")),
    ])


def forecaster():
    rate = "[$__rate_interval]"
    return board("Kernelcast: forecaster", "forecaster", "kernelcast_forecaster_pending_writes", [
        ("Calibration", [
            reliability(), calibration_error(),
            lines("Overconfidence", "Forecast minus observed share, over 6 hours. Above 0: overconfident. Below: underconfident.",
                  "percentunit",
                  [("{{target}} {{instance}}", "instance_target:kernelcast_forecaster_overconfidence:ratio_increase6h")],
                  defaults={"min": None, "max": None}, runbook="KernelcastCalibrationDrift"),
            confidence(),
            lines("Brier score by backend", "Forecasts that were decided on, scored by later labels. 0 is best.", "none",
                  [("{{backend}} {{target}}", mean("kernelcast_forecaster_brier_score", "backend, target"))]),
            lines("CRPS by backend", "The same, but near misses count less. 0 is best.", "none",
                  [("{{backend}} {{target}}", mean("kernelcast_forecaster_crps_score", "backend, target"))]),
        ]),
        ("Forecasts", [
            lines("Forecasts by backend", "Forecasts and abstentions.", "reqps",
                  [("{{backend}}",
                    f"sum by (backend) (rate(kernelcast_forecaster_forecast_duration_seconds_count{rate}))")]),
            lines("Forecast latency", "The embedded backend makes no calls; models may take seconds.", "s",
                  quantiles("kernelcast_forecaster_forecast_duration_seconds", ["backend"]),
                  runbook="KernelcastForecastSlow"),
            lines("Labels", "Accepted labels, by outcome of the candidate.", "cps",
                  [("{{outcome}}", f"sum by (outcome) (rate(kernelcast_forecaster_labels_total{rate}))")], stacked=True),
            lines("Pending writes", "Calls waiting for their labels or problem to be on disk.", "short",
                  [("{{instance}}", "kernelcast_forecaster_pending_writes")], runbook="KernelcastLabelsPending"),
            lines("Weight of the model in the pool", "Relative to the embedded backend. Learnt from labels.", "percentunit",
                  [("{{target}} {{gpu_model}}", "avg by (target, gpu_model) (kernelcast_forecaster_pool_llm_weight)")]),
            lines("Questions to the pool", "settled: the embedded backend was confident by itself.", "reqps",
                  [("{{result}}", f"sum by (result) (rate(kernelcast_forecaster_pool_questions_total{rate}))")],
                  stacked=True),
        ]),
        ("Answers of language models", [
            lines("Questions by result", "forecast: answered. The others abstain, and the pool falls back to the "
                  "embedded backend.", "reqps",
                  [("{{result}}", f"sum by (result) (rate(kernelcast_forecaster_llm_questions_total{rate}))")], stacked=True),
            lines("Cache", "hit: cached. coalesced: already in flight. miss: sent to the model.", "reqps",
                  [("{{use}}", f"sum by (use) (rate(kernelcast_forecaster_llm_cache_total{rate}))")], stacked=True),
            lines("Answers by form", "By requested form, from the strictest down, and whether they could be parsed.", "reqps",
                  [("{{rung}} {{outcome}}",
                    f"sum by (rung, outcome) (rate(kernelcast_forecaster_llm_answers_total{rate})) > 0")], stacked=True),
            lines("Faults of answers", "Why answers could not be parsed.", "reqps",
                  [("{{fault}}", f"sum by (fault) (rate(kernelcast_forecaster_llm_faults_total{rate}))")], stacked=True),
            lines("Sum of probabilities", "Sum in an answer before normalisation. 1 is correct.", "none",
                  [("mean", mean("kernelcast_forecaster_llm_probability_sum", "job"))]),
            *llm_panels("forecaster"),
        ]),
        ("State", [state_disk(" When it is full, labels are not kept.")]),
        ("Calls", rpc_panels("forecaster")),
    ])


def worker():
    rate = "[$__rate_interval]"
    return board("Kernelcast: worker", "worker", "kernelcast_worker_slots", [
        ("Measuring", [
            measure_duration(), measurement_results(),
            lines("Measurement queueing time", "Time in the worker's queue.", "s",
                  quantiles("kernelcast_worker_measure_queue_wait_seconds", ["gpu_model"])),
            lines("Interval width", "Width of the interval of measured speedups, relative to the speedup: the "
                  "repeatability of measurements.",
                  "percentunit", quantiles("kernelcast_worker_speedup_interval_ratio", ["gpu_model"]),
                  runbook="KernelcastMeasurementsNoisy", defaults={"max": None}),
            lines("Failed measurements", "Over 30 minutes: noise and worker errors.", "percentunit",
                  [("{{instance}} {{gpu_model}} {{result}}",
                    "instance_gpu_model_result:kernelcast_worker_measurements:ratio_increase30m"
                    '{result=~"environment_unstable|error"}')],
                  limit=0.1, runbook="KernelcastMeasurementsFailing", defaults={"max": None}),
            slots(),
        ]),
        ("Compiling", [
            lines("Compiles by result", "cached: compiled earlier.", "cps",
                  [("{{result}}", f"sum by (result) (rate(kernelcast_worker_compiles_total{rate}))")], stacked=True),
            lines("Compile latency", "Cached and new compiles.", "s",
                  quantiles("kernelcast_worker_compile_duration_seconds", ["gpu_model"])),
            lines("Compile queueing time", "Time in the worker's queue.", "s",
                  quantiles("kernelcast_worker_compile_queue_wait_seconds", ["gpu_model"])),
            state_disk(" The worker keeps compiled candidates there."),
        ]),
        ("Device", [
            lines("Devices in service", "0 after a device has failed; the worker tries it again.", "short",
                  [("{{instance}} {{gpu_model}} {{gpu}}", "kernelcast_worker_device_up")], width=24,
                  runbook="KernelcastGpuFailed"),
            lines("Clock", "Lowest seen during the last measurement.", "hertz",
                  [("{{instance}} {{gpu_model}} {{gpu}}", "kernelcast_worker_clock_hertz")], runbook="KernelcastGpuThrottled"),
            lines("Temperature", "After the last measurement.", "celsius",
                  [("{{instance}} {{gpu_model}} {{gpu}}", "kernelcast_worker_temperature_celsius")], limit=85,
                  runbook="KernelcastGpuThrottled"),
            lines("Power", "After the last measurement.", "watt",
                  [("{{instance}} {{gpu_model}} {{gpu}}", "kernelcast_worker_power_watts")]),
            lines("Throttled measurements", "During which something slowed the clocks down, by what.", "cps",
                  [("{{reason}}", f"sum by (reason) (rate(kernelcast_worker_throttled_total{rate}))")], stacked=True,
                  width=24, runbook="KernelcastGpuThrottled"),
        ]),
        ("Calls", rpc_panels("worker")),
    ])


def gateway():
    rate = "[$__rate_interval]"
    requests = 'kernelcast_gateway_requests_total{dialect!="none"'
    return board("Kernelcast: gateway", "gateway", "kernelcast_gateway_tasks_pending", [
        ("Tasks", [
            lines("Tasks by outcome", "Tasks that have ended. no_verdict: the orchestrator was away or busy for long, or the machine "
                  "was too noisy. All others: caused by the candidates.", "cps",
                  [("{{outcome}}", f"sum by (outcome) (rate(kernelcast_gateway_tasks_total{rate}))")], stacked=True,
                  runbook="KernelcastGatewayTasksUnjudged"),
            lines("Tasks without a verdict", "Share of the ended tasks, over 30 minutes.", "percentunit",
                  [("{{instance}}", "instance:kernelcast_gateway_tasks_without_verdict:ratio_increase30m")],
                  limit=0.2, runbook="KernelcastGatewayTasksUnjudged", defaults={"max": None}),
            lines("Pending tasks", "Tasks that have not ended. From --max-pending on, submissions are refused with status 429.", "short",
                  [("{{instance}}", "kernelcast_gateway_tasks_pending")], runbook="KernelcastGatewayBusy"),
            lines("Joined submissions", "Submissions that were repeated, and joined the first.", "cps",
                  [("{{dialect}}", f"sum by (dialect) (rate(kernelcast_gateway_tasks_joined_total{rate}))")], stacked=True, width=12),
            lines("Repeated calls to the orchestrator", "Calls that were made again, because it was away, busy or slow.", "cps",
                  [("{{instance}}", f"sum by (instance) (rate(kernelcast_gateway_repeated_calls_total{rate}))")], width=12,
                  runbook="KernelcastGatewayTasksUnjudged"),
        ]),
        ("Requests", [
            lines("Requests by API", "HTTP requests answered. none: health, and paths of no API.", "reqps",
                  [("{{dialect}}", f"sum by (dialect) (rate(kernelcast_gateway_requests_total{rate})) > 0")], stacked=True),
            lines("Requests by status", "Without those for health. 5xx: the gateway or the orchestrator is at fault.", "reqps",
                  [("{{code}}", f"sum by (code) (rate({requests}}}{rate}))")], stacked=True, runbook="KernelcastGatewayErrors"),
            lines("Failed requests", "Share of the answered requests with a status of 500 or more.", "percentunit",
                  [("{{instance}}", f'sum by (instance) (rate({requests},code="5xx"}}{rate}))'
                    f" / (sum by (instance) (rate({requests}}}{rate})) > 0)")],
                  limit=0.05, runbook="KernelcastGatewayErrors", defaults={"max": None}),
            lines("Request latency", "From the end of a request's body to its reply. Many requests wait for their task.", "s",
                  quantiles("kernelcast_gateway_request_seconds", ["dialect"]), width=24),
        ]),
        ("Service", [*service_panels(), state_disk()]),
    ])


def variable(name, query):
    return {"name": name, "label": name, "type": "query", "datasource": DATASOURCE, "definition": query,
            "query": {"query": query, "refId": name}, "multi": True, "includeAll": True, "allValue": ".+",
            "current": {"text": ["All"], "value": ["$__all"]}, "refresh": 2, "sort": 1}


def board(title, name, source, rows):
    """`source` is a metric that the instances which the board is about have."""
    panels = []
    y = 0
    for row_title, row in rows:
        panels.append({"type": "row", "title": row_title, "collapsed": False, "panels": [],
                       "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}})
        y += 1
        x = height = 0
        for one in row:
            if x + one["gridPos"]["w"] > 24:
                y, x, height = y + height, 0, 0
            one["gridPos"].update(x=x, y=y)
            x += one["gridPos"]["w"]
            height = max(height, one["gridPos"]["h"])
            panels.append(one)
        y += height
    for index, one in enumerate(panels):
        one["id"] = index + 1
    return name, {
        "uid": f"kernelcast-{name}", "title": title, "tags": ["kernelcast"], "editable": False, "schemaVersion": 39,
        "time": {"from": "now-1h", "to": "now"}, "refresh": "30s", "timezone": "browser", "graphTooltip": 1,
        "links": [{"type": "dashboards", "tags": ["kernelcast"], "title": "Kernelcast", "asDropdown": False,
                   "keepTime": True, "includeVars": False}],
        "annotations": {"list": []},
        "templating": {"list": [
            {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1},
            variable("job", f"label_values({source}, job)"),
            variable("instance", f'label_values({source}{{job=~"$job"}}, instance)'),
            # Base URL of docs/howto/operations.md for links in panels.
            {"name": "runbooks", "label": "Runbooks", "type": "constant", "query": "docs/howto/operations.md", "hide": 2},
        ]},
        "panels": panels,
    }


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "dashboards")
    os.makedirs(folder, exist_ok=True)
    for name, made in (overview(), orchestrator(), forecaster(), worker(), gateway()):
        with open(os.path.join(folder, f"kernelcast-{name}.json"), "w", encoding="utf-8") as file:
            json.dump(made, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
