"""Generates the messages in src/kernelcast/v1 from proto/ when the package is built or installed.

A source distribution holds the generated files, and not the protos.
"""

import pathlib
import subprocess
import sys
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
PROTOS = HERE.parent.parent / "proto"


def generate(output: pathlib.Path) -> None:
    """Writes kernelcast/v1/*_pb2.py and their type stubs below `output`. Runs protoc from PATH."""
    output.mkdir(parents=True, exist_ok=True)
    files = sorted(str(f.relative_to(PROTOS)) for f in PROTOS.glob("kernelcast/v1/*.proto"))
    subprocess.run(["protoc", f"-I{PROTOS}", f"--python_out={output}", f"--pyi_out={output}", *files], check=True)
    (output / "kernelcast/v1/__init__.py").write_text('"""The messages of the protocol, generated from the protos."""\n')


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run as a program
    pass
else:

    class MessagesHook(BuildHookInterface):  # type: ignore[type-arg]
        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            if PROTOS.is_dir():
                generate(HERE / "src")


if __name__ == "__main__":
    generate(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "src")
