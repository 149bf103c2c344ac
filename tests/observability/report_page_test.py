#!/usr/bin/env python3
"""Checks a search's report in a real browser, in windows of several widths.

    report_page_test.py --programs FOLDER [--pictures FOLDER] [TEST ...]
"""

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
from chromium import BrowserTest  # noqa: E402

RECORDS = os.path.join(ROOT, "data/measured/amd-epyc/spaces/row_softmax.jsonl.gz")
WIDTHS = (420, 1000, 1400)
# A few screens: folded parts do not count.
MAX_HEIGHT = {420: 16000, 1000: 9000, 1400: 8000}

# The page's own measurements after layout.
PROBE = """<script>addEventListener('load', () => {
  const root = document.documentElement;
  const opened = [...document.querySelectorAll('#list tr.more')].map((row) => Number(row.previousElementSibling.dataset.i));
  const visible = [...document.querySelectorAll('#list tr[data-i]')].filter((row) => row.offsetHeight > 0).length;
  const wide = [...document.querySelectorAll('body *')].filter((one) => {
    const box = one.getBoundingClientRect();
    if (box.right <= root.clientWidth + 1 || box.width === 0) return false;
    for (let up = one; up; up = up.parentElement) {
      if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(up).overflowX)) return false;
    }
    return true;
  }).map((one) => one.tagName + '.' + one.className);
  const best = document.querySelector('#progress .tab.t1 text.end').getBoundingClientRect();
  const frame = document.querySelector('#progress .tab.t1').getBoundingClientRect();
  const best_shown = best.left >= frame.left && best.right <= Math.min(frame.right, root.clientWidth) + 1;
  document.title = JSON.stringify({best_shown, width: root.clientWidth, scroll: root.scrollWidth, height: root.scrollHeight, opened, visible, wide});
});</script>"""

options = None


class ReportPageTest(BrowserTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with gzip.open(RECORDS, "rt", encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
        # Half of them pruned, as in a search; the best confirmed, with another value.
        measured = [one for one in records if "ok" in one["evaluation"].get("measured", {})]
        best = max(measured, key=lambda one: one["evaluation"]["measured"]["ok"]["speedup"]["value"])
        for index, one in enumerate(records):
            if index % 2 and one is not best:
                one["evaluation"].pop("measured", None)
                one["evaluation"].pop("rejected", None)
                one["evaluation"]["forecast"] = {"candidate_id": one["evaluation"]["candidate_id"],
                                                 "bin_probabilities": [], "backend": "embedded"}
        again = json.loads(json.dumps(best))
        again["sequence"] = str(10 ** 6)
        again["evaluation"]["request_id"] = "confirmation"
        again["evaluation"]["measured"]["level"] = "MEASURE_LEVEL_FINAL"
        speedup = again["evaluation"]["measured"]["ok"]["speedup"]
        for key in ("value", "low", "high"):
            speedup[key] *= 0.9
        cls.best = best["evaluation"]["candidate_id"]
        cls.records = len(records)
        path = os.path.join(cls.folder, "records.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            for one in [*records, again]:
                file.write(json.dumps(one) + "\n")
        made = os.path.join(cls.folder, "made.html")
        ran = subprocess.run([os.path.join(options.programs, "kernelcast"), "report", "--records", path, "-o", made, "--json",
                              "--device-price", "2.5"],
                             text=True, capture_output=True, check=False, timeout=120)
        if ran.returncode:
            raise AssertionError(ran.stderr)
        cls.summary = json.loads(ran.stdout)
        with open(made, encoding="utf-8") as file:
            page = file.read()
        cls.page = os.path.join(cls.folder, "report.html")
        # The page permits only its own script.
        page = re.sub(r"<meta http-equiv=Content-Security-Policy [^>]*>", "", page, count=1)
        with open(cls.page, "w", encoding="utf-8") as file:
            file.write(page.replace("</body>", PROBE + "</body>"))

    def look(self, width, anchor="", picture=None):
        """The page's measurements at a width."""
        # Browsers have a minimum window width; a frame has none.
        frame = os.path.join(self.folder, f"frame-{width}.html")
        with open(self.page, encoding="utf-8") as file:
            inner = file.read()
        with open(os.path.join(self.folder, "inner.html"), "w", encoding="utf-8") as file:
            file.write(inner.replace("document.title =", "parent.document.title ="))
        with open(frame, "w", encoding="utf-8") as file:
            file.write(f"<!doctype html><body style='margin:0'><iframe src='inner.html{anchor}' style='border:0;width:{width}px;"
                       "height:2200px'></iframe>")
        shown, _ = self.browse(f"file://{frame}", "--allow-file-access-from-files", "--window-size=1600,2200",
                               "--dump-dom")
        title = re.search(r"<title>(.*?)</title>", shown, re.DOTALL)
        self.assertIsNotNone(title, shown[:500])
        if picture and options.pictures:
            self.browse(f"file://{frame}", "--allow-file-access-from-files", f"--window-size={max(width, 500)},2200",
                        f"--screenshot={os.path.join(options.pictures, picture)}")
        return json.loads(title.group(1).replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))

    def test_the_page_fits_windows_of_any_width_and_is_a_few_screens_high(self):
        for width in WIDTHS:
            with self.subTest(width=width):
                said = self.look(width, picture=f"report-{width}.png")
                self.assertEqual(said["width"], width)
                self.assertEqual(said["wide"], [])
                self.assertLessEqual(said["scroll"], width)
                self.assertLess(said["height"], MAX_HEIGHT[width])
                self.assertLess(said["visible"], 60)
                self.assertGreater(said["visible"], 5)
                self.assertTrue(said["best_shown"], "the best is outside of the chart's window")

    def test_a_link_to_a_candidate_opens_its_one_row_with_all_of_its_evaluations(self):
        said = self.look(1000, f"#{self.best}")
        with open(self.page, encoding="utf-8") as file:
            data = json.loads(re.search(r"<script type=application/json id=data>(.*?)</script>", file.read()).group(1))
        self.assertEqual(len(said["opened"]), 1)
        opened = said["opened"][0]
        self.assertEqual(data["candidates"][opened]["candidate"]["candidate_id"], self.best)
        # The best kernel's row: the first, with the headline's figure.
        row = data["rows"][0]
        self.assertEqual(row["candidate"], opened)
        self.assertEqual(len(row["confirmations"]), 1)
        self.assertAlmostEqual(row["final"]["value"], self.summary["best"]["speedup"]["value"], 3)
        self.assertAlmostEqual(row["screening"]["value"], self.summary["best"]["screening"]["value"], 3)
        self.assertEqual(self.summary["best"]["candidate"]["candidate_id"], self.best)

    def test_the_page_has_the_cost_of_the_search(self):
        cost = self.summary["cost"]
        self.assertAlmostEqual(cost["devices"], self.summary["device_seconds_spent"] / 3600 * 2.5, 9)
        self.assertAlmostEqual(cost["avoided"], self.summary["device_seconds_avoided"] / 3600 * 2.5, 9)
        self.assertEqual(cost["total"], cost["devices"])
        shown, _ = self.browse(f"file://{self.page}", "--dump-dom")
        self.assertRegex(shown, r"<span>cost</span><b>[0-9.]+</b><small>[0-9.]+ devices, about [0-9.]+ avoided by pruning")

    def test_a_link_to_a_folded_candidate_unfolds_it(self):
        with open(self.page, encoding="utf-8") as file:
            data = json.loads(re.search(r"<script type=application/json id=data>(.*?)</script>", file.read()).group(1))
        last = data["rows"][-1]["candidate"]
        said = self.look(1000, "#" + data["candidates"][last]["candidate"]["candidate_id"])
        self.assertEqual(said["opened"], [last])
        self.assertEqual(said["visible"], len(data["rows"]))


def main():
    global options
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", required=True)
    parser.add_argument("--pictures", help="folder to leave pictures of the page in")
    options, rest = parser.parse_known_args()
    options.programs = os.path.abspath(options.programs)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
