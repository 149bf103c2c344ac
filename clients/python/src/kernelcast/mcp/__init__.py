"""A server of the Model Context Protocol, through which coding agents have kernels judged: `python -m kernelcast.mcp`.

docs/howto/agents.md describes it. Needs the package `mcp`, the extra of the same name.
"""
