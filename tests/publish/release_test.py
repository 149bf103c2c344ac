#!/usr/bin/env python3
"""scripts/release.sh: what it refuses, and what it makes.

    release_test.py [ReleaseTest | DryRunTest]

ReleaseTest uses a copy of the tree, and small programs in place of Kernelcast's. DryRunTest builds and packs this tree.
"""

import hashlib
import json
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

from checkout import ROOT, commit, copy, git, run

VERSION = "9.8.7"
SECTION = "### Added\n\n- Everything, as [the quickstart](docs/quickstart.md) shows.\n\n### Fixed\n\n- Nothing.\n"
CHANGELOG = (f"# Changelog\n\n## [Unreleased]\n\n- Later.\n\n## [{VERSION}] - 2031-02-03\n\n{SECTION}\n"
             "## [9.8.6] - 2030-01-01\n\n- Earlier.\n")
WHEEL = "kernelcast-{0}-py3-none-manylinux_2_36_x86_64.whl"
FILES = ("CHANGES.md", "SHA256SUMS", "kernelcast-{0}-linux-x86_64.tar.gz", WHEEL, "kernelcast-{0}.cdx.json",
         "kernelcast-{0}.tgz", "kernelcast_client-{0}-py3-none-any.whl", "kernelcast_client-{0}.tar.gz")


def small_programs(folder):
    """What scripts/bundle.sh --folder makes, in small: a program of the system by the names of Kernelcast's, and one library."""
    for name in ("bin", "lib", "share/bash-completion", "share/fish", "share/zsh", "share/doc/kernelcast/licenses"):
        (folder / name).mkdir(parents=True)
    for name in ("", "-forecaster", "-gateway", "-orchestrator", "-worker"):
        shutil.copy("/bin/true", folder / f"bin/kernelcast{name}")
    library, = {line.split()[2] for line in subprocess.run(["ldd", shutil.which("git")], stdout=subprocess.PIPE, text=True,
                                                           check=True).stdout.splitlines() if "libz.so.1" in line}
    shutil.copy(library, folder / "lib/libz.so.1")
    shutil.copy("/usr/share/doc/zlib1g/copyright", folder / "share/doc/kernelcast/licenses/zlib1g.txt")


class Files:
    """The files of a release, unpacked where a test asks for that."""

    def __init__(self, folder, version):
        self.folder, self.version = folder, version

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())

    def path(self, form):
        return self.folder / form.format(self.version)

    def text(self, form):
        return self.path(form).read_text(encoding="utf-8")

    def wheel(self, form):
        """The names of what is in a wheel, and its metadata."""
        with zipfile.ZipFile(self.path(form)) as archive:
            metadata, = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            return set(archive.namelist()), archive.read(metadata).decode()

    def packed(self, form):
        """Contents by name of a tar archive, without folders."""
        with tarfile.open(self.path(form)) as archive:
            return {one.name: archive.extractfile(one).read() for one in archive if one.isfile()}

    def sums(self):
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in self.folder.iterdir()}

    def components(self):
        """The components of the bill of materials by their references, nested ones included."""
        pending = list(json.loads(self.text("kernelcast-{0}.cdx.json"))["components"])
        found = {}
        while pending:
            one = pending.pop()
            found[one["bom-ref"]] = one
            pending += one.get("components", [])
        return found


class Checks(unittest.TestCase):
    def check_files(self, files):
        """What holds for each release."""
        self.assertEqual(files.names(), sorted(form.format(files.version) for form in FILES))
        status, output = run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=files.folder)
        self.assertEqual(status, 0, output)
        self.assertEqual(len(files.text("SHA256SUMS").splitlines()), len(FILES) - 1)

        for form, name in ((WHEEL, "kernelcast"), ("kernelcast_client-{0}-py3-none-any.whl", "kernelcast-client")):
            names, metadata = files.wheel(form)
            self.assertIn(f"\nName: {name}\nVersion: {files.version}\n", metadata)
            self.assertIn("\nProject-URL: Paper, https://", metadata)
            self.assertIn("\nAuthor: ", metadata)
            self.assertLessEqual({"kernelcast/__init__.py", "kernelcast/v1/orchestrator_pb2.py"}, names)
        sdist = files.packed("kernelcast_client-{0}.tar.gz")
        self.assertIn(f"kernelcast_client-{files.version}/src/kernelcast/v1/orchestrator_pb2.py", sdist.keys())
        self.assertIn(f"\nVersion: {files.version}\n".encode(), sdist[f"kernelcast_client-{files.version}/PKG-INFO"])

        chart = files.packed("kernelcast-{0}.tgz")
        self.assertIn(f"\nappVersion: {files.version}\n".encode(), chart["kernelcast/Chart.yaml"])
        # Through a link into another folder of the repository.
        self.assertIn("kernelcast/files/prometheus/alerts.yml", chart.keys())

        bundle = files.packed("kernelcast-{0}-linux-x86_64.tar.gz")
        components = files.components()
        shipped = {name.removeprefix("kernelcast/") for name in bundle if name.startswith(("kernelcast/bin/", "kernelcast/lib/"))}
        self.assertEqual({name for name, one in components.items() if one["type"] == "file"}, shipped)
        for name in shipped:
            self.assertEqual(components[name]["hashes"], [
                {"alg": "SHA-256", "content": hashlib.sha256(bundle[f"kernelcast/{name}"]).hexdigest()}])
        self.assertIn("pypi:grpcio", components.keys())
        root = json.loads(files.text("kernelcast-{0}.cdx.json"))["metadata"]["component"]
        self.assertEqual((root["name"], root["version"]), ("kernelcast", files.version))


class ReleaseTest(Checks):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory(prefix="kernelcast-release-")
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        cls.tree, cls.programs = cls.folder / "tree", cls.folder / "programs"
        cls.tree.mkdir()
        copy(cls.tree)
        status, output = run("scripts/version.py", "--set", VERSION, cwd=cls.tree)
        assert status == 0, output
        (cls.tree / "CHANGELOG.md").write_text(CHANGELOG, encoding="utf-8")
        commit(cls.tree)
        small_programs(cls.programs)

    def setUp(self):
        self.addCleanup(git, self.tree, "reset", "--quiet", "--hard")
        self.addCleanup(git, self.tree, "clean", "--quiet", "--force", "-d")

    def release(self, *arguments, **variables):
        return run("scripts/release.sh", *arguments, cwd=self.tree, **variables)

    def assert_refused(self, message, *arguments, status=1):
        output = self.folder / "refused"
        found, printed = self.release(*arguments, "--output", output)
        self.assertEqual(found, status, printed)
        self.assertIn(message, printed)
        self.assertFalse(output.exists(), printed)

    def change(self, name, text):
        (self.tree / name).write_text(text, encoding="utf-8")

    def test_all_files_are_made_and_the_same_tree_gives_the_same_ones(self):
        made = []
        for name in ("first", "second"):
            output = self.folder / name
            status, printed = self.release(VERSION, "--dry-run", "--programs", self.programs, "--output", output,
                                           KERNELCAST_REPOSITORY_URL="https://git.example.com/k/")
            self.assertEqual(status, 0, printed)
            self.assertNotIn("would be refused", printed)
            made.append(Files(output, VERSION))
        self.check_files(made[0])
        self.assertEqual(made[0].text("CHANGES.md"), SECTION.replace(
            "](docs/", f"](https://git.example.com/k/blob/v{VERSION}/docs/"))
        names, metadata = made[0].wheel(WHEEL)
        self.assertIn("\nProject-URL: Source, https://git.example.com/k\n", metadata)
        # Helm writes the file anew.
        chart = made[0].packed("kernelcast-{0}.tgz")["kernelcast/Chart.yaml"].decode()
        self.assertIn("\nhome: https://git.example.com/k\n", chart)
        self.assertIn("\nsources:\n- https://git.example.com/k\n", chart)
        self.assertIn(f"kernelcast-{VERSION}.data/data/lib/kernelcast/bin/kernelcast-worker", names)
        zlib = made[0].components()["deb:zlib1g"]
        installed = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "zlib1g"], stdout=subprocess.PIPE, text=True,
                                   check=True).stdout
        self.assertEqual((zlib["version"], [one["name"] for one in zlib["components"]]), (installed, ["lib/libz.so.1"]))
        # Helm writes the time into the chart's archive.
        different = {name for name, sum_ in made[0].sums().items() if made[1].sums()[name] != sum_}
        self.assertLessEqual(different, {f"kernelcast-{VERSION}.tgz", "SHA256SUMS"})

    def test_changes_that_are_not_committed_are_refused(self):
        self.change("docs/new.md", "# New\n")
        self.assert_refused("release: changes are not committed:\n?? docs/new.md", VERSION)

    def test_a_dry_run_only_warns_of_what_a_release_refuses(self):
        self.change("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n\n- Later.\n")
        output = self.folder / "warned"
        status, printed = self.release(VERSION, "--dry-run", "--programs", self.programs, "--output", output)
        self.assertEqual(status, 0, printed)
        self.assertIn("a release would be refused: changes are not committed:\n M CHANGELOG.md", printed)
        self.assertIn(f"a release would be refused: CHANGELOG.md has no section '## [{VERSION}]'", printed)
        self.assertEqual((output / "CHANGES.md").read_text(encoding="utf-8"), "- Later.\n")

    def test_another_version_than_that_of_the_tree_is_refused(self):
        self.assert_refused(f"the tree has version {VERSION}, not 9.8.8", "9.8.8")
        self.assert_refused(f"the tree has version {VERSION}, not 9.8.8", "9.8.8", "--dry-run")

    def test_files_with_different_versions_are_refused(self):
        chart = (self.tree / "helm/kernelcast/Chart.yaml").read_text(encoding="utf-8")
        self.change("helm/kernelcast/Chart.yaml", chart.replace(f"appVersion: {VERSION}", "appVersion: 1.2.3"))
        self.assert_refused(f"1.2.3; CMakeLists.txt has {VERSION}", VERSION)

    def test_a_version_without_a_section_of_the_changelog_is_refused(self):
        for text in (CHANGELOG.replace(SECTION, ""), CHANGELOG.replace(f"[{VERSION}]", "[9.8.70]")):
            self.change("CHANGELOG.md", text)
            self.assert_refused(f"CHANGELOG.md has no section '## [{VERSION}]', or an empty one", VERSION)

    def test_a_version_that_was_tagged_elsewhere_is_refused(self):
        git(self.tree, "tag", f"v{VERSION}")
        self.addCleanup(git, self.tree, "tag", "--delete", f"v{VERSION}")
        git(self.tree, "commit", "--quiet", "--allow-empty", "--message", "Later")
        self.addCleanup(git, self.tree, "reset", "--quiet", "--hard", "HEAD~1")
        self.assert_refused(f"the tag v{VERSION} exists, at ", VERSION)

    def test_wrong_usage_is_explained(self):
        self.assert_refused("VERSION is 'v1.2'; it has the form X.Y.Z", "v1.2", status=2)
        self.assert_refused("unknown option '--force'", VERSION, "--force", status=2)
        self.assert_refused("--programs needs --dry-run", VERSION, "--programs", self.programs, status=2)

    def test_files_of_others_are_not_overwritten(self):
        self.change("full", "")
        status, printed = self.release(VERSION, "--dry-run", "--output", self.tree / "docs")
        self.assertEqual(status, 1)
        self.assertIn("docs' is not empty", printed)


class DryRunTest(Checks):
    def test_the_release_of_this_tree_has_programs_that_run(self):
        version = run("scripts/version.py")[1].strip()
        with tempfile.TemporaryDirectory(prefix="kernelcast-release-") as name:
            folder = pathlib.Path(name)
            status, printed = run("scripts/release.sh", version, "--dry-run", "--output", folder / "files")
            self.assertEqual(status, 0, printed)
            files = Files(folder / "files", version)
            self.check_files(files)
            # Libraries, and headers that were compiled in.
            components = files.components()
            for package, use in (("libgrpc++1.51", "library in the bundle"), ("libgrpc++-dev", "headers compiled into the programs"),
                                 ("nlohmann-json3-dev", "headers compiled into the programs")):
                self.assertIn({"name": "kernelcast:use", "value": use}, components[f"deb:{package}"]["properties"])
            if (ROOT / ".setup/cuda/include/cuda.h").is_file():
                self.assertIn("pypi:nvidia-cuda-runtime", components.keys())
            # Only tests include it.
            self.assertNotIn("deb:catch2", components.keys())

            with tarfile.open(files.path("kernelcast-{0}-linux-x86_64.tar.gz")) as archive:
                archive.extractall(folder, filter="tar")
            status, printed = run(folder / "kernelcast/bin/kernelcast", "--version")
            self.assertEqual((status, printed.split()[:2]), (0, ["kernelcast", version]))
            python = folder / "venv/bin/python"
            status, printed = run(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
            self.assertEqual(status, 0, printed)
            status, printed = run(sys._base_executable, "-I", "-m", "pip", "--python", python, "install", "--quiet", "--no-index",
                                  "--find-links", ROOT / ".setup/python/wheels", files.path(WHEEL))
            self.assertEqual(status, 0, printed)
            status, printed = run(folder / "venv/bin/kernelcast", "--version")
            self.assertEqual((status, printed.split()[:2]), (0, ["kernelcast", version]))


if __name__ == "__main__":
    unittest.main()
