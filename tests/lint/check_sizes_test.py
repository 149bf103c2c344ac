#!/usr/bin/env python3
"""Writes files that are too long and looks whether check_sizes.py reports them, and nothing else."""

import os
import tempfile
import unittest

import check_sizes


class CheckSizesTest(unittest.TestCase):

    def complaints(self, sizes, longer):
        with tempfile.TemporaryDirectory() as root:
            for path, lines in sizes.items():
                full = os.path.join(root, path)
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "w", encoding="utf-8") as file:
                    file.write("line\n" * lines)
            return check_sizes.check(root, longer)

    def test_documents_have_limits_of_their_own(self):
        self.assertEqual(self.complaints({"README.md": 121, "docs/benchmarks.md": 250, "docs/quickstart.md": 2000}, {}),
                         ["README.md: 121 lines; the limit is 120"])
        self.assertEqual(self.complaints({"README.md": 120, "docs/benchmarks.md": 251}, {}),
                         ["docs/benchmarks.md: 251 lines; the limit is 250"])

    def test_sources_outside_tests_have_600_lines_at_most(self):
        self.assertEqual(
            self.complaints({"common/a.cc": 600, "common/b.cc": 601, "clients/python/c.py": 601, "tests/unit/d.cc": 601,
                             "clients/python/tests/e.py": 601, "data/f.json": 601, "services/CMakeLists.txt": 601}, {}),
            ["clients/python/c.py: 601 lines; the limit is 600", "common/b.cc: 601 lines; the limit is 600",
             "services/CMakeLists.txt: 601 lines; the limit is 600"])

    def test_listed_files_may_be_longer_and_leave_the_list_when_short(self):
        longer = {"a.proto": "messages", "b.cc": "rows"}
        self.assertEqual(self.complaints({"a.proto": 900, "b.cc": 600}, longer),
                         ["b.cc: 600 lines; remove it from the list of check_sizes.py"])


if __name__ == "__main__":
    unittest.main()
