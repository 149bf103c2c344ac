"""The tools, and the sessions that use them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, AsyncIterator, Awaitable, Callable, Iterator, Literal, Mapping, Sequence, TypeVar

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

import kernelcast
from kernelcast import (AsyncClient, Candidate, Evaluation, Forecast, Launch, Measurement, Problem, Rejection, _convert,
                        errors)
from kernelcast._problems import read_problem
from kernelcast._types import Kind
from kernelcast.mcp import _views
from kernelcast.mcp._session import Limits, Session, TaskState

T = TypeVar("T")
Mode = Literal["route", "measure", "final", "forecast", "check"]

# Clients name their session with this header. Agents cannot change it.
SESSION_HEADER = "kernelcast-session"
# A session of the transport, which ends with it.
TRANSPORT_HEADER = "mcp-session-id"
_TRANSPORT = "transport:"
# An event in the scope of an HTTP request, which is set when its client has gone.
GONE = "kernelcast.gone"
# A search of a server that was killed ends by itself.
_SEARCH_SECONDS = 24 * 3600.0
_HEARTBEAT_SECONDS = 10
_ATTEMPTS = 3
# Rejections that say nothing about the candidate.
_NO_VERDICT = ("unavailable", "cancelled")

_INSTRUCTIONS = """Kernelcast judges GPU and CPU kernels: whether they are right, and how fast they are compared with a
reference. Start with describe_task. simulate costs nothing and finds faults without a GPU. evaluate decides by itself
whether a kernel is worth measuring; a forecast is no measurement. profile says what bounds a kernel. Measured speedups
have an interval: a difference within it is noise. Device time is limited: the budget is part of each result."""

Source = Annotated[str, Field(description="The whole source of the kernel")]
TaskName = Annotated[str, Field(description="The task; by default the only one of the server")]
Target = Annotated[str, Field(description="cpu or cuda; by default that of the task")]
CandidateKind = Annotated[Kind | None, Field(
    description="By default device_cuda with launches, python for PyTorch tasks, else host_native")]
Flags = Annotated[list[str], Field(description="Compiler flags, such as -O3")]
Tunables = Annotated[dict[str, int | str], Field(description="Values of integer constants that launches refer to")]
Launches = Annotated[list[Launch], Field(description="How the kernels of device code are launched, in order")]
Workspace = Annotated[int | str, Field(description="Size of the scratch memory of launches: a number or an expression")]
Parent = Annotated[str, Field(description="The candidate that this one was derived from")]
Name = Annotated[str, Field(description="A short name, for the history")]


class Workbench:
    """The tasks of a server, and its sessions. Used on one event loop."""

    def __init__(self, client: AsyncClient, paths: Sequence[str | os.PathLike[str]], limits: Limits, *,
                 timeout: float = 600, idle_seconds: float = 1800, target: str = "", device_model: str = "") -> None:
        self._client = client
        self._paths = paths
        self._limits = limits
        self._timeout = timeout
        self._idle_seconds = idle_seconds
        self._target = target
        self._device_model = device_model
        self._problems: dict[str, tuple[str | os.PathLike[str], Problem]] = {}
        self._sessions: dict[str, Session] = {}
        self._reaper: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Workbench:
        for path in self._paths:
            problem = await self._client.put_problem(path)
            name = problem.name
            if name in self._problems:
                name = Path(path).resolve().stem
            if name in self._problems:
                raise errors.InvalidArgument(f"TASK: {os.fspath(path)!r} has the name {name!r} of an earlier one")
            self._problems[name] = path, problem
            _convert.target(self._target, problem)
        self._reaper = asyncio.create_task(self._end_idle_sessions())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._reaper is not None:
            self._reaper.cancel()
        await asyncio.gather(*(self._end_searches(session) for session in self._sessions.values()))

    async def _end_idle_sessions(self) -> None:
        while True:
            await asyncio.sleep(min(self._idle_seconds / 4, 60))
            now = time.monotonic()
            for key, session in list(self._sessions.items()):
                if session.calls == 0 and now - session.used_at > self._idle_seconds:
                    await self.end_session(key)

    async def end_session(self, key: str) -> None:
        """Frees what a session holds. One that its client can continue keeps its budget and its history."""
        if (session := self._sessions.get(key)) is not None:
            if key.startswith(_TRANSPORT):
                del self._sessions[key]
            await self._end_searches(session)

    async def _end_searches(self, session: Session) -> None:
        for state in session.states.values():
            if state.search_id:
                search_id, state.search_id = state.search_id, ""
                with contextlib.suppress(errors.Error):
                    await self._client.stop_search(search_id, abandon=True)

    def session(self, context: Context[Any, Any]) -> Session:
        return self.session_of(context.headers)

    def session_of(self, headers: Mapping[str, str] | None) -> Session:
        return self._sessions.setdefault(session_key(headers), Session(self._limits))

    @property
    def tasks(self) -> list[str]:
        return sorted(self._problems)

    def problem(self, task: str) -> tuple[str, Problem]:
        if not task and len(self._problems) == 1:
            task = self.tasks[0]
        if task not in self._problems:
            raise ToolError(f"task: {task!r} is none of {', '.join(map(repr, self.tasks))}")
        return task, self._problems[task][1]

    def files(self, task: str) -> Mapping[str, bytes]:
        return {file.path: file.content for file in read_problem(self._problems[task][0]).files}

    def state(self, session: Session, task: str, target: str) -> TaskState:
        name, problem = self.problem(task)
        target = _convert.target(target or self._target, problem)
        return session.states.setdefault((name, target), TaskState(problem, target))

    async def search_id(self, session: Session, state: TaskState) -> str:
        """The session's search for the task, which is started when it is first needed."""
        async with state.starting:
            if not state.search_id:
                # Known before the call, because a call that is cancelled may have started it.
                state.search_id = f"mcp-{uuid.uuid4().hex}"
                await self._client.start_search(
                    state.problem, search_id=state.search_id, target=state.target, device_model=self._device_model,
                    max_device_seconds=session.seconds_left(), max_wall_seconds=_SEARCH_SECONDS)
            return state.search_id

    async def put_again(self, state: TaskState) -> None:
        """After the orchestrator has lost its state, or has ended the search."""
        state.search_id = ""
        for path, problem in self._problems.values():
            if problem.id == state.problem.id:
                await self._client.put_problem(path)

    async def evaluate(self, context: Context[Any, Any], session: Session, state: TaskState, candidate: Candidate,
                       mode: kernelcast.Mode, *, in_search: bool = True, include_facts: bool = False) -> Evaluation:
        """The verdict on a candidate. ToolError: there is none."""
        for attempt in range(_ATTEMPTS):
            last = attempt + 1 == _ATTEMPTS
            try:
                search = await self.search_id(session, state) if in_search else ""
                request_id = uuid.uuid4().hex
                async with self._progress(context, search, request_id):
                    result = await _while_client_waits(context, self._client.evaluate(
                        state.problem, candidate, mode=mode, search=search,
                        device_model="" if search else self._device_model, request_id=request_id, timeout=self._timeout,
                        include_facts=include_facts, cancel_with_call=True))
            except (errors.NotFound, errors.FailedPrecondition):
                if last:
                    raise
                await self.put_again(state)
                continue
            # The connection broke, or another call ended the search.
            if not (isinstance(result, Rejection) and result.cause == "cancelled") or last:
                break
        session.charge(result)
        if isinstance(result, Rejection) and result.cause in _NO_VERDICT:
            raise ToolError(f"no verdict: {result.feedback}")
        if result.decision.reason == "budget" or (isinstance(result, Rejection) and result.cause == "budget"):
            raise session.spent("device seconds")
        return result

    @contextlib.asynccontextmanager
    async def _progress(self, context: Context[Any, Any], search: str, request_id: str) -> AsyncIterator[None]:
        """Tells the client how far the evaluation is, if it wants to know."""
        if (context.request_context.meta or {}).get("progress_token") is None:
            yield
            return
        reports: asyncio.Queue[str] = asyncio.Queue()
        from_sequence = (await self._client.get_search(search)).last_sequence if search else 0

        async def watch() -> None:
            with contextlib.suppress(errors.Error):
                async for event in self._client.watch_search(search, from_sequence=from_sequence):
                    which = event.WhichOneof("event")
                    if which in ("proposed", "forecast", "decided") and getattr(event, which).request_id == request_id:
                        reports.put_nowait(_views.progress_of(event))

        async def report() -> None:
            step, said, start = 0, "compiling", time.monotonic()
            while True:
                await context.report_progress(step, message=said)
                step += 1
                try:
                    said = await asyncio.wait_for(reports.get(), _HEARTBEAT_SECONDS)
                except asyncio.TimeoutError:
                    said = f"{said.split(' (')[0]} ({time.monotonic() - start:.0f} s)"

        tasks = [asyncio.create_task(report()), *([asyncio.create_task(watch())] if search else [])]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


def session_key(headers: Mapping[str, str] | None) -> str:
    """A process that serves standard streams has one session. Over HTTP a header names it, or the transport does.

    Clients of the sessionless protocol that name none share one, and its budget.
    """
    if headers is None:
        return "stdio"
    if name := headers.get(SESSION_HEADER):
        return f"named:{name}"
    session_id = headers.get(TRANSPORT_HEADER)
    return _TRANSPORT + session_id if session_id else "shared"


async def _while_client_waits(context: Context[Any, Any], work: Awaitable[T]) -> T:
    """Cancels the work when the client's connection ends. The protocols with sessions would let it continue."""
    request = context.request_context.request
    gone: asyncio.Event | None = request.scope.get(GONE) if request is not None else None
    task = asyncio.ensure_future(work)
    waiting = [asyncio.ensure_future(gone.wait())] if gone is not None else []
    try:
        await asyncio.wait([task, *waiting], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ToolError("the client has gone")
        return task.result()
    finally:
        for one in (task, *waiting):
            one.cancel()


@contextlib.contextmanager
def _tool_errors() -> Iterator[None]:
    """What an agent can do something about is its result, not a fault of the server."""
    try:
        yield
    except errors.DeadlineExceeded as error:
        raise ToolError(f"{error}: the evaluation took longer than --timeout-seconds and was cancelled") from error
    except errors.Error as error:
        raise ToolError(str(error)) from error


def _reply(text: str, value: BaseModel) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=value.model_dump(mode="json"))


def _summary(result: Evaluation, fields: Mapping[str, Any]) -> str:
    lines = [f"{fields['candidate_id']}: {result}"]
    if isinstance(result, Forecast):
        lines[0] += f" (not measured: {fields['decision']})"
    if fields["best_speedup"] is not None:
        lines.append(f"Best so far: {fields['best_speedup']:.3g}x.")
    lines.append(fields["feedback"])
    lines.append(_left(fields["budget"]))
    return "\n".join(lines)


def _left(budget: _views.Budget) -> str:
    left = [f"{amount:.6g} {unit}" for amount, unit in ((budget.evaluations_left, "evaluations"),
                                                        (budget.device_seconds_left, "device seconds"))
            if amount is not None]
    return f"Left: {', '.join(left)}." if left else f"Used: {budget.device_seconds_used:.3g} device seconds."


def _arguments(candidate: Candidate) -> dict[str, Any]:
    """What `evaluate` is called with for this candidate."""
    launches = [{name: value for name, value in vars(launch).items() if value} for launch in candidate.launches]
    fields = {"source": candidate.source, "target": candidate.target, "kind": candidate.kind,
              "flags": list(candidate.flags), "tunables": dict(candidate.tunables), "launches": launches,
              "workspace_bytes": candidate.workspace_bytes, "name": candidate.name}
    return {name: value for name, value in fields.items() if value}


def make_server(bench: Workbench) -> MCPServer[Any]:
    server: MCPServer[Any] = MCPServer(
        "kernelcast", title="Kernelcast", version=kernelcast.__version__, instructions=_INSTRUCTIONS, log_level="WARNING")
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    judges = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)

    def tool(annotations: ToolAnnotations) -> Callable[[Any], Any]:
        return server.tool(annotations=annotations)

    @tool(reads)
    async def describe_task(context: Context[Any, Any], task: TaskName = "") -> Annotated[CallToolResult, _views.Task]:
        """The task: what to compute, how a candidate is written, shapes, tolerances, and the reference's source."""
        session = bench.session(context)
        with session.calling(), _tool_errors():
            name, problem = bench.problem(task)
            view = _views.task_of(problem, bench.files(name), bench.tasks, name, session.budget())
        return _reply(f"{name}: {problem.title}. {view.description.strip()}\nTargets: {', '.join(problem.targets)}, by "
                      f"default {problem.default_target}. A candidate is {view.how_to_write_a_candidate}\n"
                      + "\n".join(f"--- {path}\n{text}" for path, text in view.files.items()), view)

    async def judge(context: Context[Any, Any], tool_name: str, task: str, candidate: Candidate,
                    mode: kernelcast.Mode) -> tuple[Evaluation, dict[str, Any]]:
        session = bench.session(context)
        with session.calling(), _tool_errors():
            state = bench.state(session, task, candidate.target)
            candidate = replace(candidate, target=state.target)
            with session.evaluating():
                result = await bench.evaluate(context, session, state, candidate, mode, in_search=mode != "check")
            if isinstance(result, Measurement):
                state.add(candidate, result, final=mode == "final")
            best = state.best()
            fields = _views.result_fields(result, best.speedup.value if best else None, session.budget())
            session.record(tool_name, bench.problem(task)[0], candidate, result, fields["kind"], fields["outcome"],
                           fields["expected_speedup"])
        return result, fields

    @tool(judges)
    async def evaluate(context: Context[Any, Any], source: Source, mode: Annotated[Mode, Field(
                           description="route: measured only where a forecast is not enough. measure: always, enough to "
                           "rank. final: precise enough to publish. forecast: never. check: the outputs, not the time")]
                       = "route", task: TaskName = "", target: Target = "", kind: CandidateKind = None,
                       flags: Flags = [], tunables: Tunables = {}, launches: Launches = [],
                       workspace_bytes: Workspace = "", name: Name = "",
                       parent_candidate_id: Parent = "") -> Annotated[CallToolResult, _views.Result]:
        """Judges a kernel: it is compiled, forecast, and measured if that is worth it. Costs one evaluation."""
        candidate = Candidate(source, target, kind, flags, tunables, launches, workspace_bytes, name, "agent",
                              parent_candidate_id)
        result, fields = await judge(context, "evaluate", task, candidate, mode)
        return _reply(_summary(result, fields), _views.Result(**fields))

    @tool(judges)
    async def profile(context: Context[Any, Any], source: Source, task: TaskName = "", target: Target = "",
                      kind: CandidateKind = None, flags: Flags = [], tunables: Tunables = {}, launches: Launches = [],
                      workspace_bytes: Workspace = "", name: Name = "") -> Annotated[CallToolResult, _views.Profile]:
        """Measures a kernel with the device's counters: what bounds it, why warps wait. Costs one evaluation."""
        candidate = Candidate(source, target, kind, flags, tunables, launches, workspace_bytes, name, "agent")
        result, fields = await judge(context, "profile", task, candidate, "profile")
        profiles, unavailable = _views.profiles_of(result)
        lines = [f"{'x'.join(map(str, one.shape.values()))}: {len(one.counters)} counters"
                 + "".join(f"; warps wait for {reason} {share:.0%}" for reason, share in list(one.stalls.items())[:3])
                 for one in profiles]
        lines += [f"No counters: {unavailable}"] if unavailable else []
        return _reply("\n".join([_summary(result, fields), *lines]),
                      _views.Profile(**fields, profiles=profiles, counters_unavailable=unavailable))

    @tool(reads)
    async def simulate(context: Context[Any, Any], source: Source, task: TaskName = "", target: Target = "",
                       kind: CandidateKind = None, flags: Flags = [], tunables: Tunables = {}, launches: Launches = [],
                       workspace_bytes: Workspace = "", name: Name = "",
                       details: Annotated[bool, Field(description="Also all facts of the code and of each launch")] = False
                       ) -> Annotated[CallToolResult, _views.Simulation]:
        """Compiles a kernel and simulates it without a GPU: compile errors, races, out-of-bounds accesses, wrong
        outputs, estimated time, forecast. Costs nothing. Kernels for the cpu are compiled and forecast only."""
        candidate = Candidate(source, target, kind, flags, tunables, launches, workspace_bytes, name, "agent")
        session = bench.session(context)
        with session.calling(), _tool_errors():
            state = bench.state(session, task, target)
            candidate = replace(candidate, target=state.target)
            result = await bench.evaluate(context, session, state, candidate, "forecast", in_search=False,
                                          include_facts=True)
            view = _views.simulation_of(result, state.problem, details, session.budget())
            session.record("simulate", bench.problem(task)[0], candidate, result, "simulated", view.verdict,
                           view.expected_speedup)
        lines = [f"{view.candidate_id}: {view.verdict.replace('_', ' ')}"]
        lines += [f"{fault.kernel}, line {fault.source_line or '?'}: {fault.kind} ({fault.count}x): {fault.detail}"
                  for fault in view.faults]
        lines += [text for text in (view.compile_log, *(why for shape in view.shapes for why in shape.not_covered)) if text]
        if view.estimated_us is not None:
            lines.append(f"Estimated time: {view.estimated_us:.4g} us for all bench shapes.")
        if view.expected_speedup is not None:
            lines.append(f"Forecast: {view.expected_speedup:.3g}x, P(failure) {view.failure_probability:.0%}, rests on "
                         f"{view.forecast_rests_on}.")
        return _reply("\n".join(lines), view)

    @tool(reads)
    async def history(context: Context[Any, Any], task: TaskName = "", limit: Annotated[
                          int, Field(ge=1, le=200, description="The number of latest attempts to show")] = 20
                      ) -> Annotated[CallToolResult, _views.History]:
        """The candidates that the client has tried on a task, with their results."""
        session = bench.session(context)
        with session.calling(), _tool_errors():
            task = bench.problem(task)[0]
            attempts = session.attempts_of(task)
            view = _views.History(task=task, total=len(attempts), attempts=attempts[-limit:], budget=session.budget())
        lines = [f"{one.number}. {one.tool} {one.name or one.candidate_id}: {one.kind} {one.outcome}"
                 + (f" {one.speedup:.3g}x" if one.speedup else "") for one in view.attempts]
        return _reply("\n".join(lines) or f"Nothing has been tried on {task}.", view)

    @tool(reads)
    async def best(context: Context[Any, Any], task: TaskName = "",
                   target: Target = "") -> Annotated[CallToolResult, _views.Best]:
        """The client's fastest kernel that was measured to be right, with its source."""
        session = bench.session(context)
        with session.calling(), _tool_errors():
            name = bench.problem(task)[0]
            leader = bench.state(session, task, target).best()
        if leader is None:
            nothing = _views.Best(found=False, task=name, candidate_id="", name="", speedup=None, level="", search_id="",
                                  candidate={}, budget=session.budget())
            return _reply(f"No kernel of the client was measured to be right on {name}.", nothing)
        result = leader.result
        view = _views.Best(
            found=True, task=name, candidate_id=result.candidate_id, name=leader.candidate.name,
            speedup=_views.speedup_of(leader.speedup), level="final" if leader.final else "screen",
            search_id=result.message.search_id, candidate=_arguments(leader.candidate), budget=session.budget())
        return _reply(f"{result.candidate_id}: {leader.speedup} ({view.level})\n{leader.candidate.source}", view)

    return server
