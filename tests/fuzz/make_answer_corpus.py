#!/usr/bin/env python3
"""Writes model replies as inputs of answer_parser_fuzz, one file each.

usage: make_answer_corpus.py CORPUS_FOLDER
"""

import json
import pathlib
import sys

NAMES = ["severe_slowdown", "significant_slowdown", "moderate_slowdown", "minor_slowdown",
         "minor_speedup", "significant_speedup", "high_speedup", "extreme_speedup"]


def answer(values, **more):
    fields = {f"p_{name}": value for name, value in zip(NAMES, values)}
    return json.dumps({**fields, "predicted_bin": 5, "reasoning": "wider loads", **more})


def replies():
    even = [0, 0.05, 0.05, 0.2, 0.4, 0.2, 0.1, 0]
    good = answer(even)
    call = "=== call submit_kernel_runtime_estimate\n"
    yield good
    yield answer(even, p_failure=0.1, defer=False)
    yield answer([v * 0.75 for v in even])
    yield answer([str(v) for v in even], predicted_bin="minor_speedup")
    yield answer([-0.1] + even[1:])
    yield answer(even).replace("0.4", "NaN")
    yield call + good
    yield call + good + "\n" + call + good
    yield call + good + "\n=== call defer_to_real_evaluator\n" + '{"reason": "atomics"}'
    yield '=== call defer_to_real_evaluator\n{"reason": "atomics"}'
    yield "=== call estimate\n" + good
    yield '=== reasoning\nhm\n=== content\n```json\n' + good + "\n```\nDone."
    yield '{"reason": "atomics"}'
    yield '{"defer": true}'
    yield '{"name": "submit_kernel_runtime_estimate", "arguments": ' + good + "}"
    yield "I cannot tell {yet}."
    yield "{" * 200
    yield '{"a":' * 50
    yield good[:60]


def main() -> None:
    corpus = pathlib.Path(sys.argv[1])
    corpus.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(replies()):
        for scheme in (0, 1):
            (corpus / f"reply{number}-{scheme}").write_bytes(bytes([scheme]) + text.encode())


if __name__ == "__main__":
    main()
