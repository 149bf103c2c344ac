"""Test cases that look at pages in Chromium, without a window."""

import json
import os
import re
import select
import shutil
import subprocess
import tempfile
import unittest

PATIENCE_SECONDS = 60


class Page:
    """A page in a browser that a test uses as a person does, through Chromium's debugging protocol on pipes."""

    def __init__(self, browser, folder):
        to_browser, self.to = os.pipe()
        self.out, from_browser = os.pipe()

        def place():
            # The numbers that Chromium expects. Copies first, because one may be the other's place.
            reading, writing = os.dup(to_browser), os.dup(from_browser)
            os.dup2(reading, 3)
            os.dup2(writing, 4)
        self.process = subprocess.Popen(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking",
             # Pages from that cache have no load event.
             "--disable-features=BackForwardCache", f"--user-data-dir={tempfile.mkdtemp(dir=folder)}", "--remote-debugging-pipe",
             "about:blank"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False,
            preexec_fn=place)
        os.close(to_browser)
        os.close(from_browser)
        self.rest = b""
        self.last = 0
        self.session = None
        self.events = []
        target = next(one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self):
        os.close(self.to)
        os.close(self.out)
        self.process.wait(PATIENCE_SECONDS)

    def read(self):
        while b"\0" not in self.rest:
            if not select.select([self.out], [], [], PATIENCE_SECONDS)[0]:
                raise AssertionError(f"the browser has said nothing for {PATIENCE_SECONDS} s")
            part = os.read(self.out, 1 << 16)
            if not part:
                raise AssertionError("the browser has ended")
            self.rest += part
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def call(self, method, **parameters):
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            reply = self.read()
            if reply.get("id") == self.last:
                if "error" in reply:
                    raise AssertionError(f"{method}: {reply['error']}")
                return reply["result"]
            self.events.append(reply)

    def wait_for(self, event):
        while not any(one.get("method") == event for one in self.events):
            self.events.append(self.read())

    def open(self, url):
        """Returns when the page has loaded."""
        self.loading()
        self.call("Page.navigate", url=url)
        self.wait_for("Page.loadEventFired")

    def loading(self):
        """Forgets loads so far. For use before what makes the page load another."""
        self.events = [one for one in self.events if one.get("method") != "Page.loadEventFired"]

    def run(self, script):
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def complaints(self):
        """What the browser has said about pages: violations of policies, errors of scripts, missing resources."""
        said = [one["params"]["entry"]["text"] for one in self.events if one.get("method") == "Log.entryAdded"]
        return said + [str(one["params"]) for one in self.events if one.get("method") == "Runtime.exceptionThrown"]


class BrowserTest(unittest.TestCase):
    """Skipped without Chromium. `folder` is removed at the end."""

    @classmethod
    def setUpClass(cls):
        cls.browser = shutil.which("chromium")
        if not cls.browser:
            raise unittest.SkipTest("chromium is missing; scripts/setup.sh --test installs it")
        folder = tempfile.TemporaryDirectory(prefix="kernelcast-page-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name

    def page(self):
        """A browser with an empty page."""
        page = Page(self.browser, self.folder)
        self.addCleanup(page.close)
        return page

    def browse(self, url, *arguments):
        """The browser's output, and the lines of its console."""
        profile = tempfile.mkdtemp(dir=self.folder)
        looked = subprocess.run(
            [self.browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--no-first-run", "--disable-background-networking", f"--user-data-dir={profile}",
             "--enable-logging=stderr", "--virtual-time-budget=2000", *arguments, url],
            stdin=subprocess.DEVNULL, text=True, capture_output=True, check=False, timeout=120)
        self.assertEqual(looked.returncode, 0, looked.stderr)
        return looked.stdout, re.findall(r".*CONSOLE.*", looked.stderr)
