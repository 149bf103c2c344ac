#!/usr/bin/env python3
"""Checks rules, alerts and boards statically; live_test.py runs them."""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GRAFANA = os.path.join(ROOT, "deploy/grafana")
PROMETHEUS = os.path.join(ROOT, "deploy/prometheus")
UNIT_TESTS = os.path.join(ROOT, "tests/observability/alerts_test.yml")
# A selector: a metric's or recorded series' name, and its braces.
SELECTOR = re.compile(r"(?:\b[a-z_]+:)?\b(?:kernelcast_\w+(?::\w+)?|ALERTS)\b(?:\{[^}]*\})?")
METRIC = re.compile(r"(?<![\w:])kernelcast_\w+")
NO_UNIT_IS_RIGHT = ("none", "short")


def load(path):
    with open(path, encoding="utf-8") as file:
        return yaml.safe_load(file)


def text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def rules(kind):
    """By name."""
    groups = [group for path in glob.glob(f"{PROMETHEUS}/rules/*.yml") for group in load(path)["groups"]]
    return {rule[kind]: rule for group in groups for rule in group["rules"] if kind in rule}


def boards():
    return {os.path.basename(path): json.loads(text(path)) for path in glob.glob(f"{GRAFANA}/dashboards/*.json")}


def values_of(key, tree):
    """All values under this key at any depth."""
    if isinstance(tree, list):
        for one in tree:
            yield from values_of(key, one)
    elif isinstance(tree, dict):
        for name, one in tree.items():
            if name == key:
                yield one
            yield from values_of(key, one)


def documented_metrics():
    """Names of series."""
    rows = re.findall(r"^\| `(kernelcast_\w+)` \| (\w+) \|", text(f"{ROOT}/docs/reference/metrics.md"), re.MULTILINE)
    names = set()
    for name, kind in rows:
        names |= {name + suffix for suffix in ("_bucket", "_sum", "_count")} if kind == "histogram" else {name}
    return names


def anchors(path):
    """Anchors of headings, as generated on the web."""
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)$", text(path), re.MULTILINE)}


def promtool(*arguments):
    return subprocess.run(["promtool", *arguments], text=True, capture_output=True, check=False)


@unittest.skipUnless(shutil.which("promtool"), "promtool is missing; scripts/setup.sh --test installs prometheus")
class PromtoolTest(unittest.TestCase):
    def test_rules_pass_its_lint(self):
        checked = promtool("check", "rules", "--lint=all", "--lint-fatal", *glob.glob(f"{PROMETHEUS}/rules/*.yml"))
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    def test_alerts_pass_their_unit_tests(self):
        tested = promtool("test", "rules", UNIT_TESTS)
        self.assertEqual(tested.returncode, 0, tested.stdout + tested.stderr)

    def test_prometheus_takes_the_scrape_configurations(self):
        for name in ("prometheus.yml", "kubernetes.yml"):
            config = load(f"{PROMETHEUS}/{name}")
            self.assertEqual(config["rule_files"], ["rules/*.yml"])
            for scrape in config["scrape_configs"]:
                # Debian's Prometheus is built without Kubernetes support.
                if scrape.pop("kubernetes_sd_configs", None):
                    scrape["static_configs"] = [{"targets": ["127.0.0.1:9"]}]
            with tempfile.TemporaryDirectory() as folder:
                shutil.copytree(f"{PROMETHEUS}/rules", f"{folder}/rules")
                with open(f"{folder}/prometheus.yml", "w", encoding="utf-8") as file:
                    json.dump(config, file)
                checked = promtool("check", "config", f"{folder}/prometheus.yml")
                self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)


class RulesTest(unittest.TestCase):
    def test_every_alert_has_a_unit_test_that_fires_and_one_that_does_not(self):
        fires, is_silent = set(), set()
        for test in load(UNIT_TESTS)["tests"]:
            for one in test["alert_rule_test"]:
                (fires if one["exp_alerts"] else is_silent).add(one["alertname"])
        self.assertEqual(fires, set(rules("alert")))
        self.assertEqual(is_silent, set(rules("alert")))

    def test_every_alert_has_a_runbook_and_every_runbook_an_alert(self):
        document = f"{ROOT}/docs/howto/operations.md"
        sections = set(re.findall(r"^### (Kernelcast\w+)$", text(document), re.MULTILINE))
        self.assertEqual(sections, set(rules("alert")))
        for name, rule in rules("alert").items():
            path, anchor = rule["annotations"]["runbook_url"].split("#")
            self.assertEqual((path, anchor), ("{{ $externalLabels.runbooks }}docs/howto/operations.md", name.lower()))
            self.assertIn(anchor, anchors(document))
            self.assertIn(rule["labels"]["severity"], ("critical", "warning"))
            self.assertLess({"summary", "description"}, set(rule["annotations"]))

    def test_links_to_runbooks_are_absolute_by_a_label_that_the_configurations_set(self):
        for name in ("prometheus.yml", "kubernetes.yml"):
            with open(f"{ROOT}/deploy/prometheus/{name}", encoding="utf-8") as file:
                labels = yaml.safe_load(file)["global"]["external_labels"]
            self.assertRegex(labels["runbooks"], "^https://.*/$")

    def test_runbooks_name_panels_that_are_there(self):
        titles = {panel["title"] for board in boards().values() for panel in board["panels"]}
        runbooks = text(f"{ROOT}/docs/howto/operations.md").split("## Alerts")[1]
        named = set(re.findall(r'"([A-Z][^"]*)"', " ".join(runbooks.split())))
        self.assertEqual(named - titles, set())
        self.assertGreater(len(named), 8)

    def test_rules_look_at_series_that_there_are(self):
        known = documented_metrics()
        for rule in [*rules("alert").values(), *rules("record").values()]:
            for name in METRIC.findall(rule["expr"]):
                self.assertIn(name, known)
        recorded = set(rules("record"))
        used = "\n".join([rule["expr"] for rule in [*rules("alert").values(), *rules("record").values()]]
                         + [target["expr"] for board in boards().values() for panel in board["panels"]
                            for target in panel.get("targets", [])])
        for name in recorded:
            self.assertTrue(name in used, f"{name} is recorded for nobody")
        for name in re.findall(r"\w+:kernelcast_\w+:\w+", used):
            self.assertIn(name, recorded)


class BoardsTest(unittest.TestCase):
    def each_panel(self):
        for name, board in boards().items():
            for panel in board["panels"]:
                if panel["type"] != "row":
                    with self.subTest(f"{name}: {panel['title']}"):
                        yield panel

    def test_they_are_what_the_script_makes(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-B", f"{GRAFANA}/boards.py", folder], check=True)
            made = {name: text(os.path.join(folder, name)) for name in os.listdir(folder)}
        kept = {name: text(f"{GRAFANA}/dashboards/{name}") for name in os.listdir(f"{GRAFANA}/dashboards")}
        self.assertEqual(set(made), set(kept))
        for name, content in made.items():
            self.assertTrue(content == kept[name], f"{name} is not what boards.py makes: run it")

    def test_they_have_one_data_source_and_no_other(self):
        for name, board in boards().items():
            variables = board["templating"]["list"]
            sources = [one for one in variables if one["type"] == "datasource"]
            self.assertEqual([(one["name"], one["query"]) for one in sources], [("datasource", "prometheus")], name)
            used = list(values_of("datasource", board))
            self.assertGreater(len(used), len(board["panels"]))
            for one in used:
                self.assertEqual(one, {"type": "prometheus", "uid": "${datasource}"}, name)

    def test_job_and_instance_choose_in_every_query(self):
        for name, board in boards().items():
            variables = {one["name"]: one for one in board["templating"]["list"]}
            for one in ("job", "instance"):
                self.assertEqual((variables[one]["type"], variables[one]["multi"], variables[one]["allValue"]),
                                 ("query", True, ".+"), name)
                self.assertRegex(variables[one]["query"]["query"], rf"^label_values\(kernelcast_\w+.*, {one}\)$")
        for panel in self.each_panel():
            for target in panel["targets"]:
                selectors = SELECTOR.findall(target["expr"])
                self.assertTrue(selectors)
                for selector in selectors:
                    self.assertIn('job=~"$job", instance=~"$instance"}', selector)

    def test_queries_look_at_series_that_there_are(self):
        known = documented_metrics()
        for panel in self.each_panel():
            for target in panel["targets"]:
                for name in METRIC.findall(target["expr"]):
                    self.assertIn(name, known)

    def test_rates_follow_what_is_scraped(self):
        """$__rate_interval for a time series; hours for a single number."""
        for panel in self.each_panel():
            for target in panel["targets"]:
                for function, window in re.findall(r"\b(rate|increase|irate|deriv)\([^[]*\[([^\]]*)\]", target["expr"]):
                    if target["instant"]:
                        self.assertIn(window, ("1h", "$__range"))
                    elif function in ("rate", "irate"):
                        self.assertEqual(window, "$__rate_interval")
                    else:
                        self.assertIn(window, ("$__rate_interval", "5m"))

    def test_panels_say_what_they_show(self):
        for panel in self.each_panel():
            self.assertGreater(len(panel["title"]), 3)
            self.assertGreater(len(panel["description"]), 10)
            self.assertTrue(panel["description"].endswith("."))
            unit = panel["fieldConfig"]["defaults"]["unit"]
            self.assertTrue(unit)
            metrics = {name for target in panel["targets"] for name in METRIC.findall(target["expr"])}
            if metrics and all(re.search(r"_(seconds|hertz|celsius|watts)$", name) for name in metrics):
                self.assertNotIn(unit, NO_UNIT_IS_RIGHT)

    def test_panels_do_not_overlap_and_have_names_of_their_own(self):
        for name, board in boards().items():
            taken = {}
            titles = [panel["title"] for panel in board["panels"]]
            self.assertEqual(len(titles), len(set(titles)), name)
            for panel in board["panels"]:
                place = panel["gridPos"]
                self.assertLessEqual(place["x"] + place["w"], 24)
                for x in range(place["x"], place["x"] + place["w"]):
                    for y in range(place["y"], place["y"] + place["h"]):
                        self.assertIsNone(taken.setdefault((x, y), None), f"{name}: {panel['title']}")
                        taken[x, y] = panel["title"]

    def test_they_cannot_be_edited_and_their_names_stay(self):
        uids = [board["uid"] for board in boards().values()]
        self.assertEqual(len(uids), len(set(uids)))
        for name, board in boards().items():
            self.assertIs(board["editable"], False)
            self.assertEqual(f"{board['uid']}.json", name)
            # Ids belong to a Grafana instance.
            self.assertNotIn("id", board)

    def test_links_lead_to_runbooks(self):
        linked = 0
        for panel in self.each_panel():
            for link in panel.get("links", []):
                base, anchor = link["url"].split("#")
                self.assertEqual(base, "${runbooks}")
                self.assertIn(anchor, {name.lower() for name in rules("alert")})
                linked += 1
        self.assertGreater(linked, 20)


if __name__ == "__main__":
    unittest.main(verbosity=1)
