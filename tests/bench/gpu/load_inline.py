#!/usr/bin/env python3
"""Baseline: the time a Python harness takes for kernels that Kernelcast has judged.

    load_inline.py [--count 3] [--problems DIR] [--records FILE]

Takes random kernels of row_softmax's space and does what such harnesses do for each:
torch.utils.cpp_extension.load_inline, allclose against torch's own result, ten warm-up calls and a hundred calls
between events. No flush and no other set of values. Prints seconds per stage.
"""

import argparse
import gzip
import json
import pathlib
import random
import statistics
import time

import torch
from torch.utils.cpp_extension import load_inline

CALLS = 100
WARM_UP = 10


def read_points(path):
    points = []
    with gzip.open(path, "rt", encoding="utf-8") as records:
        for line in records:
            record = json.loads(line)
            if "ok" in record["evaluation"].get("measured", {}) and \
                    record["candidate"].get("origin", "").startswith("template:"):
                points.append(record)
    return points


def source_of(folder, record):
    tunables = {t["name"]: t["value"] for t in record["candidate"]["tunables"]}
    template = tunables.pop("TEMPLATE")
    defines = "".join(f"#define {name} {value}\n" for name, value in tunables.items())
    return defines + (folder / "cuda" / f"{template}.cu").read_text(encoding="utf-8"), tunables


def launcher(record, tunables, shape):
    """The host code of the candidate's single launch."""
    names = {**{name: int(value) for name, value in tunables.items() if value.isdigit()}, **shape,
             "ceildiv": lambda a, b: -(-a // b), "min": min, "max": max}
    value = lambda text: int(eval(text, {"__builtins__": {}}, names))
    (launch,) = record["candidate"]["launches"]
    grid = ", ".join(str(value(text)) for text in launch["grid"])
    block = ", ".join(str(value(text)) for text in launch["block"])
    shared = value(launch.get("shared_memory_bytes", "0"))
    tensors = {"x": "x.data_ptr<float>()", "y": "y.data_ptr<float>()"}
    arguments = ", ".join(tensors.get(a) or f"(long long){value(a)}" for a in launch["arguments"])
    kernel = launch["kernel"]
    return f"""
void run(torch::Tensor x, torch::Tensor y) {{
  cudaFuncSetAttribute({kernel}, cudaFuncAttributeMaxDynamicSharedMemorySize, {shared});
  {kernel}<<<dim3({grid}), dim3({block}), {shared}>>>({arguments});
}}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=3)
    parser.add_argument("--problems", default="examples/problems")
    parser.add_argument("--records",
                        default="data/measured/nvidia-h200/spaces/row_softmax.jsonl.gz")
    options = parser.parse_args()
    folder = pathlib.Path(options.problems) / "row_softmax" / "space"
    chosen = random.Random(1).sample(read_points(options.records), options.count)
    torch.zeros(1, device="cuda")
    totals = []
    for i, record in enumerate(chosen):
        (timing,) = record["evaluation"]["measured"]["ok"]["shapes"]
        shape = {name: int(size) for name, size in timing["shape"]["values"].items()}
        source, tunables = source_of(folder, record)
        start = time.monotonic()
        module = load_inline(name=f"candidate_{i}",
                             cpp_sources="void run(torch::Tensor x, torch::Tensor y);",
                             cuda_sources=source + launcher(record, tunables, shape),
                             functions=["run"])
        built = time.monotonic()
        x = torch.randn(shape["rows"], shape["cols"], device="cuda")
        y = torch.empty_like(x)
        module.run(x, y)
        right = torch.allclose(y, torch.softmax(x, dim=1), rtol=1e-4, atol=1e-6)
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2 * CALLS)]
        for _ in range(WARM_UP):
            module.run(x, y)
        for call in range(CALLS):
            events[2 * call].record()
            module.run(x, y)
            events[2 * call + 1].record()
        torch.cuda.synchronize()
        ended = time.monotonic()
        median_us = 1000 * statistics.median(
            events[2 * call].elapsed_time(events[2 * call + 1]) for call in range(CALLS))
        totals.append(ended - start)
        print(f"{record['candidate']['origin'][9:]:14} {'right' if right else 'WRONG'}: "
              f"{built - start:6.2f} s to build, {ended - built:5.2f} s to check and time; "
              f"{median_us:.1f} us, here {timing['candidate']['median_ns'] / 1000:.1f} us")
    print(f"{statistics.median(totals):.1f} s per candidate, {1 / statistics.mean(totals):.3f} per second")


if __name__ == "__main__":
    main()
