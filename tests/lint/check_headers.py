#!/usr/bin/env python3
"""Compiles every header of the project alone, with the compiler's warnings as errors.

    check_headers.py ROOT BUILD_DIR COMPILER [--without FOLDER] [-- COMPILER_FLAG ...]

Headers under FOLDER are skipped. Headers that include gRPC take seconds each, so they are compiled together in one
translation unit. Results are cached in BUILD_DIR by content, so that another run compiles only what has changed.
"""

import concurrent.futures
import hashlib
import os
import subprocess
import sys

from check_includes import includes

HEAVY = ("grpc", ".pb.h")


def headers(root):
    for top in ("common", "services"):
        for directory, folders, names in os.walk(os.path.join(root, top)):
            folders.sort()
            for name in sorted(names):
                if name.endswith(".h"):
                    yield os.path.relpath(os.path.join(directory, name), root)


class Tree:
    """Caches which files each header reaches."""

    def __init__(self, root):
        self.root = root
        self.reached = {}

    def closure(self, path):
        """Files of the project that `path` includes transitively, with itself, and whether it includes gRPC."""
        if path in self.reached:
            return self.reached[path]
        self.reached[path] = ({path}, False)  # ends the recursion of a cyclic include
        files, heavy = {path}, False
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            text = file.read()
        for _, _, included in includes(text):
            if os.path.exists(os.path.join(self.root, included)):
                more, more_heavy = self.closure(included)
                files |= more
                heavy |= more_heavy
            else:
                heavy |= any(word in included for word in HEAVY)
        self.reached[path] = (files, heavy)
        return self.reached[path]

    def digest(self, paths, command):
        hasher = hashlib.sha256(repr(command).encode())
        for path in sorted(set().union(*(self.closure(p)[0] for p in paths))):
            hasher.update(path.encode() + b"\0")
            with open(os.path.join(self.root, path), "rb") as file:
                hasher.update(hashlib.sha256(file.read()).digest())
        return hasher.hexdigest()


def compile_together(tree, paths, command, stamps):
    """Returns the compiler's error, or an empty string."""
    stamp = os.path.join(stamps, tree.digest(paths, command))
    if os.path.exists(stamp):
        return ""
    text = "".join(f'#include "{path}"\n' for path in paths)
    run = subprocess.run(command, input=text, capture_output=True, text=True, cwd=tree.root)
    if run.returncode != 0:
        return f"{', '.join(paths)}:\n{run.stderr}"
    with open(stamp, "w", encoding="utf-8"):
        pass
    return ""


def main():
    root, build, compiler = sys.argv[1:4]
    rest = sys.argv[4:]
    without = rest[1] + "/" if rest[:1] == ["--without"] else None
    flags = rest[rest.index("--") + 1:] if "--" in rest else []
    root = os.path.abspath(root)
    stamps = os.path.join(build, "header_stamps")
    os.makedirs(stamps, exist_ok=True)
    command = [compiler, "-x", "c++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wshadow",
               "-Werror", "-I", root, "-isystem", os.path.join(build, "proto", "generated"),
               "-I", os.path.join(root, "common", "candidate_abi"), *flags, "-"]
    tree = Tree(root)
    alone, together = [], []
    for path in headers(root):
        if without and path.startswith(without):
            continue
        (together if tree.closure(path)[1] else alone).append(path)
    batches = [[path] for path in alone]
    if together:
        batches.insert(0, together)
    with concurrent.futures.ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        complaints = [c for c in pool.map(
            lambda batch: compile_together(tree, batch, command, stamps), batches) if c]
    for complaint in complaints:
        print(complaint)
    print(f"{len(alone)} headers compiled alone, {len(together)} together; {len(complaints)} failed")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
