"""Builds the wheel and the sdist of this package, and unpacks the wheel: build_package.py SOURCE_DIR OUTPUT_DIR"""

import pathlib
import shutil
import subprocess
import sys

source, output = (pathlib.Path(argument) for argument in sys.argv[1:])
shutil.rmtree(output, ignore_errors=True)
subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", output / "dist"], cwd=source, check=True)
wheel, = (output / "dist").glob("*.whl")
subprocess.run([sys.executable, "-m", "zipfile", "-e", wheel, output / "site"], check=True)
