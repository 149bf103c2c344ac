#!/usr/bin/env python3
"""Installs the wheel of scripts/wheel.sh in clean roots of Debian, and times the way to a verdict.

    wheel_test.py --wheel FILE [--cache FOLDER] [TEST ...]

Packages come from the registries that apt and pip of this machine use. Prints what each step took. Exit code 77: a
requirement is missing.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import debian

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
TIMEOUT = 900
OUTCOMES = ("ok", "wrong_result", "crash", "timeout", "exploit", "environment_unstable")
KERNELCAST = "/opt/venv/bin/kernelcast"
options = None

# Makes the mounts of a machine, and runs a command in it. Arguments: root, "machine" or "container", command. A
# container has no namespaces of its own: a process whose root is no mount cannot make any.
ENTER = r"""
set -e
root=$1 kind=$2; shift 2
[ "$kind" = container ] || mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount -t tmpfs -o mode=0755 tmpfs "$root/dev"
for device in null zero full random urandom; do
  touch "$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
mkdir -m 1777 "$root/dev/shm"; mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
[ "$kind" = machine ] || exec chroot "$root" "$@"
cd "$root"
mkdir -p old
pivot_root . old
umount -l /old
exec "$@"
"""
ENVIRONMENT = ("HOME=/root", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8",
               "DEBIAN_FRONTEND=noninteractive", f"PIP_CERT={CERTIFICATES}", "PIP_DISABLE_PIP_VERSION_CHECK=1")


class Machine:
    """A root of Debian with nothing but its base system."""

    def __init__(self, suite):
        self.suite = suite
        self.root = os.path.join(options.work, suite)
        os.mkdir(self.root)
        archive = debian.base_archive(suite, options.cache, options.work)
        subprocess.run(["tar", "-C", self.root, "-xf", archive], check=True)
        # How this machine finds the registries and trusts them.
        shutil.copy("/etc/resolv.conf", self.root + "/etc/resolv.conf")
        shutil.copy(CERTIFICATES, self.root + CERTIFICATES)
        os.chmod(self.root + "/root", 0o700)
        shutil.copy(options.wheel, self.root + "/opt")
        shutil.copytree(os.path.join(ROOT, "examples"), self.root + "/opt/examples")
        self.wheel = "/opt/" + os.path.basename(options.wheel)
        self.steps = []

    def try_run(self, *command, kind="machine"):
        done = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--", "sh", "-c", ENTER, "sh", self.root, kind, "/usr/bin/env",
             "-i", *ENVIRONMENT, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, errors="replace", timeout=TIMEOUT, check=False)
        return done

    def run(self, *command, kind="machine"):
        done = self.try_run(*command, kind=kind)
        if done.returncode != 0:
            raise AssertionError(f"{self.suite}: {' '.join(command)}: {done.returncode}\n{done.stdout[-3000:]}\n"
                                 f"{done.stderr[-3000:]}")
        return done.stdout

    def timed(self, what, *command):
        start = time.monotonic()
        output = self.run(*command)
        self.steps.append((what, time.monotonic() - start))
        return output

    def install(self, what, *packages):
        return self.timed(what, "sh", "-c", "apt-get -q update && apt-get -q -y install --no-install-recommends "
                          + " ".join(packages))

    def verdicts(self, *arguments, kind="machine"):
        """What `kernelcast evaluate` says of each candidate: "ok", another outcome, or "rejected"."""
        done = self.try_run(KERNELCAST, "evaluate", *arguments, "--mode", "measure", "--json", kind=kind)
        found = {}
        for line in done.stdout.splitlines():
            evaluation = json.loads(line)
            if "evaluation" not in evaluation:
                continue
            measured = evaluation["evaluation"].get("measured")
            found[evaluation["name"]] = "rejected" if measured is None else next(
                (outcome for outcome in OUTCOMES if outcome in measured))
        if not found:
            raise AssertionError(f"{self.suite}: no verdict: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return found

    def report(self):
        total = 0.0
        for what, seconds in self.steps:
            total += seconds
            print(f"{self.suite}: {what}: {seconds:.1f} s, {total:.1f} s in all", flush=True)


def softmax_candidates():
    return ("row_softmax", "--candidates", "/opt/examples/candidates/row_softmax")


class WheelTest(unittest.TestCase):
    def check(self, suite):
        machine = Machine(suite)
        self.addCleanup(machine.report)
        machine.install("apt-get install python3-venv", "python3-venv")
        machine.timed("python3 -m venv", "python3", "-m", "venv", "/opt/venv")
        machine.timed("pip install", "/opt/venv/bin/pip", "install", "-q", machine.wheel)

        # What is missing is named with the command that brings it.
        doctor = machine.try_run(KERNELCAST, "doctor", "--json")
        self.assertEqual(doctor.returncode, 1, doctor.stdout + doctor.stderr)
        self.assertIn("apt-get install g++", doctor.stdout)
        machine.install("apt-get install g++", "g++")

        start = time.monotonic()
        found = machine.verdicts(*softmax_candidates())
        machine.steps.append(("kernelcast evaluate, 5 candidates", time.monotonic() - start))
        self.assertEqual(found["library_vectors"], "ok", found)
        self.assertEqual(found["single_sweep"], "wrong_result", found)

        doctor = machine.run(KERNELCAST, "doctor")
        self.assertRegex(doctor, r"ok +services +all start")
        self.assertRegex(doctor, r"ok +runner +all protections granted")
        self.assertRegex(machine.run(KERNELCAST, "problems"), r"(?m)^row_softmax ")
        # The package finds the command next to its interpreter, which is not on PATH.
        program = "import kernelcast\nwith kernelcast.local() as client: print(client.describe().version)"
        self.assertEqual(machine.run("/opt/venv/bin/python", "-c", program).strip(),
                         machine.run(KERNELCAST, "--version").split()[1])
        return machine

    def check_pytorch(self, machine):
        """A PyTorch task, judged by the environment's own interpreter."""
        machine.install("apt-get install python3-torch", "python3-torch")
        machine.run("python3", "-m", "venv", "--system-site-packages", "--upgrade", "/opt/venv")
        start = time.monotonic()
        found = machine.verdicts("/opt/examples/tasks/kernelbench/gated_silu.py", "--candidates",
                                 "/opt/examples/tasks/kernelbench/candidates/gated_silu", "--target", "cpu")
        machine.steps.append(("kernelcast evaluate, a PyTorch task", time.monotonic() - start))
        self.assertEqual(found["rowwise"], "ok", found)
        self.assertEqual(found["wrong_gate"], "wrong_result", found)

    def test_debian_12(self):
        machine = self.check("bookworm")
        self.check_pytorch(machine)
        # As root in a container that has no namespaces, with a state folder that only root can reach.
        os.mkdir(machine.root + "/opt/closed", 0o700)
        found = machine.verdicts(*softmax_candidates(), "--state-dir", "/opt/closed/state", kind="container")
        self.assertEqual(found["library_vectors"], "ok", found)

    def test_debian_13(self):
        machine = self.check("trixie")
        self.check_pytorch(machine)

    def test_cuda_from_the_packages_of_pytorch_and_triton(self):
        """Compiles for a GPU, without one, with what PyTorch for CUDA installs."""
        machine = Machine("bookworm")
        self.addCleanup(machine.report)
        machine.install("apt-get install python3-venv g++", "python3-venv", "g++")
        machine.run("python3", "-m", "venv", "/opt/venv")
        machine.timed("pip install", "/opt/venv/bin/pip", "install", "-q", machine.wheel, "triton==3.6.0",
                      "nvidia-cuda-nvrtc==13.0.88", "nvidia-cuda-runtime==13.0.96")
        compiled = machine.run(KERNELCAST, "compile", "row_softmax", "--target", "cuda", "--candidates",
                               "/opt/examples/triton/row_softmax")
        self.assertRegex(compiled, r"(?m)^one_block +ok")
        # The headers of CCCL are no part of them. The command that doctor names brings them.
        doctor = machine.run(KERNELCAST, "doctor", "--json")
        command, = re.findall(r"pip install '(nvidia-cuda-cccl==[0-9.*]+)'", doctor)
        machine.run("/opt/venv/bin/pip", "install", "-q", command)
        self.assertNotIn("nvidia-cuda-cccl", machine.run(KERNELCAST, "doctor", "--json"))


def missing():
    """Missing requirements in words; empty if there are none."""
    if os.geteuid() != 0:
        return "roots are made and mounted as root, which this is not"
    for tool in ("debootstrap", "unshare", "pivot_root"):
        if not shutil.which(tool):
            return f"{tool} is missing; scripts/setup.sh --test installs it"
    probe = subprocess.run(["unshare", "--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "tmpfs", "/mnt"],
                           capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        return f"mounts are not granted here: {probe.stderr.strip()}"
    return ""


def main():
    global options
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", required=True)
    parser.add_argument("--cache", default=os.path.join(ROOT, ".setup/images"))
    options, rest = parser.parse_known_args()
    options.wheel = os.path.abspath(options.wheel)
    with tempfile.TemporaryDirectory(prefix="kernelcast-wheel-") as options.work:
        os.chmod(options.work, 0o755)
        reason = missing()
        if reason:
            print(f"skipped: {reason}")
            sys.exit(77)
        ok = unittest.main(argv=[sys.argv[0], *rest], exit=False, verbosity=2).result.wasSuccessful()
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
