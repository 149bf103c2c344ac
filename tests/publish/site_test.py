#!/usr/bin/env python3
"""The site of the documents, as scripts/docs.sh builds it."""

import html.parser
import json
import os
import pathlib
import tempfile
import unittest
import urllib.parse

from checkout import ROOT, copy, files, run


class Page(html.parser.HTMLParser):
    """Ids, and the targets of links, scripts, styles and pictures."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.targets = {""}, []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids |= {found.get("id"), found.get("name") if tag == "a" else None} - {None}
        self.targets += [found[key] for key in ("href", "src") if found.get(key)]


def address(name):
    """The page of a document, below the site."""
    folder, file = os.path.split(name)
    return os.path.join(folder, "" if file == "README.md" else file.removesuffix(".md"), "index.html")


class SiteTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory(prefix="kernelcast-site-")
        cls.addClassCleanup(holder.cleanup)
        cls.copy = pathlib.Path(holder.name)
        copy(cls.copy)
        cls.status, cls.output = run("scripts/docs.sh", cwd=cls.copy)
        cls.site = cls.copy / "build/docs/site"
        cls.pages = {path: Page(path) for path in cls.site.rglob("*.html")}

    def test_it_is_built_without_warnings(self):
        self.assertEqual((self.status, self.output), (0, "build/docs/site/index.html\n"))

    def test_every_document_is_a_page(self):
        documents = [name for name in files() if name.endswith(".md") and not name.startswith(".github/")]
        self.assertGreater(len(documents), 50)
        self.assertEqual([name for name in documents if not (self.site / address(name)).is_file()], [])

    def test_every_link_within_the_site_resolves(self):
        broken, links = [], 0
        for path, page in self.pages.items():
            for target in page.targets:
                parts = urllib.parse.urlsplit(target)
                # The page for unknown addresses is served at any depth.
                if parts.scheme or parts.netloc or target.startswith("data:") or path.name == "404.html":
                    continue
                links += 1
                to = pathlib.Path(os.path.normpath(path.parent / urllib.parse.unquote(parts.path))) if parts.path else path
                to = to / "index.html" if to.is_dir() else to
                ids = self.pages[to].ids if to in self.pages else {""}
                if not to.is_file() or urllib.parse.unquote(parts.fragment) not in ids:
                    broken.append(f"{path.relative_to(self.site)}: {target}")
        self.assertEqual(broken, [])
        self.assertGreater(links, 5000)

    def test_nothing_is_loaded_from_other_hosts(self):
        loaded = [target for page in self.pages.values() for target in page.targets
                  if urllib.parse.urlsplit(target).netloc and target.endswith((".js", ".css", ".png", ".svg", ".woff2"))]
        self.assertEqual(loaded, [])

    def test_the_search_knows_documents_and_docstrings(self):
        index = json.loads((self.site / "search/search_index.json").read_text(encoding="utf-8"))
        found = {entry["location"]: entry["text"] for entry in index["docs"]}
        self.assertIn("timing lease", found["docs/glossary/"] + "".join(found.values()))
        self.assertIn("in the order in which they are settled",
                      found["docs/reference/python/#kernelcast.AsyncClient.evaluate_many"])

    def test_the_python_page_has_every_public_name(self):
        status, names = run(ROOT / ".setup/docs/bin/python", "-B", "-c",
                            "import ast, sys; print(*[name for node in ast.parse(open(sys.argv[1]).read()).body "
                            "if isinstance(node, ast.Assign) and node.targets[0].id == '__all__' "
                            "for name in ast.literal_eval(node.value)])",
                            ROOT / "clients/python/src/kernelcast/__init__.py")
        self.assertEqual(status, 0, names)
        ids = self.pages[self.site / "docs/reference/python/index.html"].ids
        self.assertEqual([name for name in names.split()
                          if not {f"kernelcast.{name}", f"kernelcast.errors.{name}"} & ids], [])


class FaultsTest(unittest.TestCase):
    def test_faults_are_found_and_links_to_sources_lead_to_the_repository(self):
        with tempfile.TemporaryDirectory(prefix="kernelcast-site-") as name:
            folder = pathlib.Path(name)
            copy(folder)
            (folder / "docs/howto/unlisted.md").write_text(
                "# Unlisted\n\n[a](missing.md) [b](cuda.md#no-such-heading) [c](../../scripts/docs.sh) `[d](e.md)`\n",
                encoding="utf-8")
            status, output = run("scripts/docs.sh", cwd=folder, KERNELCAST_REPOSITORY_URL="https://git.example.com/k")
            self.assertEqual(status, 1, output)
            for fault in ("docs/howto/unlisted.md", "'missing.md'", "'cuda.md#no-such-heading'"):
                self.assertIn(fault, output)
            page = Page(folder / "build/docs/site/docs/howto/unlisted/index.html")
            self.assertIn("https://git.example.com/k/blob/HEAD/scripts/docs.sh", page.targets)
            self.assertNotIn("e.md", page.targets)


if __name__ == "__main__":
    unittest.main()
