"""Serves the tools by streamable HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import signal
import socket
from pathlib import Path
from typing import Any, Awaitable, Callable, Iterator, MutableMapping

import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.responses import PlainTextResponse

from kernelcast import errors
from kernelcast.mcp._server import GONE, Workbench, session_key

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_LOCAL = ("127.0.0.1", "localhost", "::1")


class Door:
    """Lets callers with the token in, and notices when a client goes."""

    def __init__(self, app: App, bench: Workbench, token_file: str | None) -> None:
        self._app = app
        self._bench = bench
        self._token_file = token_file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if not self._admits(headers.get("authorization", "")):
            return await PlainTextResponse("authorization: expected the bearer token of this server\n", 401)(
                scope, receive, send)
        gone = scope[GONE] = asyncio.Event()

        async def watched() -> MutableMapping[str, Any]:
            message = await receive()
            if message["type"] == "http.disconnect":
                gone.set()
            return message

        # Also a stream on which a client waits for messages keeps its session.
        with self._bench.session_of(headers).calling():
            await self._app(scope, watched, send)
        if scope["method"] == "DELETE":
            await self._bench.end_session(session_key(headers))

    def _admits(self, authorization: str) -> bool:
        if self._token_file is None:
            return True
        # Read anew each time, because tokens are replaced.
        return hmac.compare_digest(authorization.encode(), f"Bearer {_token(self._token_file)}".encode())


def _token(file: str) -> str:
    try:
        token = Path(file).read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidArgument(f"--http-token-file: cannot read {file!r}: {error}") from error
    if not token:
        raise errors.InvalidArgument(f"--http-token-file: {file!r} is empty; write a token into it")
    return token


def listen(address: str, token_file: str | None) -> socket.socket:
    """A listening socket. InvalidArgument: the address is malformed, or open to others without a token."""
    host, colon, port = address.rpartition(":")
    host = host.strip("[]")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise errors.InvalidArgument(f"--http: {address!r} is not HOST:PORT, such as 127.0.0.1:8000")
    if token_file is not None:
        _token(token_file)
    elif host not in _LOCAL:
        raise errors.InvalidArgument(f"--http: other machines can reach {host}, and candidates are programs; give "
                                     "--http-token-file, or listen on 127.0.0.1")
    try:
        return socket.create_server((host, int(port)), family=socket.AF_INET6 if ":" in host else socket.AF_INET,
                                    backlog=1024)
    except OSError as error:
        raise errors.Unavailable(f"--http: cannot listen on {address}: {error}") from error


class _Server(uvicorn.Server):
    """Ends at a signal without raising it again, which would end the process before its cleanup."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def stop(self) -> None:
        self.should_exit = True


async def serve(server: MCPServer[Any], bench: Workbench, listener: socket.socket, token_file: str | None,
                idle_seconds: float) -> None:
    """Serves until a signal. Prints the URL when it is ready."""
    host, port = listener.getsockname()[:2]
    app = server.streamable_http_app(host=host, session_idle_timeout=idle_seconds)
    # Clients that hold a stream open would keep it from stopping.
    config = uvicorn.Config(Door(app, bench, token_file), log_level="warning", timeout_graceful_shutdown=1)
    print(f"http://{f'[{host}]' if ':' in host else host}:{port}/mcp", flush=True)
    web = _Server(config)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, web.stop)
    await web.serve(sockets=[listener])
