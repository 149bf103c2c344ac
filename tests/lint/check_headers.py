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
import tempfile

from check_includes import includes

HEAVY = ("grpc", ".pb.h")

# Precompiled for the headers that include them, because parsing them takes most of the time. A header's includes come
# before anything that needs them, so a header that includes one of these compiles with it in front if and only if it
# compiles without, given that the headers that it includes compile alone. These are checked too.
PRECOMPILED = ("absl/status/statusor.h", "nlohmann/json.hpp")


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
        """Files of the project that `path` includes transitively, with itself, and the other files that these include."""
        if path in self.reached:
            return self.reached[path]
        self.reached[path] = ({path}, set())  # ends the recursion of a cyclic include
        files, others = {path}, set()
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            text = file.read()
        for _, _, included in includes(text):
            if os.path.exists(os.path.join(self.root, included)):
                more, more_others = self.closure(included)
                files |= more
                others |= more_others
            else:
                others.add(included)
        self.reached[path] = (files, others)
        return self.reached[path]

    def is_heavy(self, path):
        return any(word in other for other in self.closure(path)[1] for word in HEAVY)

    def digest(self, paths, command):
        hasher = hashlib.sha256(repr(command).encode())
        for path in sorted(set().union(*(self.closure(p)[0] for p in paths))):
            hasher.update(path.encode() + b"\0")
            with open(os.path.join(self.root, path), "rb") as file:
                hasher.update(hashlib.sha256(file.read()).digest())
        return hasher.hexdigest()


def including(paths):
    return "".join(f'#include "{path}"\n' for path in paths)


def precompile(paths, command, folder):
    """Returns a file that includes `paths`, next to which compilers find it precompiled."""
    name = os.path.join(folder, "_".join(path.replace("/", "_") for path in paths))
    with open(name, "w", encoding="utf-8") as file:
        file.write(including(paths))
    subprocess.run([*command, "-x", "c++-header", name, "-o", name + ".gch"], check=True)
    return name


def compile_together(tree, paths, command, prefix, stamps):
    """Returns the compiler's error, or an empty string."""
    stamp = os.path.join(stamps, tree.digest(paths, command))
    if os.path.exists(stamp):
        return ""
    run = subprocess.run([*command, "-x", "c++", "-fsyntax-only", *(["-include", prefix] if prefix else []), "-"],
                         input=including(paths), capture_output=True, text=True, cwd=tree.root)
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
    command = [compiler, "-std=c++20", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-I", root,
               "-isystem", os.path.join(build, "proto", "generated"),
               "-I", os.path.join(root, "common", "candidate_abi"), *flags]
    tree = Tree(root)
    checked = [path for path in headers(root) if not (without and path.startswith(without))]
    together = [path for path in checked if tree.is_heavy(path)]
    alone = [path for path in checked if not tree.is_heavy(path)]
    prefixes = {path: tuple(other for other in PRECOMPILED if other in tree.closure(path)[1]) for path in alone}
    with tempfile.TemporaryDirectory() as folder:
        precompiled = {prefix: precompile(prefix, command, folder) for prefix in set(prefixes.values()) if prefix}
        batches = [(together, None)] if together else []
        batches += [([path], precompiled.get(prefixes[path])) for path in alone]
        with concurrent.futures.ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
            complaints = [c for c in pool.map(
                lambda batch: compile_together(tree, batch[0], command, batch[1], stamps), batches) if c]
    for complaint in complaints:
        print(complaint)
    print(f"{len(alone)} headers compiled alone, {len(together)} together; {len(complaints)} failed")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
