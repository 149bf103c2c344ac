#!/usr/bin/env python3
"""Runs the gateway by `kernelcast up`.

    up_test.py --programs FOLDER [TEST ...]
"""

import contextlib
import http.client
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

import served_gateway
from served_gateway import ROOT, START_SECONDS


class UpTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kernelcast-up-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    @contextlib.contextmanager
    def up(self, *arguments):
        """Yields the addresses that `up` prints, and its process. Ends it."""
        environment = {**os.environ, "HOME": str(self.folder), "KERNELCAST_PROBLEMS": str(self.folder / "problems")}
        with open(self.folder / "log", "wb") as log, subprocess.Popen(
                [served_gateway.ServicesTest.programs / "kernelcast", "up", "--json", "--listen", "127.0.0.1:0", *arguments],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, cwd=self.folder, env=environment) as process:
            try:
                ready = process.stdout.readline()
                self.assertIn(b'"gateway"', ready, (self.folder / "log").read_text())
                yield json.loads(ready), process
            finally:
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=START_SECONDS)
        self.assertEqual(process.returncode, 0)

    def served(self, address):
        """Names of the problems that a gateway serves."""
        connection = http.client.HTTPConnection(address, timeout=START_SECONDS)
        try:
            connection.request("GET", "/popcorn/leaderboards")
            return [board["name"] for board in json.loads(connection.getresponse().read())]
        finally:
            connection.close()

    def test_the_gateway_finds_problems_by_name_and_is_restarted_at_its_address(self):
        (self.folder / "problems").mkdir()
        (self.folder / "problems/mine").symlink_to(ROOT / "examples/problems/row_softmax")
        serve = self.folder / "serve.yaml"
        serve.write_text("serve: [{name: softmax, problem: mine}]\n")
        with self.up("--gateway=127.0.0.1:0", "--gateway-serve", serve) as (addresses, process):
            self.assertEqual(self.served(addresses["gateway"]), ["softmax"])
            self.assertEqual(json.loads((self.folder / ".local/state/kernelcast/services.json").read_text())["gateway"],
                             addresses["gateway"])
            os.kill(self.gateway_of(process.pid), signal.SIGKILL)
            log = self.folder / "log"
            while b"gateway is back at" not in log.read_bytes():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.05)
                self.assertIsNone(process.poll())
            self.assertEqual(self.served(addresses["gateway"]), ["softmax"])
        with self.assertRaises(ConnectionRefusedError):
            self.served(addresses["gateway"])

    @staticmethod
    def gateway_of(parent):
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                state = (entry / "stat").read_text().rpartition(")")[2].split()
                program = (entry / "cmdline").read_text().partition("\0")[0]
                if int(state[1]) == parent and program.endswith("/kernelcast-gateway"):
                    return int(entry.name)
        raise AssertionError("no gateway runs")

    def test_the_problems_of_a_gateway_need_a_gateway(self):
        ended = subprocess.run([served_gateway.ServicesTest.programs / "kernelcast", "up", "--gateway-serve", "serve.yaml"],
                               capture_output=True, text=True, check=False, cwd=self.folder)
        self.assertEqual(ended.returncode, 2)
        self.assertIn("--gateway", ended.stderr)


if __name__ == "__main__":
    served_gateway.main(__doc__)
