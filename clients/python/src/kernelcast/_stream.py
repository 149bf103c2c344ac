"""Many evaluations on one stream."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from typing import Any, Callable, Iterable, Iterator, NamedTuple, TypeVar

import grpc
import grpc.aio

from kernelcast import _convert, errors
from kernelcast._channel import Patience, calling, error_of
from kernelcast._types import Candidate, Evaluation
from kernelcast.v1 import orchestrator_pb2

# Bounds of a message, well below the services' limit.
_MESSAGE_REQUESTS = 64
_MESSAGE_BYTES = 1 << 20
_COLLECT_SECONDS = 0.005
_DEFAULT_RETRY_SECONDS = 0.5
_CODES = {code.value[0]: code.name for code in grpc.StatusCode}



class Request(NamedTuple):
    """One evaluation to be asked for. `serialized` is an EvaluateRequest."""

    request_id: str
    candidate: Candidate
    serialized: bytes


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


def embedded(number: int, content: bytes) -> bytes:
    """A field of a serialised message that is a message, a string or bytes. Its number is at most 15."""
    size, header = len(content), bytearray((number << 3 | 2,))
    while size > 127:
        header.append(size & 127 | 128)
        size >>= 7
    header.append(size)
    return bytes(header) + content


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
        self._unsent: deque[Request] = deque()
        self._answers: list[Evaluation] = []  # not yet returned by `receive`
        self._failure: BaseException | None = None
        self._reading: asyncio.Task[None] | None = None
        self._call: Any = None
        self._writing = asyncio.Lock()
        self._write_call: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()
        self._answered = asyncio.Event()
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
            if request.request_id in self._waiting:
                raise errors.InvalidArgument(f"request_id: {request.request_id!r} is in flight already")
            self._waiting[request.request_id] = request
            self._unsent.append(request)
        await self._flush()

    async def send_then_room(self, requests: Iterable[Request]) -> int:
        """Both in one change of threads."""
        await self.send(requests)
        return await self.room()

    async def finish(self) -> None:
        """Call after the last `send`: `receive` then returns nothing once all is answered."""
        self._finished = True
        if self._call is not None and not self._waiting:
            with contextlib.suppress(errors.Error), calling():
                await self._call.done_writing()  # wakes the reader, which also sees errors

    def close(self) -> None:
        """Ends the stream. The evaluations continue in the orchestrator."""
        self._closed = True
        self._settled.set()
        self._answered.set()
        for task in self._flushes:
            task.cancel()
        if self._reading is not None:
            self._reading.cancel()
        if self._call is not None:
            self._call.cancel()
            self._call = None

    async def receive(self) -> list[Evaluation]:
        """Waits for answers, and returns all that have arrived. Raises an Error for a request that cannot be answered."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._read())
        while not self._answers and not self._reading.done() and not self._closed:
            self._answered.clear()
            await self._answered.wait()
        answers, self._answers = self._answers, []
        if not answers and not self._closed and self._failure is not None:
            raise self._failure
        return answers

    async def _read(self) -> None:
        try:
            while not self._closed and (self._waiting or not self._finished):
                await self._read_message()
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            self._failure = error
        finally:
            self._answered.set()

    async def _read_message(self) -> None:
        try:
            with calling():
                if self._call is None:
                    self._call = self._open_stream()
                    # Otherwise a write never returns if the call ends before it has started.
                    self._call.add_done_callback(self._stop_writing)
                    self._unsent = deque(self._waiting.values())
                    await self._flush()
                reply = await self._call.read()
            if reply is grpc.aio.EOF:
                raise errors.Unavailable("the stream ended early")
        except errors.Error as error:
            self._call = None
            if self._waiting or not self._finished:
                await self._patience.wait(error)
            return
        self._patience.reset()
        if answers := [answer for r in reply.replies if (answer := self._settle(r)) is not None]:
            self._answers += answers
            self._settled.set()
            self._answered.set()

    def _settle(self, reply: orchestrator_pb2.EvaluateReply) -> Evaluation | None:
        request = self._waiting.get(reply.request_id)
        if request is None:
            return None  # answered on an earlier stream
        if reply.HasField("error"):
            code = _CODES.get(reply.error.code, "UNKNOWN")
            if code in ("UNAVAILABLE", "RESOURCE_EXHAUSTED", "CANCELLED"):
                delay = reply.error.retry_after.ToTimedelta().total_seconds() or _DEFAULT_RETRY_SECONDS
                asyncio.get_running_loop().call_later(delay, self._send_again, request)
                return None
            raise error_of(code, reply.error.message, request_id=reply.request_id)
        del self._waiting[reply.request_id]
        return _convert.evaluation(reply.evaluation, request.candidate)

    def _send_again(self, request: Request) -> None:
        if request.request_id not in self._waiting:
            return  # answered on a later stream
        self._unsent.append(request)
        task = asyncio.ensure_future(self._flush())
        self._flushes.add(task)
        task.add_done_callback(self._flushes.discard)

    async def _flush(self) -> None:
        async with self._writing:
            while self._unsent and self._call is not None:
                batch: list[bytes] = []  # fields of an EvaluateStreamRequest
                size = 0
                while self._unsent and len(batch) < _MESSAGE_REQUESTS and size < _MESSAGE_BYTES:
                    batch.append(embedded(1, self._unsent.popleft().serialized))
                    size += len(batch[-1])
                if not await self._write(b"".join(batch)):
                    return  # the reader sees it too, and sends on a new stream what has no answer

    async def _write(self, message: bytes) -> bool:
        """Writes a message. Returns false if the stream has ended."""
        write = self._write_call = asyncio.ensure_future(self._call.write(message))
        try:
            await asyncio.wait([write])
            if write.cancelled():
                return False
            error = write.exception()
            if error is None or isinstance(error, (grpc.aio.AioRpcError, asyncio.InvalidStateError)):
                return error is None
            raise error
        finally:
            self._stop_writing()

    def _stop_writing(self, _: Any = None) -> None:
        if self._write_call is not None:
            self._write_call.cancel()
            self._write_call = None
