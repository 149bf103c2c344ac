#!/usr/bin/env python3
"""The check of the workflows finds planted violations, and the issue forms have what GitHub requires. TOOL is actionlint."""

import pathlib
import subprocess
import tempfile
import unittest

import yaml

LINT = pathlib.Path(__file__).resolve().parent
FORMS = LINT.parent.parent / ".github/ISSUE_TEMPLATE"
WORKFLOW = """on: push
jobs:
  one:
    runs-on: {runner}
    steps:
      - uses: actions/checkout@{version}
      - run: {command}
"""
HASH = "de0fac2e4500dabe0009e67214ff5f5447ce83dd"


class WorkflowsTest(unittest.TestCase):
    def check(self, runner="ubuntu-24.04", version=f"{HASH} # v6.0.2", command="true"):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "one.yml")
            file.write_text(WORKFLOW.format(runner=runner, version=version, command=command), encoding="utf-8")
            done = subprocess.run([LINT / "check_workflows.sh", file], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, check=False)
            return done.returncode, done.stdout

    def test_a_good_workflow_passes(self):
        self.assertEqual(self.check(), (0, ""))

    def test_violations_are_found(self):
        for planted, message in (({"version": "v6"}, "uses: actions/checkout@v6"),
                                 ({"version": HASH}, "these name no commit with its version"),
                                 ({"runner": "debian-99"}, 'label "debian-99" is unknown'),
                                 ({"command": "echo ${{ github.nonsense }}"}, 'property "nonsense" is not defined')):
            with self.subTest(planted):
                status, output = self.check(**planted)
                self.assertEqual(status, 1, output)
                self.assertIn(message, output)

    def test_issue_forms_are_complete(self):
        forms = sorted(set(FORMS.glob("*.yml")) - {FORMS / "config.yml"})
        self.assertTrue(forms)
        for path in forms:
            with self.subTest(path.name):
                form = yaml.safe_load(path.read_text(encoding="utf-8"))
                self.assertLessEqual({"name", "description", "body"}, form.keys())
                inputs = [one for one in form["body"] if one["type"] != "markdown"]
                self.assertTrue(inputs)
                self.assertEqual(len({one["id"] for one in inputs}), len(inputs))
                for one in inputs:
                    self.assertIn(one["type"], ("checkboxes", "dropdown", "input", "textarea", "upload"))
                    self.assertTrue(one["attributes"]["label"])


if __name__ == "__main__":
    unittest.main()
