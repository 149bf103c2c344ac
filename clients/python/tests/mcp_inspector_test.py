"""The server for coding agents, with the inspector of the Model Context Protocol, whose client is that of the TypeScript SDK. It checks
structured content against the schemas of the tools. Each call is a server of its own.

Needs  npm install --prefix .setup/inspector --ignore-scripts @modelcontextprotocol/inspector@0.15.0
or another one, whose program MCP_INSPECTOR names.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import recorded
from conftest import FASTER, SOFTMAX

INSPECTOR = Path(os.environ.get("MCP_INSPECTOR", recorded.ROOT / ".setup/inspector/node_modules/.bin/mcp-inspector"))
if not INSPECTOR.exists():
    pytest.skip("the inspector is missing", allow_module_level=True)

TOOLS = {"describe_task", "simulate", "evaluate", "profile", "history", "best"}


def inspect(client, method, tool=None, **arguments):
    command = [INSPECTOR, "--cli", "-e", f"KERNELCAST_ORCHESTRATOR={client.address}"]
    for name in ("PATH", "PYTHONPATH", "KERNELCAST_BUNDLE"):
        if name in os.environ:
            command += ["-e", f"{name}={os.environ[name]}"]
    command += [sys.executable, "-B", "-m", "kernelcast.mcp", SOFTMAX, "--method", method]
    if tool:
        command += ["--tool-name", tool, *(part for name, value in arguments.items() for part in ("--tool-arg", f"{name}={value}"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_the_inspector_lists_the_tools_with_their_schemas(client):
    tools = inspect(client, "tools/list")["tools"]
    assert {tool["name"] for tool in tools} == TOOLS
    for tool in tools:
        assert tool["description"] and tool["inputSchema"]["type"] == "object" and tool["outputSchema"]["properties"]


@pytest.mark.parametrize("tool, arguments", [
    ("describe_task", {}), ("history", {}), ("simulate", {"source": FASTER, "target": "cpu"}),
    ("evaluate", {"source": FASTER, "target": "cpu", "mode": "measure"})])
def test_the_inspector_takes_the_results(client, tool, arguments):
    result = inspect(client, "tools/call", tool, **arguments)
    assert not result.get("isError") and result["structuredContent"] and result["content"][0]["text"]


def test_the_inspector_shows_what_is_wrong_with_a_call(client):
    result = inspect(client, "tools/call", "evaluate", source=FASTER, mode="guess")
    assert result["isError"] and "mode" in result["content"][0]["text"]
