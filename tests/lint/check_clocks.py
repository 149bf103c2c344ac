#!/usr/bin/env python3
"""Checks that intervals are taken from the monotonic clock: the wall clock may be set back at any time."""
import pathlib
import re
import sys

# gRPC takes deadlines as wall clock times and converts them to monotonic ones immediately.
DEADLINE = re.compile(r"ToChronoTime\(absl::Now\(\)")
# Stored or displayed dates, and deadlines of gRPC calls.
ALLOWED = {
    "common/rpc/status_conversion.cc",
    "services/cli/rpc/channel.cc",
    "services/orchestrator/rpc/routing.h",
}
WALL = re.compile(r"absl::Now\(|system_clock::now\(|\bgettimeofday\(")


def violations(root: pathlib.Path) -> list[str]:
    found = []
    for folder in ("common", "services"):
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix not in (".h", ".cc") or name in ALLOWED:
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                code = DEADLINE.sub("", line.split("//")[0])
                if WALL.search(code):
                    found.append(f"{name}:{number}: takes an interval from the wall clock; use MonotonicNow() of "
                                 "common/base/monotonic_time.h or an injected Clock")
    return found


def main() -> int:
    found = violations(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
