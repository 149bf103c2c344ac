#!/usr/bin/env python3
"""Plants calls of the library's parsers, which check_json.py must find."""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_json  # noqa: E402

with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    source = root / "services/cli/core/planted.cc"
    source.parent.mkdir(parents=True)
    for line in ("auto a = nlohmann::json::parse(text);", "auto a = Json::parse(text, nullptr);",
                 "json::accept(text);", "RowJson::from_cbor(bytes);"):
        source.write_text(line + "\n")
        assert len(check_json.violations(root)) == 1, line
    for line in ("auto a = ParseBoundedJson(text);", "json::parse_event_t event;"):
        source.write_text(line + "\n")
        assert not check_json.violations(root), line
