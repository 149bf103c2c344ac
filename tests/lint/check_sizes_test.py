#!/usr/bin/env python3
"""Writes documents that are too long and looks whether check_sizes.py reports them, and nothing else."""

import os
import tempfile
import unittest

import check_sizes


class CheckSizesTest(unittest.TestCase):

    def complaints(self, sizes):
        with tempfile.TemporaryDirectory() as root:
            for path, lines in sizes.items():
                full = os.path.join(root, path)
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "w", encoding="utf-8") as file:
                    file.write("line\n" * lines)
            return check_sizes.check(root)

    def test_documents_have_limits_of_their_own(self):
        self.assertEqual(self.complaints({"README.md": 121, "docs/benchmarks.md": 250, "docs/quickstart.md": 2000,
                                          "common/a.cc": 2000}),
                         ["README.md: 121 lines; the limit is 120"])
        self.assertEqual(self.complaints({"README.md": 120, "docs/benchmarks.md": 251}),
                         ["docs/benchmarks.md: 251 lines; the limit is 250"])


if __name__ == "__main__":
    unittest.main()
