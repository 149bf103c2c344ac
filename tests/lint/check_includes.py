#!/usr/bin/env python3
"""Checks that dependencies point one way.

    common <- <service>/core <- <service>'s adapters <- <service>/rpc <- <service>/main.cc

Services never include one another, common/ includes no service, and each third-party library is included only by the
folders listed below. core/ may include only common/base, common/domain and common/calibration, so it is pure by
induction: no gRPC, database, generated proto or network in it.
"""

import fnmatch
import os
import re
import sys

# The folders of common/ that each folder of common/ may include, besides itself.
COMMON = {
    "base": [],
    "candidate_abi": [],
    "domain": ["base"],
    "calibration": ["base", "domain"],
    "convert": ["base", "domain"],
    "llm": ["base", "tracing"],
    "llm_flags": ["base", "llm"],
    "llm_metrics": ["base", "llm", "metrics"],
    "prompt": ["base", "domain"],
    "process": ["base"],
    "sqlite": ["base"],
    "metrics": ["base"],
    "pages": ["base"],
    "tracing": ["base"],
    "otlp": ["base", "metrics", "tracing"],
    "rpc": ["base", "metrics", "tracing"],
    "config": ["base", "metrics", "otlp", "rpc"],
}

# Folders of a service that are not adapters. A file includes its own layer and lower ones.
LAYERS = {"core": 0, "rpc": 2, "main": 3}
ADAPTER = 1
CLI_LAYERS = {"core": 0, "rpc": 1, "commands": 2, "main": 3}

# The folders of common/ allowed in folders that must stay small; others may include all of it.
COMMON_FOR = {
    "services/*/core": ["base", "domain", "calibration", "tracing"],
    "services/worker/judge": ["base", "domain"],
    "services/worker/runner": ["base", "candidate_abi", "domain"],
}

# Folders of a service that include only common/ and themselves, with the order of their own folders: what each may
# include besides itself and the files at the top, which include none of them.
CLOSED = {
    "services/worker/virtual_gpu": {
        "execute": [],
        "bind": ["execute"],
        "parse": ["bind"],
        "estimate": ["execute"],
    },
}

# Third-party headers: name, pattern of the include, files that may include it.
EXTERNAL = [
    ("gRPC", r"(grpc|grpcpp|grpc\+\+)/", ["common/rpc/*", "services/*/rpc/*", "services/*/clients/*",
                                          "services/*/main.cc", "services/cli/launch/*",
                                          "services/cli/commands/*"]),
    ("the protobuf library", r"google/protobuf/(?!.*\.pb\.h$)", [
        "common/convert/*", "common/rpc/*", "services/*/convert/*", "services/*/rpc/*",
        "services/*/store/*", "services/cli/*"]),
    ("generated protobuf", r".*\.pb\.h$", [
        "common/convert/*", "services/*/convert/*", "services/*/rpc/*", "services/*/clients/*",
        "services/*/store/*", "services/*/main.cc", "services/cli/[!c]*",
        "services/cli/commands/*"]),
    ("yaml-cpp", r"yaml-cpp/", ["common/domain/*.cc", "common/domain/yaml_tree.h",
                                "common/config/*.cc", "common/llm/*.cc", "common/rpc/*.cc"]),
    ("muParser", r"muParser", ["common/domain/*.cc"]),
    ("SQLite", r"sqlite3", ["common/sqlite/*", "services/*/store/*"]),
    ("libpq", r"libpq", ["services/*/store/*"]),
    ("curl", r"curl/", ["common/llm/*.cc", "common/otlp/*.cc"]),
    ("civetweb", r"(civetweb|CivetServer)", ["common/pages/*"]),
    ("libmicrohttpd", r"(microhttpd|gnutls/)", ["services/gateway/http/*.cc"]),
    ("simdjson", r"simdjson", ["common/llm/*.cc"]),
    ("CUDA", r"(cuda|nvml|nvrtc|cupti|nvJitLink)", ["services/worker/cuda/*"]),
    ("XGBoost", r"xgboost/", ["services/forecaster/embedded/*"]),
    ("prometheus-cpp", r"prometheus/", ["common/metrics/*"]),
    ("CLI11", r"CLI/", ["common/config/*", "common/llm_flags/*", "services/*/main.cc",
                        "services/cli/commands/*"]),
    ("OpenSSL", r"openssl/", ["common/base/*.cc", "common/rpc/*.cc", "services/cli/report/*.cc"]),
    ("Boost", r"boost/", ["common/domain/student_t.cc"]),
    ("Eigen", r"Eigen/", ["common/calibration/*.cc", "services/forecaster/embedded/*.cc"]),
    ("JSON", r"nlohmann/", ["common/*", "services/*"]),
    ("Abseil", r"absl/", ["common/*", "services/*"]),
    ("libseccomp", r"seccomp", ["services/worker/cpu/*", "services/worker/sandbox/*"]),
    ("Catch2", r"catch2/", ["tests/*"]),
]

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
SOURCE = (".h", ".cc", ".inc")


def includes(text):
    """Yields (line, '"' or '<', path)."""
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1), match.group(2)


def folder_of(path):
    """"common/base", "services/worker/core", "services/worker/main" or, for tests, "tests"."""
    parts = path.split("/")
    if parts[0] == "services" and len(parts) > 2:
        return "/".join(parts[:3]) if len(parts) > 3 else "/".join(parts[:2]) + "/main"
    if parts[0] == "common" and len(parts) > 2:
        return "/".join(parts[:2])
    return parts[0]


def layer_of(folder):
    _, service, name = folder.split("/")
    return (CLI_LAYERS if service == "cli" else LAYERS).get(name, ADAPTER)


def why_not_within(path, included, order):
    """The same within a closed folder."""
    source, target = ((p.split("/")[3:-1] or [""])[0] for p in (path, included))
    if target in ("", source) or target in order.get(source, []):
        return None
    where = folder_of(path)
    return f"{where}/{source} may not depend on {where}/{target}" if source else \
        f"the files at the top of {where} include none of its folders"


def why_not(path, included):
    """The reason why the file `path` may not include the project's file `included`, or None."""
    source, target = folder_of(path), folder_of(included)
    if source in CLOSED:
        if source == target:
            return why_not_within(path, included, CLOSED[source])
        if not target.startswith("common/"):
            return f"{source} includes only common/ and itself"
    if source == target:
        return None
    if target == "tests":
        return None if source == "tests" else "only tests include tests"
    if source == "tests":
        unit = path.split("/")
        if unit[1] != "unit" or target.startswith("common/"):
            return None
        if unit[2] == "common":
            return "a unit test of common/ includes no service"
        if unit[2] == "services" and target.split("/")[1] != unit[3]:
            return "a unit test includes one service only"
        return None
    if source.startswith("common/"):
        if not target.startswith("common/"):
            return "common/ includes nothing but common/"
        if target.split("/")[1] in COMMON.get(source.split("/")[1], []):
            return None
        return f"{source} may not depend on {target}"
    if source.startswith("services/"):
        if target.startswith("common/"):
            for pattern, allowed in COMMON_FOR.items():
                if fnmatch.fnmatch(source, pattern) and target.split("/")[1] not in allowed:
                    return f"{source} may include of common/ only {', '.join(allowed)}"
            return None
        if not target.startswith("services/"):
            return f"{source} may not include {target}/"
        if source.split("/")[1] != target.split("/")[1]:
            return "services meet through proto/ only"
        if layer_of(target) > layer_of(source):
            return f"{source} is below {target}"
        if target.endswith("/main"):
            return "main.cc is included by nobody"
        return None
    return None


def cycles(edges):
    """Cycles in {folder: {folder: example}}, as lists of folders."""
    found, state, stack = [], {}, []

    def visit(node):
        state[node] = "open"
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if state.get(other) == "open":
                found.append(stack[stack.index(other):] + [other])
            elif other not in state:
                visit(other)
        stack.pop()
        state[node] = "done"

    for node in sorted(edges):
        if node not in state:
            visit(node)
    return found


def check(root):
    """Returns the violations in the tree at `root`, each as "file:line: what"."""
    problems, edges = [], {}
    for top in ("common", "services", "tests"):
        for directory, folders, names in os.walk(os.path.join(root, top)):
            folders.sort()
            for name in sorted(names):
                if not name.endswith(SOURCE):
                    continue
                path = os.path.relpath(os.path.join(directory, name), root)
                with open(os.path.join(root, path), encoding="utf-8") as file:
                    text = file.read()
                if path.startswith("common/") and len(path.split("/")) > 2 and \
                        path.split("/")[1] not in COMMON:
                    problems.append(f"{path}:1: check_includes.py does not say what "
                                    f"{folder_of(path)} may include")
                for line, mark, included in includes(text):
                    where = f"{path}:{line}: \"{included}\": "
                    ours = os.path.exists(os.path.join(root, included))
                    if ours and mark == "<":
                        problems.append(where + "files of this project are included in quotes")
                    if ours:
                        reason = why_not(path, included)
                        if reason:
                            problems.append(where + reason)
                        source, target = folder_of(path), folder_of(included)
                        if source != target and "tests" not in (source, target):
                            edges.setdefault(source, {})[target] = where
                        continue
                    libraries = [e for e in EXTERNAL if re.match(e[1], included)]
                    for library, _, allowed in libraries:
                        if not path.startswith("tests/") and \
                                not any(fnmatch.fnmatch(path, a) for a in allowed):
                            problems.append(where + f"{library} is not included here")
                    if mark == '"' and not libraries:
                        problems.append(where + "no such file from the root of the project")
    for cycle in cycles(edges):
        problems.append(edges[cycle[0]][cycle[1]] + "closes the cycle " + " -> ".join(cycle))
    return problems


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    problems = check(root)
    print("\n".join(problems) if problems else "every include points the right way")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
