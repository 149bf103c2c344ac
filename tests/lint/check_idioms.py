#!/usr/bin/env python3
"""Rejects phrases that plain technical English does not need, and prints the plain alternative.

Reads the files of FOLDERS and FILES. To hold another folder to these rules, add it to FOLDERS.
"""

import fnmatch
import os
import re
import sys

from check_tree import files

# What is checked: folders and single files.
FOLDERS = (".ci/", ".github/", "clients/", "cmake/", "common/", "data/", "deploy/", "docker/", "docs/", "examples/", "helm/", "proto/",
           "scripts/", "services/", "tests/")
FILES = ("CMakeLists.txt", "README.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "MAINTAINERS.md",
         "SECURITY.md", "mkdocs.yml")
# Left out, as shell patterns: problems, prompts and answer schemas, which are named by the hash of their text; generated
# pages, whose sources are the protos and the services; and this check.
EXCEPT = ("examples/problems/*/*", "services/*/prompts/*", "services/forecaster/llm/answer_schema.cc",
          "docs/reference/api.md", "docs/reference/configuration.md", "tests/lint/check_idioms*.py")
# Texts, and sources of which only comments and string literals count.
TEXTS = (".md", ".yaml", ".yml", ".tpl", ".tmpl", ".txt", ".sh", ".py", ".Dockerfile", ".service", ".cmake")
SOURCES = (".h", ".cc", ".inc", ".cu", ".proto")

# In the changelog only the newest section is checked: released ones do not change.
CHANGELOG = "CHANGELOG.md"

# The start of a sentence.
START = r"(?:(?<=[.!?:;]\s)|(?<=^)|(?<=\|\s)|(?<=-\s))"
# Countable things of which there are some "a second".
RATED = (r"(?:once|twice|times|calls|requests|candidates|kernels|events|decisions|forecasts|measurements|"
         r"evaluations|messages|samples|labels|bytes|tokens|spans|searches|lines|thousand|million|compiles|"
         r"judged|routed|\d[\d,.]*|[KMGT]i?B)")

# Pattern and plain alternative. A blank stands for any white space.
IDIOMS = [
    (r"\bunless (?:it is |they are )?told\b", 'by default'),
    (r"\b(?:is|are|was|were|been|be|being) told\b", '"is reported", "is listed", "is given"'),
    (r"\btold apart\b", '"distinguished"'),
    (r"\bso many\b", '"this many"'),
    (r"\bso much\b", '"this much"'),
    (r"\bsuch that\b", '"so that"'),
    (r"\bto be had\b", '"available"'),
    (r"\b(?:is|are|was|were) had\b", '"is available"'),
    (RATED + r" a second(?! \w*(?:time|one|search|attempt|call|request|copy|process|file)\b)\b", '"per second"'),
    (r"\bbe it\b", '"whether"'),
    (r"\b(?:give|gives|gave|giving) way\b", '"yields"'),
    (r"\blest\b", '"so that ... not"'),
    (r"\bof (?:its|their) own accord\b", '"by itself"'),
    (r"\bbeside\b", '"next to", "with", "compared with"'),
    (r"\bwhoever\b", '"anyone who", or name the role'),
    (START + r"Whatever\b", 'name the thing'),
    (r"\bas well\b(?=\s*(?:[.,;:)|]|$))", '"also" before the verb, or nothing'),
    (r"\bcannot go on\b", '"fatal error"'),
    (r"\b(?:go|goes|went|going) on with\b", '"continues"'),
    (r"\b(?:come|comes|came|coming) true\b", '"is calibrated", "was correct"'),
    (r"\bas often as they say\b", '"calibrated"'),
    (r"\bfor want of\b", '"because there is no"'),
    (r"\bbut for\b", '"except for"'),
    (r"\bof no use\b", '"unusable", "does not help"'),
    (r"\b(?:does|do) without\b(?! the\b)", '"do not use", "work without"'),
    (r"\bnobody need\b", '"nobody needs to"'),
    (r"\bwill do\b", '"is enough"'),
    (r"\b(?:he|him|his)\b", 'name the role: "the caller", "the user", "they"'),
    (r"\b(?:whence|hence|thereof|therein|hitherto|whither|hereof)\b", '"so", "from there"'),
    (START + r"(?:So|Neither|Nor) (?:do|does|did|is|are|was|were|can|may|will)\b", 'subject before verb: "X also does"'),
    (START + r"(?:Never|Nor|Seldom|Only then) (?:is|are|was|were|do|does|did|can|may)\b", 'subject before verb'),
    (START + r"Of (?:those|these|them|several|such)\b", 'name the subject first'),
    (r"\bbroods?\b", '"batch"'),
    (r"\brestless\b", '"awake", "does not sleep"'),
    (r"\bconvict(?:s|ed|ing)?\b", '"refuse"'),
    (r"\bobituary\b", '"the cause of death"'),
]



def compiled(pattern):
    # Words may stand on two lines, with the mark of a comment between them.
    return re.compile(pattern.replace(" ", r"(?:\s|#|//|\"\s*\n\s*\")+"), re.MULTILINE)


class Rule:
    """A pattern, found by its words. Python searches for words much faster than for a start of a word or sentence."""

    def __init__(self, pattern, plain):
        self.plain = plain
        self.whole = compiled(pattern)
        self.words = compiled(pattern.removeprefix(START).removeprefix(r"\b"))

    def finditer(self, text):
        place = self.words.search(text)
        while place:
            match = self.whole.match(text, place.start())
            if match:
                yield match
            place = self.words.search(text, match.end() if match else place.start() + 1)


RULES = [Rule(pattern, plain) for pattern, plain in IDIOMS]

LINK = re.compile(r"\[[^\]]*\]\([^)\s]*tests/[^)\s]*\)|\]\([^)\s]+\)")
CODE = re.compile(r"`[^`\n]+`")
# Comments and literals of C++ and protos.
SPOKEN = re.compile(r'R"(\w*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'', re.DOTALL)

CHARACTER = re.compile(r"\S")


def blank(match):
    """As long as the match, so that positions and lines stay."""
    return re.sub(r"[^\n]", "_", match.group(0))


def prose(path, text):
    """The text without what is no prose: code, targets of links, names of tests."""
    if path.endswith(".md"):
        text = CODE.sub(blank, text)
        text = LINK.sub(blank, text)
    if path.endswith(SOURCES):
        # Raw strings hold data. Positions stay.
        kept = []
        end = 0
        for match in SPOKEN.finditer(text):
            if match.group(0).startswith(("//", "/*", '"')):
                kept += [CHARACTER.sub("~", text[end:match.start()]), match.group(0)]
                end = match.end()
        text = "".join(kept) + CHARACTER.sub("~", text[end:])
    if path == CHANGELOG:
        sections = [match.start() for match in re.finditer(r"^## ", text, re.MULTILINE)]
        text = text[:sections[1]] if len(sections) > 1 else text
    return text


def check_text(path, text):
    text = prose(path, text)
    found = []
    for rule in RULES:
        for match in rule.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            phrase = " ".join(match.group(0).split())
            found.append((line, f"{path}:{line}: \"{phrase}\": write {rule.plain}"))
    return [complaint for _, complaint in sorted(found)]


def is_checked(path):
    if any(fnmatch.fnmatchcase(path, pattern) for pattern in EXCEPT):
        return False
    return path in FILES or (path.startswith(FOLDERS) and path.endswith(TEXTS + SOURCES))


def check(root):
    complaints = []
    for path in files(root):
        if is_checked(path):
            with open(os.path.join(root, path), encoding="utf-8") as file:
                complaints += check_text(path, file.read())
    return complaints


def main():
    complaints = check(sys.argv[1] if len(sys.argv) > 1 else ".")
    print("\n".join(complaints) if complaints else "no idioms")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
