"""The client for threads."""

from __future__ import annotations

import asyncio
import functools
import queue
from typing import Any, AsyncGenerator, Callable, Concatenate, Coroutine, Iterable, Iterator, ParamSpec, TypeVar

from kernelcast._aio import AsyncClient
from kernelcast._core import Caller, Core, Question, numbered, refuse_single
from kernelcast._loop import call, loop, run
from kernelcast._progress import Progress
from kernelcast._stream import take
from kernelcast._types import Candidate, Evaluation, Mode, Problem, RewardSpec
from kernelcast.v1 import orchestrator_pb2

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(method: Callable[Concatenate[Core, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Client, P], T]:
    @functools.wraps(method)
    def wrapper(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(method(self._core, *args, **kwargs))

    return wrapper


class Client(Caller):
    """A client of one orchestrator, for threads. `AsyncClient` has the same methods for asyncio. Thread-safe.

    Calls are retried with the same ids while the orchestrator is overloaded, and for `patience` seconds while it is
    away.
    """

    close = _blocking(Core.close)
    describe = _blocking(Core.describe)
    put_problem = _blocking(Core.put_problem)
    evaluate = _blocking(Core.evaluate)
    start_search = _blocking(Core.start_search)
    get_search = _blocking(Core.get_search)
    stop_search = _blocking(Core.stop_search)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def evaluate_many(self, problem: Problem, candidates: Iterable[Candidate | str], *, mode: Mode = "route",
                      search: str = "", device_model: str = "", request_id: Callable[[Candidate], str] | None = None,
                      in_flight: int = 512, progress: bool = False,
                      reward: RewardSpec | None = None) -> Iterator[Evaluation]:
        refuse_single(candidates)
        question = Question(problem, mode, search, device_model, reward)
        session = call(lambda: self._core.session(in_flight))
        request_id = request_id or numbered()
        settled: queue.SimpleQueue[list[Evaluation] | BaseException] = queue.SimpleQueue()

        async def receive() -> None:
            try:
                while answers := await session.receive():
                    settled.put(answers)
                settled.put([])
            except BaseException as error:
                settled.put(error)

        receiving = asyncio.run_coroutine_threadsafe(receive(), loop())
        rest, room, exhausted = iter(candidates), in_flight, False
        try:
            with Progress(progress, candidates) as bar:
                while True:
                    if room > 0 and not exhausted:
                        chunk = take(rest, room)
                        room -= len(chunk)
                        exhausted = not chunk
                        run(session.send(question.requests(chunk, request_id)) if chunk
                            else session.finish())
                    # While the iterator has more and there is room for it, results do not keep it waiting.
                    if exhausted or room == 0 or not settled.empty():
                        answers = settled.get()
                        if isinstance(answers, BaseException):
                            raise answers
                        if not answers:
                            return
                        room += len(answers)
                        for answer in answers:
                            bar.update()
                            yield answer
        finally:
            call(session.close)
            receiving.cancel()

    def export(self, search_id: str = "", *, include_sources: bool = False,
               from_sequence: int = 0) -> Iterator[orchestrator_pb2.ExportRecord]:
        return _items(self._core.export(search_id, include_sources, from_sequence))

    def watch_search(self, search_id: str, *,
                     from_sequence: int = 0) -> Iterator[orchestrator_pb2.SearchEvent]:
        return _items(self._core.watch_search(search_id, from_sequence))


def _items(messages: AsyncGenerator[T, None]) -> Iterator[T]:
    try:
        while (message := run(anext(messages, None))) is not None:
            yield message
    finally:
        run(messages.aclose())


Client.evaluate_many.__doc__ = AsyncClient.evaluate_many.__doc__
Client.export.__doc__ = AsyncClient.export.__doc__
Client.watch_search.__doc__ = AsyncClient.watch_search.__doc__
