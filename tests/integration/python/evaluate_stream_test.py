#!/usr/bin/env python3
"""Runs examples/python/evaluate_stream.py against real services, with stubs generated from the protos.

    evaluate_stream_test.py SOURCE_DIR BIN_DIR
"""

import contextlib
import hashlib
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

READY_SECONDS = 60

DOES_NOTHING = """#include <kernelcast/candidate.h>
extern "C" int32_t kernelcast_run(const DLTensor*, int32_t, const DLTensor*, int32_t, void*) {
  return 0;
}
"""


@contextlib.contextmanager
def service(binaries, folder, name, *arguments):
    """Starts a service on an ephemeral port and returns its address once it serves."""
    ready = folder / f"{name}.json"
    with open(folder / f"{name}.log", "wb") as log:
        process = subprocess.Popen(
            [binaries / f"kernelcast-{name}", "--listen", "127.0.0.1:0", "--ready-file", ready,
             *arguments], stderr=log, stdin=subprocess.DEVNULL)
    try:
        end = time.monotonic() + READY_SECONDS
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > end:
                sys.exit(f"{name} is not ready:\n" + (folder / f"{name}.log").read_text())
            time.sleep(0.02)
        yield json.loads(ready.read_text())["grpc"]
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def main():
    root, binaries = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    if not importlib.util.find_spec("grpc") or not importlib.util.find_spec("google.protobuf"):
        print("grpcio or protobuf is missing; scripts/setup.sh --test installs them")
        return 1 if os.environ.get("CI") == "true" else 77

    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as services:
        folder = pathlib.Path(name)
        stubs = folder / "stubs"
        subprocess.run([sys.executable, root / "clients/python/generate_stubs.py", stubs], check=True)

        secret = os.urandom(32).hex()
        token = folder / "token"
        token.write_text(secret + "\n")
        tokens = folder / "tokens.yaml"
        tokens.write_text("tokens:\n  - name: test\n    roles: [submit]\n    sha256: "
                          + hashlib.sha256(secret.encode()).hexdigest() + "\n")

        worker = services.enter_context(
            service(binaries, folder, "worker", "--cache-dir", folder / "artefacts"))
        forecaster = services.enter_context(
            service(binaries, folder, "forecaster", "--state-dir", folder / "forecaster"))
        orchestrator = services.enter_context(
            service(binaries, folder, "orchestrator", "--state-dir", folder / "orchestrator",
                    "--worker", worker, "--forecaster", forecaster, "--auth-tokens-file", tokens))

        good = root / "examples/candidates/row_softmax/reciprocal.cc"
        lazy = folder / "lazy.cc"
        lazy.write_text(DOES_NOTHING)
        broken = folder / "broken.cc"
        broken.write_text("this is not C++\n")

        def evaluate(*arguments):
            run = subprocess.run(
                [sys.executable, root / "examples/python/evaluate_stream.py", orchestrator,
                 root / "examples/problems/row_softmax", *arguments],
                env={**os.environ, "PYTHONPATH": str(stubs)}, capture_output=True, text=True,
                timeout=150)
            print(run.stdout, run.stderr)
            return run

        refused = evaluate(good)
        check(refused.returncode != 0 and "UNAUTHENTICATED" in refused.stderr,
              "who has no token is refused")
        run = evaluate(good, lazy, broken, "--token-file", token)
        check(run.returncode == 0, f"the example ended with {run.returncode}")
        check(f"{good}: ok: " in run.stdout, "a correct candidate is measured")
        check(f"{lazy}: wrong_result: " in run.stdout, "a candidate that writes nothing is wrong")
        check(f"{broken}: rejected: " in run.stdout, "a candidate that does not compile is rejected")
    return 0


if __name__ == "__main__":
    sys.exit(main())
