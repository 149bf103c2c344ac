"""Adds the project's web addresses to the metadata of the package.

The addresses in the repository follow from KERNELCAST_REPOSITORY_URL. Without it, and in a source distribution, which keeps
what it was made with, no address is made up.
"""

import os
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class UrlsHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        urls = {"Paper": "https://arxiv.org/abs/2605.31464"}
        repository = os.environ.get("KERNELCAST_REPOSITORY_URL", "").rstrip("/")
        if repository:
            urls |= {"Source": repository, "Issues": f"{repository}/issues",
                     "Changelog": f"{repository}/blob/HEAD/CHANGELOG.md"}
        if site := os.environ.get("KERNELCAST_SITE_URL"):
            urls["Documentation"] = site
        metadata["urls"] = urls
