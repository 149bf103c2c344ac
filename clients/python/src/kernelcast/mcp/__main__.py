"""The command: `kernelcast mcp` and `python -m kernelcast.mcp`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Sequence

import kernelcast
from kernelcast import AsyncClient, errors
from kernelcast._problems import find_problem

_USAGE, _UNREACHABLE = 2, 3


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of 1 or more")
    return value


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kernelcast mcp", description="Serve tools to coding agents by the Model Context Protocol, on standard "
        "input and output or by HTTP.",
        epilog="Exit codes: 0 done, 2 bad usage or input, 3 a service could not be started or reached.")
    parser.add_argument("tasks", metavar="TASK", nargs="+", help="folder or file of a problem, or its name")
    parser.add_argument("--orchestrator", metavar="HOST:PORT", default="",
                        help="a running orchestrator [KERNELCAST_ORCHESTRATOR; else the services on the state folder, "
                        "which are started where none run]")
    parser.add_argument("--token-file", metavar="FILE", help="token for the orchestrator [KERNELCAST_TOKEN_FILE]")
    for name, of in (("ca", "certificate authority of the orchestrator; turns on TLS"),
                     ("certificate", "client certificate"), ("key", "its key")):
        parser.add_argument(f"--tls-{name}", metavar="FILE", help=of)
    parser.add_argument("--state-dir", metavar="DIR", default=_state_dir(),
                        help="state folder of services on this machine "
                        "[$XDG_STATE_HOME/kernelcast or ~/.local/state/kernelcast]")
    parser.add_argument("--python", metavar="FILE", default=sys.executable,
                        help="interpreter for PyTorch tasks and Triton kernels of services that this command starts "
                        "[its own]")
    parser.add_argument("--target", default="", help="target of candidates that name none [that of the task]")
    parser.add_argument("--device-model", default="", help="model of the device to measure on")
    parser.add_argument("--max-evaluations", metavar="N", type=_count, help="evaluations of one session [no limit]")
    parser.add_argument("--max-device-seconds", metavar="SECONDS", type=_positive,
                        help="device time of one session [no limit]")
    parser.add_argument("--timeout-seconds", metavar="SECONDS", type=_positive, default=600,
                        help="after this time an evaluation is cancelled [600]")
    parser.add_argument("--http", metavar="HOST:PORT",
                        help="serve by HTTP, at /mcp; prints the URL. Port 0: any [standard input and output]")
    parser.add_argument("--http-token-file", metavar="FILE", help="file of the bearer token that HTTP clients show")
    parser.add_argument("--session-idle-seconds", metavar="SECONDS", type=_positive, default=1800,
                        help="after this time without a request a session's searches end [1800]")
    return parser


def _state_dir() -> str:
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(state, "kernelcast")


def running_orchestrator(state_dir: str) -> str:
    """The orchestrator of services that run on a state folder. Empty: none run."""
    try:
        services = json.loads(Path(state_dir, "services.json").read_text())
        os.kill(int(services["supervisor"]), 0)
        return str(services["orchestrator"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


async def run(arguments: argparse.Namespace) -> None:
    from kernelcast.mcp import _http, _server
    from kernelcast.mcp._session import Limits

    paths = [find_problem(task) for task in arguments.tasks]
    listener = _http.listen(arguments.http, arguments.http_token_file) if arguments.http else None
    async with contextlib.AsyncExitStack() as stack:
        address = (arguments.orchestrator or os.environ.get("KERNELCAST_ORCHESTRATOR")
                   or running_orchestrator(arguments.state_dir))
        if not address:
            local = kernelcast.local(state_dir=arguments.state_dir, arguments=["--python", arguments.python])
            address = (await stack.enter_async_context(local)).address
        client = await stack.enter_async_context(AsyncClient(
            address, token_file=arguments.token_file, tls_ca=arguments.tls_ca, tls_certificate=arguments.tls_certificate,
            tls_key=arguments.tls_key, patience=20))
        bench = await stack.enter_async_context(_server.Workbench(
            client, paths, Limits(arguments.max_evaluations, arguments.max_device_seconds),
            timeout=arguments.timeout_seconds, idle_seconds=arguments.session_idle_seconds, target=arguments.target,
            device_model=arguments.device_model))
        server = _server.make_server(bench)
        if listener is not None:
            await _http.serve(server, bench, listener, arguments.http_token_file, arguments.session_idle_seconds)
            return
        # A thread reads standard input, and nothing interrupts it. So a signal ends the process after the cleanup.
        ending = []

        async def end(number: int) -> None:
            await stack.aclose()
            os._exit(128 + number)

        def on_signal(number: int) -> None:
            ending.append(asyncio.ensure_future(end(number)))

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, on_signal, number)
        await server.run_stdio_async()


def main(arguments: Sequence[str] | None = None) -> int:
    parsed = parser().parse_args(arguments)
    try:
        asyncio.run(run(parsed))
    except ImportError as error:
        print(f"kernelcast mcp: {error}; install the package mcp: {sys.executable} -m pip install 'mcp>=2.3'",
              file=sys.stderr)
        return _UNREACHABLE
    except errors.Error as error:
        print(f"kernelcast mcp: {error}", file=sys.stderr)
        usage = isinstance(error, (errors.InvalidArgument, errors.NotFound, errors.AlreadyExists))
        return _USAGE if usage else _UNREACHABLE
    except KeyboardInterrupt:
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
