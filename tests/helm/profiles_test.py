#!/usr/bin/env python3
"""Checks the profiles of deploy/kubernetes: what they refuse, and that the sandbox has all protections with them.

    profiles_test.py --programs FOLDER [TEST ...]

The seccomp profile is loaded by libseccomp, as container runtimes do. --programs is the folder of Kernelcast's programs.
"""

import argparse
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SECCOMP = os.path.join(ROOT, "deploy/kubernetes/seccomp/kernelcast-worker.json")
APPARMOR = os.path.join(ROOT, "deploy/kubernetes/apparmor/kernelcast-worker")
USER = 10001
# Of the sandbox; runtimes refuse them to pods without CAP_SYS_ADMIN.
NEEDED = {"mount", "mount_setattr", "pivot_root", "umount2", "unshare"}
# Of Linux's attack surface, which no part of a worker uses.
REFUSED = {"bpf", "delete_module", "finit_module", "init_module", "io_uring_enter", "io_uring_register", "io_uring_setup", "keyctl",
           "kexec_load", "move_mount", "open_by_handle_at", "open_tree", "perf_event_open", "reboot", "setns", "swapon", "userfaultfd"}
options = None


class Condition(ctypes.Structure):
    _fields_ = [("index", ctypes.c_uint), ("op", ctypes.c_int), ("first", ctypes.c_uint64), ("second", ctypes.c_uint64)]


OPS = {"SCMP_CMP_NE": 1, "SCMP_CMP_EQ": 4, "SCMP_CMP_MASKED_EQ": 7}


def action(name, number):
    return {"SCMP_ACT_ALLOW": 0x7FFF0000, "SCMP_ACT_ERRNO": 0x00050000 | (number or 1)}[name]


def load(profile):
    """Applies an OCI profile to this process, for ever."""
    library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_rule_add_array.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p]
    library.seccomp_load.argtypes = [ctypes.c_void_p]
    filters = library.seccomp_init(action(profile["defaultAction"], profile["defaultErrnoRet"]))
    for rule in profile["syscalls"]:
        arguments = rule.get("args", [])
        conditions = (Condition * len(arguments))(*(
            Condition(one["index"], OPS[one["op"]], one["value"], one.get("valueTwo", 0)) for one in arguments))
        for name in rule["names"]:
            call = library.seccomp_syscall_resolve_name(name.encode())
            # Runtimes skip names that are unknown to them, too.
            if call < 0:
                continue
            status = library.seccomp_rule_add_array(filters, action(rule["action"], rule.get("errnoRet")), call, len(arguments),
                                                    conditions)
            if status != 0:
                raise OSError(-status, name)
    if library.seccomp_load(filters) != 0:
        raise OSError("seccomp_load")


class ProfilesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(SECCOMP, encoding="utf-8") as file:
            cls.profile = json.load(file)

    def without(self, *names):
        """The profile, with these calls refused, as runtimes' own profiles do."""
        rules = [{**rule, "names": [name for name in rule["names"] if name not in names]} for rule in self.profile["syscalls"]]
        return {**self.profile, "syscalls": [rule for rule in rules if rule["names"]]}

    def run_with(self, profile, command, folder):
        def enter():
            # As in a pod: no privilege, and none to be gained.
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(USER, USER, USER)
                os.setresuid(USER, USER, USER)
            ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
            if profile:
                load(profile)
        return subprocess.run(command, cwd=folder, env={"HOME": folder, "PATH": "/usr/bin:/bin"}, preexec_fn=enter, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False)

    def test_a_name_stands_once_and_the_rest_is_refused(self):
        names = [name for rule in self.profile["syscalls"] if not rule.get("args") for name in rule["names"]]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(self.profile["defaultAction"], "SCMP_ACT_ERRNO")
        every = {name for rule in self.profile["syscalls"] for name in rule["names"]}
        self.assertLessEqual(NEEDED, every)
        self.assertEqual(REFUSED & every, set())

    def test_only_namespaces_of_the_sandbox_are_permitted(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            def unshare(*flags):
                return self.run_with(self.profile, ["unshare", "--user", *flags, "true"], folder).returncode
            if self.run_with(None, ["unshare", "--user", "true"], folder).returncode != 0:
                self.skipTest("this machine permits no user namespaces")
            self.assertEqual(unshare("--mount", "--net", "--ipc", "--uts"), 0)
            for flag in ("--pid", "--cgroup", "--time"):
                self.assertNotEqual(unshare(flag), 0, flag)

    def test_the_sandbox_has_all_protections_with_the_profile_and_lacks_namespaces_without(self):
        def doctor(profile):
            with tempfile.TemporaryDirectory() as folder:
                os.chmod(folder, 0o777)
                result = self.run_with(profile, [os.path.abspath(os.path.join(options.programs, "kernelcast")), "doctor", "--json",
                                                 f"--state-dir={folder}/state"], folder)
            checks = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
            found = {one["check"]: one for one in checks if "check" in one}
            missing = {name for name in found if name.startswith("runner ")}
            return missing, found["runner"]["detail"]
        machine, _ = doctor(None)
        missing, conclusion = doctor(self.profile)
        self.assertEqual(missing, machine)
        if not machine:
            self.assertIn("all protections granted", conclusion)
        missing, conclusion = doctor(self.without(*NEEDED))
        self.assertEqual(missing, machine | {"runner namespaces"})
        if not machine:
            self.assertIn("still contain a candidate", conclusion)

    def test_the_apparmor_profile_has_the_name_of_the_example_and_permits_what_the_sandbox_needs(self):
        with open(APPARMOR, encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(re.findall(r"^profile (\S+) ", text, re.MULTILINE), [os.path.basename(APPARMOR)])
        self.assertLessEqual({"userns", "mount", "remount", "umount", "pivot_root"},
                             set(re.findall(r"^  (\w+),$", text, re.MULTILINE)))


def main():
    global options
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", required=True)
    options, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
