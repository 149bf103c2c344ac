"""A copy of the tree, as a checkout of its own that tests may change."""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command, cwd=ROOT, **variables):
    """The exit status and what the command printed."""
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=os.environ | variables, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    return done.returncode, done.stdout


def git(folder, *arguments):
    status, output = run("git", "-c", "user.name=Test", "-c", "user.email=test@example.com", *arguments, cwd=folder)
    assert status == 0, output
    return output.strip()


def files():
    """What is or will be under version control, links to folders included."""
    listed = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    return sorted({name for name in listed if name and os.path.lexists(ROOT / name)} - {".setup"})


def copy(folder):
    """Copies these files, and lends the copy the tools."""
    names = "\0".join(files())
    packed = subprocess.run(["tar", "-C", ROOT, "--null", "--files-from=-", "-cf", "-"], input=names.encode(),
                            stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["tar", "-C", folder, "-xf", "-"], input=packed, check=True)
    (folder / ".setup").symlink_to((ROOT / ".setup").resolve())


def commit(folder):
    """Makes a checkout of a copy."""
    git(folder, "init", "--quiet")
    (folder / ".git/info/exclude").write_text("/.setup\n", encoding="utf-8")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Everything")
