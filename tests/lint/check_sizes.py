#!/usr/bin/env python3
"""Checks the number of lines of README.md and docs/benchmarks.md. Sources have no limit: a file is one idea."""

import os
import sys

LIMITS = {"README.md": 120, "docs/benchmarks.md": 250}


def check(root):
    """The complaints, each as "file: what"."""
    problems = []
    for path, limit in LIMITS.items():
        with open(os.path.join(root, path), encoding="utf-8") as file:
            lines = sum(1 for _ in file)
        if lines > limit:
            problems.append(f"{path}: {lines} lines; the limit is {limit}")
    return problems


def main():
    problems = check(sys.argv[1] if len(sys.argv) > 1 else ".")
    print("\n".join(problems) if problems else "no document is too long")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
