#!/usr/bin/env python3
"""Plants uses of the wall clock, which check_clocks.py must find."""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_clocks  # noqa: E402

with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    source = root / "services/worker/planted.cc"
    source.parent.mkdir(parents=True)
    for line in ("const absl::Time now = absl::Now();", "if (absl::Now() - last > limit) return;",
                 "auto now = std::chrono::system_clock::now();",
                 "Set(absl::ToChronoTime(absl::Now() + a), absl::Now());"):
        source.write_text(line + "\n")
        assert len(check_clocks.violations(root)) == 1, line
    for line in ("context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));",
                 "const absl::Time now = MonotonicNow();", "// never absl::Now()"):
        source.write_text(line + "\n")
        assert not check_clocks.violations(root), line
