#!/usr/bin/env python3
"""Checks every file that is or will be under version control.

No absolute path of a personal machine, no host of a package registry, no marker of unfinished work, no file over the
size limit, no binary except pictures, text that ends in one newline, and executable scripts with an interpreter
line.
"""

import gzip
import os
import re
import subprocess
import sys
import zlib

MAX_BYTES = 1 << 20
BINARY = (".png", ".ico", ".woff2", ".npy", ".safetensors")

# Brackets keep the patterns from matching themselves.
FORBIDDEN = [
    (r"(?<![\w.$}])/(?:wor[k]|hom[e]|roo[t]|Use[r]s)/", "a path of somebody's machine"),
    (r"deb\.debia[n]\.org|archive\.ubunt[u]\.com|pypi\.or[g]|registry\.npmj[s]|crates\.i[o]\b",
     "the host of a package registry"),
    (r"\b(?:TOD[O]|FIXM[E]|XX[X])\b", "a mark of unfinished work"),
    (r"[ \t]+$", "a blank at the end of a line"),
]
ANY_FILE = re.compile("|".join(f"(?P<f{i}>{p})" for i, (p, _) in enumerate(FORBIDDEN)), re.MULTILINE)


def files(root):
    """Files tracked by git, or not ignored by it."""
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, check=False)
    if listed.returncode == 0:
        names = sorted(set(listed.stdout.decode().split("\0")) - {""})
        return [name for name in names if os.path.isfile(os.path.join(root, name))]
    found = []  # an archive of the sources
    for directory, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in ("build", ".git", ".setup", "__pycache__"))
        found += [os.path.relpath(os.path.join(directory, n), root) for n in sorted(names)]
    return found


def check_file(root, path):
    full = os.path.join(root, path)
    size = os.path.getsize(full)
    if size > MAX_BYTES:
        yield f"{path}: {size} bytes; the limit is {MAX_BYTES}"
    if path.endswith(BINARY):
        return
    with open(full, "rb") as file:
        content = file.read()
    if path.endswith(".gz"):
        # Packed text must meet the rules for text.
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error):
            yield f"{path}: cannot be unpacked"
            return
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        yield f"{path}: not UTF-8 at byte {error.start}"
        return
    if "\0" in text or "\r" in text:
        yield f"{path}: holds a NUL or a carriage return"
    if path != "LICENSE":
        for match in ANY_FILE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            what = FORBIDDEN[int(match.lastgroup[1:])][1]
            yield f"{path}:{line}: {match.group(0).strip()!r}: {what}"
    if text and not (text.endswith("\n") and not text.endswith("\n\n")):
        yield f"{path}: does not end in one newline"
    if text.startswith("#!") != os.access(full, os.X_OK):
        yield f"{path}: an interpreter line and the run bit go together"


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    names = files(root)
    complaints = [c for name in names for c in check_file(root, name)]
    print("\n".join(complaints) if complaints else f"{len(names)} files are in order")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
