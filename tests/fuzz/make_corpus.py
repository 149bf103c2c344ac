#!/usr/bin/env python3
"""Writes the example problems as inputs of problem_parser_fuzz, one file each.

usage: make_corpus.py PROBLEMS_FOLDER CORPUS_FOLDER
"""

import pathlib
import sys


def seed(folder: pathlib.Path) -> str:
    parts = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.name == "problem.yaml" or (path.suffix == ".yaml" and path.parent.name == "space"):
            parts.append(f"=== {name}\n{path.read_text()}")
        elif path.suffix in (".cc", ".cu"):
            # The content of sources does not matter here, and mutation is more effective on short
            # inputs.
            parts.append(f"=== {name}\n//\n")
    return "".join(part for part in parts if not part.startswith("=== space/expected"))


def main() -> None:
    problems, corpus = map(pathlib.Path, sys.argv[1:3])
    corpus.mkdir(parents=True, exist_ok=True)
    for folder in sorted(problems.iterdir()):
        if (folder / "problem.yaml").exists():
            (corpus / folder.name).write_text(seed(folder))


if __name__ == "__main__":
    main()
