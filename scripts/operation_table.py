#!/usr/bin/env python3
"""Prints a table of operations, and what the virtual GPU says about the points of their spaces.

    kernelcast compile OPERATION --target cuda --candidates space --json > FOLDER/NAME.jsonl
    scripts/operation_table.py FOLDER

FOLDER has the lines of this command for each operation in examples/operations. Points are right or wrong by the expected verdicts
of the space; wrong ones are found if outputs disagree, or if a launch has a fault. Each disagreement is a line on standard error.
"""

import collections
import json
import pathlib
import sys

import yaml

OPERATIONS = pathlib.Path(__file__).parent.parent / "examples" / "operations"


def expected(verdicts, name):
    """The expected verdict of a point: "TEMPLATE NAME=VALUE ..."."""
    template, *tunables = name.split(" ")
    values = dict(tunable.split("=", 1) for tunable in tunables)
    own = verdicts[template]
    for exception in own.get("except", []):
        if all(values.get(tunable) in map(str, allowed) for tunable, allowed in exception["at"].items()):
            return exception["verdict"]
    return own["verdict"]


def simulated(line):
    """"agree", "wrong" or "unknown", and why."""
    if "compile_error" in line:
        return "wrong", "does not compile"
    why = "not simulated"
    for simulation in line.get("simulations", []):
        for launch in simulation["launches"]:
            for finding in launch["findings"]:
                return "wrong", f'{finding["kind"]}: {finding["detail"]}'
        if simulation["findings_schema"] and not simulation["not_compared"] and simulation["outputs_agreed"]:
            return "agree", ""
        why = simulation["not_compared"] or why
    return "unknown", why


def row(folder, lines):
    definition = json.loads((folder / "definition.json").read_text())
    space = yaml.safe_load((folder / "space" / "cuda.yaml").read_text())
    verdicts = yaml.safe_load((folder / "space" / "expected_verdicts_cuda.yaml").read_text())
    right = [t for t in space["templates"] if verdicts[t["name"]]["verdict"] == "ok"]
    triton = sum(t["file"].endswith(".py") for t in right)
    counts = collections.Counter()
    for line in lines:
        wanted = "right" if expected(verdicts, line["name"]) == "ok" else "mistake"
        found, why = simulated(line)
        counts[wanted] += 1
        counts[wanted, found] += 1
        if (wanted, found) not in (("right", "agree"), ("mistake", "wrong")):
            print(f'{folder.name} {line["name"]}: {wanted}, {found}: {why}', file=sys.stderr)
    cells = [f"[{folder.name}]({folder.name})", definition["op_type"], len(right) - triton, triton, len(lines), counts["mistake"]]
    cells.append(" / ".join(str(counts["right", found]) for found in ("agree", "wrong", "unknown")))
    cells.append(" / ".join(str(counts["mistake", found]) for found in ("wrong", "agree", "unknown")))
    return cells


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print("| operation | family | CUDA | Triton | points | with a mistake | right: agree / wrong / unknown | mistakes: wrong / agree / unknown |")
    print("|---|---|---|---|---|---|---|---|")
    for folder in sorted(path.parent for path in OPERATIONS.glob("*/definition.json")):
        file = pathlib.Path(sys.argv[1]) / f"{folder.name}.jsonl"
        if not file.exists():
            continue
        lines = [line for line in map(json.loads, file.read_text().splitlines()) if "name" in line]
        print("| " + " | ".join(map(str, row(folder, lines))) + " |")


if __name__ == "__main__":
    main()
