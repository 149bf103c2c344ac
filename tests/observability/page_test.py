#!/usr/bin/env python3
"""Checks the orchestrator's status page in a real browser while a search runs.

    page_test.py --programs FOLDER [--picture FILE.png] [TEST ...]
"""

import argparse
import html.parser
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import unittest
import urllib.request
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
from chromium import BrowserTest  # noqa: E402
from prometheus import START_SECONDS, fetch, wait_for  # noqa: E402

# The first cell of the search's row.
NAME = "watched row_softmax, cpu"

options = None


class Cells(html.parser.HTMLParser):
    """The rows of every table, as text."""

    def __init__(self):
        super().__init__()
        self.rows = []
        self.cell = None

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.cell = []
        elif tag == "br":
            self.handle_data(" ")

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.rows[-1].append(" ".join("".join(self.cell).split()))
            self.cell = None

    def handle_data(self, data):
        if self.cell is not None:
            self.cell.append(data)


def first_pixel(path):
    """Red, green and blue of a picture's upper left corner, which no PNG filter changes."""
    with open(path, "rb") as file:
        content = file.read()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    data, at = b"", 8
    while at < len(content):
        length = int.from_bytes(content[at:at + 4], "big")
        if content[at + 4:at + 8] == b"IDAT":
            data += content[at + 8:at + 8 + length]
        at += length + 12
    return tuple(zlib.decompress(data)[1:4])


def cells(page):
    parser = Cells()
    parser.feed(page)
    return parser.rows


class PageTest(BrowserTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        addresses = os.path.join(cls.folder, "addresses.json")
        with open(addresses, "w", encoding="utf-8") as out, open(os.path.join(cls.folder, "log"), "wb") as log:
            cls.up = up = subprocess.Popen(
                [cls.program("kernelcast"), "up", "--json", "--listen", "127.0.0.1:0", "--state-dir",
                 os.path.join(cls.folder, "state")], stdin=subprocess.DEVNULL, stdout=out, stderr=log)
        cls.addClassCleanup(lambda: (up.send_signal(signal.SIGTERM), up.wait(START_SECONDS)))

        def said():
            with open(addresses, encoding="utf-8") as file:
                return "orchestrator_status" in file.read()
        wait_for("services", said, up)
        with open(addresses, encoding="utf-8") as file:
            found = json.load(file)
        cls.page = found["orchestrator_status"]
        cls.orchestrator = found["orchestrator"]

    @staticmethod
    def program(name):
        return os.path.join(options.programs, name)

    def look(self, *arguments, page=None):
        return self.browse(f"http://{page or self.page}/", "--window-size=1600,900", *arguments)

    def cut_off(self, width):
        """Tables of the page that are wider than their frame in a window of this width."""
        page = fetch(self.page, "/").replace('<link rel="stylesheet" href="style.css">',
                                             f"<style>{fetch(self.page, '/style.css')}</style>")
        probe = ("<script>document.title = JSON.stringify([...document.querySelectorAll('.scroll')]"
                 ".map((one) => [one.scrollWidth, one.clientWidth]))</script>")
        path = os.path.join(self.folder, "copy.html")
        with open(path, "w", encoding="utf-8") as file:
            file.write(page.replace("</body>", probe + "</body>"))
        shown, _ = self.browse(f"file://{path}", f"--window-size={width},900", "--dump-dom")
        widths = json.loads(re.search("<title>(.*?)</title>", shown).group(1))
        self.assertGreater(len(widths), 2)
        return [(needed, there) for needed, there in widths if needed > there]

    def test_a_browser_shows_a_search_as_it_runs(self):
        search = subprocess.Popen(
            [self.program("kernelcast"), "search", "row_softmax", "--orchestrator", self.orchestrator, "--search-id",
             "watched", "--budget-measurements", "12", "--no-report", "--quiet", "--json", "--state-dir",
             os.path.join(self.folder, "cli")], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: search.poll() is not None or search.kill())

        def row():
            """The search's row, once something is measured."""
            found = [one for one in cells(fetch(self.page, "/")) if one[:1] == [NAME]]
            return found[0] if found and re.match(r"\d+\.\d\dx", found[0][2]) else None
        wait_for("measurements on the page", row, self.up, 120)

        shown, complaints = self.look("--dump-dom")
        # The console prints a line for a policy violation or a missing resource.
        self.assertEqual(complaints, [])
        rows = cells(shown)
        watched = next(one for one in rows if one[:1] == [NAME])
        self.assertRegex(watched[1], "threshold$")
        self.assertRegex(watched[2], r"^\d+\.\d\dx \[\d+\.\d\d, \d+\.\d\d\]$")
        self.assertRegex(watched[5], r"^\d+\.\d%$")
        self.assertTrue(any(one[:1] == ["worker"] and one[2] == "ready" for one in rows))
        self.assertTrue(any(one[:1] == ["forecaster"] and one[2] == "ready" for one in rows))
        self.assertIn("<rect", shown)

        self.assertEqual(self.cut_off(1400), [])

        picture = os.path.join(self.folder, "page.png")
        self.look(f"--screenshot={picture}")
        if options.picture:
            shutil.copy(picture, options.picture)
        # The corner has the colour of the style that the policy permits.
        self.assertEqual(first_pixel(picture), (0xF4, 0xF6, 0xF8))

        def ended():
            return [one for one in cells(fetch(self.page, "/")) if one[:1] == [NAME] and one[1].startswith("done")]
        wait_for("the search's end on the page", ended, self.up, 600)
        self.assertIn(search.wait(START_SECONDS), (0, 1))

    def test_the_browser_would_tell_of_what_the_policy_keeps_out(self):
        with urllib.request.urlopen(f"http://{self.page}/", timeout=10) as reply:
            policy = reply.headers["Content-Security-Policy"]

        class Planted(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Security-Policy", policy)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(b"<!doctype html><script>document.title = 'planted'</script><p style='color: red'>here</p>")

            def log_message(self, *_):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Planted) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            shown, complaints = self.look("--dump-dom", page=f"127.0.0.1:{server.server_address[1]}")
            server.shutdown()
        self.assertNotIn("<title>planted", shown)
        said = " ".join(complaints)
        self.assertIn("script", said)
        self.assertIn("style", said)


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
