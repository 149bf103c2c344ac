"""Roots of Debian, made by debootstrap."""

import os
import shutil
import subprocess


def archive_path(suite, cache):
    return os.path.join(cache, f"debian-{suite}.tar")


def base_archive(suite, cache, work):
    """A minimal Debian; the archive is made once and kept in `cache`."""
    archive = archive_path(suite, cache)
    if not os.path.exists(archive):
        os.makedirs(cache, exist_ok=True)
        folder = os.path.join(work, "base")
        subprocess.run(["debootstrap", "--variant=minbase", "--include=ca-certificates", suite, folder],
                       check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(os.path.join(folder, "var/cache/apt/archives"), ignore_errors=True)
        subprocess.run(["tar", "-C", folder, "-cf", archive + ".part", "."], check=True)
        os.rename(archive + ".part", archive)
        shutil.rmtree(folder)
    return archive
