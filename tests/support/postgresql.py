"""A PostgreSQL server for one test, like tests/support/postgresql.h for C++ tests."""

import glob
import os
import pwd
import shutil
import subprocess
import tempfile


def program_folder():
    """The folder of PostgreSQL's programs; None if it is not installed."""
    found = sorted(path for path in glob.glob("/usr/lib/postgresql/*/bin") if os.path.exists(os.path.join(path, "initdb")))
    return found[-1] if found else None


class PostgresqlServer:
    """A server in a temporary folder, on a Unix socket there. It runs as an ordinary user because the server refuses
    to run as root. The caller starts `server()` and calls `remove()` after it has ended."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="kernelcast-pg-")
        self.user = None
        if os.geteuid() == 0:
            names = {one.pw_name for one in pwd.getpwall()}
            self.user = "postgres" if "postgres" in names else "nobody"
            shutil.chown(self.folder, self.user)
        subprocess.run(self.command("initdb", "-D", self.data(), "-U", "kernelcast", "-A", "trust", "-E", "UTF8", "--locale=C",
                                    "--no-sync", "--no-instructions"), check=True, capture_output=True, cwd="/")

    def data(self):
        return os.path.join(self.folder, "data")

    def command(self, program, *arguments):
        line = [os.path.join(program_folder(), program), *arguments]
        if self.user:
            line = ["setpriv", f"--reuid={self.user}", "--clear-groups", "--", *line]
        return line

    def server(self):
        """The command that runs it. Power loss is not tested, so syncing to disk is off."""
        return self.command("postgres", "-D", self.data(), "-k", self.folder, "-c", "listen_addresses=", "-c", "fsync=off")

    def answers(self):
        return subprocess.run(self.command("pg_isready", "-h", self.folder, "-q"), check=False, cwd="/").returncode == 0

    def uri(self, database="postgres"):
        return f"postgresql://kernelcast@/{database}?host={self.folder}"

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
