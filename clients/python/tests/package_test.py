"""The package as it is installed: contents, dependencies, import time, types."""

import ast
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import kernelcast
import pytest
import recorded

PACKAGE = recorded.ROOT / "clients/python"
DIST = Path(kernelcast.__file__).parents[2] / "dist"
WHEELS = Path(sys.prefix) / "wheels"
UNSET = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def contents():
    wheel, = DIST.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_holds_the_messages_and_their_types():
    names = contents().keys()
    assert {"kernelcast/py.typed", "kernelcast/v1/orchestrator_pb2.py", "kernelcast/v1/orchestrator_pb2.pyi"} <= names
    assert all(name.startswith("kernelcast") for name in names)


def test_the_licence_is_that_of_the_project():
    licence, = (content for name, content in contents().items() if name.endswith("/licenses/LICENSE"))
    assert licence == (recorded.ROOT / "LICENSE").read_bytes()


def test_the_sdist_builds_the_same_wheel_without_the_protos(tmp_path):
    sdist, = DIST.glob("*.tar.gz")
    run("tar", "-xf", sdist, "-C", tmp_path)
    folder, = tmp_path.iterdir()
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "dist", cwd=folder)
    wheel, = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == contents()


def test_a_fresh_environment_needs_grpc_and_protobuf_only(tmp_path):
    python = tmp_path / "bin/python"
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path)
    wheel, = DIST.glob("*.whl")
    pip = [sys._base_executable, "-I", "-m", "pip", "--python", python]
    run(*pip, "install", "--no-index", "--find-links", WHEELS, wheel, env=UNSET)
    installed = run(*pip, "list", "--format=freeze", env=UNSET)
    assert {line.split("==")[0] for line in installed.split()} == {"grpcio", "kernelcast-client", "protobuf", "typing_extensions"}
    print(run(python, "-I", "-c", "import kernelcast\nwith kernelcast.local() as c: print(c.describe().version)"))


def test_the_oldest_supported_versions_work():
    """Debian 12 has them."""
    python = "/usr/bin/python3"
    versions = "import grpc, google.protobuf as p; print(grpc.__version__.startswith('1.51'), p.__version__ < '4.22')"
    found = subprocess.run([python, "-c", versions], capture_output=True, text=True, env=UNSET, check=False)
    if found.stdout.strip() != "True True":
        pytest.skip(f"{python} has other versions of gRPC or protobuf")
    program = ("import kernelcast, sys\nwith kernelcast.local() as c:\n    p = c.put_problem(sys.argv[1])\n"
               "    print(*c.evaluate_many(p, ['a', 'b']))\n")
    printed = run(python, "-c", program, recorded.ROOT / "examples/problems/row_softmax")
    assert printed == "rejected: compile error rejected: compile error\n"


def test_importing_takes_at_most_twice_the_time_of_the_dependencies():
    program = ("import sys\nfrom time import process_time as now\nstart = now()\nimport kernelcast\nown = now()\n"
               "assert 'grpc' not in sys.modules\nimport grpc.aio, google.protobuf.duration_pb2\ntheirs = now()\n"
               "from kernelcast import Client\nprint((own - start + now() - theirs) / (theirs - own))")
    assert min(float(run(sys.executable, "-c", program)) for _ in range(3)) < 2


def test_types_are_strict():
    run(sys.executable, "-m", "mypy", "--cache-dir", os.devnull, "--config-file", PACKAGE / "pyproject.toml",
        *(p for p in Path(kernelcast.__file__).parent.rglob("*.py") if "v1" not in p.parts))


def test_a_forecast_cannot_be_taken_for_a_measurement(tmp_path):
    program = tmp_path / "fitness.py"
    program.write_text("import kernelcast\ndef fitness(r: kernelcast.Evaluation) -> float:\n    return r.speedup.value\n")
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, program],
                          capture_output=True, text=True, env={**os.environ, "MYPYPATH": os.environ["PYTHONPATH"]})
    assert '"Forecast" of "Measurement | Forecast | Rejection" has no attribute "speedup"' in done.stdout
    program.write_text("import kernelcast\ndef fitness(r: kernelcast.Evaluation) -> float:\n"
                       "    return r.speedup.value if isinstance(r, kernelcast.Measurement) and r.speedup else 0.0\n")
    run(sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, program,
        env={**os.environ, "MYPYPATH": os.environ["PYTHONPATH"]})


def test_it_is_the_version_of_the_services():
    assert kernelcast.__version__ in (recorded.ROOT / "CMakeLists.txt").read_text()
    assert any(f"kernelcast_client-{kernelcast.__version__}" in file.name for file in DIST.iterdir())


def test_only_one_module_names_calls():
    """So that a change of the protocol's calls is a change of one file."""
    folder = Path(kernelcast.__file__).parent
    for file in folder.rglob("*.py"):
        if file.name != "_rpc.py" and "v1" not in file.parts:
            strings = [node.value for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Constant)]
            assert not [s for s in strings if isinstance(s, str) and s.startswith("/kernelcast.")], file
