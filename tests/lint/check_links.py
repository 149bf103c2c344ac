#!/usr/bin/env python3
"""Checks that targets in the documents exist: files, headings, pictures, and every project path in backquotes that
starts with a top-level folder."""

import os
import re
import sys

from check_tree import files

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)
FOLDERS = ("common/", "services/", "proto/", "tests/", "docs/", "scripts/", "examples/", "clients/",
           "cmake/", ".ci/", ".github/")


def without_code_blocks(text):
    return FENCE.sub(lambda match: "\n" * match.group(0).count("\n"), text)


def anchors(text):
    """The ids that the renderer gives to headings."""
    seen, found = {}, set()
    for heading in HEADING.findall(without_code_blocks(text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        count = seen.get(anchor, 0)
        seen[anchor] = count + 1
        found.add(anchor if count == 0 else f"{anchor}-{count}")
    return found


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def check_document(root, path):
    text = without_code_blocks(read(os.path.join(root, path)))
    for number, line in enumerate(text.splitlines(), 1):
        for target in LINK.findall(CODE.sub("", line)):
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            name, _, anchor = target.partition("#")
            full = os.path.normpath(os.path.join(root, os.path.dirname(path), name)) if name \
                else os.path.join(root, path)
            if not os.path.exists(full):
                yield f"{path}:{number}: {target}: no such file"
            elif anchor and full.endswith(".md") and anchor not in anchors(read(full)):
                yield f"{path}:{number}: {target}: no such heading"
        for code in CODE.findall(line):
            if code.startswith(FOLDERS) and re.fullmatch(r"[\w./-]+", code) and \
                    not os.path.exists(os.path.join(root, code)):
                yield f"{path}:{number}: `{code}`: no such file"


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    documents = [name for name in files(root) if name.endswith(".md")]
    complaints = [c for name in documents for c in check_document(root, name)]
    print("\n".join(complaints) if complaints else f"the links of {len(documents)} documents resolve")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
