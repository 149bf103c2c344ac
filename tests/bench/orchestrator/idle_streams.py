#!/usr/bin/env python3
"""Opens many streams to an orchestrator, leaves them idle, and closes them at once.

Prints the orchestrator's memory, and the latency of another client's calls meanwhile. Speaks HTTP/2 itself, so that the
client costs little. The client process runs at low priority, as it would on another machine.

    tests/bench/orchestrator/idle_streams.py build/ci/bin [--streams 100000] [--connections 400]
"""

import argparse
import json
import multiprocessing
import os
import socket
import struct
import subprocess
import tempfile
import time

DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 4, 6, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
CALLS = 2000


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name, value):
    """A header field without indexing (HPACK); both lengths are below 127."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def request_headers(method):
    fields = [(":method", "POST"), (":scheme", "http"), (":path", method), (":authority", "localhost"), ("te", "trailers"),
              ("content-type", "application/grpc")]
    return b"".join(literal(name, value) for name, value in fields)


def connect(address):
    host, port = address.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), timeout=60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30)))
    return connection


class Reader:
    """Reads frames and answers what the server asks for."""

    def __init__(self, connection):
        self.connection = connection
        self.buffer = b""

    def frames(self, wait):
        """All frames that have arrived. With `wait`, at least one, or none at the end of the connection."""
        self.connection.setblocking(wait)
        try:
            got = self.connection.recv(1 << 16)
        except BlockingIOError:
            return []
        finally:
            self.connection.setblocking(True)
        if not got:
            raise ConnectionError("the server has closed the connection")
        self.buffer += got
        found = []
        while len(self.buffer) >= 9:
            size = int.from_bytes(self.buffer[:3], "big")
            if len(self.buffer) < 9 + size:
                break
            kind, flags, stream = struct.unpack(">BBI", self.buffer[3:9])
            payload = self.buffer[9:9 + size]
            self.buffer = self.buffer[9 + size:]
            if kind in (SETTINGS, PING) and not flags & ACK:
                self.connection.sendall(frame(kind, ACK, 0, payload if kind == PING else b""))
            found.append((kind, flags, stream))
        return found


def client(address, streams, connections, control):
    """Opens all streams, and on a message closes them."""
    os.nice(10)
    headers = request_headers("/kernelcast.v1.Orchestrator/EvaluateStream")
    each = streams // connections
    start = time.monotonic()
    readers = []
    refused = 0
    for _ in range(connections):
        reader = Reader(connect(address))
        reader.connection.sendall(b"".join(frame(HEADERS, END_HEADERS, 2 * i + 1, headers) for i in range(each)))
        readers.append(reader)
    opened_s = time.monotonic() - start
    # The server has answered everything when nothing has arrived for one second.
    quiet_since = time.monotonic()
    while time.monotonic() - quiet_since < 1:
        for reader in readers:
            ended = [found for found in reader.frames(False) if found[0] == HEADERS and found[1] & END_STREAM]
            if ended:
                refused += len(ended)
                quiet_since = time.monotonic()
        time.sleep(0.01)
    control.send((opened_s, each * connections, refused))
    control.recv()
    start = time.monotonic()
    for reader in readers:
        reader.connection.close()
    control.send(time.monotonic() - start)
    control.recv()


def memory_mib(pid, key):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) // 1024 for line in file if line.startswith(key + ":"))


class Caller:
    """Calls Health.Check, one call after the other."""

    def __init__(self, address, pid):
        self.reader = Reader(connect(address))
        self.headers = request_headers("/grpc.health.v1.Health/Check")
        self.stream = 1
        self.pid = pid

    def call(self):
        stream = self.stream
        self.stream += 2
        start = time.monotonic()
        self.reader.connection.sendall(
            frame(HEADERS, END_HEADERS, stream, self.headers) + frame(DATA, END_STREAM, stream, b"\0\0\0\0\0"))
        while not any(found[2] == stream and found[0] == HEADERS and found[1] & END_STREAM
                      for found in self.reader.frames(True)):
            pass
        return time.monotonic() - start

    def report(self, phase, done):
        times = []
        while len(times) < CALLS or not done():
            times.append(self.call())
        times.sort()
        p50, p90, p99 = (1e6 * times[int(q * (len(times) - 1))] for q in (0.5, 0.9, 0.99))
        print(f"{phase}: {len(times)} calls, p50 {p50:.0f} us, p90 {p90:.0f} us, p99 {p99:.0f} us, slowest "
              f"{1e3 * times[-1]:.1f} ms; memory {memory_mib(self.pid, 'VmRSS')} MiB, at most "
              f"{memory_mib(self.pid, 'VmHWM')} MiB", flush=True)


def start(program, arguments, folder):
    ready = os.path.join(folder, os.path.basename(program) + ".ready")
    process = subprocess.Popen([program, "--listen", "127.0.0.1:0", "--ready-file", ready, *arguments],
                               stderr=subprocess.DEVNULL)
    while not os.path.exists(ready):
        if process.poll() is not None:
            raise SystemExit(f"{program} has ended")
        time.sleep(0.05)
    with open(ready, encoding="utf-8") as file:
        return process, json.load(file)["grpc"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("--streams", type=int, default=100_000)
    parser.add_argument("--connections", type=int, default=400)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        services = []
        try:
            for program, arguments in (("worker", ["--cache-dir", f"{folder}/cache"]),
                                       ("forecaster", ["--state-dir", f"{folder}/forecaster"])):
                services.append(start(f"{flags.bin}/kernelcast-{program}", arguments, folder))
            services.append(start(f"{flags.bin}/kernelcast-orchestrator",
                                  ["--state-dir", f"{folder}/orchestrator", "--worker", services[0][1], "--forecaster",
                                   services[1][1]], folder))
            orchestrator, address = services[2]
            caller = Caller(address, orchestrator.pid)
            caller.report("before", lambda: True)
            ours, theirs = multiprocessing.Pipe()
            process = multiprocessing.Process(target=client, args=(address, flags.streams, flags.connections, theirs))
            process.start()
            caller.report("opening", ours.poll)
            opened_s, asked, refused = ours.recv()
            print(f"{asked} streams asked for in {opened_s:.1f} s, {refused} refused, {asked - refused} open")
            caller.report("idle", lambda: True)
            ours.send("close")
            caller.report("closing", ours.poll)
            print(f"closed in {ours.recv():.1f} s")
            caller.report("after", lambda: True)
            ours.send("end")
            process.join()
        finally:
            for process, _ in reversed(services):
                process.terminate()
                process.wait()


if __name__ == "__main__":
    main()
