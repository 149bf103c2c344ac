"""CodeEvolve's evaluation script, in two lines:

    from kernelcast.adapters.codeevolve import main
    main("path/to/problem")
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from kernelcast.adapters import Scorer


def main(problem: str, address: str = "", **options: Any) -> None:
    """`evaluate.py CODE RESULTS.json`: writes flat metrics, of which `speedup` is the fitness.

    Takes the arguments of `Scorer`. A failed kernel has speedup 0. Without a verdict the script fails, which CodeEvolve
    takes for an error of the program.
    """
    code, results = sys.argv[1:3]
    score = Scorer(problem, address, **options)(Path(code).read_bytes())
    Path(results).write_text(json.dumps(score.metrics))
    print(score.feedback, file=sys.stderr)
