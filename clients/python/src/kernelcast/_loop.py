"""One event loop per process for all gRPC calls, on a thread of its own.

gRPC's asyncio API does not work well with several event loops, or with one that ends. This way clients belong to no
event loop of the caller.

If a process forks while gRPC is running, gRPC hangs or crashes in the child. So all channels are closed before a fork.
Both processes open new ones when they need them, and the parent repeats the calls that were in progress.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import glob
import os
import threading
import time
import weakref
from typing import Any, Callable, Coroutine, Protocol, TypeVar

T = TypeVar("T")


class Closable(Protocol):
    async def close(self) -> None: ...


# A fork waits at most this long until gRPC has stopped. It takes milliseconds, unless the program itself uses gRPC.
_END_SECONDS = 1
# After this long, garbage is collected: a reference cycle may contain a call.
_COLLECT_SECONDS = 0.02
# How gRPC's threads are named: part of a name in Python, and prefixes of names in Linux.
_PYTHON_THREAD = "_poll_wrapper"
_LINUX_THREADS = b"event_engine", b"grpc_", b"lifeguard"

_lock = threading.Lock()  # held while the loop starts and while this process forks
_loop: asyncio.AbstractEventLoop | None = None
_forking = False
_forks = 0
_used = False  # a channel was opened after the last fork
_open: weakref.WeakSet[Closable] = weakref.WeakSet()


def loop() -> asyncio.AbstractEventLoop:
    global _loop
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="kernelcast", daemon=True).start()
        return _loop


def close_before_fork(owner: Closable) -> None:
    """Closes `owner`, which has opened a channel, before the next fork. Call it on the loop."""
    global _used
    _used = True
    _open.add(owner)


def forking() -> bool:
    """Whether this process is about to fork. Calls have been cancelled, and no channel may be opened."""
    return _forking


def forks() -> int:
    """The number of forks so far."""
    return _forks


async def _close() -> None:
    global _forking, _forks, _used
    # Set on the loop, so that no call sees only one of the changes.
    _forking = True
    _forks += 1
    if not _used:
        return
    _used = False
    while _open:
        await _open.pop().close()
    start, collected = time.monotonic(), False
    while _grpc_runs() and (waited := time.monotonic() - start) < _END_SECONDS:
        if waited > _COLLECT_SECONDS and not collected:
            collected = True
            gc.collect()
        await asyncio.sleep(0.0005)


def _grpc_runs() -> bool:
    """Whether gRPC has threads. They end soon after the last channel and the last call are freed."""
    if any(_PYTHON_THREAD in thread.name for thread in threading.enumerate()):
        return True
    for path in glob.iglob("/proc/self/task/*/comm"):
        with contextlib.suppress(OSError), open(path, "rb") as file:
            if file.read().startswith(_LINUX_THREADS):
                return True
    return False


def _before_fork() -> None:
    _lock.acquire()
    if _loop is not None:
        asyncio.run_coroutine_threadsafe(_close(), _loop).result(2 * _END_SECONDS)


def _after_fork_in_parent() -> None:
    global _forking
    _forking = False
    _lock.release()


def _after_fork_in_child() -> None:
    global _lock, _loop, _forking
    # The child has none of the threads.
    _lock, _loop, _forking = threading.Lock(), None, False


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


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
