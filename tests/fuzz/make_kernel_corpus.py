#!/usr/bin/env python3
"""Writes inputs for kernel_answer_fuzz: answers in the forms used by models."""

import os
import sys

HOST = ('#include <kernelcast/candidate.h>\n// f\nextern "C" int32_t kernelcast_run(const DLTensor* in, '
        'int32_t, const DLTensor* out, int32_t, void*) {\n  return 0; /* done */\n}\n')
DEVICE = '#define A \\\n 1\nextern "C" __global__ void scale(const float* x, float* y) { y[0] = x[0]; }\n'
LAUNCHES = ('{"launches": [{"kernel": "scale", "grid": ["ceildiv(rows, 8)"], "block": [256], '
            '"arguments": ["x", "y", "3:i32"]}], "workspace_bytes": 0, "flags": ["--use_fast_math"]}\n')
SOURCE = '{"source": "int kernelcast_run;", "flags": []}'


def fence(word, text, mark="```"):
    return f"{mark}{word}\n{text}{mark}\n"


def edit(search, replace):
    return f"<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n"


ANSWERS = {
    "plain": HOST,
    "fenced": "A plan.\n\n" + fence("cpp", HOST),
    "tilde": fence("c++", HOST, "~~~~"),
    "indented": "1. Here:\n   ```cpp\n   int kernelcast_run;\n   ```\n",
    "two": fence("cpp", HOST) + "No:\n" + fence("cpp", HOST + "// 2\n"),
    "open": "```cpp\n" + HOST,
    "think": "<think>\n" + fence("cpp", HOST) + "</think>\n" + fence("cpp", HOST),
    "files": "**helper.h**\n" + fence("cpp", "int two;\n") + fence("cpp", '#include "helper.h"\n' + HOST),
    "device": fence("cuda", DEVICE) + fence("json", LAUNCHES),
    "launch": fence("cuda", DEVICE) + fence("json", '{"launch": {"name": "scale", "grid": 1, "block": 32, '
                                                    '"args": [], "shared_memory": 8}}\n'),
    "object": SOURCE,
    "object_fenced": fence("json", SOURCE + "\n"),
    "raw": fence("cpp", 'auto s = R"x(a // b)x"; char c = \'"\'; int kernelcast_run = 1\'000;\n'),
    "edit": edit("  y[0] = x[0];\n", "  y[0] = 2 * x[0];\n"),
    "edits": fence("cpp", edit("  int b;\n", "") + edit("  int a;\n  int a;\n", "  int a;\n")),
    "edit_indented": "1. So:\n   ```\n   <<<<<<< SEARCH\n     int b;\n   =======\n     int c;\n   >>>>>>> REPLACE\n   ```\n",
    "edit_twice": edit("  int a;\n", "") + fence("json", LAUNCHES),
    "edit_open": "<<<<<<< SEARCH\n  int b;\n=======\n",
    "prose": "It cannot be made faster.",
}


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for name, text in ANSWERS.items():
        for flags in range(4):
            with open(os.path.join(folder, f"{name}_{flags}"), "wb") as file:
                file.write(bytes([flags]) + text.encode())


if __name__ == "__main__":
    main()
