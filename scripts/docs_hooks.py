"""Makes MkDocs see the documents of the whole repository, each at its path there. mkdocs.yml names this file."""

import os
import posixpath
import re
import sys

from mkdocs.structure.files import File, Files

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests/lint"))
from check_tree import files as repository_files  # noqa: E402

# Code, which stays as it is, or a link with its text.
CODE_OR_LINK = re.compile(r"^(?P<fence>```|~~~).*?^(?P=fence)\s*$|(?<!\[)`[^`\n]+`(?!\])|"
                          r"(?<!!)\[(?P<text>(?:[^\[\]`]|`[^`\n]*`)*)\]\((?P<target>[^)\s]+)\)", re.MULTILINE | re.DOTALL)


def on_files(files, config):
    """The theme's files, and the documents and pictures of the repository in place of those of docs/."""
    own = [file for file in files if file.src_dir != config.docs_dir]
    names = [name for name in repository_files(ROOT)
             if not name.startswith(".github/") and name.endswith((".md", ".png", "docs/site.css"))]
    return Files(own + [File(name, ROOT, config.site_dir, config.use_directory_urls) for name in names])


def on_page_markdown(markdown, page, config, files):
    """Links to what is no document lead to the repository, and are text where its address is unknown."""
    def resolve(match):
        target = match["target"]
        if target is None or target.startswith("#") or re.match(r"[a-z][a-z0-9+.-]*:", target):
            return match[0]
        name = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), target.partition("#")[0]))
        if files.get_file_from_path(name) or not os.path.exists(os.path.join(ROOT, name)):
            return match[0]
        if not config.repo_url:
            return match["text"]
        kind = "tree" if os.path.isdir(os.path.join(ROOT, name)) else "blob"
        return f"[{match['text']}]({config.repo_url.rstrip('/')}/{kind}/HEAD/{name})"

    return CODE_OR_LINK.sub(resolve, markdown)
