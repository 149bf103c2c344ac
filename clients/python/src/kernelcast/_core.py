"""The calls of both clients, as coroutines on the loop of this package."""

from __future__ import annotations

import itertools
import uuid
from typing import Any, AsyncGenerator, Callable, Iterable, Mapping, TypeVar

import grpc.aio
from google.protobuf.duration_pb2 import Duration

from kernelcast import _convert, _loop, _rpc, errors
from kernelcast._channel import Connection, Patience, Path_, calling
from kernelcast._problems import read_problem
from kernelcast._stream import EvaluateSession, Request, embedded
from kernelcast._types import Candidate, Evaluation, Mode, Problem, RewardSpec
from kernelcast.v1 import kernel_pb2, orchestrator_pb2

_ID = orchestrator_pb2.EvaluateRequest.REQUEST_ID_FIELD_NUMBER
_CANDIDATE = orchestrator_pb2.EvaluateRequest.CANDIDATE_FIELD_NUMBER
_Numbered = TypeVar("_Numbered", orchestrator_pb2.ExportRecord, orchestrator_pb2.SearchEvent)


def new_id() -> str:
    return uuid.uuid4().hex


def numbered() -> Callable[[Candidate], str]:
    """Makes ids for one call, which is quicker than a random one for each."""
    prefix, numbers = new_id(), itertools.count()
    return lambda _: f"{prefix}-{next(numbers)}"


def _as_candidate(candidate: Candidate | str) -> Candidate:
    if isinstance(candidate, str):
        return Candidate(candidate)
    if isinstance(candidate, Candidate):
        return candidate
    raise errors.InvalidArgument(f"candidate: expected a Candidate or its source as a str, got {candidate!r:.60}")


def refuse_single(candidates: object) -> None:
    """InvalidArgument for one candidate where several are expected: a str would be one for each character."""
    if isinstance(candidates, (str, Candidate)):
        raise errors.InvalidArgument(f"candidates: expected an iterable, such as [candidate], got {candidates!r:.60}")


class Core:
    """Calls one orchestrator. All methods run on the loop. `Client` and `AsyncClient` offer them to callers."""

    def __init__(self, connection: Connection, patience: float) -> None:
        self.connection = connection
        self._patience = patience
        self._channel: grpc.aio.Channel | None = None

    async def close(self) -> None:
        """Ends calls in progress. The evaluations continue in the orchestrator."""
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    def _open(self) -> grpc.aio.Channel:
        if self._channel is None:
            self._channel = self.connection.channel()
            _loop.close_before_fork(self)
        return self._channel

    async def _call(self, rpc: _rpc.Call[_rpc.Request, _rpc.Reply], request: _rpc.Request, timeout: float = 30,
                    request_id: str = "") -> _rpc.Reply:
        patience = Patience(self._patience, timeout)
        while True:
            try:
                with calling(request_id):
                    # No variable refers to gRPC's objects, so that they are freed when the call fails.
                    return await self._open().unary_unary(rpc.path, rpc.request.SerializeToString, rpc.reply.FromString)(
                        request, timeout=patience.time_left, metadata=self.connection.metadata())
            except errors.Error as error:
                await patience.wait(error)

    async def describe(self) -> orchestrator_pb2.OrchestratorDescription:
        """Returns the version and the state of workers and forecasters."""
        return await self._call(_rpc.DESCRIBE, orchestrator_pb2.OrchestratorDescribeRequest())

    async def put_problem(self, path: Path_) -> Problem:
        """Stores the problem at a path. InvalidArgument names file, line and field."""
        request = _rpc.PUT_PROBLEM.request(problem=read_problem(path))
        return _convert.problem(await self._call(_rpc.PUT_PROBLEM, request))

    async def evaluate(self, problem: Problem, candidate: Candidate | str, *, mode: Mode = "route", search: str = "",
                       device_model: str = "", request_id: str = "", timeout: float = 600,
                       reward: RewardSpec | None = None, include_facts: bool = False,
                       cancel_with_call: bool = False) -> Evaluation:
        """Evaluates one candidate.

        `mode`: "route" lets the policy decide between measurement and forecast, "measure" and "final" measure at the
        screening or final level, "forecast" only forecasts, "check" checks the outputs and times nothing, "profile" measures
        with the device's counters. `search` is an id of `start_search`; a check has none. A `request_id` that
        was used before returns the result of that evaluation. DeadlineExceeded after `timeout` seconds has the id to
        ask again. With `reward`, the result has one, and with `include_facts` its message has the compile facts.

        With `cancel_with_call` the evaluation is cancelled when this call is, after `timeout` seconds, and when the
        connection breaks. A result that is rejected as cancelled then needs another `request_id`.
        """
        question = Question(problem, mode, search, device_model, reward, include_facts, cancel_with_call)
        candidate, request_id = _as_candidate(candidate), request_id or new_id()
        request = _rpc.EVALUATE.request.FromString(question.request(candidate, request_id).serialized)
        reply = await self._call(_rpc.EVALUATE, request, timeout, request_id)
        return _convert.evaluation(reply.evaluation, candidate)

    def session(self, in_flight: int) -> EvaluateSession:
        rpc = _rpc.EVALUATE_MANY

        def open_stream() -> Any:
            # Requests are serialised already.
            call: Any = self._open().stream_stream(rpc.path, None, rpc.reply.FromString)
            return call(metadata=self.connection.metadata())

        return EvaluateSession(open_stream, Patience(self._patience), in_flight)

    async def start_search(self, problem: Problem, *, search_id: str = "", target: str = "", device_model: str = "",
                           max_candidates: int = 0, max_measurements: int = 0, max_device_seconds: float = 0,
                           max_wall_seconds: float = 0, policy: str = "",
                           policy_parameters: Mapping[str, float] | None = None, seed: int = 0) -> str:
        """Starts a search whose candidates the caller proposes, and returns its id.

        Pass the id to `evaluate` and `evaluate_many`. Later candidates are pruned on their forecasts when the budget
        is spent, and the search ends after `max_wall_seconds`. 0 means no limit. A retry with the same `search_id` continues that search.
        """
        budget = orchestrator_pb2.Budget(max_candidates=max_candidates, max_measurements=max_measurements,
                                         max_device_time=_duration(max_device_seconds),
                                         max_wall_time=_duration(max_wall_seconds))
        spec = orchestrator_pb2.SearchSpec(
            problem_id=problem.id, target=_convert.target(target, problem), budget=budget, policy=policy, seed=seed,
            generator=orchestrator_pb2.GENERATOR_EXTERNAL, policy_parameters=policy_parameters or {},
            device_models=[device_model] if device_model else [])
        request = orchestrator_pb2.StartSearchRequest(search_id=search_id or new_id(), spec=spec)
        return (await self._call(_rpc.START_SEARCH, request)).searches[0].search_id

    async def get_search(self, search_id: str) -> orchestrator_pb2.Search:
        """Returns the counts, the incumbent and the status of a search."""
        return (await self._call(_rpc.GET_SEARCH, orchestrator_pb2.GetSearchRequest(search_id=search_id))).searches[0]

    async def stop_search(self, search_id: str, *, abandon: bool = False) -> orchestrator_pb2.Search:
        """Asks a search to end. Evaluations in flight are settled first, or cancelled with `abandon`, which also leaves
        out the final measurements of its best candidates."""
        request = orchestrator_pb2.StopSearchRequest(search_id=search_id, abandon=abandon)
        return (await self._call(_rpc.STOP_SEARCH, request)).searches[0]

    async def export(self, search_id: str, include_sources: bool,
                     from_sequence: int) -> AsyncGenerator[orchestrator_pb2.ExportRecord, None]:
        def request(from_sequence: int) -> orchestrator_pb2.ExportRequest:
            return orchestrator_pb2.ExportRequest(search_id=search_id, include_sources=include_sources,
                                                  from_sequence=from_sequence)

        async for record in self._follow(_rpc.EXPORT, request, from_sequence):
            yield record

    async def watch_search(self, search_id: str,
                           from_sequence: int) -> AsyncGenerator[orchestrator_pb2.SearchEvent, None]:
        def request(from_sequence: int) -> orchestrator_pb2.WatchSearchRequest:
            return orchestrator_pb2.WatchSearchRequest(search_id=search_id, from_sequence=from_sequence)

        async for event in self._follow(_rpc.WATCH_SEARCH, request, from_sequence):
            yield event

    async def _follow(self, rpc: _rpc.Call[_rpc.Request, _Numbered], request: Callable[[int], _rpc.Request],
                      from_sequence: int) -> AsyncGenerator[_Numbered, None]:
        """Yields the messages of a stream, which is opened again where it breaks."""
        patience = Patience(self._patience)
        while True:
            try:
                with calling():
                    async for message in self._open().unary_stream(
                            rpc.path, rpc.request.SerializeToString, rpc.reply.FromString)(
                                request(from_sequence), metadata=self.connection.metadata()):
                        patience.reset()
                        yield message
                        from_sequence = message.sequence + 1
                    return
            except errors.Error as error:
                await patience.wait(error)


class Caller:
    """What both clients are made of."""

    def __init__(self, address: str = "", *, token_file: Path_ | None = None, tls_ca: Path_ | None = None,
                 tls_certificate: Path_ | None = None, tls_key: Path_ | None = None, patience: float = 60) -> None:
        """`address` is HOST:PORT, by default from KERNELCAST_ORCHESTRATOR, as is the token file from
        KERNELCAST_TOKEN_FILE. `tls_ca` turns on TLS."""
        self._core = Core(Connection.of(address, token_file, tls_ca, tls_certificate, tls_key), patience)

    @property
    def address(self) -> str:
        return self._core.connection.address


def _duration(seconds: float) -> Duration | None:
    return Duration(seconds=int(seconds), nanos=int(seconds % 1 * 1e9)) if seconds else None


class Question:
    """What all candidates of a call have in common. Makes their requests.

    Requests are joined from serialised parts: to build one from messages would copy the source several times.
    """

    def __init__(self, problem: Problem, mode: Mode, search: str, device_model: str, reward: RewardSpec | None,
                 include_facts: bool = False, cancel_with_call: bool = False) -> None:
        if not isinstance(problem, Problem):
            raise errors.InvalidArgument(f"problem: expected what put_problem returns, got {problem!r:.60}")
        self._candidate = _convert.CandidateWriter(problem)
        self._common = orchestrator_pb2.EvaluateRequest(
            mode=_convert.one_of("mode", mode, _convert.MODES), search_id=search,
            device_models=[device_model] if device_model else [],
            reward=_convert.reward_message(reward), include_facts=include_facts,
            cancel_with_call=cancel_with_call).SerializeToString()

    def request(self, candidate: Candidate, request_id: str) -> Request:
        return Request(request_id, candidate,
                       embedded(_ID, request_id.encode()) + embedded(_CANDIDATE, self._candidate(candidate)) + self._common)

    def requests(self, candidates: Iterable[Candidate | str],
                 request_id: Callable[[Candidate], str]) -> Iterable[Request]:
        for candidate in map(_as_candidate, candidates):
            yield self.request(candidate, request_id(candidate))
