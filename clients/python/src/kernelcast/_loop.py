"""One event loop per process for all gRPC calls, on a thread of its own.

gRPC's asyncio API does not work well with several event loops, or with one that ends. This way clients belong to no
event loop of the caller.
"""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Any, Callable, Coroutine, TypeVar

T = TypeVar("T")

_starting = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}  # by process, because a fork has none of the threads


def loop() -> asyncio.AbstractEventLoop:
    with _starting:
        if os.getpid() not in _loops:
            _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=_loops[os.getpid()].run_forever, name="kernelcast", daemon=True).start()
        return _loops[os.getpid()]


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs `work` on the loop and waits for it. An interrupt cancels it."""
    future = asyncio.run_coroutine_threadsafe(work, loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


async def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Runs `work` on the loop and awaits it on the caller's. Cancelling the caller cancels it."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop()))


def call(function: Callable[[], T]) -> T:
    """Calls a function that does not block on the loop's thread."""

    async def work() -> T:
        return function()

    return run(work())
