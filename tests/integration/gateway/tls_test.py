#!/usr/bin/env python3
"""Asks a gateway for TLS and tokens, as operators configure them. No orchestrator runs.

    tls_test.py --programs FOLDER [TEST ...]
"""

import contextlib
import http.client
import json
import pathlib
import ssl
import subprocess
import tempfile
import unittest

import served_gateway
from served_gateway import START_SECONDS, Gateway, ServicesTest


def openssl(folder, *arguments):
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


class TlsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="kernelcast-tls-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        openssl(cls.folder, "req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=ca")
        (cls.folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
        openssl(cls.folder, "req", *curve, "-keyout", "tls.key", "-out", "request", "-subj", "/CN=gateway")
        openssl(cls.folder, "x509", "-req", "-in", "request", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
                "-extfile", "names", "-out", "tls.crt")
        made = subprocess.run([ServicesTest.programs / "kernelcast", "token", "alice", "--role", "submit", "--output",
                               cls.folder / "token"], check=True, capture_output=True, text=True)
        cls.token = (cls.folder / "token").read_text().strip()
        (cls.folder / "tokens.yaml").write_text("tokens:\n" + made.stdout)

    def start(self, name, *arguments, serve="[]"):
        gateway = Gateway(ServicesTest.programs, self.folder / name, "127.0.0.1:1", "--auth-tokens-file",
                          self.folder / "tokens.yaml", *arguments)
        (gateway.folder / "serve.yaml").write_text(f"serve: {serve}\n")
        # An address that other machines reach.
        gateway.address = "0.0.0.0:0"
        self.addCleanup(lambda: gateway.process.poll() is None and gateway.stop())
        return gateway.start()

    def tls(self, *more):
        return ["--tls-certificate-file", self.folder / "tls.crt", "--tls-key-file", self.folder / "tls.key", *more]

    def ask(self, gateway, path="/popcorn/leaderboards", body=None, with_certificate=False):
        """The status and the JSON of a request over TLS."""
        context = ssl.create_default_context(cafile=self.folder / "ca.crt")
        if with_certificate:
            context.load_cert_chain(self.folder / "tls.crt", self.folder / "tls.key")
        connection = http.client.HTTPSConnection("127.0.0.1", int(gateway.address.rpartition(":")[2]), context=context,
                                                 timeout=START_SECONDS)
        with contextlib.closing(connection):
            connection.request("POST" if body else "GET", path, body, headers={"Authorization": f"Bearer {self.token}"})
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read())

    def test_tokens_need_tls_on_an_address_that_other_machines_reach(self):
        with self.assertRaisesRegex(AssertionError, "in the clear: turn on TLS"):
            self.start("clear")
        gateway = self.start("tls", *self.tls("--health-listen", "127.0.0.1:0"))
        self.assertEqual(self.ask(gateway), (200, []))
        self.assertEqual(self.ask(gateway, "/health")[0], 503)
        self.assertEqual(self.ask(gateway, "/slime/none", json.dumps({"response": "x" * (7 << 20)}).encode())[0], 404)
        self.assertEqual(self.ask(gateway, "/slime/none", b"x" * (9 << 20))[0], 413)
        health = http.client.HTTPConnection(json.loads((gateway.folder / "ready").read_text())["health"],
                                            timeout=START_SECONDS)
        with contextlib.closing(health):
            for path, status in (("/health", 503), ("/popcorn/leaderboards", 404)):
                health.request("GET", path)
                reply = health.getresponse()
                self.assertEqual(reply.status, status)
                reply.read()
        metrics = http.client.HTTPConnection(gateway.metrics, timeout=START_SECONDS)
        with contextlib.closing(metrics):
            metrics.request("GET", "/metrics")
            self.assertIn('kernelcast_tls_certificate_expiry_timestamp_seconds{use="server"}',
                          metrics.getresponse().read().decode())

    def test_clients_need_certificates_where_there_is_a_client_ca(self):
        gateway = self.start("mutual", *self.tls("--tls-client-ca-file", self.folder / "ca.crt"))
        self.assertEqual(self.ask(gateway, with_certificate=True), (200, []))
        with self.assertRaises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
            self.ask(gateway)
        # Nothing else is open to others on this machine.
        metrics = int(gateway.metrics.rpartition(":")[2])
        self.assertEqual(self.listening(gateway.process.pid), {metrics})

    def test_the_log_has_a_line_for_each_request(self):
        gateway = self.start("log", *self.tls("--log-level", "debug", "--wait-seconds", "0"),
                             serve="[{name: softmax, problem: row_softmax}]")
        body = json.dumps({"response": served_gateway.FAST}).encode()
        self.assertEqual(self.ask(gateway, "/slime/softmax", body)[0], 503)
        self.assertEqual(self.ask(gateway)[0], 200)
        gateway.stop()
        lines = [json.loads(line) for line in gateway.log.read_text().splitlines()]
        submitted, listed = [line for line in lines if line["message"] == "request"]
        self.assertEqual([submitted[key] for key in ("level", "dialect", "method", "status", "token")],
                         ["debug", "slime", "POST", 503, "alice"])
        self.assertRegex(submitted["request_id"], "^g_[0-9a-f]{32}-0$")
        self.assertRegex(submitted["candidate_id"], "^k_[0-9a-f]{32}$")
        self.assertGreater(submitted["seconds"], 0)
        self.assertEqual([listed[key] for key in ("dialect", "method", "status", "token", "request_id", "candidate_id")],
                         ["popcorn", "GET", 200, "alice", "", ""])
        self.assertNotIn(self.token, gateway.log.read_text())

    @staticmethod
    def listening(pid):
        """Ports of 127.0.0.1 on which a process listens."""
        sockets = set()
        for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # of a connection that has just ended
                sockets.add(link.readlink().name)
        ports = set()
        for line in pathlib.Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            host, port = fields[1].split(":")
            if fields[3] == "0A" and host == "0100007F" and f"socket:[{fields[9]}]" in sockets:
                ports.add(int(port, 16))
        return ports


if __name__ == "__main__":
    served_gateway.main(__doc__)
