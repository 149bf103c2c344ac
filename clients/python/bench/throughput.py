#!/usr/bin/env python3
"""Evaluations per second through the package in one process, compared with bare gRPC.

    throughput.py [--bundle DIR] [--candidates N] [--in-flight N] [--source-bytes N] [--rounds N]

Three real services, with a worker that replays recorded measurements. Bare gRPC sends the same messages, serialised
beforehand, on the same call to the same orchestrator with as many in flight, and counts the answers without reading
them. CPU time is that of this process.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

import grpc.aio
import kernelcast
from kernelcast import _core, _rpc, _stream

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
import recorded  # noqa: E402


class Figure:
    """Prints the rate between entry and exit."""

    def __init__(self, what, count):
        self.what, self.count = what, count

    def __enter__(self):
        self.wall, self.cpu = time.monotonic(), time.process_time()

    def __exit__(self, *_):
        wall, cpu = time.monotonic() - self.wall, time.process_time() - self.cpu
        print(f"{self.what:28} {self.count / wall:8.0f} /s   client {cpu / self.count * 1e6:4.0f} us   "
              f"load {os.getloadavg()[0]:.1f}", flush=True)


async def bare(address, problem, candidates, mode, in_flight):
    question = _core.Question(problem, mode, "", "", None)
    requests = [_stream.embedded(1, r.serialized) for r in question.requests(candidates, _core.numbered())]
    batches = [b"".join(requests[i:i + 16]) for i in range(0, len(requests), 16)]
    async with grpc.aio.insecure_channel(address, options=[("grpc.max_receive_message_length", -1)]) as channel:
        with Figure(f"bare gRPC, {mode}", len(requests)):
            call = channel.stream_stream(_rpc.EVALUATE_MANY.path)()
            room, answered = asyncio.Semaphore(in_flight // 16), 0

            async def write():
                for batch in batches:
                    await room.acquire()
                    await call.write(batch)
                await call.done_writing()

            writing = asyncio.ensure_future(write())
            while (reply := await call.read()) is not grpc.aio.EOF:
                before = answered // 16
                answered += replies(reply)
                for _ in range(answered // 16 - before):
                    room.release()
            await writing


def replies(message):
    """The number of entries of the only field, `replies`."""
    count = at = 0
    while at < len(message):
        at, length, shift = at + 1, 0, 0
        while True:
            byte, at = message[at], at + 1
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        count, at = count + 1, at + length
    return count


async def measure(client, problem, candidates, mode, in_flight):
    with Figure(f"asyncio client, {mode}", len(candidates)):
        count = 0
        async for _ in client.evaluate_many(problem, candidates, mode=mode, in_flight=in_flight):
            count += 1
    assert count == len(candidates)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle")
    parser.add_argument("--candidates", type=int, default=20_000)
    parser.add_argument("--in-flight", type=int, default=1024)
    parser.add_argument("--source-bytes", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=3)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        path = recorded.write_problem(folder / "recorded")
        candidates = recorded.candidates(flags.candidates, flags.source_bytes)
        records = recorded.write_records(flags.bundle, path, candidates, folder / "records.jsonl")
        with kernelcast.local(flags.bundle, replay=records) as client:
            problem = client.put_problem(path)
            for mode in ("forecast", "measure") * flags.rounds:
                asyncio.run(bare(client.address, problem, candidates, mode, flags.in_flight))

                async def asynchronous():
                    async with kernelcast.AsyncClient(client.address) as other:
                        await measure(other, problem, candidates, mode, flags.in_flight)

                asyncio.run(asynchronous())
                with Figure(f"client, {mode}", len(candidates)):
                    assert sum(1 for _ in client.evaluate_many(problem, candidates, mode=mode,
                                                               in_flight=flags.in_flight)) == len(candidates)


if __name__ == "__main__":
    main()
