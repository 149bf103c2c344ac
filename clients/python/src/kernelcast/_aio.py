"""The client for asyncio."""

from __future__ import annotations

import asyncio
import functools
from typing import Any, AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Concatenate, Coroutine, \
    Iterable, Iterator, ParamSpec, TypeVar

from kernelcast._core import Caller, Core, Question, numbered, refuse_single
from kernelcast._loop import call, run_async
from kernelcast._progress import Progress
from kernelcast._stream import take
from kernelcast._types import Candidate, Evaluation, Mode, Problem, RewardSpec
from kernelcast.v1 import orchestrator_pb2

P = ParamSpec("P")
T = TypeVar("T")


def _awaited(method: Callable[Concatenate[Core, P], Coroutine[Any, Any, T]]
             ) -> Callable[Concatenate[AsyncClient, P], Awaitable[T]]:
    @functools.wraps(method)
    async def wrapper(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await run_async(method(self._core, *args, **kwargs))

    return wrapper


class AsyncClient(Caller):
    """A client of one orchestrator, for asyncio. `Client` has the same methods for threads.

    Calls are retried with the same ids while the orchestrator is overloaded, and for `patience` seconds while it is
    away. May be used from several event loops.
    """

    close = _awaited(Core.close)
    describe = _awaited(Core.describe)
    put_problem = _awaited(Core.put_problem)
    evaluate = _awaited(Core.evaluate)
    start_search = _awaited(Core.start_search)
    get_search = _awaited(Core.get_search)
    stop_search = _awaited(Core.stop_search)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def evaluate_many(self, problem: Problem, candidates: Iterable[Candidate | str] | AsyncIterable[Candidate | str],
                            *, mode: Mode = "route", search: str = "", device_model: str = "",
                            request_id: Callable[[Candidate], str] | None = None, in_flight: int = 512,
                            progress: bool = False, reward: RewardSpec | None = None) -> AsyncGenerator[Evaluation, None]:
        """Evaluates candidates and yields results in the order in which they are settled.

        Takes the next candidates when fewer than `in_flight` have no result, so `candidates` may be endless. Each
        result has its candidate. `progress` shows a bar, with tqdm. With `reward`, each result has one.
        """
        refuse_single(candidates)
        question = Question(problem, mode, search, device_model, reward)
        session = call(lambda: self._core.session(in_flight))
        request_id = request_id or numbered()

        async def send() -> None:
            try:
                room = in_flight
                chunks = _Chunks(candidates)
                while chunk := await chunks.next(room):
                    room = await run_async(session.send_then_room(list(question.requests(chunk, request_id))))
                await run_async(session.finish())
            except Exception:
                call(session.close)  # ends `receive`
                raise

        sending = asyncio.ensure_future(send())
        try:
            with Progress(progress, candidates) as bar:
                while answers := await run_async(session.receive()):
                    for answer in answers:
                        bar.update()
                        yield answer
            await sending
        finally:
            sending.cancel()
            call(session.close)

    async def export(self, search_id: str = "", *, include_sources: bool = False,
                     from_sequence: int = 0) -> AsyncGenerator[orchestrator_pb2.ExportRecord, None]:
        """Yields the records of settled evaluations, of all searches by default, in the order of the log."""
        async for record in _items(self._core.export(search_id, include_sources, from_sequence)):
            yield record

    async def watch_search(self, search_id: str, *,
                           from_sequence: int = 0) -> AsyncGenerator[orchestrator_pb2.SearchEvent, None]:
        """Yields the events of a search, and new ones until it ends."""
        async for event in _items(self._core.watch_search(search_id, from_sequence)):
            yield event


async def _items(messages: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    try:
        while (message := await run_async(anext(messages, None))) is not None:
            yield message
    finally:
        await run_async(messages.aclose())


class _Chunks:
    """The candidates, as many at once as there is room for and a quick iterator has ready."""

    def __init__(self, candidates: Iterable[Candidate | str] | AsyncIterable[Candidate | str]) -> None:
        self._slow: AsyncIterator[Candidate | str] | None = None
        self._rest: Iterator[Candidate | str] = iter(())
        if isinstance(candidates, AsyncIterable):
            self._slow = aiter(candidates)
        else:
            self._rest = iter(candidates)

    async def next(self, room: int) -> list[Candidate | str]:
        """Empty at the end."""
        if self._slow is None:
            return take(self._rest, room)
        async for candidate in self._slow:
            return [candidate]
        return []
