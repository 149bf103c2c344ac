"""Helpers of the Python tests for Prometheus and the processes that it scrapes."""

import contextlib
import json
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

START_SECONDS = 60


def wait_for(what, condition, process, seconds=START_SECONDS):
    """Returns the condition's value once it is true; fails when the process ends or time runs
    out."""
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if process.poll() is not None:
            raise AssertionError(f"ended with {process.returncode} while waiting for {what}")
        if time.monotonic() > deadline:
            raise AssertionError(f"no {what} within {seconds} s")
        # There is no notification.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.1)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def fetch(address, path, **parameters):
    url = f"http://{address}{path}"
    if parameters:
        url += "?" + urllib.parse.urlencode(parameters)
    try:
        with urllib.request.urlopen(url, timeout=10) as reply:
            return reply.read().decode()
    except urllib.error.HTTPError as error:
        if error.code == 503:  # not yet
            raise
        raise AssertionError(f"{url}: {error.code} {error.read().decode()}") from error


def query(address, expression):
    """Samples of an instant query; empty while Prometheus does not answer."""
    try:
        return json.loads(fetch(address, "/api/v1/query", query=expression))["data"]["result"]
    except OSError:
        return []


def query_range(address, expression, start, end, step):
    return json.loads(fetch(address, "/api/v1/query_range", query=expression, start=start, end=end,
                            step=step))["data"]["result"]
