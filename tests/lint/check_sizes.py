#!/usr/bin/env python3
"""Checks the number of lines of documents and sources.

README.md and docs/benchmarks.md have limits of their own. A source file has at most 600 lines, except tests and the
files listed below. A listed file that has become short must leave the list.
"""

import os
import sys

import check_tree

DOCUMENTS = {"README.md": 120, "docs/benchmarks.md": 250}
MAX_LINES = 600
SOURCE = (".c", ".cc", ".cmake", ".css", ".cu", ".cuh", ".go", ".h", ".html", ".in", ".js", ".proto", ".py", ".sh", ".sql",
          ".tmpl", "CMakeLists.txt")

# Files that may be longer, with the reason.
LONGER = {
    "proto/kernelcast/v1/kernel.proto": "the messages that services share",
    "proto/kernelcast/v1/orchestrator.proto": "the calls of one service and their messages",
    "services/orchestrator/core/state.cc": "what each event of the log changes",
}


def is_source(path):
    return path.endswith(SOURCE) and "tests" not in path.split("/")[:-1]


def check(root, longer=LONGER):
    """The complaints, each as "file: what"."""
    problems = []
    for path in check_tree.files(root):
        limit = DOCUMENTS.get(path) or (MAX_LINES if is_source(path) else None)
        if limit is None:
            continue
        with open(os.path.join(root, path), encoding="utf-8") as file:
            lines = sum(1 for _ in file)
        if path not in longer:
            if lines > limit:
                problems.append(f"{path}: {lines} lines; the limit is {limit}")
        elif lines <= limit:
            problems.append(f"{path}: {lines} lines; remove it from the list of check_sizes.py")
    return problems


def main():
    problems = check(sys.argv[1] if len(sys.argv) > 1 else ".")
    print("\n".join(problems) if problems else "no file is too long")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
