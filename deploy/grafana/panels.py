"""How panels of each kind are made, for boards.py.

A panel's queries are PromQL without the matchers of the variables job and instance, which every selector gets.
"""

import re

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
SELECTOR = re.compile(r"((?:\b[a-z_]+:)?\b(?:kernelcast_\w+(?::\w+)?|ALERTS))(?:\{([^}]*)\})?(?![\w:])")

# Colours have the same meaning on all boards.
GREEN, YELLOW, ORANGE, RED, BLUE, PURPLE, GREY = (
    "green", "yellow", "orange", "red", "blue", "purple", "#8e8e8e")
COLOURS = {
    # Decisions by reason: measured candidates are warm, pruned ones cold, rejected ones grey.
    "low_confidence": ORANGE, "declined": "light-orange", "promising": GREEN, "selected": "dark-green", "audit": PURPLE,
    "no_forecast": RED, "bootstrap": YELLOW,
    "requested": "light-yellow", "unpromising": BLUE, "likely_failure": "light-blue", "budget_pace": "dark-blue",
    "forecast_only": "semi-dark-blue", "reused": "light-green", "compile_error": GREY, "duplicate": "#a0a0a0",
    "budget": "#b8b8b8", "cancelled": "#c8c8c8", "unavailable": "dark-red",
    # Results.
    "ok": GREEN, "success": GREEN, "cached": "light-green", "wrong_result": ORANGE, "crash": "dark-orange",
    "timeout": YELLOW, "exploit": PURPLE, "environment_unstable": RED, "error": "dark-red", "stopped": GREY,
    "pruned": BLUE, "rejected": GREY,
    "limit": RED, "forecast": GREY, "observed": BLUE,
    # Device time.
    "screen": ORANGE, "prepare": GREY, "confirm": YELLOW, "avoided": BLUE,
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
