"""Many evaluations on one stream."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Callable, Iterable, Iterator, TypeVar

import grpc
import grpc.aio

from kernelcast import _convert, errors
from kernelcast._channel import Patience, error_of, error_of_call
from kernelcast._rpc import EVALUATE_MANY
from kernelcast._types import Candidate, Evaluation
from kernelcast.v1 import orchestrator_pb2

# Bounds of a message, well below the services' limit.
_MESSAGE_REQUESTS = 64
_MESSAGE_BYTES = 1 << 20
_COLLECT_SECONDS = 0.005
_DEFAULT_RETRY_SECONDS = 0.5
_CODES = {code.value[0]: code.name for code in grpc.StatusCode}

Request = tuple[orchestrator_pb2.EvaluateRequest, Candidate]
T = TypeVar("T")


def take(items: Iterator[T], room: int) -> list[T]:
    """The next items for one message: what a quick iterator has ready, or one item of a slow one."""
    end = time.monotonic() + _COLLECT_SECONDS
    taken = []
    for item in items:
        taken.append(item)
        if len(taken) >= min(room, _MESSAGE_REQUESTS) or time.monotonic() > end:
            break
    return taken


class EvaluateSession:
    """Sends requests and collects their answers, at most `in_flight` without an answer.

    The stream is opened again when it breaks, and requests without an answer are sent again with the same ids, so each
    is answered once. Used by one task that sends and one that receives, on one event loop.
    """

    def __init__(self, open_stream: Callable[[], Any], patience: Patience, in_flight: int) -> None:
        if in_flight < 1:
            raise errors.InvalidArgument(f"in_flight: {in_flight} is not 1 or more")
        self._open_stream = open_stream
        self._patience = patience
        self._in_flight = in_flight
        self._waiting: dict[str, Request] = {}  # in the order of the first sending
        self._unsent: list[orchestrator_pb2.EvaluateRequest] = []
        self._call: Any = None
        self._writing = asyncio.Lock()
        self._settled = asyncio.Event()
        self._finished = False
        self._closed = False
        self._flushes: set[asyncio.Task[None]] = set()

    async def room(self) -> int:
        """Waits until there is room for requests, and returns for how many."""
        while len(self._waiting) >= self._in_flight and not self._closed:
            self._settled.clear()
            await self._settled.wait()
        return self._in_flight - len(self._waiting)

    async def send(self, requests: Iterable[Request]) -> None:
        for request in requests:
            if request[0].request_id in self._waiting:
                raise errors.InvalidArgument(f"request_id: {request[0].request_id!r} is in flight already")
            self._waiting[request[0].request_id] = request
            self._unsent.append(request[0])
        await self._flush()

    async def finish(self) -> None:
        """Call after the last `send`: `receive` then returns nothing once all is answered."""
        self._finished = True
        if self._call is not None and not self._waiting:
            await self._call.done_writing()  # wakes `receive`

    def close(self) -> None:
        """Ends the stream. The evaluations continue in the orchestrator."""
        self._closed = True
        self._settled.set()
        for task in self._flushes:
            task.cancel()
        if self._call is not None:
            self._call.cancel()

    async def receive(self) -> list[Evaluation]:
        """Waits for the next answers. Raises an Error for a request that cannot be answered."""
        while not self._closed and (self._waiting or not self._finished):
            try:
                if self._call is None:
                    self._call = self._open_stream()
                    self._unsent = [request for request, _ in self._waiting.values()]
                    await self._flush()
                reply = await self._call.read()
                if reply is not grpc.aio.EOF:
                    self._patience.reset()
                    if answers := [answer for r in reply.replies if (answer := self._settle(r)) is not None]:
                        self._settled.set()
                        return answers
                    continue
                error: errors.Error = errors.Unavailable("the stream ended early")
            except grpc.aio.AioRpcError as broken:
                error = error_of_call(broken)
            except asyncio.CancelledError:
                if self._closed:
                    break
                raise
            self._call = None
            if self._waiting or not self._finished:
                await self._patience.wait(error)
        return []

    def _settle(self, reply: orchestrator_pb2.EvaluateReply) -> Evaluation | None:
        if reply.request_id not in self._waiting:
            return None  # answered on an earlier stream
        request, candidate = self._waiting[reply.request_id]
        if reply.WhichOneof("result") == "error":
            code = _CODES.get(reply.error.code, "UNKNOWN")
            if code in ("UNAVAILABLE", "RESOURCE_EXHAUSTED", "CANCELLED"):
                delay = reply.error.retry_after.ToTimedelta().total_seconds() or _DEFAULT_RETRY_SECONDS
                asyncio.get_running_loop().call_later(delay, self._send_again, request)
                return None
            raise error_of(code, reply.error.message, request_id=reply.request_id)
        del self._waiting[reply.request_id]
        return _convert.evaluation(reply.evaluation, candidate)

    def _send_again(self, request: orchestrator_pb2.EvaluateRequest) -> None:
        if request.request_id not in self._waiting:
            return  # answered on a later stream
        self._unsent.append(request)
        task = asyncio.ensure_future(self._flush())
        self._flushes.add(task)
        task.add_done_callback(self._flushes.discard)

    async def _flush(self) -> None:
        async with self._writing:
            while self._unsent and self._call is not None:
                batch: list[orchestrator_pb2.EvaluateRequest] = []
                size = 0
                while self._unsent and len(batch) < _MESSAGE_REQUESTS and size < _MESSAGE_BYTES:
                    batch.append(self._unsent.pop(0))
                    size += len(batch[-1].candidate.source)
                try:
                    await self._call.write(EVALUATE_MANY.request(requests=batch))
                except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    return  # `receive` sees it too, and sends on a new stream what has no answer
