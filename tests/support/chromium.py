"""Test cases that look at pages in Chromium, without a window."""

import re
import shutil
import subprocess
import tempfile
import unittest


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
