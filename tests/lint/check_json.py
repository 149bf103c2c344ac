#!/usr/bin/env python3
"""Checks that all JSON is parsed with a bound on its depth, through common/base/bounded_json.h."""
import pathlib
import re
import sys

# Files that call the library's parsers directly, and why each is safe.
ALLOWED = {
    "common/base/bounded_json.h",  # the bound itself
    "common/domain/candidate_json.cc",  # with a JsonDepthLimit, for the position of an error
    "services/cli/core/lesson_book.cc",  # with a JsonDepthLimit, for the number that is too large
    "services/cli/core/paper_rows.cc",  # with a JsonDepthLimit
    "services/forecaster/core/answer_parser.cc",  # with its own lower bound
    "services/forecaster/embedded/booster.cc",  # written by XGBoost in this process
}
CALL = re.compile(r"\b\w*[jJ]son::(parse|accept|sax_parse|from_\w+)\(|\bjson::(parse|accept|from_\w+)\(")


def violations(root: pathlib.Path) -> list[str]:
    found = []
    for folder in ("common", "services"):
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix not in (".h", ".cc") or name in ALLOWED:
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if CALL.search(line):
                    found.append(f"{name}:{number}: parses JSON without a bound on its depth; "
                                 "use ParseBoundedJson of common/base/bounded_json.h")
    return found


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    found = violations(root)
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
