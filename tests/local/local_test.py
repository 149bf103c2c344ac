#!/usr/bin/env python3
"""Checks deploy/local: one command that starts everything, the systemd units, and their configuration.

    local_test.py --programs FOLDER [TEST ...]
"""

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
from prometheus import START_SECONDS, fetch, free_port, query, wait_for  # noqa: E402

LOCAL = os.path.join(ROOT, "deploy/local")
SERVICES = ("forecaster", "worker", "orchestrator", "gateway")
options = None


class UpTest(unittest.TestCase):
    def setUp(self):
        if not shutil.which("prometheus"):
            self.skipTest("prometheus is missing; scripts/setup.sh --test installs it")
        folder = tempfile.TemporaryDirectory(prefix="kernelcast-local-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, *arguments, **environment):
        log = os.path.join(self.folder, "log")
        with open(log, "wb") as file:
            process = subprocess.Popen(
                [os.path.join(LOCAL, "up.sh"), "--data", os.path.join(self.folder, "data"), *arguments],
                stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                env={**os.environ, "KERNELCAST_BIN": options.programs, **environment})
        def end():
            if process.poll() is None:
                process.terminate()
                process.wait(START_SECONDS)
        self.addCleanup(end)
        return process, log

    def up(self, *options_of_up):
        """Starts everything. Returns (process, its output's path, address of the orchestrator, of Prometheus)."""
        # Prometheus does not report the port it picked, so another process may take a reserved one. Then retry.
        for attempt in range(3):
            prometheus = f"127.0.0.1:{free_port()}"
            process, log = self.start("--prometheus", prometheus, "--listen", "127.0.0.1:0", *options_of_up)
            def serving():
                with open(log, encoding="utf-8") as file:
                    return re.search(r"up: orchestrator (\S+), Prometheus.*\nup: status page (\S+)", file.read())
            try:
                orchestrator, self.status_page = wait_for("services", serving, process).groups()
                wait_for("Prometheus", lambda address=prometheus: query(address, "vector(1)"), process)
                return process, log, orchestrator, prometheus
            except AssertionError:
                process.terminate()
                process.wait(START_SECONDS)
                if attempt == 2:
                    with open(log, encoding="utf-8") as file:
                        self.fail(file.read())
        return None

    def test_prometheus_has_data_of_a_search_within_a_minute(self):
        process, log, orchestrator, prometheus = self.up("--gateway=127.0.0.1:0")
        search = subprocess.run(
            [os.path.join(options.programs, "kernelcast"), "search", "row_softmax", "--orchestrator", orchestrator,
             "--budget-measurements", "4", "--no-report", "--quiet", "--json", "--state-dir",
             os.path.join(self.folder, "cli")],
            cwd=ROOT, text=True, capture_output=True, check=False, timeout=900)
        self.assertIn(search.returncode, (0, 1), search.stderr)
        ended = time.monotonic()
        for expression in ("up{job='orchestrator'} == 1", "up{job='worker'} == 1", "up{job='forecaster'} == 1",
                           "up{job='gateway'} == 1", "kernelcast_gateway_tasks_pending >= 0",
                           "sum(kernelcast_orchestrator_decisions_total) > 0",
                           "sum(kernelcast_worker_measurements_total) > 0",
                           "sum(kernelcast_forecaster_labels_total) > 0",
                           # A recorded series.
                           "instance_gpu_model:kernelcast_orchestrator_defer:ratio_rate1h >= 0"):
            wait_for(expression, lambda one=expression: query(prometheus, one), process)
        self.assertLess(time.monotonic() - ended, 60)
        host = self.status_page.removeprefix("http://").rstrip("/")
        self.assertIn("row_softmax", fetch(host, "/"))
        with open(os.path.join(ROOT, "deploy/prometheus/rules/alerts.yml"), encoding="utf-8") as file:
            alerts = set(re.findall(r"- alert: (\w+)", file.read()))
        loaded = json.loads(fetch(prometheus, "/api/v1/rules", type="alert"))["data"]["groups"]
        self.assertEqual({rule["name"] for group in loaded for rule in group["rules"]}, alerts)
        process.send_signal(signal.SIGINT)
        with open(log, encoding="utf-8") as file:
            self.assertEqual(process.wait(START_SECONDS), 0, file.read())
        # Nothing is left behind.
        self.assertEqual(query(prometheus, "vector(1)"), [])
        host, port = orchestrator.rsplit(":", 1)
        with self.assertRaises(OSError):
            socket.create_connection((host, int(port)), timeout=5).close()

    def test_services_that_end_take_prometheus_with_them(self):
        process, log, _, prometheus = self.up()
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="utf-8") as file:
            children = [int(pid) for pid in file.read().split()]
        def name(pid):
            with open(f"/proc/{pid}/comm", encoding="utf-8") as comm:
                return comm.read().strip()
        os.kill(next(pid for pid in children if name(pid) == "kernelcast"), signal.SIGTERM)
        self.assertEqual(process.wait(START_SECONDS), 1)
        with open(log, encoding="utf-8") as file:
            self.assertIn("the services ended with code 0", file.read())
        self.assertEqual(query(prometheus, "vector(1)"), [])

    def test_bad_usage_and_missing_programs_are_said(self):
        process, log = self.start("--prometheus")
        self.assertEqual(process.wait(START_SECONDS), 2)
        process, log = self.start(KERNELCAST_BIN="/nonexistent")
        self.assertEqual(process.wait(START_SECONDS), 3)
        with open(log, encoding="utf-8") as file:
            self.assertIn("no kernelcast", file.read())


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="kernelcast-install-")
        cls.addClassCleanup(folder.cleanup)
        cls.root = os.path.join(folder.name, "root")
        # A bundle made by scripts/bundle.sh has the programs in bin.
        bundle = os.path.join(folder.name, "bundle")
        os.makedirs(os.path.join(bundle, "bin"))
        for program in os.listdir(options.programs):
            if program.startswith("kernelcast"):
                shutil.copy(os.path.join(options.programs, program), os.path.join(bundle, "bin"))
        cls.install = [os.path.join(LOCAL, "install.sh"), "--root", cls.root, bundle]
        subprocess.run(cls.install, check=True, capture_output=True)

    def path(self, *parts):
        return os.path.join(self.root, *parts)

    def test_configuration_that_is_there_is_kept(self):
        config = self.path("etc/kernelcast/worker.yaml")
        with open(config, encoding="utf-8") as file:
            before = file.read()
        try:
            with open(config, "w", encoding="utf-8") as file:
                file.write("mine: yes\n")
            again = subprocess.run(self.install, check=True, text=True, capture_output=True)
            self.assertIn("worker.yaml is left as it is", again.stderr)
            with open(config, encoding="utf-8") as file:
                self.assertEqual(file.read(), "mine: yes\n")
        finally:
            with open(config, "w", encoding="utf-8") as file:
                file.write(before)

    def test_systemd_finds_no_fault_with_the_units(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("systemd-analyze is missing; the package systemd has it")
        # The targets that units refer to.
        shutil.copytree("/usr/lib/systemd/system", self.path("usr/lib/systemd/system"), symlinks=True,
                        dirs_exist_ok=True)
        for service in SERVICES:
            unit = f"kernelcast-{service}.service"
            verified = subprocess.run(["systemd-analyze", "verify", "--man=no", f"--root={self.root}", unit], text=True,
                                      capture_output=True, check=False)
            mine = [line for line in verified.stderr.splitlines() if "kernelcast" in line]
            self.assertEqual((verified.returncode, mine), (0, []), verified.stderr)
            # In tenths: 0 is fully confined, 100 is unconfined; a unit without settings has 96.
            exposure = "35" if service == "worker" else "15"
            judged = subprocess.run(["systemd-analyze", "security", "--offline=yes", f"--threshold={exposure}",
                                     f"--root={self.root}", unit], text=True, capture_output=True, check=False)
            self.assertEqual(judged.returncode, 0, judged.stdout[-300:])

    def test_the_programs_serve_with_their_configuration(self):
        for service in SERVICES:
            with self.subTest(service):
                state = self.path("state", service)
                os.makedirs(state)
                ready = os.path.join(state, "ready.json")
                with open(self.path(f"etc/systemd/system/kernelcast-{service}.service"), encoding="utf-8") as file:
                    command = re.search(r"^ExecStart=(.*)$", file.read(), re.MULTILINE).group(1).split()
                # Machine paths and ports that may be in use are replaced.
                command = [self.root + part if part.startswith("/") else part for part in command]
                place = "--cache-dir" if service == "worker" else "--state-dir"
                command += ["--listen=127.0.0.1:0", "--metrics=127.0.0.1:0", f"--ready-file={ready}",
                            f"{place}={state}/state"]
                if service == "worker":
                    command.append(f"--lease-file={state}/lock")
                if service == "orchestrator":
                    command.append("--status=127.0.0.1:0")
                if service == "gateway":
                    command.append(f"--problems={ROOT}/examples/problems")
                process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                try:
                    wait_for("service", lambda file=ready: os.path.exists(file), process)
                    process.send_signal(signal.SIGTERM)
                    self.assertEqual(process.wait(START_SECONDS), 0)
                finally:
                    if process.poll() is None:
                        process.kill()
                    error = process.communicate()[1]
                self.assertIn("draining", error)

    def test_ports_agree(self):
        def config(service):
            with open(os.path.join(LOCAL, f"config/{service}.yaml"), encoding="utf-8") as file:
                return dict(re.findall(r"^([a-z-]+): (\S+)$", file.read(), re.MULTILINE))
        with open(os.path.join(LOCAL, "config/orchestrator.yaml"), encoding="utf-8") as file:
            workers = re.findall(r"^  - (\S+)$", file.read(), re.MULTILINE)
        self.assertEqual(config("orchestrator")["forecaster"], config("forecaster")["listen"])
        self.assertEqual(workers, [config("worker")["listen"]])
        with open(os.path.join(LOCAL, "targets.json"), encoding="utf-8") as file:
            targets = {group["labels"]["job"]: group["targets"] for group in json.load(file)}
        self.assertEqual(targets, {service: [config(service)["metrics"]] for service in SERVICES})
        self.assertEqual(config("gateway")["orchestrator"], config("orchestrator")["listen"])

    def test_prometheus_takes_the_configuration(self):
        if not shutil.which("promtool"):
            self.skipTest("promtool is missing; scripts/setup.sh --test installs prometheus")
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "rules"))
            for name in ("prometheus.yml", "targets.json"):
                shutil.copy(os.path.join(LOCAL, name), folder)
            checked = subprocess.run(["promtool", "check", "config", os.path.join(folder, "prometheus.yml")], text=True,
                                     capture_output=True, check=False)
            self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)


def main():
    global options
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", required=True)
    options, rest = parser.parse_known_args()
    options.programs = os.path.abspath(options.programs)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
