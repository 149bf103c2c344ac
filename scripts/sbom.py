#!/usr/bin/env python3
"""Writes the bill of materials of a bundle as CycloneDX: Kernelcast's programs, the libraries in the bundle with the Debian
packages that they are from, the packages whose headers were compiled into the programs, and what the Python package requires.

    sbom.py --programs FOLDER --build FOLDER --version X.Y.Z --revision COMMIT --output FILE

FOLDER is what scripts/bundle.sh --folder made, and the folder that it was built in. Needs cyclonedx-python-lib, which
scripts/setup.sh --test installs into .setup/python.
"""

import argparse
import datetime
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tomllib
import uuid

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.contact import OrganizationalEntity
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

ROOT = pathlib.Path(__file__).resolve().parent.parent
CUDA = "/.setup/cuda/include/"
# The wheels of scripts/cuda_wheels.txt whose headers the programs include.
CUDA_HEADERS = re.compile(r"^(nvidia-cuda-(?:crt|cupti|nvrtc|runtime))==(\S+)", re.MULTILINE)
LICENCES = "share/doc/kernelcast/licenses"
FIELDS = ("Package", "Version", "Architecture", "Homepage", "source:Package", "source:Version")


def file_component(path, name):
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Component(type=ComponentType.FILE, name=name, bom_ref=name,
                     hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)])


def dpkg(*arguments):
    return subprocess.run(["dpkg-query", *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          check=False).stdout.splitlines()


def owners(paths):
    """Debian packages of files, by the path of each file."""
    found = {}
    for line in dpkg("-S", *sorted(paths)) if paths else ():
        packages, _, path = line.rpartition(": ")
        if path in paths:
            found[path] = packages.split(",")[0].split(":")[0]
    return found


def described(packages):
    """What dpkg knows of installed packages, by name."""
    lines = dpkg("-W", "-f", "\\t".join(f"${{{field}}}" for field in FIELDS) + "\\n", *sorted(packages)) if packages else ()
    return {line.split("\t")[0]: dict(zip(FIELDS, line.split("\t"))) for line in lines}


def included_headers(build):
    """Headers from outside in the programs' objects, as ninja recorded them. Objects of tests do not count."""
    if not (build / ".ninja_deps").exists():
        return set()
    listed = subprocess.run(["ninja", "-C", str(build), "-t", "deps"], stdout=subprocess.PIPE, text=True, check=True).stdout
    headers, counts = set(), False
    for line in listed.splitlines():
        if line and not line.startswith(" "):
            counts = line.startswith(("common/", "services/", "proto/"))
        elif counts and (line.startswith("    /usr/") or CUDA in line):
            headers.add(os.path.realpath(build / line.strip()))
    return headers


def debian_component(package, use, files=()):
    release = pathlib.Path("/etc/os-release").read_text(encoding="utf-8")
    distribution = "-".join(re.search(rf'^{key}="?([^"\n]*)', release, re.MULTILINE)[1] for key in ("ID", "VERSION_ID"))
    homepage = package["Homepage"]
    return Component(
        type=ComponentType.LIBRARY, name=package["Package"], version=package["Version"], scope=ComponentScope.REQUIRED,
        purl=PackageURL("deb", distribution.split("-")[0], package["Package"], package["Version"],
                        {"arch": package["Architecture"], "distro": distribution}),
        bom_ref=f"deb:{package['Package']}",
        external_references=[ExternalReference(type=ExternalReferenceType.WEBSITE, url=XsUri(homepage))] if homepage else [],
        components=files,
        properties=[Property(name="kernelcast:use", value=use),
                    Property(name="kernelcast:source", value=f"{package['source:Package']} {package['source:Version']}")]
        + ([Property(name="kernelcast:licence_file", value=f"{LICENCES}/{package['Package']}.txt")] if files else []))


def components(programs, build):
    for path in sorted((programs / "bin").iterdir()):
        yield file_component(path, f"bin/{path.name}")
    libraries = {path.name: file_component(path, f"lib/{path.name}") for path in sorted((programs / "lib").iterdir())}
    shipped = described({path.stem for path in (programs / LICENCES).glob("*.txt")})
    for name, package in sorted(shipped.items()):
        own = {os.path.basename(line) for line in dpkg("-L", name)}
        files = [libraries.pop(library) for library in sorted(own & libraries.keys())]
        yield debian_component(package, "library in the bundle", files)
    if libraries:
        raise SystemExit(f"sbom: no package of Debian has {', '.join(sorted(libraries))}, of the bundle's lib folder")
    headers = included_headers(build)
    for _, package in sorted(described(set(owners(headers).values()) - shipped.keys()).items()):
        yield debian_component(package, "headers compiled into the programs")
    if any(CUDA in header for header in headers):
        for name, version in CUDA_HEADERS.findall((ROOT / "scripts/cuda_wheels.txt").read_text(encoding="utf-8")):
            yield Component(type=ComponentType.LIBRARY, name=name, version=version, scope=ComponentScope.REQUIRED,
                            purl=PackageURL("pypi", None, name, version), bom_ref=f"pypi:{name}",
                            properties=[Property(name="kernelcast:use", value="headers compiled into the programs")])
    project = tomllib.loads((ROOT / "clients/python/pyproject.toml").read_text(encoding="utf-8"))["project"]
    for requirement in project["dependencies"]:
        name = re.match(r"[\w.-]+", requirement)[0]
        yield Component(type=ComponentType.LIBRARY, name=name, scope=ComponentScope.REQUIRED, purl=PackageURL("pypi", None, name),
                        bom_ref=f"pypi:{name}", properties=[
                            Property(name="kernelcast:use", value="required by the Python package, not included"),
                            Property(name="kernelcast:requirement", value=requirement)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--revision", required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    options = parser.parse_args()

    # The same tree gives the same file.
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"kernelcast/{options.version}/{options.revision}"))
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        bom.metadata.timestamp = datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc)
    bom.metadata.supplier = OrganizationalEntity(name="Kernelcast maintainers")
    bom.metadata.component = Component(
        type=ComponentType.APPLICATION, name="kernelcast", version=options.version, bom_ref="kernelcast",
        licenses=[DisjunctiveLicense(id="Apache-2.0")],
        properties=[Property(name="kernelcast:revision", value=options.revision)])
    for component in components(options.programs, options.build):
        bom.components.add(component)
    bom.register_dependency(bom.metadata.component, bom.components)
    text = JsonV1Dot6(bom).output_as_string(indent=1) + "\n"
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise SystemExit(f"sbom: not valid CycloneDX: {error}")
    options.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
