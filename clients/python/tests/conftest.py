"""Tests of the package against real services, whose programs are in the folder KERNELCAST_BUNDLE."""

import os

import kernelcast
import pytest
import recorded

SOFTMAX = recorded.ROOT / "examples/problems/row_softmax"
CANDIDATES = recorded.ROOT / "examples/candidates/row_softmax"
FASTER = (CANDIDATES / "two_rows.cc").read_text()
SAME = (CANDIDATES / "reciprocal.cc").read_text()
DOES_NOTHING = """#include <kernelcast/candidate.h>
extern "C" int32_t kernelcast_run(const DLTensor*, int32_t, const DLTensor*, int32_t, void*) { return 0; }
"""


@pytest.fixture(scope="session")
def client():
    """A client of services that measure on the cpu target."""
    with kernelcast.local() as client:
        yield client


@pytest.fixture(scope="session")
def softmax(client):
    return client.put_problem(SOFTMAX)


def judged(client, problem, source):
    """A measurement with a verdict. Other work on this machine can prevent one for a while."""
    for _ in range(10):
        result = client.evaluate(problem, source, mode="measure")
        if result.outcome != "environment_unstable":
            return result
    raise AssertionError(result.feedback)


@pytest.fixture(scope="session")
def recording(tmp_path_factory):
    """A problem folder, 1,000 candidates, and the file of their recorded measurements."""
    folder = tmp_path_factory.mktemp("recording")
    problem = recorded.write_problem(folder / "recorded")
    candidates = recorded.candidates(1000)
    return problem, candidates, recorded.write_records(None, problem, candidates, folder / "records.jsonl")


def process_of(service, state_dir):
    """The service of this state folder, a grandchild of this process."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().decode().split("\0")
        except OSError:
            continue
        if words[0].endswith(f"/kernelcast-{service}") and any(str(state_dir) in word for word in words):
            return int(pid)
    raise AssertionError(f"no {service} runs")
