"""Reads problems from paths."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Callable

from kernelcast import errors
from kernelcast.v1 import kernel_pb2

# A name of a file in YAML. A word that is no file of the problem is ignored.
_FILE_NAME = re.compile(r"[\w./+-]+\.\w+")


def _problem_folder(path: Path) -> kernel_pb2.Problem:
    """A folder with problem.yaml: that file and those that it names, as docs/reference/problem_format.md describes."""
    names = ["problem.yaml"]
    for name in names:  # grows while it is read
        if name.endswith(".yaml"):
            for word in _FILE_NAME.findall((path / name).read_text(encoding="utf-8")):
                named = os.path.normpath(Path(name).parent / word)
                if named not in names and not named.startswith("..") and (path / named).is_file():
                    names.append(named)
    return kernel_pb2.Problem(
        files=[kernel_pb2.SourceFile(path=name, content=(path / name).read_bytes()) for name in names])


def _task_file(path: Path) -> kernel_pb2.Problem:
    """A task in KernelBench's form: one Python file."""
    return kernel_pb2.Problem(files=[kernel_pb2.SourceFile(path=path.name, content=path.read_bytes())])


# Formats of problems: a description, a test of a path and a reader. Another format is another line.
_FORMATS: tuple[tuple[str, Callable[[Path], bool], Callable[[Path], kernel_pb2.Problem]], ...] = (
    ("a folder with problem.yaml", lambda path: (path / "problem.yaml").is_file(), _problem_folder),
    ("a KernelBench task (FILE.py)", lambda path: path.suffix == ".py" and path.is_file(), _task_file),
)


def read_problem(path: str | os.PathLike[str]) -> kernel_pb2.Problem:
    """Reads a problem in any supported format. NotFound: nothing at the path has one."""
    for _, matches, read in _FORMATS:
        if matches(Path(path)):
            return read(Path(path))
    raise errors.NotFound(f"path: {os.fspath(path)!r} is not {' or '.join(format[0] for format in _FORMATS)}")
