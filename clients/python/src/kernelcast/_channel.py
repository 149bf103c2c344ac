"""Connections to an orchestrator, and the translation of gRPC's errors."""

from __future__ import annotations

import asyncio
import os
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from kernelcast import _loop, errors

_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.lb_policy_name", "round_robin"),
    # Detects within 40 s a peer that vanished without closing.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    # Reconnects quickly to a peer that restarts.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.enable_http_proxy", 0),
    # Services refuse compressed messages.
    ("grpc.compression_enabled_algorithms_bitset", 1),
]
_LOCAL = ("127.0.0.1:", "localhost:", "[::1]:", "unix:")

Path_ = str | os.PathLike[str]


@dataclass(frozen=True)
class Connection:
    """Where the orchestrator is and how to prove who calls it. Files are as for the `kernelcast` command."""

    address: str
    token_file: Path_ | None = None
    tls_ca: Path_ | None = None
    tls_certificate: Path_ | None = None
    tls_key: Path_ | None = None

    @classmethod
    def of(cls, address: str, token_file: Path_ | None, *tls: Path_ | None) -> Connection:
        address = address or os.environ.get("KERNELCAST_ORCHESTRATOR", "")
        if not address:
            raise errors.InvalidArgument("address: is empty, and so is KERNELCAST_ORCHESTRATOR; "
                                         "give HOST:PORT of an orchestrator, or use kernelcast.local()")
        connection = cls(address, token_file or os.environ.get("KERNELCAST_TOKEN_FILE") or None, *tls)
        if connection.token_file and not connection.tls_ca and not address.startswith(_LOCAL):
            raise errors.InvalidArgument(f"tls_ca: a token is sent over TLS only, and to {address} there is none")
        return connection

    def channel(self) -> grpc.aio.Channel:
        """A channel of the running event loop. Unavailable while the process forks."""
        if _loop.forking():
            raise errors.Unavailable("the process forks")
        if not self.tls_ca:
            return grpc.aio.insecure_channel(self.address, options=_OPTIONS)
        pem = [Path(file).read_bytes() if file else None for file in (self.tls_ca, self.tls_key, self.tls_certificate)]
        return grpc.aio.secure_channel(self.address, grpc.ssl_channel_credentials(*pem), options=_OPTIONS)

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Reads the token anew each time, because tokens are replaced."""
        if not self.token_file:
            return ()
        return (("authorization", "Bearer " + Path(self.token_file).read_text(encoding="utf-8-sig").strip()),)


def error_of(code: str, message: str, retry_after: float | None = None, request_id: str = "") -> errors.Error:
    return errors.BY_CODE.get(code, errors.Error)(message, retry_after=retry_after, request_id=request_id)


def error_of_call(error: grpc.aio.AioRpcError, request_id: str = "") -> errors.Error:
    asked = dict(error.trailing_metadata() or ()).get("retry-after-ms")
    return error_of(error.code().name, error.details() or "", int(asked) / 1e3 if asked else None, request_id)


class calling:
    """Raises the Error of a call that fails. If a fork of this process cancelled the call, that is Unavailable."""

    def __init__(self, request_id: str = "") -> None:
        self._request_id = request_id

    def __enter__(self) -> None:
        self._forks = _loop.forks()

    def __exit__(self, _: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, grpc.aio.AioRpcError):
            failed = error_of_call(error, self._request_id)
        elif isinstance(error, asyncio.CancelledError) and (_loop.forking() or _loop.forks() != self._forks):
            failed = errors.Unavailable("the process forked during the call", request_id=self._request_id)
        else:
            return
        # The traceback refers to the call, and gRPC stops only when all calls are freed.
        error.__traceback__ = error.__context__ = error.__cause__ = None
        del traceback
        raise failed


class Patience:
    """Paces the retries of one call or stream."""

    def __init__(self, seconds: float, timeout: float | None = None) -> None:
        self._seconds = seconds
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self.reset()

    def reset(self) -> None:
        """The service has answered."""
        self._pause = 0.1
        self._lost_since: float | None = None

    @property
    def time_left(self) -> float | None:
        return None if self._deadline is None else max(self._deadline - time.monotonic(), 0.0)

    async def wait(self, error: errors.Error) -> None:
        """Waits before a retry. Raises `error` if a retry cannot succeed or comes too late."""
        if not isinstance(error, (errors.Unavailable, errors.ResourceExhausted, errors.Cancelled)):
            raise error
        now = time.monotonic()
        pause = error.retry_after or self._pause * random.uniform(0.75, 1.25)
        if not isinstance(error, errors.ResourceExhausted):  # an overloaded service is not lost
            self._lost_since = self._lost_since or now
            if now - self._lost_since > self._seconds:
                raise error
        if self._deadline is not None and now + pause > self._deadline:
            raise error
        self._pause = min(2 * self._pause, 2.0)
        await asyncio.sleep(pause)
