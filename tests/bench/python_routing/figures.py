"""Figures of a task whose candidates were all measured, and then routed."""

import math
import random
import statistics

RANDOM_SEEDS = 20


def ranks(values):
    """Of each value, with the mean of the places of equal ones."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for place in range(start, end + 1):
            found[order[place]] = (start + end) / 2
        start = end + 1
    return found


def spearman(left, right):
    """None where one side has a single value."""
    if len(left) < 3 or len(set(left)) < 2 or len(set(right)) < 2:
        return None
    return statistics.correlation(ranks(left), ranks(right))


def random_half(speedups):
    """The best of a random half over the best, in the mean."""
    best = max(speedups)
    found = [max(random.Random(seed).sample(speedups, (len(speedups) + 1) // 2)) / best for seed in range(RANDOM_SEEDS)]
    return statistics.fmean(found)


def of_task(measured, routed, forecasts):
    """`measured` and `routed` have a row for each candidate, by its name, as `row` in main.py makes them. `forecasts` are
    expected log2 speedups before any label, by name. None: no candidate is ok.
    """
    truth = {name: row["speedup"] for name, row in measured.items() if row["speedup"]}
    if not truth:
        return None
    best = max(truth.values())
    found = {name: row["speedup"] for name, row in routed.items() if row["speedup"]}
    # By the first measurement, because the two differ by noise.
    named = max(found, key=found.get, default=None)
    both = sorted(set(truth) & set(forecasts))
    errors = [abs(forecasts[name] - math.log2(truth[name])) for name in both]
    spent = {mode: sum(row["device_seconds"] for row in rows.values())
             for mode, rows in (("measure", measured), ("route", routed))}
    return {
        "candidates": len(measured),
        "ok": len(truth),
        "device_seconds": spent,
        "saved": 1 - spent["route"] / spent["measure"] if spent["measure"] > 0 else 0.0,
        "measured": sum(row["decision"] == "measure" for row in routed.values()),
        "best": best,
        "found": truth.get(named, 0.0) / best if named else 0.0,
        "random_half": random_half(list(truth.values())),
        "spearman": spearman([forecasts[name] for name in both], [truth[name] for name in both]),
        "median_error_octaves": statistics.median(errors) if errors else None,
        "not_simulated": sum(bool(row["not_simulated"]) for row in routed.values()),
    }


def of_all(tasks):
    spent = {mode: sum(task["device_seconds"][mode] for task in tasks) for mode in ("measure", "route")}
    known = [task["spearman"] for task in tasks if task["spearman"] is not None]
    return {
        "device_seconds": spent,
        "saved": 1 - spent["route"] / spent["measure"] if spent["measure"] > 0 else 0.0,
        "found": statistics.fmean(task["found"] for task in tasks),
        "worst_found": min(task["found"] for task in tasks),
        "random_half": statistics.fmean(task["random_half"] for task in tasks),
        "below_random": sum(task["found"] < task["random_half"] for task in tasks),
        "spearman": statistics.median(known) if known else None,
    }
