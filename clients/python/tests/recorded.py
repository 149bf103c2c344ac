"""A problem with recorded measurements of every candidate, so that a replaying worker needs no compiler."""

import functools
import math
import re
from pathlib import Path

import kernelcast
from google.protobuf import json_format
from kernelcast.v1 import orchestrator_pb2

ROOT = Path(__file__).resolve().parents[3]
PROBLEM = """schema: 1
name: recorded
title: Recorded
family: recorded
description: Invented measurements of a smooth space.
axes:
  n: {held_out: [1, 64]}
inputs:
  - {name: x, dtype: float32, shape: [n], init: {distribution: normal, mean: 0, stddev: 1}}
outputs:
  - {name: y, dtype: float32, shape: [n], tolerance: {atol: 1.0e-6, rtol: 1.0e-5, normwise: 1.0e-6}}
oracle: oracle.cc
targets:
  cpu: {reference: reference.cc}
check_shapes:
  - {n: 7}
bench_shapes:
  - {n: 1024}
"""


def write_problem(folder):
    folder.mkdir(parents=True)
    (folder / "problem.yaml").write_text(PROBLEM)
    (folder / "oracle.cc").write_text("// oracle\n")
    (folder / "reference.cc").write_text("// reference\n")
    return folder


def candidates(count, source_bytes=0):
    """Candidates of a space of two tunables, with the speedup of each in its name."""
    width = math.isqrt(count - 1) + 1
    source = "// smooth\n".ljust(source_bytes, " ")
    return [kernelcast.Candidate(f"// {i}\n{source}", tunables={"BLOCK": i // width, "UNROLL": i % width},
                                 name=f"{2 - (i % width / width - 0.5) ** 2 - (i / count - 0.5) ** 2:.6f}")
            for i in range(count)]


@functools.cache
def _names():
    page = (ROOT / "docs/reference/facts.md").read_text().split("### cpu-asm/1")[1].split("###")[0]
    return len(re.findall(r"^\| \d+ \|", page, re.MULTILINE))


def _facts(values):
    return {"schema": "cpu-asm/1", "values": [*values, *[1.0] * (_names() - len(values))]}


def write_records(bundle, problem_folder, measured, path):
    """Writes a record of each candidate, whose measured speedup is its name."""
    other = path.with_name("other.jsonl")
    other.write_text(_record("k_" + 32 * "0", "p_" + 32 * "0", kernelcast.Candidate("", name="1")))
    with kernelcast.local(bundle, replay=other) as client:
        problem = client.put_problem(problem_folder)
        # Not recorded, so rejected. The answers have the candidates' ids.
        path.write_text("".join(_record(result.candidate_id, problem.id, result.candidate)
                                for result in client.evaluate_many(problem, measured, mode="forecast")))
    return path


def _record(candidate_id, problem_id, candidate):
    speedup = float(candidate.name)
    ratio = {"value": speedup, "low": speedup * 0.99, "high": speedup * 1.01, "confidence": 0.95}
    measured = {"candidate_id": candidate_id, "problem_id": problem_id, "target": "cpu", "device_time": "0.5s",
                "protocol_version": "recorded", "device": {"model": "recorded"},
                "ok": {"speedup": ratio, "comparison": "COMPARISON_FASTER"}}
    record = {"sequence": 1, "problem_name": "recorded", "facts": _facts(candidate.tunables.values()),
              "reference_facts": _facts([0, 0]),
              "candidate": {"candidate_id": candidate_id, "problem_id": problem_id, "target": "cpu"},
              "evaluation": {"candidate_id": candidate_id, "measured": measured}}
    return json_format.MessageToJson(json_format.ParseDict(record, orchestrator_pb2.ExportRecord()), indent=None) + "\n"
