"""Services on this machine for as long as a program needs them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Sequence

from kernelcast import errors
from kernelcast._aio import AsyncClient
from kernelcast._channel import Path_
from kernelcast._loop import call
from kernelcast._sync import Client

_STOP_SECONDS = 60


def find_program(bundle: Path_ | None) -> str:
    """The `kernelcast` command of a bundle (its folder, or `bin` in it), of KERNELCAST_BUNDLE, of this environment, or
    from PATH."""
    bundle = bundle or os.environ.get("KERNELCAST_BUNDLE")
    if bundle is None:
        if os.access(installed := os.path.join(sysconfig.get_path("scripts"), "kernelcast"), os.X_OK):
            return installed
        if found := shutil.which("kernelcast"):
            return found
        raise errors.FailedPrecondition("bundle: no kernelcast command in PATH; install the services, or give the "
                                        "folder of an installation, here or in KERNELCAST_BUNDLE")
    for folder in (Path(bundle), Path(bundle) / "bin"):
        if os.access(folder / "kernelcast", os.X_OK) and (folder / "kernelcast").is_file():
            return str((folder / "kernelcast").resolve())
    raise errors.NotFound(f"bundle: {os.fspath(bundle)!r} has no kernelcast and no bin/kernelcast")


class Local:
    """The three services, started by `kernelcast up`. A context for `with` and for `async with`."""

    def __init__(self, bundle: Path_ | None = None, *, state_dir: Path_ | None = None, replay: Path_ | None = None,
                 arguments: Sequence[str] = ()) -> None:
        self._bundle = bundle
        self._state_dir = state_dir
        self._arguments = [*arguments, *(["--replay", os.fspath(replay)] if replay else [])]
        self._process: subprocess.Popen[bytes] | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._client: Client | None = None
        self._async_client: AsyncClient | None = None

    def start(self) -> str:
        """Starts the services and returns the orchestrator's address. Unavailable has the end of what they wrote."""
        program = find_program(self._bundle)
        if self._state_dir is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="kernelcast-")
        state_dir = os.fspath(self._state_dir or (self._temporary and self._temporary.name) or "")
        command = [program, "up", "--json", "--listen", "127.0.0.1:0", "--state-dir", state_dir, *self._arguments]
        with tempfile.TemporaryFile() as said:
            # The services end with the thread that starts them. The loop's thread ends with this process.
            self._process = call(lambda: subprocess.Popen(
                [program, "__service", str(os.getpid()), *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=said, start_new_session=True))
            assert self._process.stdout
            ready = self._process.stdout.readline()
            if b'"orchestrator"' not in ready:
                self.stop()
                said.seek(0)
                raise errors.Unavailable("kernelcast up: " + said.read().decode(errors="replace").strip()[-2000:])
        return str(json.loads(ready)["orchestrator"])

    def stop(self) -> None:
        """Drains the services. Idempotent."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.communicate(timeout=_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.communicate()
            self._process = None
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def __enter__(self) -> Client:
        self._client = Client(self.start())
        return self._client

    def __exit__(self, *_: object) -> None:
        try:
            if self._client is not None:
                self._client.close()
        finally:
            self.stop()

    async def __aenter__(self) -> AsyncClient:
        self._async_client = AsyncClient(await asyncio.to_thread(self.start))
        return self._async_client

    async def __aexit__(self, *_: object) -> None:
        try:
            if self._async_client is not None:
                await self._async_client.close()
        finally:
            await asyncio.to_thread(self.stop)
