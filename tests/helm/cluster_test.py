#!/usr/bin/env python3
"""Installs the chart on a real Kubernetes API server with simulated nodes.

    cluster_test.py [TEST ...]

etcd is Debian's; the API server, the scheduler and the controllers of StatefulSets are Kubernetes' own, built by
scripts/setup.sh --cluster. There are no kubelets: pods are admitted and scheduled but never run. Exit code 77: a
program is missing.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHART = os.path.join(ROOT, "helm/kernelcast")
TOOLS = os.path.join(ROOT, ".setup/bin")
CRDS = os.path.join(ROOT, ".setup/schemas/crds")
KUBE = os.path.join(TOOLS, "kube")
NAMESPACE = "kernelcast"
START_SECONDS = 180
CONTROLLERS = "statefulset-controller,namespace-controller,disruption-controller"

EXAMPLES = {"defaults": None} | {name[:-len(".yaml")]: os.path.join(CHART, "examples", name)
                                 for name in sorted(os.listdir(os.path.join(CHART, "examples")))}

# Name: product label, GPUs, other labels, taints.
NODES = {
    "cpu-0": (None, 0, {}, []),
    "a100-0": ("NVIDIA-A100-SXM4-80GB", 8, {}, []),
    "a100-mig": ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", 7, {}, []),
    "a100-shared": ("NVIDIA-A100-SXM4-80GB", 8, {"nvidia.com/gpu.sharing-strategy": "time-slicing"}, []),
    "l40s-0": ("NVIDIA-L40S", 1, {}, []),
    "l40s-1": ("NVIDIA-L40S", 1, {}, []),
    "h100-0": ("NVIDIA-H100-80GB-HBM3", 8, {"kernelcast.dev/gpu-counters": "everybody"},
               [{"key": "dedicated", "value": "kernelcast", "effect": "NoSchedule"}]),
    "h100-admin": ("NVIDIA-H100-80GB-HBM3", 8, {}, []),
}


def wait_for(what, condition, seconds=START_SECONDS, alive=()):
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        for process in alive:
            if process.poll() is not None:
                raise AssertionError(f"{process.args[:2]} ended while waiting for {what}")
        if time.monotonic() > deadline:
            raise AssertionError(f"no {what} within {seconds} s")
        # Polls, because clients have no shared notification.
        time.sleep(0.1)


class Cluster:
    """etcd, an API server, a scheduler and controllers in one folder, on ephemeral ports."""

    def __init__(self, folder):
        self.folder = folder
        self.processes = []
        self.kubeconfig = self.path("kubeconfig")

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, name, *command):
        with open(self.path(name + ".log"), "wb") as log:
            self.processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                   cwd=self.folder))

    def free_ports(self, count):
        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
            for one in sockets:
                one.bind(("127.0.0.1", 0))
            return [one.getsockname()[1] for one in sockets]

    def start(self):
        # These programs do not report the port they picked, so another process may take a reserved one. Then retry with
        # others.
        for attempt in range(3):
            try:
                self.start_once()
                return
            except AssertionError:
                self.stop()
                if attempt == 2:
                    raise

    def start_once(self):
        shutil.rmtree(self.path("etcd"), ignore_errors=True)
        client, peer, api = self.free_ports(3)
        endpoint = f"http://127.0.0.1:{client}"
        self.run("etcd", "etcd", f"--data-dir={self.path('etcd')}", f"--listen-client-urls={endpoint}",
                 f"--advertise-client-urls={endpoint}", f"--listen-peer-urls=http://127.0.0.1:{peer}",
                 f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
                 f"--initial-cluster=default=http://127.0.0.1:{peer}", "--unsafe-no-fsync")
        subprocess.run(["openssl", "genrsa", "-out", self.path("accounts.key"), "2048"], check=True, capture_output=True)
        with open(self.path("tokens.csv"), "w", encoding="utf-8") as file:
            file.write("admin,admin,admin,system:masters\n")
        self.run("apiserver", KUBE, "apiserver", f"--etcd-servers={endpoint}", "--bind-address=127.0.0.1",
                 f"--secure-port={api}", f"--cert-dir={self.path('certs')}", "--service-cluster-ip-range=10.96.0.0/16",
                 "--service-account-issuer=https://kubernetes.default.svc",
                 f"--service-account-key-file={self.path('accounts.key')}",
                 f"--service-account-signing-key-file={self.path('accounts.key')}",
                 f"--token-auth-file={self.path('tokens.csv')}", "--authorization-mode=RBAC",
                 # Nothing reports these nodes as ready.
                 "--disable-admission-plugins=TaintNodesByCondition")
        with open(self.kubeconfig, "w", encoding="utf-8") as file:
            yaml.dump({"apiVersion": "v1", "kind": "Config", "current-context": "test",
                       "clusters": [{"name": "test", "cluster": {"server": f"https://127.0.0.1:{api}",
                                                                 "insecure-skip-tls-verify": True}}],
                       "users": [{"name": "test", "user": {"token": "admin"}}],
                       "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}]}, file)
        wait_for("API server", lambda: self.kubectl("get", "--raw", "/readyz", check=False).returncode == 0,
                 alive=self.processes)
        self.run("scheduler", KUBE, "scheduler", f"--kubeconfig={self.kubeconfig}", "--leader-elect=false",
                 "--secure-port=0")
        self.run("controllers", KUBE, "controller-manager", f"--kubeconfig={self.kubeconfig}", "--leader-elect=false",
                 "--secure-port=0", f"--controllers={CONTROLLERS}")

    def kubectl(self, *arguments, check=True, text=None):
        result = subprocess.run([KUBE, "kubectl", "--kubeconfig", self.kubeconfig, *arguments], input=text, text=True,
                                capture_output=True, check=False, env={**os.environ, "HOME": self.folder})
        if check and result.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {result.stderr}")
        return result

    def get(self, *arguments):
        return json.loads(self.kubectl("get", *arguments, "-o", "json").stdout)["items"]

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes = []


def render(name, *sets):
    arguments = [os.path.join(TOOLS, "helm"), "template", "kc", CHART, "--namespace", NAMESPACE, "--kube-version",
                 "1.34.0", "--no-hooks"]
    if EXAMPLES[name]:
        arguments += ["--values", EXAMPLES[name]]
    for one in sets:
        arguments += ["--set", one]
    return subprocess.run(arguments, text=True, capture_output=True, check=True).stdout


class ClusterTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="kernelcast-cluster-")
        cls.addClassCleanup(folder.cleanup)
        cls.cluster = Cluster(folder.name)
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()
        # The restricted standard, enforced by admission.
        cls.cluster.kubectl("apply", "-f", "-", text=json.dumps(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": {
                "pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"}}}))
        cls.cluster.kubectl("create", "--validate=false", "-f", CRDS)
        cls.cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        for name, (product, gpus, labels, taints) in NODES.items():
            labels = {"kubernetes.io/hostname": name, **labels}
            capacity = {"cpu": "64", "memory": "512Gi", "pods": "110"}
            if product:
                labels = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.sharing-strategy": "none", **labels}
                taints = taints + [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
                capacity["nvidia.com/gpu"] = str(gpus)
            cls.cluster.kubectl("create", "-f", "-", text=json.dumps(
                {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
                 "spec": {"taints": taints}}))
            status = {"status": {"capacity": capacity, "allocatable": capacity,
                                 "conditions": [{"type": "Ready", "status": "True", "reason": "Simulated"}]}}
            cls.cluster.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", json.dumps(status))

    def test_every_object_passes_a_server_side_dry_run(self):
        for name in EXAMPLES:
            with self.subTest(values=name):
                result = self.cluster.kubectl("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-",
                                              text=render(name))
                # A warning is a violation of the restricted standard by a pod of a StatefulSet.
                self.assertNotIn("Warning", result.stderr)
                objects = [one for one in yaml.safe_load_all(render(name)) if one]
                self.assertEqual(result.stdout.count("serverside-applied (server dry run)"), len(objects))

    def test_admission_refuses_a_pod_that_is_not_restricted(self):
        self.cluster.kubectl("create", "serviceaccount", "loose", "--namespace", NAMESPACE)
        result = self.cluster.kubectl("run", "loose", "--image=any", "--namespace", NAMESPACE,
                                      '--overrides={"spec": {"serviceAccountName": "loose"}}', check=False)
        self.assertIn("violates PodSecurity \"restricted", result.stderr)

    def test_workers_are_scheduled_to_their_pools_and_nowhere_else(self):
        rendered = render("three-pools", "forecaster.persistence.enabled=false", "orchestrator.persistence.enabled=false",
                          "worker.pools.cpu.enabled=true", "worker.pools.cpu.replicaCount=2")
        self.cluster.kubectl("apply", "--server-side", "-f", "-", text=rendered)
        self.addCleanup(self.cluster.kubectl, "delete", "--wait=false", "--ignore-not-found", "-f", "-", text=rendered,
                        check=False)
        # Every pod exists, and the scheduler has bound it or reported why not.
        def settled():
            pods = self.cluster.get("pods", "--namespace", NAMESPACE)
            tried = [pod for pod in pods if pod["spec"].get("nodeName") or any(
                condition["type"] == "PodScheduled" for condition in pod["status"].get("conditions", []))]
            return pods if len(tried) == 1 + 4 + 4 + 2 + 2 + 2 else None
        pods = wait_for("scheduled pods", settled, seconds=120, alive=self.cluster.processes)
        places = {}
        for pod in pods:
            labels = pod["metadata"]["labels"]
            key = (labels["app.kubernetes.io/component"], labels.get("kernelcast.dev/pool"))
            places.setdefault(key, []).append(pod["spec"].get("nodeName"))
        self.assertEqual(places["worker", "a100"], ["a100-0"] * 4)
        self.assertCountEqual(places["worker", "l40s"], ["l40s-0", "l40s-1"])
        self.assertEqual(places["worker", "h100"], ["h100-0"] * 2)
        # There is one node for pods without GPUs, and two workers that measure on CPUs never share it.
        self.assertCountEqual(places["worker", "cpu"], ["cpu-0", None])
        self.assertEqual(places["forecaster", None], ["cpu-0"])
        for pool in ("a100", "l40s", "h100", "cpu"):
            self.assertEqual(places["orchestrator", pool], ["cpu-0"])


def missing():
    for tool, path, how in (("Helm", os.path.join(TOOLS, "helm"), "--test"), ("kube", KUBE, "--cluster"),
                            ("etcd", shutil.which("etcd") or "", "--cluster"),
                            ("openssl", shutil.which("openssl") or "", "--test")):
        if not os.access(path, os.X_OK):
            return f"{tool} is missing; scripts/setup.sh {how} installs it where there is a Go to build it with"
    if not os.path.isdir(CRDS):
        return "the CRDs are missing; scripts/setup.sh --test fetches them"
    return ""


if __name__ == "__main__":
    reason = missing()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main(verbosity=2)
