#!/usr/bin/env python3
"""Plants violations in temporary trees and checks that check_tree.py, check_links.py and check_claims.py report
them."""

import gzip
import os
import tempfile
import unittest

import check_claims
import check_links
import check_tree


class Planted(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name

    def plant(self, path, content, mode=0o644):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        os.chmod(full, mode)
        return path

    def tree(self, content, path="a.txt", mode=0o644):
        return list(check_tree.check_file(self.root, self.plant(path, content, mode)))

    def links(self, content, path="docs/a.md"):
        return list(check_links.check_document(self.root, self.plant(path, content)))


class CheckTreeTest(Planted):

    def test_ordinary_text_is_accepted(self):
        self.assertEqual(self.tree("one\ntwo\n"), [])
        self.assertEqual(self.tree(""), [])
        self.assertEqual(self.tree("$HOME/wor" + "k/x and build/wor" + "k/y\n"), [])

    def test_what_must_not_be_there_is_reported_with_its_line(self):
        for word in ("/hom" + "e/me/x", "/wor" + "k/x", "pypi" + ".org", "TO" + "DO: later"):
            found = self.tree(f"one\nsee {word}\n")
            self.assertEqual(len(found), 1, word)
            self.assertTrue(found[0].startswith("a.txt:2: "), found)

    def test_endings_are_checked(self):
        self.assertEqual(len(self.tree("one")), 1)
        self.assertEqual(len(self.tree("one\n\n")), 1)
        self.assertEqual(len(self.tree("one \ntwo\n")), 1)
        self.assertEqual(len(self.tree("one\r\n")), 1)

    def test_large_and_binary_files_are_reported(self):
        self.assertIn("the limit is", self.tree("x" * check_tree.MAX_BYTES + "\n")[0])
        self.assertIn("not UTF-8", self.tree(b"\xff\xfe\n")[0])

    def test_packed_text_is_looked_into(self):
        word = "/hom" + "e/me/x"
        packed = gzip.compress(f"one\nsee {word}\n".encode())
        self.assertEqual(self.tree(gzip.compress(b"one\n"), "a.jsonl.gz"), [])
        self.assertTrue(self.tree(packed, "a.jsonl.gz")[0].startswith("a.jsonl.gz:2: "))
        self.assertIn("cannot be unpacked", self.tree(packed[:-9], "a.jsonl.gz")[0])

    def test_scripts_have_both_the_interpreter_line_and_the_run_bit(self):
        self.assertEqual(self.tree("#!/bin/sh\n", "a.sh", 0o755), [])
        self.assertEqual(len(self.tree("#!/bin/sh\n", "a.sh")), 1)
        self.assertEqual(len(self.tree("echo\n", "a.sh", 0o755)), 1)


class CheckLinksTest(Planted):

    def test_what_is_there_is_accepted(self):
        self.plant("docs/b.md", "# A `b` heading, it is\n\n## Two\n\n## Two\n")
        self.assertEqual(self.links("[b](b.md) [h](b.md#a-b-heading-it-is) [t](b.md#two-1)\n"), [])
        self.assertEqual(self.links("# Here\n[h](#here) [w](https://example.org/)\n"), [])
        self.assertEqual(self.links("`docs/b.md` and `docs/*.md` and `docs/NAME`-like\n"
                                    .replace("`docs/NAME`", "`docs/{NAME}`")), [])

    def test_what_is_not_there_is_reported(self):
        self.plant("docs/b.md", "# One\n")
        for text in ("[b](c.md)", "[b](b.md#two)", "![p](images/p.png)", "`docs/c.md`", "[h](#no)"):
            self.assertEqual(len(self.links(f"\n{text}\n")), 1, text)

    def test_code_is_not_read_as_links(self):
        self.assertEqual(self.links("```\n[b](c.md)\n```\n"), [])


class CheckClaimsTest(Planted):

    HEAD = "| claim | proved by |\n|---|---|\n"

    def claims(self, content):
        self.plant("tests/a_test.cc", 'TEST_CASE("It holds", "[a]") {}\nTEST_CASE(\n    "It holds "\n    "well") {}\n')
        self.plant("tests/b_test.py", "    def test_it_holds(self):\n")
        return list(check_claims.check(self.root, self.plant("SECURITY.md", content)))

    def test_claims_with_tests_are_accepted(self):
        self.assertEqual(self.claims(self.HEAD + "| It holds. | [It holds](tests/a_test.cc), "
                                     "[It holds well](tests/a_test.cc) |\n"
                                     "| It does. | [test_it_holds](tests/b_test.py) |\n"), [])

    def test_claims_without_tests_are_reported_with_their_line(self):
        for row, complaint in (("| It holds. | |", "names no test"),
                               ("| It holds. | [It](docs/a.md) |", "names no test"),
                               ("| It holds. | [It](tests/a_test.cc) |", "has no test 'It'"),
                               ("| It holds. | [It holds](tests/c_test.cc) |", "no such file")):
            found = self.claims(self.HEAD + row + "\n")
            self.assertEqual(len(found), 1, row)
            self.assertTrue(found[0].startswith("SECURITY.md:3: "), found)
            self.assertIn(complaint, found[0])

    def test_a_document_without_claims_is_reported(self):
        self.assertEqual(len(self.claims("# Security\n")), 1)


if __name__ == "__main__":
    unittest.main()
