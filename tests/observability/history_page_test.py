#!/usr/bin/env python3
"""Uses the history page of `kernelcast up` in a real browser: searches and suites, filters, order, reports, comparisons.

    history_page_test.py --programs FOLDER [--picture FILE.png] [TEST ...]
"""

import argparse
import base64
import copy
import gzip
import json
import os
import signal
import subprocess
import sys
import unittest
import urllib.error
import urllib.parse
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
from chromium import BrowserTest  # noqa: E402
from prometheus import START_SECONDS, fetch, wait_for  # noqa: E402

RECORDS = os.path.join(ROOT, "data/measured/amd-epyc/spaces/row_softmax.jsonl.gz")
SUITES = 2000
HOSTILE = "\"'><img src=x onerror=window.hacked=1><script>window.hacked=1</script>"
# Ten times what an idle machine needs for a step in a page of SUITES rows.
MAX_STEP_MS = 2500

VISIBLE = "[...document.querySelectorAll('#history tbody tr')].filter((row) => row.offsetHeight > 0)"

options = None


def measured_evaluation():
    with gzip.open(RECORDS, "rt", encoding="utf-8") as file:
        for line in file:
            evaluation = json.loads(line)["evaluation"]
            if "ok" in evaluation.get("measured", {}):
                return evaluation
    raise AssertionError("no measured record")


def write_suite(folder, title, tasks, evaluation):
    """A suite's results: {task: {candidate: speedup}}, as `kernelcast suite` stores them."""
    os.makedirs(folder)
    lines = [{"format": "kernelcast-suite", "version": 1, "suite": "u_1", "title": title, "mode": "measure", "baseline": "",
              "rules": ""},
             {"tasks": [{"task": task, "file": "f", "candidates": {name: name for name in candidates}}
                        for task, candidates in tasks.items()]}]
    for task, candidates in tasks.items():
        for name, speedup in candidates.items():
            one = copy.deepcopy(evaluation)
            one["measured"]["ok"]["speedup"] = {"value": speedup, "low": speedup * 0.99, "high": speedup * 1.01, "confidence": 0.95}
            lines.append({"task": task, "name": name, "author": "ada", "content": name, "target": "cpu", "evaluation": one})
    with open(os.path.join(folder, "results.jsonl"), "w", encoding="utf-8") as out:
        out.writelines(json.dumps(line) + "\n" for line in lines)


class HistoryPageTest(BrowserTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.state = os.path.join(cls.folder, "state")
        suites = os.path.join(cls.state, "suites")
        evaluation = measured_evaluation()
        for number in range(SUITES):
            evaluation["accepted_at"] = f"2026-01-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z"
            write_suite(os.path.join(suites, f"suite-{number}"), f"tasks {number}", {"t": {"k": 1 + number / 1000}}, evaluation)
        evaluation["accepted_at"] = "2026-01-02T00:00:00Z"
        write_suite(os.path.join(suites, "a & b"), HOSTILE, {HOSTILE: {HOSTILE: 2, "k": 1}}, evaluation)
        evaluation["accepted_at"] = "2026-01-03T00:00:00Z"
        write_suite(os.path.join(cls.folder, "elsewhere"), "later", {HOSTILE: {HOSTILE: 1, "k": 3}}, evaluation)
        # As `kernelcast suite --output` does.
        os.symlink(os.path.join(cls.folder, "elsewhere"), os.path.join(suites, "at_elsewhere"))
        os.makedirs(os.path.join(suites, "broken"))
        with open(os.path.join(suites, "broken", "results.jsonl"), "w", encoding="utf-8") as out:
            out.write("{}\n")

        addresses = os.path.join(cls.folder, "addresses.json")
        with open(addresses, "w", encoding="utf-8") as out, open(os.path.join(cls.folder, "log"), "wb") as log:
            cls.up = up = subprocess.Popen(
                [cls.program("kernelcast"), "up", "--json", "--listen", "127.0.0.1:0", "--state-dir", cls.state, "--replay",
                 RECORDS], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=log)
        cls.addClassCleanup(lambda: (up.send_signal(signal.SIGTERM), up.wait(START_SECONDS)))

        def said():
            with open(addresses, encoding="utf-8") as file:
                return "history" in file.read()
        wait_for("services", said, up)
        with open(addresses, encoding="utf-8") as file:
            cls.addresses = json.load(file)
        cls.url = f"http://{cls.addresses['history']}/history"
        for name, seed in (("first", 1), ("second", 2)):
            ran = subprocess.run(
                [cls.program("kernelcast"), "search", "row_softmax", "--state-dir", cls.state, "--search-id", name, "--seed",
                 str(seed), "--budget-measurements", "6", "--no-report", "--quiet"], cwd=ROOT, text=True, capture_output=True,
                check=False, timeout=300)
            if ran.returncode not in (0, 1):
                raise AssertionError(ran.stderr)

    @staticmethod
    def program(name):
        return os.path.join(options.programs, name)

    def names(self, page, count=3):
        return page.run(f"{VISIBLE}.slice(0, {count}).map((row) => row.querySelector('a').textContent)")

    def follow(self, page, selector):
        page.loading()
        page.run(f"document.querySelector({json.dumps(selector)}).click()")
        page.wait_for("Page.loadEventFired")

    def ask(self, path, host="localhost"):
        request = urllib.request.Request(f"http://{self.addresses['history']}{path}", headers={"Host": host})
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, dict(reply.headers), reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, dict(error.headers), error.read().decode()

    def test_all_searches_and_suites_can_be_filtered_and_ordered(self):
        page = self.page()
        page.open(self.url)
        self.assertEqual(page.run(f"{VISIBLE}.length"), SUITES + 5)
        self.assertEqual(self.names(page), ["row_softmax", "row_softmax", "later"])
        second = page.run(f"[...{VISIBLE}[0].cells].map((cell) => cell.innerText.replace(/\\s+/g, ' '))")
        self.assertEqual(second[2], "search")
        self.assertIn("second", second[1])
        self.assertRegex(second[3], r"^cpu AMD")
        self.assertRegex(second[4], r"^2\d{3}-\d\d-\d\d .* UTC$")
        self.assertIn("done", second[5])
        self.assertGreaterEqual(int(second[7]), 6)
        self.assertRegex(second[8], r"^\d+\.\d+× \[")
        broken = page.run("document.querySelector('[data-key=\"suite:broken\"]').innerText")
        self.assertIn("unreadable", broken)
        self.assertIn("results.jsonl:1: format", broken)

        def step(script):
            took = page.run(f"(() => {{ const start = performance.now(); {script}; document.body.offsetHeight; "
                            "return performance.now() - start; })()")
            self.assertLess(took, MAX_STEP_MS, script)
        step("const find = document.getElementById('find'); find.value = 'suite-19'; find.dispatchEvent(new Event('input'))")
        # 19, 190 to 199, 1900 to 1999.
        self.assertEqual(page.run(f"{VISIBLE}.length"), 111)
        self.assertEqual(page.run("document.getElementById('shown').textContent"), f"111 of {SUITES + 5} shown")
        step("[...document.querySelectorAll('th button')].find((one) => one.textContent === 'best speedup').click()")
        self.assertEqual(self.names(page, 2), ["tasks 1999", "tasks 1998"])
        step("[...document.querySelectorAll('th button')].find((one) => one.textContent === 'best speedup').click()")
        self.assertEqual(self.names(page, 2), ["tasks 19", "tasks 190"])
        step("const find = document.getElementById('find'); find.value = ''; find.dispatchEvent(new Event('input'))")
        step("document.querySelector('[data-filters=kind] [data-value=search]').click()")
        self.assertEqual(page.run(f"{VISIBLE}.length"), 2)
        step("document.querySelector('[data-filters=kind] [data-value=suite]').click()")
        step("document.querySelector('[data-filters=state] [data-value=unreadable]').click()")
        self.assertEqual(self.names(page), ["broken"])
        for column, first in (("name", HOSTILE), ("kind", "row_softmax"), ("started", "row_softmax"), ("measured", "row_softmax")):
            step("document.querySelectorAll('.filters .on').forEach((one) => one.click())")
            step(f"[...document.querySelectorAll('th button')].find((one) => one.textContent === '{column}').click()")
            self.assertEqual(self.names(page, 1), [first], column)
        self.assertEqual(page.complaints(), [])
        if options.picture:
            shot = page.call("Page.captureScreenshot", format="png")
            with open(options.picture, "wb") as out:
                out.write(base64.b64decode(shot["data"]))

    def test_a_name_opens_the_report_and_the_way_back_keeps_the_choices(self):
        page = self.page()
        page.open(self.url + "#kind=search&sort=started&order=up")
        self.assertEqual(page.run(f"{VISIBLE}.map((row) => row.dataset.key)"), ["search:first", "search:second"])
        self.follow(page, "[data-key='search:first'] a")
        self.assertEqual(page.run("document.title"), "row_softmax · Kernelcast report")
        # The report's own script has run.
        self.assertGreater(page.run("document.querySelectorAll('#best .src .l').length"), 3)
        page.loading()
        page.run("history.back()")
        page.wait_for("Page.loadEventFired")
        self.assertEqual(page.run(f"{VISIBLE}.map((row) => row.dataset.key)"), ["search:first", "search:second"])
        page.open(self.url)
        self.follow(page, "[data-key='suite:suite-7'] a")
        self.assertEqual(page.run("document.title"), "tasks 7 · Kernelcast suite")
        self.assertEqual(page.complaints(), [])

    def test_two_rows_are_compared_as_by_the_command(self):
        page = self.page()
        page.open(self.url)
        self.assertIsNone(page.run("document.getElementById('compare').getAttribute('href')"))
        # The third choice replaces the first.
        for key in ("suite:suite-7", "suite:at_elsewhere", "suite:a & b"):
            page.run(f"document.querySelector({json.dumps(f'[data-key={json.dumps(key)}] input')}).click()")
        self.assertEqual(page.run("document.querySelectorAll('#history :checked').length"), 2)
        self.follow(page, "#compare")
        # From the older to the later one.
        text = page.run("document.body.innerText")
        self.assertIn("Something is slower beyond noise", text)
        self.assertIn("2 candidates: 1 slower, 1 faster", text)
        self.assertIn(HOSTILE, text)
        told = subprocess.run(
            [self.program("kernelcast"), "compare", os.path.join(self.state, "suites/a & b"), os.path.join(self.folder, "elsewhere"),
             "--state-dir", self.state], text=True, capture_output=True, check=False, timeout=60)
        self.assertEqual(told.returncode, 1, told.stderr)
        self.assertIn("2 candidates: 1 slower, 1 faster", told.stdout)
        self.follow(page, "nav a")  # the other way round
        self.assertIn("2 candidates: 1 slower, 1 faster", page.run("document.body.innerText"))
        self.assertRegex(page.run("document.querySelector('#sides tbody').innerText"), r"(?s)before.*elsewhere.*after.*a & b")

        page.open(self.url)
        for key in ("search:first", "search:second"):
            page.run(f"document.querySelector('[data-key=\"{key}\"] input').click()")
        self.follow(page, "#compare")
        self.assertIn("1 tasks, by their fastest", page.run("document.body.innerText"))
        self.assertEqual(page.complaints(), [])

    def test_hostile_names_are_text(self):
        page = self.page()
        for path in ("", "/suite?id=a%20%26%20b", "/compare?before=suite:a%20%26%20b&after=suite:at_elsewhere"):
            page.open(self.url + path)
            self.assertIn(HOSTILE, page.run("document.body.innerText"), path)
            self.assertIsNone(page.run("window.hacked"), path)
            self.assertEqual(page.run("document.querySelectorAll('img').length"), 0, path)
            self.assertEqual(page.run("document.querySelectorAll('script').length"), 1 if path == "" else 0, path)
        self.assertEqual(page.complaints(), [])
        page.open(f"{self.url}/search?id={urllib.parse.quote(HOSTILE)}")
        self.assertIsNone(page.run("window.hacked"))

    def test_the_status_page_links_to_the_history_and_back(self):
        page = self.page()
        page.open(f"http://{self.addresses['orchestrator_status']}/")
        self.follow(page, "a")
        self.assertEqual(page.run("document.title"), "History · Kernelcast")
        self.follow(page, "nav a")
        self.assertEqual(page.run("document.title"), "Kernelcast orchestrator")

    def test_only_this_machine_is_answered_and_only_with_pages_of_the_history(self):
        status, headers, body = self.ask("/history")
        self.assertEqual(status, 200)
        self.assertRegex(headers["Content-Security-Policy"], r"^default-src 'none'; style-src 'unsafe-inline'; script-src "
                         r"'sha256-\S+' 'sha256-\S+'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'$")
        self.assertEqual(self.addresses["history"].split(":")[0], "127.0.0.1")
        self.assertEqual(self.ask("/history", host="evil.example")[0], 421)
        for path, expected in (("/etc/passwd", 404), ("/history/suite?id=../suites/suite-1", 404),
                               ("/history/suite?id=..", 404), ("/history/suite?id=", 404), ("/history/search?id=unknown", 404),
                               ("/history/search", 400), ("/history/compare", 400), ("/history/suite?id=broken", 400)):
            status, _, body = self.ask(path)
            self.assertEqual(status, expected, (path, body))
            self.assertIn("This page cannot be shown", body)
        self.assertEqual(fetch(self.addresses["history"], "/"), self.ask("/history")[2])


def main():
    global options
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", required=True)
    parser.add_argument("--picture", help="where to leave a picture of the page")
    options, rest = parser.parse_known_args()
    options.programs = os.path.abspath(options.programs)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
