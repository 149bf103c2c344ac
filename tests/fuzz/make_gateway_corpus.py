#!/usr/bin/env python3
"""Writes requests to the gateway as inputs of gateway_request_fuzz, one file each.

usage: make_gateway_corpus.py CORPUS_FOLDER
"""

import json
import pathlib
import sys

SOURCE = "int x;\n"
REFERENCE = ("import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
             "        return torch.relu(x)\n\n\ndef get_inputs():\n    return [torch.randn(8)]\n\n\n"
             "def get_init_inputs():\n    return []\n")
CANDIDATE = REFERENCE.replace("Model", "ModelNew")
TASK = {"task_id": "a", "reference_code": REFERENCE, "kernel_code": CANDIDATE, "backend": "triton", "priority": "normal",
        "num_correct_trials": 5, "is_valid": None, "entry_point": "Model"}
SOLUTION = {"name": "mine", "definition": "small", "author": "me", "description": None,
            "spec": {"language": "cpp", "target_hardware": ["cpu"], "entry_point": "k.cc::kernelcast_run",
                     "dependencies": [], "destination_passing_style": True, "binding": None},
            "sources": [{"path": "k.cc", "content": SOURCE}]}


def part(name, text, file_name=None):
    file = f'; filename="{file_name}"' if file_name else ""
    return f'Content-Disposition: form-data; name="{name}"{file}\r\n\r\n{text}\r\n--b'


POSTS = {
    "flashinfer/evaluate": {"solution": SOLUTION, "workload_uuids": ["a"]},
    "flashinfer/tasks/batch": {"task_ids": ["a", "b"], "timeout": 0.5},
    "kernelgym/evaluate": TASK,
    "kernelgym/evaluate/batch": {"batch_id": "b", "tasks": [TASK, {**TASK, "task_id": "b", "kernel_code": "short"}]},
    "slime": {"prompt": "p", "response": f"```cpp\n{SOURCE}```", "label": "small"},
    "slime/relu": {"response": CANDIDATE, "label": None},
    "gepa/small/evaluate": {"candidate": SOURCE, "example_id": None},
    "gepa/relu/evaluate_examples": {"candidate": {"source": CANDIDATE}, "example_ids": []},
}
GETS = ("flashinfer/definitions", "flashinfer/definitions/small/workloads", "flashinfer/tasks/a?timeout=0",
        "popcorn/leaderboards", "popcorn/gpus/SMALL", "popcorn/user/submissions?leaderboard=small&limit=5&offset=1",
        "popcorn/user/submissions/12", "kernelgym/status/a", "kernelgym/health", "gepa/small/status", "gepa/relu/task")


def main() -> None:
    corpus = pathlib.Path(sys.argv[1])
    corpus.mkdir(parents=True, exist_ok=True)
    inputs = [f"GET /{target}\n\n" for target in GETS]
    inputs += [f"POST /{target}\napplication/json\n{json.dumps(body)}" for target, body in POSTS.items()]
    form = 'multipart/form-data; boundary="b"\n--b\r\n'
    for target in ("small/h200/test", "relu/cpu/leaderboard", "small/b200/benchmark"):
        inputs.append(f"POST /popcorn/submission/{target}\n{form}{part('other', 'x')}\r\n{part('file', SOURCE, 'a.cu')}--\r\n")
    inputs.append(f"POST /popcorn/submission/relu/cpu/test\n{form}{part('file', CANDIDATE, 'a.py')}--\r\n")
    for number, text in enumerate(inputs):
        (corpus / f"{number:02}").write_bytes(text.encode())


if __name__ == "__main__":
    main()
