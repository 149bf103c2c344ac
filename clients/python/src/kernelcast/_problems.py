"""Reads problems from paths."""

from __future__ import annotations

import os
import re
import sysconfig
from pathlib import Path
from typing import Callable

from kernelcast import errors
from kernelcast.v1 import kernel_pb2

# A name of a file in YAML. A word that is no file of the problem is ignored.
_FILE_NAME = re.compile(r"[\w./+-]+\.\w+")


def _named_files(path: Path, first: str) -> list[str]:
    """A file of a problem's folder and those that it and its spaces name, as docs/reference/problem_format.md describes."""
    names = [first]
    for name in names:  # grows while it is read
        if name.endswith(".yaml"):
            for word in _FILE_NAME.findall((path / name).read_text(encoding="utf-8-sig")):
                named = os.path.normpath(Path(name).parent / word)
                if named not in names and not named.startswith("..") and (path / named).is_file():
                    names.append(named)
    return names


def _problem(files: dict[str, Path]) -> kernel_pb2.Problem:
    return kernel_pb2.Problem(
        files=[kernel_pb2.SourceFile(path=name, content=path.read_bytes()) for name, path in files.items()])


def _problem_folder(path: Path) -> kernel_pb2.Problem:
    return _problem({name: path / name for name in _named_files(path, "problem.yaml")})


def _space_files(path: Path) -> dict[str, Path]:
    """The files of a task's space of device code; none if it has none."""
    if not (path / "space/cuda.yaml").is_file():
        return {}
    return {name: path / name for name in _named_files(path, "space/cuda.yaml")}


def _task_file(path: Path) -> kernel_pb2.Problem:
    """A task in KernelBench's form: one Python file."""
    return _problem({path.name: path})


def _workloads(definition: Path) -> Path:
    """The workloads of a definition of flashinfer-bench: DATA/workloads/OP/NAME.jsonl, or next to it."""
    neighbour = definition.with_suffix(".jsonl")
    parts = list(neighbour.parts)
    if "definitions" in parts:
        parts[parts.index("definitions")] = "workloads"
        if Path(*parts).is_file():
            return Path(*parts)
    return neighbour


def _definition(path: Path) -> kernel_pb2.Problem:
    workloads = _workloads(path)
    root = path.parent
    if "definitions" in path.parts:
        root = Path(*path.parts[:path.parts.index("definitions")])
    return _problem({path.name: path, workloads.name: workloads, **_tensor_files(workloads, root)})


def _tensor_files(workloads: Path, root: Path) -> dict[str, Path]:
    """The .safetensors files that workloads name, with paths relative to the root."""
    text = workloads.read_text(encoding="utf-8-sig")
    return {name: root / name for name in re.findall(r'"path"\s*:\s*"([^"]+\.safetensors)"', text)}


def _definition_folder(path: Path) -> kernel_pb2.Problem:
    """A problem of SOL-ExecBench."""
    names = ("definition.json", "reference.py", "workload.jsonl")
    files = {name: path / name for name in names if (path / name).is_file()}
    return _problem({**files, **_tensor_files(path / "workload.jsonl", path), **_space_files(path)})


def _gpu_mode_folder(path: Path) -> kernel_pb2.Problem:
    """task.yml and the files that it names, except for the candidate.

    The program that judges candidates elsewhere is left out too, where reference.py has the functions that Kernelcast
    calls. Where it has not, submission.py is the reference.
    """
    text = (path / "task.yml").read_text(encoding="utf-8-sig")
    main = _MAIN_PROGRAM.search(text)
    program = main[1] if main else "eval.py"
    files = {"task.yml": path / "task.yml"}
    named = {name: path / source for name, source in _NAMED_SOURCE.findall(text) if source != "@SUBMISSION@"}
    files.update((name, source) for name, source in named.items() if name != program)
    reference = files.get("reference.py")
    source = reference.read_text(encoding="utf-8-sig") if reference is not None and reference.is_file() else ""
    if not all(re.search(pattern, source, re.MULTILINE) for pattern in _JUDGED_FUNCTIONS):
        own = {program: named.get(program, path / program), "submission.py": path / "submission.py"}
        files.update((name, file) for name, file in own.items() if file.is_file())
    return _problem({**files, **_space_files(path)})


# Names of config.main in task.yml, and lines of reference.py with the functions that Kernelcast calls.
_MAIN_PROGRAM = re.compile(r"""\bmain["']?\s*:\s*["']?([\w.-]+)""")
_JUDGED_FUNCTIONS = (r"^def generate_input\(", r"^def ref_kernel\(", r"^(def check_implementation\(|check_implementation)")


# An entry of `files` in task.yml, in either style of YAML.
_NAMED_SOURCE = re.compile(r"""\bname["']?\s*:\s*["']?([\w.-]+)["']?[\s,]+["']?source["']?\s*:\s*["']?([\w./@-]+)""")


# Formats of problems: a description, a test of a path and a reader. Another format is another line.
_FORMATS: tuple[tuple[str, Callable[[Path], bool], Callable[[Path], kernel_pb2.Problem]], ...] = (
    ("a folder with problem.yaml", lambda path: (path / "problem.yaml").is_file(), _problem_folder),
    ("a KernelBench task (FILE.py)", lambda path: path.suffix == ".py" and path.is_file(), _task_file),
    ("a flashinfer-bench definition (FILE.json) with workloads",
     lambda path: path.suffix == ".json" and path.is_file() and _workloads(path).is_file(), _definition),
    ("a GPU MODE folder (task.yml)", lambda path: (path / "task.yml").is_file(), _gpu_mode_folder),
    ("a SOL-ExecBench folder (definition.json, workload.jsonl)",
     lambda path: (path / "definition.json").is_file() and (path / "workload.jsonl").is_file(), _definition_folder),
)


def read_problem(path: str | os.PathLike[str]) -> kernel_pb2.Problem:
    """Reads a problem in any supported format. NotFound: nothing at the path has one."""
    for _, matches, read in _FORMATS:
        if matches(Path(path)):
            return read(Path(path))
    raise errors.NotFound(f"path: {os.fspath(path)!r} is not {' or '.join(format[0] for format in _FORMATS)}")


def find_problem(argument: str) -> Path:
    """The path of a problem, or of one with this name in the folders where the `kernelcast` command looks.

    These are the folders of KERNELCAST_PROBLEMS, examples/problems, and that of the installation.
    """
    path = Path(argument)
    if path.exists() or os.sep in argument:
        return path
    folders = [Path(folder) for folder in os.environ.get("KERNELCAST_PROBLEMS", "").split(":") if folder]
    folders.append(Path("examples/problems"))
    if bundle := os.environ.get("KERNELCAST_BUNDLE"):
        root = Path(bundle)
        folders.append((root.parent if root.name == "bin" else root) / "share/kernelcast/problems")
    folders.append(Path(sysconfig.get_path("data"), "lib/kernelcast/share/kernelcast/problems"))
    for folder in folders:
        if (folder / argument / "problem.yaml").is_file():
            return folder / argument
    raise errors.NotFound(f"TASK: no problem {argument!r} in {', '.join(map(str, folders))}")
