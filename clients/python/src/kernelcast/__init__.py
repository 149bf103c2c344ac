"""Forecasts and measurements of GPU kernels, from Kernelcast's services.

    import kernelcast

    with kernelcast.local() as client:            # or kernelcast.Client("HOST:PORT")
        problem = client.put_problem("examples/problems/row_softmax")
        for result in client.evaluate_many(problem, sources, mode="measure"):
            print(result, result.feedback)

A result is a Measurement, a Forecast or a Rejection. `AsyncClient` has the methods of `Client` for asyncio, and
`async with kernelcast.local()` gives one.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Sequence

from kernelcast._types import (Candidate, Decision, Evaluation, Forecast, Launch, Measurement, Mode, Problem, Ratio,
                               Rejection, Reward, RewardSpec)
from kernelcast.errors import Error

if TYPE_CHECKING:
    import os

    from kernelcast._aio import AsyncClient
    from kernelcast._local import Local
    from kernelcast._sync import Client

__all__ = ["AsyncClient", "Candidate", "Client", "Decision", "Error", "Evaluation", "Forecast", "Launch", "Measurement",
           "Mode", "Problem", "Ratio", "Rejection", "Reward", "RewardSpec", "local"]

__version__ = "0.1.0"

# Imported when they are used, because gRPC takes most of the time of an import.
_LAZY = {"AsyncClient": "kernelcast._aio", "Client": "kernelcast._sync"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'kernelcast' has no attribute {name!r}")


def local(bundle: str | os.PathLike[str] | None = None, *, state_dir: str | os.PathLike[str] | None = None,
          replay: str | os.PathLike[str] | None = None, arguments: Sequence[str] = ()) -> Local:
    """Starts the services on this machine. Use with `with`, which gives a Client, or `async with`, an AsyncClient.

    `bundle` is the folder of an installation; by default that in KERNELCAST_BUNDLE, or the `kernelcast` command of
    this environment or in PATH. Without `state_dir` nothing is kept. With `replay`, a file of exported records, the worker answers from these.
    `arguments` are passed to `kernelcast up`. The services end with this process, however it ends.
    """
    from kernelcast._local import Local

    return Local(bundle, state_dir=state_dir, replay=replay, arguments=arguments)
