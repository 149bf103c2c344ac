#!/usr/bin/env python3
"""Writes the boards: deploy/grafana/boards.py [FOLDER], the folder dashboards beside it unless told.

A board is a list of rows, a row a title and its panels from left to right, 24 columns wide. A panel's queries are PromQL
without the matchers of the variables job and instance, which every selector gets.
"""

import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
SELECTOR = re.compile(r"((?:\b[a-z_]+:)?\b(?:kernelcast_\w+(?::\w+)?|ALERTS))(?:\{([^}]*)\})?(?![\w:])")

# What a colour means is the same everywhere.
GREEN, YELLOW, ORANGE, RED, BLUE, PURPLE, GREY = (
    "green", "yellow", "orange", "red", "blue", "purple", "#8e8e8e")
COLOURS = {
    # Decisions, by reason: what is measured is warm, what is not is cold, what is rejected is grey.
    "low_confidence": ORANGE, "promising": GREEN, "audit": PURPLE, "no_forecast": RED, "bootstrap": YELLOW,
    "requested": "light-yellow", "unpromising": BLUE, "likely_failure": "light-blue", "budget_pace": "dark-blue",
    "forecast_only": "semi-dark-blue", "reused": "light-green", "compile_error": GREY, "duplicate": "#a0a0a0",
    "budget": "#b8b8b8", "cancelled": "#c8c8c8", "unavailable": "dark-red",
    # Results.
    "ok": GREEN, "success": GREEN, "cached": "light-green", "wrong_result": ORANGE, "crash": "dark-orange",
    "timeout": YELLOW, "exploit": PURPLE, "environment_unstable": RED, "error": "dark-red", "stopped": GREY,
    "pruned": BLUE, "rejected": GREY,
    "target": RED, "given": GREY, "came true": BLUE, "spent": ORANGE, "avoided": BLUE,
}


def select(expression):
    """The expression with the matchers of the variables in every selector."""
    def with_matchers(match):
        given = match.group(2)
        return match.group(1) + '{' + (given + ", " if given else "") + 'job=~"$job", instance=~"$instance"}'
    return SELECTOR.sub(with_matchers, " ".join(expression.split()))


def by_model(metric, expression):
    """Only of GPU models that the metric has counted something of: the others are there, as 0."""
    return f"{expression} and on (gpu_model) (sum by (gpu_model) ({metric}) > 0)"


def quantiles(metric, labels, window="$__rate_interval"):
    """Medians and 99th percentiles, (legend, expression), of those that were observed at all."""
    legend = " ".join("{{%s}}" % label for label in labels)
    inner = f"sum by ({', '.join(('le', *labels))}) (rate({metric}_bucket[{window}]))"
    return [(f"{legend} {name}".strip(), f"histogram_quantile({quantile}, {inner}) >= 0")
            for name, quantile in (("p50", 0.5), ("p99", 0.99))]


def mean(metric, labels, window="$__rate_interval"):
    return (f"sum by ({labels}) (rate({metric}_sum[{window}]))"
            f" / (sum by ({labels}) (rate({metric}_count[{window}])) > 0)")


def panel(kind, title, description, unit, queries, width=8, height=8, runbook=None, **more):
    """`queries` is a list of (legend, expression); `runbook` an alert's name."""
    instant = kind in ("stat", "barchart", "bargauge")
    table = kind == "barchart"
    targets = []
    for index, (legend, expression) in enumerate(queries):
        target = {"datasource": DATASOURCE, "expr": select(expression), "legendFormat": legend,
                  "refId": chr(ord("A") + index), "instant": instant, "range": not instant}
        if kind == "heatmap":
            target["format"] = "heatmap"
        if table:
            target["format"] = "table"
        targets.append(target)
    made = {
        "type": kind, "title": title, "description": description, "datasource": DATASOURCE, "targets": targets,
        "gridPos": {"w": width, "h": height},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "options": {},
    }
    if runbook:
        made["links"] = [{"title": f"Runbook: {runbook}", "url": "${runbooks}#" + runbook.lower(), "targetBlank": True}]
    made["fieldConfig"]["defaults"].update(more.pop("defaults", {}))
    made["fieldConfig"]["overrides"] += more.pop("overrides", [])
    made.update(more)
    return made


def fixed_colours(queries):
    """For names that have a colour, wherever they come from."""
    return [{"matcher": {"id": "byName", "options": name},
             "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}]}
            for name, colour in COLOURS.items()
            if any(name == legend or "{{reason}}" == legend or "{{result}}" == legend or "{{outcome}}" == legend
                   for legend, _ in queries)]


def steps(*pairs):
    return {"mode": "absolute", "steps": [{"color": colour, "value": value} for value, colour in pairs]}


def lines(title, description, unit, queries, stacked=False, limit=None, width=8, height=8, **more):
    custom = {"lineWidth": 1, "fillOpacity": 60 if stacked else 8, "showPoints": "never", "spanNulls": 60000,
              "stacking": {"mode": "normal" if stacked else "none"},
              "thresholdsStyle": {"mode": "dashed" if limit is not None else "off"}}
    defaults = {"custom": custom, **more.pop("defaults", {})}
    if limit is not None:
        defaults["thresholds"] = steps((None, GREEN), (limit, RED))
    if unit == "percentunit":
        defaults.setdefault("max", 1)
    made = panel("timeseries", title, description, unit, queries, width, height, defaults=defaults,
                 overrides=fixed_colours(queries) + more.pop("overrides", []), **more)
    made["options"] = {"legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]},
                       "tooltip": {"mode": "multi", "sort": "desc"}}
    return made


def stat(title, description, unit, expression, thresholds, width=4, **more):
    made = panel("stat", title, description, unit, [(title, expression)], width, 4,
                 defaults={"thresholds": steps(*thresholds), **more.pop("defaults", {})}, **more)
    made["options"] = {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "background_solid",
                       "graphMode": "none"}
    return made


def heatmap(title, description, expression, **more):
    made = panel("heatmap", title, description, "short", [("{{le}}", expression)], **more)
    made["options"] = {"calculate": False, "yAxis": {"unit": "percentunit", "decimals": 1}, "cellGap": 1,
                       "color": {"mode": "scheme", "scheme": "Blues", "steps": 32}, "tooltip": {"mode": "single"},
                       "legend": {"show": True}}
    return made


def bars(title, description, unit, queries, field, **more):
    """One group of bars for each value of the label `field`."""
    names = {f"Value #{chr(ord('A') + index)}": legend for index, (legend, _) in enumerate(queries)}
    made = panel("barchart", title, description, unit, queries, overrides=fixed_colours(queries), **more)
    made["transformations"] = [
        {"id": "joinByField", "options": {"byField": field, "mode": "outer"}},
        {"id": "organize", "options": {"excludeByName": {"Time": True, "Time 1": True, "Time 2": True},
                                       "renameByName": names}},
        {"id": "sortBy", "options": {"sort": [{"field": field}]}}]
    made["options"] = {"xField": field, "legend": {"displayMode": "list", "placement": "bottom"},
                       "tooltip": {"mode": "multi"}, "stacking": "none", "showValue": "auto"}
    return made


# --- Panels that several boards have ------------------------------------------------------------

def defer_rate(width=12):
    return lines(
        "Defer rate by GPU", "Share of decisions to measure because the forecast is unsure. High: GPUs measure what "
        "forecasts were to prune. Suddenly low: forecasts are sure, rightly or not; look at the calibration.",
        "percentunit",
        [("{{gpu_model}}",
          'sum by (gpu_model) (rate(kernelcast_orchestrator_decisions_total{reason="low_confidence"}[$__rate_interval]))'
          " / (sum by (gpu_model) (rate(kernelcast_orchestrator_decisions_total[$__rate_interval])) > 0)"),
         ("{{gpu_model}} over 1 h",
          "avg by (gpu_model) (instance_gpu_model:kernelcast_orchestrator_defer:ratio_rate1h)")],
        limit=0.6, width=width, height=9, runbook="KernelcastDeferRateHigh")


def decisions_by_reason(width=12):
    return lines(
        "Decisions by reason", "Warm colours are measured, cold ones pruned, grey ones rejected without either.", "cps",
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
        "Selective risk against its target", "Share of winners among what was pruned, as audits estimate it. The lower end of "
        "the interval above the target is beyond doubt, and wakes somebody.", "percentunit",
        [("{{gpu_model}} now", by_model(used, "max by (gpu_model) (kernelcast_orchestrator_selective_risk_ratio)")),
         ("{{gpu_model}} at least",
          by_model(used, "max by (gpu_model) (kernelcast_orchestrator_selective_risk_low_ratio)")),
         ("{{gpu_model}} over 6 h",
          "max by (gpu_model) (instance_gpu_model:kernelcast_orchestrator_selective_risk:ratio_rate6h)"),
         ("target", "min(kernelcast_orchestrator_selective_risk_target_ratio)")],
        width=width, runbook="KernelcastRiskAboveTarget", defaults={"max": None},
        overrides=[{"matcher": {"id": "byName", "options": "target"},
                    "properties": [{"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [8, 8]}}]}])


def reliability(width=8):
    probability = "kernelcast_forecaster_calibration_probability_total"
    outcomes = "kernelcast_forecaster_calibration_outcomes_total"
    total = f"(sum by (bucket) (increase({outcomes}[$__range])) > 0)"
    return bars(
        "Reliability diagram", "Of forecasts with a probability in each tenth: what was given, and what came true. Equal "
        "bars are calibrated; where less came true than was given, forecasts are too sure.", "percentunit",
        [("given", f"sum by (bucket) (increase({probability}[$__range])) / {total}"),
         ("came true", f'sum by (bucket) (increase({outcomes}{{outcome="hit"}}[$__range])) / {total}')],
        "bucket", width=width, runbook="KernelcastCalibrationDrift", defaults={"max": 1})


def calibration_error(width=8):
    return lines(
        "Calibration error", "Expected calibration error over 6 hours: how far, on average, the share of right forecasts is "
        "from the probability that was given.", "percentunit",
        [("{{target}} {{instance}}", "instance_target:kernelcast_forecaster_calibration_error:ratio_increase6h")],
        limit=0.15, width=width, runbook="KernelcastCalibrationDrift", defaults={"max": None})


def confidence(width=8):
    return heatmap(
        "Confidence", "Forecasts by the probability of the bin that they predict. One column all the time: one answer for "
        "everything.",
        "sum by (le) (increase(kernelcast_forecaster_forecast_confidence_bucket[$__rate_interval]))", width=width)


def queue_depth(width=8):
    return lines(
        "Queue", "Candidates accepted and not settled, by what they wait for.", "short",
        [("{{stage}}", "sum by (stage) (kernelcast_orchestrator_queue_depth)")], stacked=True, width=width,
        runbook="KernelcastQueueStale")


def queue_age(width=8):
    return lines(
        "Age of the oldest candidate", "By what it waits for. A measurement is given up after 10 minutes.", "s",
        [("{{stage}}", "max by (stage) (kernelcast_orchestrator_queue_oldest_age_seconds)")], limit=1200, width=width,
        runbook="KernelcastQueueStale")


def slots(width=8):
    return lines(
        "Slots in use", "Requests that workers run or have queued, beside what they take at once.", "short",
        [("{{kind}} in use", "sum by (kind) (kernelcast_worker_slots_in_use)"),
         ("{{kind}} of", "sum by (kind) (kernelcast_worker_slots)")], width=width)


def measure_duration(width=8):
    return lines(
        "Time to measure", "To verify and time a candidate, with the wait for the timing lease.", "s",
        quantiles("kernelcast_worker_measure_duration_seconds", ["gpu_model"]), limit=120, width=width,
        runbook="KernelcastMeasureLatencyHigh")


def measurement_results(width=8):
    return lines(
        "Measurements by result", "environment_unstable: noise. error: the worker's fault. The rest is the candidates'.",
        "cps",
        [("{{result}}", "sum by (result) (rate(kernelcast_worker_measurements_total[$__rate_interval]))")],
        stacked=True, width=width, runbook="KernelcastMeasurementsNoisy")


def gpu_time(width=8):
    spent, avoided = (f"kernelcast_orchestrator_gpu_seconds_{what}_total" for what in ("spent", "avoided"))
    return lines(
        "GPU time", "Device time that measurements took, and what measuring the pruned would have taken: seconds a second.",
        "none",
        [("spent", f"sum(rate({spent}[$__rate_interval]))"), ("avoided", f"sum(rate({avoided}[$__rate_interval]))")],
        stacked=True, width=width)


def best_speedup(width=12):
    made = panel(
        "bargauge", "Best speedup by problem", "Of the best kernel of each problem's running searches, or of the last that "
        "ended, over the problem's reference.", "none",
        [("{{problem}} {{gpu_model}}",
          "sort_desc(max by (problem, gpu_model) (kernelcast_orchestrator_best_speedup_ratio))")],
        width=width, defaults={"decimals": 2, "thresholds": steps((None, GREY), (1.02, YELLOW), (1.5, GREEN))})
    made["options"] = {"orientation": "horizontal", "displayMode": "basic", "reduceOptions": {"calcs": ["lastNotNull"]}}
    return made


def rpc_panels(job):
    return [
        lines("Calls by method", f"Calls that the {job} has ended.", "reqps",
              [("{{grpc_method}}",
                'sum by (grpc_method) (rate(kernelcast_grpc_server_handled_total{grpc_service=~"kernelcast.+"}'
                "[$__rate_interval])) > 0")]),
        lines("Calls by status", "Calls that did not end with OK.", "reqps",
              [("{{grpc_code}}",
                'sum by (grpc_code) (rate(kernelcast_grpc_server_handled_total{grpc_service=~"kernelcast.+",grpc_code!="OK"}'
                "[$__rate_interval]))")],
              stacked=True, runbook="KernelcastRpcErrorBudgetBurnFast"),
        lines("Time of calls", "99th percentile. Calls that watch a search last as long as it.", "s",
              [("{{grpc_method}}",
                "histogram_quantile(0.99, sum by (le, grpc_method) "
                '(rate(kernelcast_grpc_server_handling_seconds_bucket{grpc_service=~"kernelcast.+"}[$__rate_interval])))'
                " >= 0")]),
        lines("Calls refused", "For want of a token or of its role, or because its holder made more a second than he may. "
              "No data: tokens are not asked for.", "reqps",
              [("{{reason}} {{instance}}",
                "sum by (reason, instance) (rate(kernelcast_auth_refused_calls_total[$__rate_interval]))")],
              stacked=True, width=12, runbook="KernelcastCallsRefused"),
        lines("Spans", "That have ended, and whether a collector has them. No data: nothing is traced.", "cps",
              [("{{outcome}} {{instance}}",
                "sum by (outcome, instance) (rate(kernelcast_tracing_spans_total[$__rate_interval]))")],
              stacked=True, width=12),
    ]


def of_both(legend, metric, expression):
    """The same of the forecaster and of the orchestrator, which both may have endpoints."""
    return [(f"{service} {legend}".strip(), expression.replace(metric, f"kernelcast_{service}_llm_{metric}"))
            for service in ("forecaster", "orchestrator")]


def llm_panels(service):
    prefix = f"kernelcast_{service}_llm"
    rate = "[$__rate_interval]"
    return [
        lines("Requests by result", "Requests to endpoints, further attempts included.", "reqps",
              [("{{endpoint}} {{result}}", f"sum by (endpoint, result) (rate({prefix}_attempts_total{rate})) > 0")],
              stacked=True, runbook="KernelcastLlmEndpointErrors"),
        lines("Time of requests", "From being sent to the end of the answer.", "s",
              quantiles(f"{prefix}_attempt_duration_seconds", ["endpoint"])),
        lines("Time to the first token", "From being sent.", "s",
              quantiles(f"{prefix}_first_token_seconds", ["endpoint"])),
        lines("Calls by how they ended", "A call is one or more requests.", "reqps",
              [("{{result}}", f"sum by (result) (rate({prefix}_calls_total{rate})) > 0")], stacked=True),
        lines("Calls that wait", "Calls that have not ended; those without a request under way; those not taken.", "short",
              [("pending", f"sum({prefix}_pending_calls)"), ("queued", f"sum({prefix}_queued_calls)"),
               ("refused in 5 min", f"sum(increase({prefix}_calls_overloaded_total[5m]))")]),
        lines("Wait to be sent", "By the limits of endpoints.", "s", quantiles(f"{prefix}_queue_wait_seconds", [])),
        lines("Retries and hedges", "Further attempts by what had failed, second requests because the first was slow, and "
              "those that their budget did not allow.", "reqps",
              [("retry: {{reason}}", f"sum by (reason) (rate({prefix}_retries_total{rate})) > 0"),
               ("hedge", f"sum(rate({prefix}_hedges_total{rate}))"),
               ("hedge won", f"sum(rate({prefix}_hedges_won_total{rate}))"),
               ("denied", f"sum(rate({prefix}_retries_denied_total{rate}))")]),
        lines("Tokens", "As endpoints count them. cached_input is also input.", "cps",
              [("{{endpoint}} {{kind}}", f"sum by (endpoint, kind) (rate({prefix}_tokens_total{rate}))")]),
        lines("Cost", "An hour's at the present pace, by the configured prices, in their currency; 0 without prices.", "none",
              [("{{endpoint}}", f"sum by (endpoint) (rate({prefix}_cost_total{rate})) * 3600")]),
        lines("Requests under way", "And what the endpoint is given at once, which follows how it does.", "short",
              [("{{endpoint}}", f"sum by (endpoint) ({prefix}_in_flight)"),
               ("{{endpoint}} of", f"sum by (endpoint) ({prefix}_concurrency_limit)")]),
        lines("Breaker", "0 closed, 1 open, 2 trying one request.", "short",
              [("{{endpoint}}", f"max by (endpoint) ({prefix}_breaker_state)")], limit=1,
              runbook="KernelcastLlmBreakerOpen"),
        lines("Answers without usage", "Answers that did not say how many tokens they took: cost is more than is shown.", "cps",
              [("{{endpoint}}", f"sum by (endpoint) (rate({prefix}_answers_without_usage_total{rate}))")]),
    ]


# --- Boards ---------------------------------------------------------------------------------------

def overview():
    good_if_any = [(None, RED), (1, GREEN)]
    good_if_none = [(None, GREEN), (1, RED)]
    rate = "[$__rate_interval]"
    return board("Kernelcast: overview", "overview", "kernelcast_build_info", [
        ("Now", [
            stat("Alerts", "Of Kernelcast, firing.", "short",
                 'count(ALERTS{alertname=~"Kernelcast.+", alertstate="firing"}) or vector(0)', good_if_none),
            stat("Services", "That Prometheus has data of.", "short", "count(kernelcast_build_info)", good_if_any,
                 runbook="KernelcastServiceDown"),
            stat("Workers", "That orchestrators reach.", "short",
                 'sum(kernelcast_orchestrator_workers{state="ready"})', good_if_any, runbook="KernelcastPoolDown"),
            stat("Searches", "That have not ended.", "short", "sum(kernelcast_orchestrator_running_searches)",
                 [(None, BLUE)]),
            stat("Defer rate", "Over the last hour, all GPUs together.", "percentunit",
                 'sum(rate(kernelcast_orchestrator_decisions_total{reason="low_confidence"}[1h]))'
                 " / (sum(rate(kernelcast_orchestrator_decisions_total[1h])) > 0)",
                 [(None, GREEN), (0.4, YELLOW), (0.6, RED)], runbook="KernelcastDeferRateHigh"),
            stat("GPU time avoided", "Of what measuring everything would have taken, over the last hour.", "percentunit",
                 "sum(rate(kernelcast_orchestrator_gpu_seconds_avoided_total[1h])) / "
                 "(sum(rate(kernelcast_orchestrator_gpu_seconds_avoided_total[1h])) "
                 "+ sum(rate(kernelcast_orchestrator_gpu_seconds_spent_total[1h])) > 0)",
                 [(None, YELLOW), (0.3, GREEN)]),
        ]),
        ("Decisions", [defer_rate(), decisions_by_reason(), prune_rate(), selective_risk(), gpu_time()]),
        ("Can forecasts be trusted?", [reliability(), calibration_error(), confidence()]),
        ("Work", [queue_depth(), queue_age(), slots(), measure_duration(), measurement_results(), best_speedup(8)]),
        ("Language models", [
            lines("Tokens", "Of the forecaster's questions and of kernels that a model writes. cached_input is also input.",
                  "cps", of_both("{{kind}}", "tokens_total", f"sum by (kind) (rate(tokens_total{rate}))")),
            lines("Cost", "An hour's at the present pace, by the configured prices, in their currency.", "none",
                  of_both("{{endpoint}}", "cost_total", f"sum by (endpoint) (rate(cost_total{rate})) * 3600")),
            lines("Retries and cache", "Further attempts, and the share of the forecaster's questions whose answer was known.",
                  "none",
                  [*of_both("retries a second", "retries_total", f"sum(rate(retries_total{rate}))"),
                   ("answers known",
                    f'sum(rate(kernelcast_forecaster_llm_cache_total{{use!="miss"}}{rate}))'
                    f" / (sum(rate(kernelcast_forecaster_llm_cache_total{rate})) > 0)")]),
        ]),
    ])


def orchestrator():
    used = "kernelcast_orchestrator_candidates_total"
    shared = "kernelcast_orchestrator_leases_renewed_timestamp_seconds"  # 0 for one whose log is its own
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
            lines("Threshold", "Highest win probability below which a running search is certified to prune; 0: none is.",
                  "percentunit",
                  [("{{gpu_model}}", by_model(used, "max by (gpu_model) (kernelcast_orchestrator_prune_threshold_ratio)"))]),
            lines("Audits and alarms", "Candidates measured although they would be pruned, those that were or would have been, "
                  "and certificates that were found void.", "cps",
                  [("audited", f"sum(rate(kernelcast_orchestrator_audits_total{rate}))"),
                   ("prunable", f"sum(rate(kernelcast_orchestrator_prunable_total{rate}))"),
                   ("alarms", f"sum(rate(kernelcast_orchestrator_risk_alarms_total{rate}))")],
                  runbook="KernelcastRiskAboveTarget"),
        ]),
        ("Work", [
            queue_depth(), queue_age(),
            lines("Workers", "That it knows of, by whether they answer. ejected: left out for a while, since their calls fail.",
                  "short", [("{{state}} {{instance}}", "kernelcast_orchestrator_workers")], runbook="KernelcastWorkersAway"),
            lines("Forecasters", "That it knows of, by whether they answer. None that is ready: everything is measured.", "short",
                  [("{{state}} {{instance}}", "kernelcast_orchestrator_forecasters")],
                  runbook="KernelcastForecasterAway"),
            lines("Calls to workers that were made again", "lost: with the worker. failed: it answered with an error. "
                  "handed_back: it drains. refused: it had no credit left.", "cps",
                  [("{{reason}}", f"sum by (reason) (rate(kernelcast_orchestrator_worker_calls_repeated_total{rate}))")],
                  stacked=True, runbook="KernelcastWorkersEjected"),
            lines("Workers left out", "Times within 5 minutes, since calls to them failed.", "short",
                  [("{{instance}}", "increase(kernelcast_orchestrator_worker_ejections_total[5m])")],
                  runbook="KernelcastWorkersEjected"),
            lines("Searches", "That run, and candidates in flight.", "short",
                  [("searches", "sum(kernelcast_orchestrator_running_searches)"),
                   ("in flight", "sum(kernelcast_orchestrator_candidates_in_flight)")]),
            lines("Labels that wait", "For the forecaster to write them to disk.", "short",
                  [("{{instance}}", "kernelcast_orchestrator_pending_labels")], runbook="KernelcastLabelsPending"),
            lines("Event log", "Events appended.", "cps",
                  [("{{instance}}", "deriv(kernelcast_orchestrator_log_events[5m])")]),
            best_speedup(24),
        ]),
        ("Several orchestrators on one log", [
            lines("Shards by who holds them", "Of the log in the database. unserved: nobody holds them, or who does cannot "
                  "serve them yet; their searches stand still.", "short",
                  [("{{instance}}", f"kernelcast_orchestrator_shards_held and {shared} > 0"),
                   ("unserved", f"max(kernelcast_orchestrator_shards_unserved and {shared} > 0)")],
                  stacked=True, runbook="KernelcastShardsUnserved", overrides=[
                      {"matcher": {"id": "byName", "options": "unserved"},
                       "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": RED}}]}]),
            lines("Since leases were renewed", "Beyond the lease, 10 s unless told, an orchestrator serves nothing and others "
                  "take its shards.", "s",
                  [("{{instance}}", f"time() - ({shared} > 0)")], limit=60, runbook="KernelcastLeasesNotRenewed"),
            lines("Renewals of leases", "failed: the database did not answer, or not in time.", "cps",
                  [("{{instance}} {{result}}", f"rate(kernelcast_orchestrator_lease_renewals_total{rate}) > 0")],
                  runbook="KernelcastLeasesNotRenewed"),
            lines("Shards that changed hands", "Within 5 minutes. taken: from nobody, or from one that is gone. lost: it slept "
                  "through its lease. failed: could not be opened, or not written to.", "short",
                  [(f"{{{{instance}}}} {name}", f"increase(kernelcast_orchestrator_shards_{name}_total[5m])")
                   for name in ("taken", "lost", "failed")], runbook="KernelcastShardsChangeHands"),
            lines("Calls passed on", "To the orchestrator that holds their shard. All of them: clients call one only.", "reqps",
                  [("{{instance}}", f"rate(kernelcast_orchestrator_forwarded_calls_total{rate})")]),
            lines("Orchestrators", "That are alive and not leaving, as each of them sees it.", "short",
                  [("{{instance}}", f"kernelcast_orchestrator_replicas and {shared} > 0")],
                  runbook="KernelcastServiceDown"),
        ]),
        ("Kernels that a model writes", [
            lines("Kernels by what came of them", "Requests to a model for a kernel.", "cps",
                  [("{{outcome}}", f"sum by (outcome) (rate(kernelcast_orchestrator_generations_total{rate}))")],
                  stacked=True),
            lines("Faults of answers", "Why no kernel could be read from an answer.", "cps",
                  [("{{fault}}", f"sum by (fault) (rate(kernelcast_orchestrator_generation_faults_total{rate}))")],
                  stacked=True),
            lines("Tokens of kernels", "And kernels being asked for.", "short",
                  [("{{kind}} a second", f"sum by (kind) (rate(kernelcast_orchestrator_generation_tokens_total{rate}))"),
                   ("asked for", "sum(kernelcast_orchestrator_generations_in_flight)")]),
            *llm_panels("orchestrator"),
        ]),
        ("Calls", rpc_panels("orchestrator")),
    ])


def forecaster():
    rate = "[$__rate_interval]"
    return board("Kernelcast: forecaster", "forecaster", "kernelcast_forecaster_pending_writes", [
        ("Can forecasts be trusted?", [
            reliability(), calibration_error(),
            lines("Too sure", "Probability given less share that came true, over 6 hours. Above 0: too sure. Below: too timid.",
                  "percentunit",
                  [("{{target}} {{instance}}", "instance_target:kernelcast_forecaster_overconfidence:ratio_increase6h")],
                  defaults={"min": None, "max": None}, runbook="KernelcastCalibrationDrift"),
            confidence(),
            lines("Brier score by backend", "Of forecasts that were decided on, by later labels. 0 is best.", "none",
                  [("{{backend}} {{target}}", mean("kernelcast_forecaster_brier_score", "backend, target"))]),
            lines("CRPS by backend", "The same, where near misses count for less. 0 is best.", "none",
                  [("{{backend}} {{target}}", mean("kernelcast_forecaster_crps_score", "backend, target"))]),
        ]),
        ("Forecasts", [
            lines("Forecasts by backend", "Answered or abstained.", "reqps",
                  [("{{backend}}",
                    f"sum by (backend) (rate(kernelcast_forecaster_forecast_duration_seconds_count{rate}))")]),
            lines("Time to forecast", "The embedded backend asks nobody; models may take seconds.", "s",
                  quantiles("kernelcast_forecaster_forecast_duration_seconds", ["backend"]),
                  runbook="KernelcastForecastSlow"),
            lines("Labels", "Accepted, by what became of the candidate.", "cps",
                  [("{{outcome}}", f"sum by (outcome) (rate(kernelcast_forecaster_labels_total{rate}))")], stacked=True),
            lines("Writes that wait", "Calls waiting for their labels or problem to be on disk.", "short",
                  [("{{instance}}", "kernelcast_forecaster_pending_writes")], runbook="KernelcastLabelsPending"),
            lines("Weight of the model in the pool", "Against the embedded backend's. It is learnt from labels.", "percentunit",
                  [("{{target}}", "avg by (target) (kernelcast_forecaster_pool_llm_weight)")]),
            lines("Questions to the pool", "settled: the embedded backend was sure by itself.", "reqps",
                  [("{{result}}", f"sum by (result) (rate(kernelcast_forecaster_pool_questions_total{rate}))")],
                  stacked=True),
        ]),
        ("Answers of language models", [
            lines("Questions by result", "forecast: answered. The others abstain, for which the pool falls back.", "reqps",
                  [("{{result}}", f"sum by (result) (rate(kernelcast_forecaster_llm_questions_total{rate}))")], stacked=True),
            lines("Cache", "hit: known. coalesced: under way already. miss: asked.", "reqps",
                  [("{{use}}", f"sum by (use) (rate(kernelcast_forecaster_llm_cache_total{rate}))")], stacked=True),
            lines("Answers by form", "By the form asked for, from the strictest down, and whether they could be read.", "reqps",
                  [("{{rung}} {{outcome}}",
                    f"sum by (rung, outcome) (rate(kernelcast_forecaster_llm_answers_total{rate})) > 0")], stacked=True),
            lines("Faults of answers", "What was wrong with those that could not be read.", "reqps",
                  [("{{fault}}", f"sum by (fault) (rate(kernelcast_forecaster_llm_faults_total{rate}))")], stacked=True),
            lines("Sum of probabilities", "Of an answer, before they were scaled. 1 is right.", "none",
                  [("mean", mean("kernelcast_forecaster_llm_probability_sum", "job"))]),
            *llm_panels("forecaster"),
        ]),
        ("Calls", rpc_panels("forecaster")),
    ])


def worker():
    rate = "[$__rate_interval]"
    return board("Kernelcast: worker", "worker", "kernelcast_worker_slots", [
        ("Measuring", [
            measure_duration(), measurement_results(),
            lines("Wait to be measured", "In the worker's queue.", "s",
                  quantiles("kernelcast_worker_measure_queue_wait_seconds", ["gpu_model"])),
            lines("Width of intervals", "Of measured speedups, relative to the speedup: how repeatable measurements are.",
                  "percentunit", quantiles("kernelcast_worker_speedup_interval_ratio", ["gpu_model"]),
                  runbook="KernelcastMeasurementsNoisy", defaults={"max": None}),
            lines("Share of measurements that failed", "Over 30 minutes: noise, and errors of the worker.", "percentunit",
                  [("{{instance}} {{gpu_model}} {{result}}",
                    "instance_gpu_model_result:kernelcast_worker_measurements:ratio_increase30m"
                    '{result=~"environment_unstable|error"}')],
                  limit=0.1, runbook="KernelcastMeasurementsFailing", defaults={"max": None}),
            slots(),
        ]),
        ("Compiling", [
            lines("Compiles by result", "cached: compiled before.", "cps",
                  [("{{result}}", f"sum by (result) (rate(kernelcast_worker_compiles_total{rate}))")], stacked=True),
            lines("Time to compile", "What was not cached, and what was.", "s",
                  quantiles("kernelcast_worker_compile_duration_seconds", ["gpu_model"])),
            lines("Wait to be compiled", "In the worker's queue.", "s",
                  quantiles("kernelcast_worker_compile_queue_wait_seconds", ["gpu_model"])),
        ]),
        ("Device", [
            lines("Clock", "Lowest seen during the last measurement.", "hertz",
                  [("{{instance}} {{gpu_model}}", "kernelcast_worker_clock_hertz")], runbook="KernelcastGpuThrottled"),
            lines("Temperature", "After the last measurement.", "celsius",
                  [("{{instance}} {{gpu_model}}", "kernelcast_worker_temperature_celsius")], limit=85,
                  runbook="KernelcastGpuThrottled"),
            lines("Power", "After the last measurement.", "watt",
                  [("{{instance}} {{gpu_model}}", "kernelcast_worker_power_watts")]),
            lines("Throttled measurements", "During which something slowed the clocks down, by what.", "cps",
                  [("{{reason}}", f"sum by (reason) (rate(kernelcast_worker_throttled_total{rate}))")], stacked=True,
                  width=24, runbook="KernelcastGpuThrottled"),
        ]),
        ("Calls", rpc_panels("worker")),
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
            # Where docs/operations.md is to be read; links of panels lead there.
            {"name": "runbooks", "label": "Runbooks", "type": "constant", "query": "docs/operations.md", "hide": 2},
        ]},
        "panels": panels,
    }


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "dashboards")
    os.makedirs(folder, exist_ok=True)
    for name, made in (overview(), orchestrator(), forecaster(), worker()):
        with open(os.path.join(folder, f"kernelcast-{name}.json"), "w", encoding="utf-8") as file:
            json.dump(made, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
