#!/usr/bin/env python3
"""Plants idioms in texts of its own and looks whether check_idioms.py reports them, and nothing else."""

import os
import tempfile
import unittest

import check_idioms


class CheckIdiomsTest(unittest.TestCase):

    def rejects(self, text, phrase, path="docs/a.md"):
        found = check_idioms.check_text(path, f"One line.\n{text}\n")
        self.assertEqual(len(found), 1, (text, found))
        self.assertTrue(found[0].startswith(f'{path}:2: "{phrase}": write '), found)

    def accepts(self, text, path="docs/a.md"):
        self.assertEqual(check_idioms.check_text(path, text + "\n"), [], text)

    def test_each_idiom_is_rejected_with_file_line_and_phrase(self):
        for text, phrase in (
                ("It listens on 127.0.0.1 unless told otherwise.", "unless told"),
                ("The worker is told the limit.", "is told"),
                ("One is not easily told apart.", "told apart"),
                ("There are so many threads.", "so many"),
                ("A limit such that it fits.", "such that"),
                ("No counters are to be had.", "to be had"),
                ("The namespace is had otherwise.", "is had"),
                ("It routes 10,000 candidates a second.", "candidates a second"),
                ("It is written twice a second, from memory.", "twice a second"),
                ("A token makes 50 a second.", "50 a second"),
                ("A device, be it a CPU or a GPU.", "be it"),
                ("The thread gives way to others.", "gives way"),
                ("Locked lest it change.", "lest"),
                ("It ends of its own accord.", "of its own accord"),
                ("The file lies beside the program.", "beside"),
                ("The address serves whoever reaches it.", "whoever"),
                ("Whatever compilers do not write is refused.", "Whatever"),
                ("It logs the reason as well.", "as well"),
                ("Forecasts come true.", "come true"),
                ("Everything but for logs.", "but for"),
                ("What he may do.", "he"),
                ("It stops. So does the worker.", "So does"),
                ("- Never are more than half left out.", "Never are"),
                ("Of those only two count.", "Of those"),
                ("A brood has one parent.", "brood"),
                ("A restless process is refused.", "restless"),
                ("Many rounds convict it.", "convict"),
                ("The log has its obituary.", "obituary")):
            self.rejects(text, phrase)

    def test_phrases_on_two_lines_are_found_in_text_and_in_comments(self):
        self.rejects("It makes calls\na second.", "calls a second")
        self.rejects("# It is\n# told the limit.", "is # told", "deploy/a.yml")

    def test_ordinary_uses_are_accepted(self):
        for text in ("A second search starts a second worker.", "It takes half a second.", "It takes a second attempt.",
                     "A second copy of its calls a second time.", "Besides the log it writes a mark.",
                     "It prints names as well as sizes.", "The help text shows his" + "tory.", "Do so. So a call may fail.",
                     "A policy that a user tells the service about."):
            self.accepts(text)

    def test_code_links_and_names_of_tests_are_not_prose(self):
        self.accepts("`so many` and [it](a.md#beside-b)")
        self.accepts("[Whatever compilers do not write is refused](../tests/a_test.cc)")

    def test_sources_are_checked_in_comments_and_literals_only(self):
        self.accepts('int beside = 1;  // next to it\nLog(R"(so many)");', "common/a.cc")
        self.accepts('case A: return "can be";\ncase B: return "it is";', "common/a.cc")
        self.rejects("int a;  // beside b", "beside", "common/a.h")
        self.rejects('Log("it is "\n    "told the limit");', 'is " "told', "common/a.cc")
        self.rejects("// Makes 10 calls\n// a second.", "calls // a second", "proto/a.proto")

    def test_only_the_newest_section_of_the_changelog_is_checked(self):
        text = "# Changelog\n\n## [Unreleased]\n\n- Plain.\n\n## [0.1.0]\n\n- Works unless told otherwise.\n"
        self.accepts(text, "CHANGELOG.md")
        self.rejects("## [Unreleased]\n- unless told\n".split("\n")[1], "unless told", "CHANGELOG.md")

    def test_the_folders_of_the_list_are_checked_and_no_other(self):
        with tempfile.TemporaryDirectory() as root:
            for path in ("docs/a.md", "deploy/b.yml", "README.md", "examples/problems/a/c.md", "other/d.md", "docs/e.png",
                         "services/worker/f.cc"):
                full = os.path.join(root, path)
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "w", encoding="utf-8") as file:
                    file.write("so many = 1;\n")
            found = sorted(complaint.split(":")[0] for complaint in check_idioms.check(root))
        self.assertEqual(found, ["README.md", "deploy/b.yml", "docs/a.md"])


if __name__ == "__main__":
    unittest.main()
