"""The table of a state file, and whether its goals are met."""

import collections
import json
import os
import re
import statistics

GOALS = {"judged": 0.97, "false_accepts": 0, "false_refusals": 0, "out_of_memory": 0}


def read_state(path):
    """The last line of each task. Ignores the end of a line that a killed run left."""
    lines = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for text in file:
                try:
                    line = json.loads(text)
                except ValueError:
                    continue
                lines[line["task"]] = line
    return lines


def generated(line):
    return {kind: one for kind, one in line["candidates"].items() if kind != "reference" and "skipped" not in one}


def reference_refused(line):
    reference = line["candidates"].get("reference", {})
    return line["judged"] and reference.get("outcome") != "ok"


def accepted(line, truth):
    return [kind for kind, one in generated(line).items() if one.get("outcome") == "ok" and one.get("truth") == truth]


def refused(line, truth):
    return [kind for kind, one in generated(line).items()
            if one.get("outcome") not in ("ok", "not_judged", None) and one.get("truth") == truth]


def row(lines):
    counted = [line for line in lines if not line.get("other_machine")]
    judged = [line for line in counted if line["judged"]]
    truths = collections.Counter(one.get("truth") for line in judged for one in generated(line).values())
    seconds = [line["seconds"] for line in judged]
    return {
        "tasks": len(counted), "other_machine": len(lines) - len(counted), "judged": len(judged),
        "wrong": truths["wrong"], "near": truths["near"], "right": truths["right"], "unknown": truths["unknown"] + truths[None],
        "false_accepts": sum(len(accepted(line, "wrong")) for line in judged),
        "false_refusals": sum(reference_refused(line) for line in judged),
        "out_of_memory": sum(line["out_of_memory"] for line in counted),
        "seconds": statistics.mean(seconds) if seconds else None,
        "median_s": statistics.median(seconds) if seconds else None,
        "preparation_s": statistics.mean(line["preparation_seconds"] for line in judged) if judged else None,
        "device_s": statistics.mean(line["device_seconds"] for line in judged) if judged else None,
        "truth_s": statistics.mean(line["truth_seconds"] for line in judged) if judged else None,
    }


def goals_met(made):
    return (made["tasks"] > 0 and made["judged"] >= GOALS["judged"] * made["tasks"]
            and all(made[name] <= GOALS[name] for name in ("false_accepts", "false_refusals", "out_of_memory")))


def reason_of(line):
    """The reason without names and numbers that differ between tasks, to group by."""
    text = line.get("not_judged") or "no verdict"
    return re.sub(r"\b0x[0-9a-f]+|\d{3,}", "N", text.strip().splitlines()[-1] if text.strip() else text)[:140]


def text_of(lines, found=None):
    lines = list(lines.values())
    groups = collections.defaultdict(list)
    for line in lines:
        groups[line["group"]].append(line)
    columns = ("tasks", "judged", "wrong", "near", "right", "unknown", "false_accepts", "false_refusals", "out_of_memory",
               "median_s", "seconds", "preparation_s", "device_s", "truth_s")
    heads = ("tasks", "judged", "wrong", "near", "right", "unknown", "false accepts", "false refusals", "out of memory",
             "s, median", "s, mean", "prepare", "device", "truth")
    rows = [(name, row(groups[name])) for name in sorted(groups)]
    total = row(lines)
    rows.append(("all", total))

    def shown(value):
        return "-" if value is None else f"{value:.1f}" if isinstance(value, float) else str(value)

    out = ["| level | " + " | ".join(heads) + " |", "|" + "---|" * (len(heads) + 1)]
    out += [f"| {name} | " + " | ".join(shown(made[column]) for column in columns) + " |" for name, made in rows]
    out += ["", "wrong, near, right, unknown: generated candidates by their truth. Seconds are those of a task: all, and of "
                "these the judge's preparation, its device time and the truth."]
    if found is not None:
        out.append(f"{len(lines)} of {found} tasks have a line in the state.")
    share = total["judged"] / total["tasks"] if total["tasks"] else 0.0
    out += ["", f"judged: {share:.1%} (goal: at least {GOALS['judged']:.0%})",
            f"false accepts: {total['false_accepts']} (goal: {GOALS['false_accepts']})",
            f"false refusals of references: {total['false_refusals']} (goal: {GOALS['false_refusals']})",
            f"out of memory: {total['out_of_memory']} (goal: {GOALS['out_of_memory']})"]

    def section(title, items):
        if items:
            out.extend(["", f"{title}:"] + [f"  {item}" for item in items])

    reasons = collections.defaultdict(list)
    for line in lines:
        if not line["judged"] and not line.get("other_machine"):
            reasons[reason_of(line)].append(line["task"])
    section("Not judged", [f"{len(names)}: {why}: {', '.join(names)}" for why, names in
                           sorted(reasons.items(), key=lambda pair: -len(pair[1]))])
    section("For other machines, not counted", [f"{line['task']}: {line['other_machine']}" for line in lines
                                                if line.get("other_machine")])

    def figures(line, kind):
        one = line["candidates"][kind]
        names = ("rule", "case", "breaks", "elements", "max_used", "max_error", "max_own", "unexplained", "why")
        return json.dumps({name: one["truth_figures"][name] for name in names if one["truth_figures"].get(name) is not None})

    section("False accepts", [f"{line['task']} {kind}: {figures(line, kind)}" for line in lines if line["judged"]
                              for kind in accepted(line, "wrong")])
    section("References refused", [f"{line['task']}: {line['candidates'].get('reference', {}).get('outcome')}: "
                                   f"{line['candidates'].get('reference', {}).get('detail', '')[:300]}"
                                   for line in lines if reference_refused(line)])
    section("Out of memory", [line["task"] for line in lines if line["out_of_memory"]])
    section("Accepted within the reference's own error of a limit (near), no false accepts",
            [f"{line['task']} {kind}: {figures(line, kind)}" for line in lines for kind in accepted(line, "near")])
    section("Accepted, truth unknown", [f"{line['task']} {kind}" for line in lines
                                        for kind in accepted(line, "unknown") + accepted(line, None)])
    section("Not wrong by the rule", [f"{line['task']}: {', '.join(kinds)}" for line in lines
                                      if (kinds := [k for k, one in generated(line).items() if one.get("truth") == "right"])])
    section("Refused although right by this truth",
            [f"{line['task']} {kind}: {figures(line, kind)} {line['candidates'][kind].get('detail', '')[:200]}"
             for line in lines for kind in refused(line, "right")])
    section("Truth without float64, or none", [f"{line['task']}: {line['truth']}" for line in lines
                                               if line["judged"] and generated(line)
                                               and not line["truth"].startswith(("float64", "the task's"))])
    return "\n".join(out) + "\n", goals_met(total)
