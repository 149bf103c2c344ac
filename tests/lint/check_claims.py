#!/usr/bin/env python3
"""Checks that every claim of SECURITY.md names tests that exist. Rows of its tables "claim | proved by" link them
by name, and so do other links into tests/."""

import os
import re
import sys

HEADER = re.compile(r"^\|\s*claim\s*\|\s*proved by\s*\|\s*$")
TEST_LINK = re.compile(r"\[([^\]]+)\]\((?:\.\./)*(tests/[^)\s]+)\)")


def names_in(source, text):
    """Names of the tests of one file."""
    if source.endswith(".py"):
        return set(re.findall(r"^\s*def (test_\w+)\(", text, re.MULTILINE))
    # A name may span several lines as adjacent literals.
    literals = re.findall(r'TEST_CASE\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)', text)
    names = ("".join(re.findall(r'"((?:[^"\\]|\\.)*)"', one)) for one in literals)
    return set(names)


def check(root, path="SECURITY.md"):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        lines = file.read().splitlines()
    in_claims, claims = False, 0
    for number, line in enumerate(lines, 1):
        if HEADER.match(line):
            in_claims = True
            continue
        in_claims = in_claims and line.startswith("|")
        links = TEST_LINK.findall(line)
        if in_claims and not re.fullmatch(r"[|\s:-]+", line):
            claims += 1
            if not links:
                yield f"{path}:{number}: this claim names no test"
        for name, source in links:
            full = os.path.join(root, source)
            if not os.path.isfile(full):
                yield f"{path}:{number}: {source}: no such file"
                continue
            with open(full, encoding="utf-8") as file:
                if name not in names_in(source, file.read()):
                    yield f"{path}:{number}: {source} has no test '{name}'"
    if claims == 0:
        yield f"{path}: makes no claims"


def main():
    complaints = list(check(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("\n".join(complaints) if complaints else "every claim names tests that exist")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
