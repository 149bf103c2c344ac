"""Fixtures with which flashinfer-bench's own test of its server, tests/serve/test_serve_api.py, asks a gateway.

KERNELCAST_FLASHINFER_URL is where the gateway serves this API. KERNELCAST_FLASHINFER_CONFTEST is the project's own
tests/serve/conftest.py, which has the solutions.
"""

import importlib.util
import os
import sys
import types

import httpx
import pytest
import pytest_asyncio
import torch

# The project's server, which its own fixtures start.
SERVER = {
    "flashinfer_bench.serve": (),
    "flashinfer_bench.serve.app": ("app", "init_app"),
    "flashinfer_bench.serve.scheduler": ("Scheduler",),
}

# Otherwise the tests are skipped where this process sees no GPU.
torch.cuda.device_count = lambda: 1


def solutions():
    for name, parts in SERVER.items():
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(dict.fromkeys(parts))
    spec = importlib.util.spec_from_file_location("flashinfer_conftest", os.environ["KERNELCAST_FLASHINFER_CONFTEST"])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: made for name, made in vars(module).items() if name.startswith("solution_")}


globals().update(solutions())


@pytest.fixture
def test_trace_set():
    """The gateway serves the definition and its workload."""


@pytest.fixture
def benchmark_config():
    """Kernelcast decides how it measures."""


@pytest_asyncio.fixture
async def client():
    async with httpx.AsyncClient(base_url=os.environ["KERNELCAST_FLASHINFER_URL"], timeout=200) as made:
        yield made
