#!/usr/bin/env python3
"""Generates Python stubs from Kernelcast's protos.

    generate_stubs.py [OUTPUT_FOLDER]     default: a folder "generated" next to this file

Uses the `grpcio-tools` package where it is installed, else protoc with grpc_python_plugin (Debian:
protobuf-compiler and protobuf-compiler-grpc). Put the output folder on PYTHONPATH and import
`kernelcast.v1.orchestrator_pb2_grpc`.
"""

import importlib.util
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PROTOS = HERE.parent.parent / "proto"


def compilers():
    """Command lines to try, each with its option for the folder of the service code."""
    if importlib.util.find_spec("grpc_tools"):
        yield [sys.executable, "-m", "grpc_tools.protoc"], "--grpc_python_out="
    protoc, plugin = shutil.which("protoc"), shutil.which("grpc_python_plugin")
    if protoc and plugin:
        yield [protoc, f"--plugin=protoc-gen-grpc={plugin}"], "--grpc_out="


def generate(output):
    output.mkdir(parents=True, exist_ok=True)
    files = sorted(str(f.relative_to(PROTOS)) for f in PROTOS.glob("kernelcast/v1/*.proto"))
    # A compiler may be too old for the installed protobuf, so accept it only if its stubs can be
    # imported.
    for command, grpc_out in compilers():
        run = subprocess.run([*command, f"-I{PROTOS}", f"--python_out={output}", f"{grpc_out}{output}",
                              *files], capture_output=True, text=True)
        if run.returncode == 0:
            run = subprocess.run([sys.executable, "-c", "import kernelcast.v1.orchestrator_pb2_grpc"],
                                 cwd=output, capture_output=True, text=True)
        if run.returncode == 0:
            return
        complaint = (run.stderr.strip().splitlines() or ["no output"])[-1]
        print(f"{' '.join(command[:3])}: {complaint}", file=sys.stderr)
    sys.exit("no working protobuf compiler for Python: install grpcio and grpcio-tools, or the packages "
             "python3-grpcio, protobuf-compiler and protobuf-compiler-grpc")


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "generated"
    generate(target)
    print(target)
