#!/usr/bin/env python3
"""Compares the metric names in the code with those in docs/reference/metrics.md."""

import os
import re
import sys

DOCUMENT = "docs/reference/metrics.md"
IN_CODE = re.compile(r'"(kernelcast_(?:build|grpc|tls|auth|state|tracing|worker|forecaster|orchestrator|gateway)_[a-z0-9_]+)"')
IN_DOCUMENT = re.compile(r"^\| `(kernelcast_[a-z0-9_]+)`", re.MULTILINE)


def names_in_code(root):
    found = {}
    for top in ("common", "services"):
        for directory, _, files in os.walk(os.path.join(root, top)):
            for file in files:
                if file.endswith((".cc", ".h")):
                    path = os.path.relpath(os.path.join(directory, file), root)
                    with open(os.path.join(root, path), encoding="utf-8") as source:
                        for name in IN_CODE.findall(source.read()):
                            found.setdefault(name, path)
    return found


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    in_code = names_in_code(root)
    with open(os.path.join(root, DOCUMENT), encoding="utf-8") as file:
        listed = IN_DOCUMENT.findall(file.read())
    complaints = [f"{path}: {name} is not listed in {DOCUMENT}"
                  for name, path in sorted(in_code.items()) if name not in listed]
    complaints += [f"{DOCUMENT}: {name} is in no source" for name in sorted(set(listed))
                   if name not in in_code]
    complaints += [f"{DOCUMENT}: {name} is listed twice" for name in sorted(set(listed))
                   if listed.count(name) > 1]
    print("\n".join(complaints) if complaints else f"all {len(listed)} metrics are documented")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
