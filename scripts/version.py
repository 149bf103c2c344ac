#!/usr/bin/env python3
"""Prints, checks or changes the version of Kernelcast. CMakeLists.txt has it; other files repeat it.

    scripts/version.py             prints it
    scripts/version.py --check     fails where a file has another one
    scripts/version.py --set X.Y.Z changes all files

Exit codes: 0 done, 1 a file has another version, or none, 2 usage.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
VERSION = r"\d+\.\d+\.\d+"
# File, and what stands before the version. The first one is the source.
PLACES = (
    ("CMakeLists.txt", r"^project\(kernelcast VERSION "),
    ("clients/python/src/kernelcast/__init__.py", r'^__version__ = "'),
    ("helm/kernelcast/Chart.yaml", r"^version: "),
    ("helm/kernelcast/Chart.yaml", r"^appVersion: "),
    ("docker/README.md", r"\bkernelcast/[a-z-]+:"),
    ("helm/kernelcast/README.md", r"\$image:"),
    ("docs/quickstart.md", r"\bkernelcast-"),
)


def find(name, before, text):
    """The versions in a file, each with its line."""
    matches = list(re.finditer(f"(?m){before}({VERSION})", text))
    return [(match[1], text.count("\n", 0, match.start(1)) + 1) for match in matches] or [("no version", 1)]


def main(arguments):
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name, _ in PLACES}
    version = find(*PLACES[0], texts[PLACES[0][0]])[0][0]
    if not arguments:
        print(version)
        return 0
    if arguments == ["--check"]:
        wrong = [f"{name}:{line}: {found}; CMakeLists.txt has {version}"
                 for name, before in PLACES for found, line in find(name, before, texts[name]) if found != version]
        print("\n".join(wrong) if wrong else f"all files have version {version}")
        return 1 if wrong else 0
    if len(arguments) == 2 and arguments[0] == "--set" and re.fullmatch(VERSION, arguments[1]):
        for name, before in PLACES:
            texts[name] = re.sub(f"(?m)({before}){VERSION}", rf"\g<1>{arguments[1]}", texts[name])
        for name, text in texts.items():
            (ROOT / name).write_text(text, encoding="utf-8")
        return 0
    print(__doc__, file=sys.stdout if arguments in (["-h"], ["--help"]) else sys.stderr)
    return 0 if arguments in (["-h"], ["--help"]) else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
