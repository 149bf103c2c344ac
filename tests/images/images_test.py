#!/usr/bin/env python3
"""Builds the images and runs them like a cluster: another user, no privileges, a read-only root.

    images_test.py --programs FOLDER [--tests FOLDER] [--toolkit FOLDER] [--cache FOLDER] [TEST ...]

The folder of --programs has the layout of scripts/bundle.sh; that of --tests holds the tests of the judge. No
registry is used: the base is made once by debootstrap and kept in the cache. Exit code 77: a requirement is missing.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import debian

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SUITE = "bookworm"
UID = 10001
START_SECONDS = 60
STATE = "/var/lib/kernelcast"
options = None

IMAGES = {  # name: Dockerfile, target, program
    "forecaster": ("forecaster", "forecaster", "kernelcast-forecaster"),
    "orchestrator": ("orchestrator", "orchestrator", "kernelcast-orchestrator"),
    "gateway": ("gateway", "gateway", "kernelcast-gateway"),
    "worker": ("worker", "worker", "kernelcast-worker"),
    "worker-cuda": ("worker", "worker-cuda", "kernelcast-worker"),
}

# Tests of the judge: verdicts on right, wrong and cheating candidates, and the compiler's sandbox.
JUDGE_TESTS = ("compiler_test", "cpu_target_test", "expected_verdicts_test")
# The files of this machine that they need: the sources with the tests, and the header that an installed worker has.
SHOWN = (ROOT, "/usr/include/dlpack")

# Makes the mounts of a container and becomes its first process. Arguments: root, state, folders to show
# read-only at their own paths, separated by spaces, command.
ENTER = r"""
set -e
root=$1 state=$2 shown=$3; shift 3
mount --bind "$root" "$root"
for folder in $shown; do
  mkdir -p "$root$folder"
  mount --bind "$folder" "$root$folder"
  mount -o remount,bind,ro "$root$folder"
done
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=0755 tmpfs "$root/dev"
for device in null zero full random urandom; do
  touch "$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir -m 1777 "$root/dev/shm"; mount -t tmpfs -o mode=1777,size=64m tmpfs "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount --bind "$state" "$root/var/lib/kernelcast"
mount -o remount,bind,ro "$root"
exec chroot "$root" /usr/bin/env -i "$@"
"""


def run(*command, **how):
    return subprocess.run(command, check=True, text=True, capture_output=True, **how).stdout


def buildah_command(*arguments):
    store = os.path.join(options.work, options.driver)
    return ("buildah", "--storage-driver", options.driver, "--root", store, "--runroot",
            os.path.join(options.work, "run"), *arguments)


def buildah(*arguments, **how):
    command = buildah_command(*arguments)
    try:
        return run(*command, cwd=ROOT, **how)
    except subprocess.CalledProcessError as error:
        output = "\n".join((error.stdout + error.stderr).splitlines()[-30:])
        raise AssertionError(f"{' '.join(command)}:\n{output}") from None


class Container:
    """A process of an image, as restricted as in the chart."""

    def __init__(self, image, name, arguments, state=None):
        self.config = json.loads(buildah("inspect", "--type", "image", image))["OCIv1"]["config"]
        self.container = buildah("from", "--pull-never", image).strip()
        root = buildah("mount", self.container).strip()
        self.state = state or tempfile.mkdtemp(prefix=f"{name}-", dir=options.work)
        os.chown(self.state, UID, UID)
        user, group = self.config["User"].split(":")
        self.output_path = os.path.join(options.work, f"{name}.out")
        with open(self.output_path, "wb") as output:
            self.process = subprocess.Popen(
                ["unshare", "--mount", "--pid", "--ipc", "--fork", "--", "sh", "-c", ENTER, "sh",
                 root, self.state, "", *self.config.get("Env", []),
                 "/usr/bin/setpriv", "--reuid", user, "--regid", group, "--clear-groups", "--no-new-privs",
                 "--bounding-set=-all", "--inh-caps=-all", "--",
                 *self.config["Entrypoint"], *arguments],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)

    def output(self):
        with open(self.output_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def ready(self):
        """Returns its addresses once the service serves."""
        deadline = time.monotonic() + START_SECONDS
        path = os.path.join(self.state, "ready.json")
        while not os.path.exists(path):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"it does not serve:\n{self.output()}")
            # Only the file can be waited on.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.05)
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def stop(self):
        """Ends it like a kubelet. Returns the exit code."""
        self.signal(signal.SIGTERM)
        return self.process.wait(START_SECONDS)

    def signal(self, number):
        """Signals the container's first process, which ends all others; unshare's own process exits after it."""
        if self.process.poll() is None:
            with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="utf-8") as file:
                for first in file.read().split():
                    os.kill(int(first), number)

    def remove(self):
        self.signal(signal.SIGKILL)
        self.process.wait(START_SECONDS)
        buildah("umount", self.container)
        buildah("rm", self.container)


def health(address, service):
    """Status from the health service, in the standard's numbers: 1 is SERVING."""
    import grpc
    with grpc.insecure_channel(address) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check", request_serializer=lambda name: name,
                                    response_deserializer=lambda reply: reply)
        name = service.encode()
        reply = check(bytes([0x0A, len(name)]) + name, timeout=20, wait_for_ready=True)
    return reply[1] if reply[:1] == b"\x08" else 0


def flags(container_state_flag):
    return ["--listen=127.0.0.1:0", "--metrics=127.0.0.1:0", f"--ready-file={STATE}/ready.json",
            "--drain-seconds=5", f"--{container_state_flag}={STATE}"]


class ImagesTest(unittest.TestCase):
    built = set()

    def build(self, name):
        dockerfile, target, _ = IMAGES[name]
        image = f"localhost/kernelcast/{name}:test"
        if name in self.built:
            return image
        if "base" not in self.built:
            context = os.path.join(options.work, "base-context")
            os.makedirs(context)
            archive = os.path.join(context, "base.tar")
            base = debian.base_archive(SUITE, options.cache, options.work)
            try:
                os.link(base, archive)
            except OSError:
                shutil.copyfile(base, archive)
            with open(os.path.join(context, "Dockerfile"), "w", encoding="utf-8") as file:
                file.write("FROM scratch\nADD base.tar /\n")
            make_base = ("bud", "--isolation", "chroot", "-t", "localhost/kernelcast-base:test", context)
            try:
                buildah(*make_base)
            except AssertionError:
                # Slower, but works on every file system.
                options.driver = "vfs"
                buildah(*make_base)
            self.built.add("base")
        contexts = ["--build-context", f"programs={options.programs}"]
        if name == "worker-cuda":
            contexts += ["--build-context", f"toolkit={options.toolkit}"]
        buildah("bud", "--isolation", "chroot", "--layers", "--pull-never", "--build-arg",
                "BASE=localhost/kernelcast-base:test", "--build-arg", "VERSION=0.0.0-test", "--build-arg",
                "REVISION=test", *contexts, "-f", f"docker/{dockerfile}.Dockerfile", "--target", target,
                "-t", image, ".")
        self.built.add(name)
        return image

    def start(self, name, arguments):
        container = Container(self.build(name), name, arguments)
        self.addCleanup(container.remove)
        return container

    def check_image(self, name):
        """The image's description, and that its program runs."""
        image = self.build(name)
        described = json.loads(buildah("inspect", "--type", "image", image))["OCIv1"]
        config = described["config"]
        program = IMAGES[name][2]
        self.assertEqual(config["User"], f"{UID}:{UID}")
        self.assertEqual(config["Entrypoint"], ["/usr/bin/tini", "--", f"/opt/kernelcast/bin/{program}"])
        self.assertEqual(config["Labels"]["org.opencontainers.image.version"], "0.0.0-test")
        self.assertEqual(config["Labels"]["org.opencontainers.image.revision"], "test")
        self.assertEqual(config["Labels"]["org.opencontainers.image.title"], f"kernelcast-{name}")
        version = Container(image, name, ["--version"])
        self.addCleanup(version.remove)
        self.assertEqual(version.process.wait(START_SECONDS), 0, version.output())
        self.assertRegex(version.output(), rf"^{program} \d+\.\d+\.\d+ ")

    def check_service(self, container, service):
        address = container.ready()["grpc"]
        for part in ("", "liveness", "readiness", service):
            self.assertEqual(health(address, part), 1, f"health of '{part}'")
        return address

    def check_stops(self, container):
        self.assertEqual(container.stop(), 0, container.output())
        self.assertIn("draining", container.output())

    def test_images_say_what_they_are_and_run_their_program(self):
        for name in ("forecaster", "gateway", "orchestrator", "worker"):
            with self.subTest(name):
                self.check_image(name)

    def run_in_image(self, name, *command, shown=()):
        """Runs a command with the same mounts and user as the image's program. Returns exit code and output."""
        container = Container(self.build(name), f"{name}-probe", ["--version"])
        self.addCleanup(container.remove)
        container.process.wait(START_SECONDS)
        root = buildah("mount", container.container).strip()
        ran = subprocess.run(
            ["unshare", "--mount", "--pid", "--ipc", "--fork", "--", "sh", "-c", ENTER, "sh", root, container.state,
             " ".join(shown), "PATH=/usr/bin:/bin", "/usr/bin/setpriv", "--reuid", str(UID), "--regid", str(UID),
             "--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--", *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            check=False)
        return ran.returncode, ran.stdout

    def test_the_root_cannot_be_written_and_the_user_has_no_privileges(self):
        script = ("id -u; id -G; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status; "
                  "touch /opt/kernelcast/x 2>&1; touch /x 2>&1; touch /var/lib/kernelcast/x /tmp/x && echo writable")
        _, output = self.run_in_image("forecaster", "/bin/sh", "-c", script)
        lines = output.splitlines()
        self.assertEqual(lines[:2], [str(UID), str(UID)])
        self.assertRegex(output, r"CapEff:\s+0{16}\nCapBnd:\s+0{16}\nNoNewPrivs:\s+1\n")
        self.assertEqual(output.count("Read-only file system"), 2, output)
        self.assertEqual(lines[-1], "writable")

    def test_the_judge_keeps_its_verdicts_in_the_image(self):
        if not options.tests:
            self.skipTest("no --tests")
        for name in JUDGE_TESTS:
            with self.subTest(name):
                code, output = self.run_in_image("worker", os.path.join(options.tests, name), shown=SHOWN)
                self.assertEqual(code, 0, output)
                self.assertIn("All tests passed", output)

    def test_three_services_from_images_search_together(self):
        forecaster = self.start("forecaster", flags("state-dir"))
        worker = self.start("worker", flags("cache-dir"))
        forecaster_address = self.check_service(forecaster, "kernelcast.v1.Forecaster")
        worker_address = self.check_service(worker, "kernelcast.v1.Worker")
        orchestrator = self.start("orchestrator", flags("state-dir") + [
            f"--worker={worker_address}", f"--forecaster={forecaster_address}"])
        address = self.check_service(orchestrator, "kernelcast.v1.Orchestrator")

        # The command line of the orchestrator's image, in its own container.
        searching = subprocess.run(
            buildah_command(
                "run", "--isolation", "chroot", "--user", f"{UID}:{UID}", orchestrator.container, "--",
                "/opt/kernelcast/bin/kernelcast", "search", "row_softmax", "--orchestrator", address, "--state-dir",
                "/tmp/cli", "--no-report", "--json", "--budget-measurements", "4"),
            text=True, capture_output=True, check=False, timeout=900)
        # 1: nothing faster was found.
        self.assertIn(searching.returncode, (0, 1), searching.stderr + worker.output())
        self.assertIn('"measured"', searching.stdout)
        with open(os.path.join(worker.state, "ready.json"), encoding="utf-8") as file:
            metrics = json.load(file)["metrics"]
        exposition = run("python3", "-c", "import sys, urllib.request as u; "
                         "print(u.urlopen(sys.argv[1], timeout=20).read().decode())", f"http://{metrics}/metrics")
        measured = [line for line in exposition.splitlines()
                    if line.startswith("kernelcast_worker_measurements_total{") and 'result="ok"' in line]
        self.assertGreaterEqual(sum(float(line.split()[-1]) for line in measured), 1, exposition)
        gateway = self.start("gateway", flags("state-dir") + [
            f"--orchestrator={address}", "--problems=/opt/kernelcast/share/kernelcast/problems"])
        boards = run("python3", "-c", "import json, sys, urllib.request as u; "
                     "print(*[board['name'] for board in json.load(u.urlopen(sys.argv[1], timeout=20))])",
                     f"http://{gateway.ready()['http']}/popcorn/leaderboards")
        self.assertIn("row_softmax", boards.split())
        for container in (gateway, orchestrator, worker, forecaster):
            self.check_stops(container)

    def test_the_worker_with_the_toolkit_compiles_cuda(self):
        if not options.toolkit or not os.path.isfile(os.path.join(options.toolkit, "include/nvrtc.h")):
            self.skipTest("no CUDA toolkit; scripts/setup.sh downloads one")
        if not os.path.exists(os.path.join(options.programs, "bin/kernelcast-cuda-compiler")):
            self.skipTest("the programs were built without the cuda target")
        self.check_image("worker-cuda")
        worker = self.start("worker-cuda", flags("cache-dir"))
        address = self.check_service(worker, "kernelcast.v1.Worker")
        compiled = subprocess.run(
            [os.path.join(options.programs, "bin/kernelcast"), "compile", "examples/problems/row_softmax", "--target",
             "cuda", "--reference", "--json", "--worker", address],
            cwd=ROOT, text=True, capture_output=True, check=False, timeout=120)
        self.assertEqual(compiled.returncode, 0, compiled.stdout + compiled.stderr + worker.output())
        self.check_stops(worker)


def missing():
    """Missing requirements in words; empty if there are none."""
    if os.geteuid() != 0:
        return "images are built and mounted as root, which this is not"
    for tool in ("buildah", "debootstrap", "unshare", "chroot"):
        if not shutil.which(tool):
            return f"{tool} is missing; scripts/setup.sh --test installs it"
    probe = subprocess.run(["unshare", "--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "tmpfs", "/mnt"],
                           capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        return f"mounts are not granted here: {probe.stderr.strip()}"
    try:
        import grpc  # noqa: F401
    except ImportError:
        return "python3-grpcio is missing; scripts/setup.sh --test installs it"
    if not os.path.exists(debian.archive_path(SUITE, options.cache)):
        reach = subprocess.run(["apt-get", "-q", "--print-uris", "download", "tini"], capture_output=True,
                               check=False, cwd=options.work)
        if reach.returncode != 0:
            return "no package lists, so that a base cannot be made"
    return ""


def main():
    global options
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", required=True)
    parser.add_argument("--tests", default="")
    parser.add_argument("--toolkit", default="")
    parser.add_argument("--cache", default=os.path.join(ROOT, ".setup/images"))
    options, rest = parser.parse_known_args()
    options.programs = os.path.abspath(options.programs)
    options.tests = options.tests and os.path.abspath(options.tests)
    options.driver = "overlay"
    with tempfile.TemporaryDirectory(prefix="kernelcast-images-") as options.work:
        os.chmod(options.work, 0o755)
        reason = missing()
        if reason:
            print(f"skipped: {reason}")
            sys.exit(77)
        ok = unittest.main(argv=[sys.argv[0], *rest], exit=False, verbosity=2).result.wasSuccessful()
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
