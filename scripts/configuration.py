#!/usr/bin/env python3
"""Generates docs/reference/configuration.md from the --help of the services.

    scripts/configuration.py [FOLDER] [--check]

FOLDER holds the programs, build/ci/bin by default. --check fails where the page is stale, with exit code 77 where the
programs were built without the cuda target.
"""

import difflib
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs/reference/configuration.md")
SERVICES = ("orchestrator", "forecaster", "worker")
HTTP_SERVICES = ("gateway",)
HEAD = """\
# Configuration

Flags of the services. `scripts/configuration.py` generates this page from `--help`.

`--config FILE` reads flags from a YAML file, by their names without dashes. The command line overrides the file. Unknown
names are refused. Flags of `kernelcast` are in [command line](cli.md), the format of `--llm-config` is in
[model endpoints](../howto/llm.md#configuration), and values of the chart are in its
[README](../../helm/kernelcast/README.md).

```yaml
listen: 0.0.0.0:50051
metrics: 0.0.0.0:9464
drain-seconds: 60
```
"""
# Option, type with default and remarks, description. CLI11 puts the description into column 30, or onto the next line
# where the option is longer.
OPTION = re.compile(r"^  (?:-\w,)?(--[\w-]+) ?(.*)$")
COLUMN = 30


def options(text):
    """(flag, values, default, description) of each option."""
    found = []
    lines = text.splitlines()
    for line, following in zip(lines, [*lines[1:], ""]):
        match = OPTION.match(line)
        if not match:
            continue
        name = match.group(1)
        if following.startswith(" " * COLUMN):
            kind, description = match.group(2), following
        else:
            kind, description = line[:COLUMN].split(name, 1)[1], line[COLUMN:]
        if name not in ("--help", "--version", "--config"):
            found.append(split(name, kind.strip(), description.strip()))
    return found


def split(name, kind, description):
    """Takes CLI11's notation, such as "INT:INT in [1 - 256]=8 REQUIRED", apart."""
    required = " REQUIRED" in kind
    variable = re.search(r" \(Env:(\w+)\)", kind)
    if variable:
        kind = kind.replace(variable.group(), "")
        description += f" [{variable.group(1)} of the environment]"
    kind = re.sub(r" (REQUIRED|Needs:.*)", "", kind)
    kind, _, default = kind.partition("=")
    many = kind.endswith(" ...")
    kind = kind.removesuffix(" ...")
    limits = re.search(r"in \[(.*?) - (.*?)\]", kind)
    choices = re.search(r"\{(.*?)\}", kind)
    words = []
    if limits:
        words.append(f"{limits.group(1)} to {limits.group(2)}")
    elif choices:
        words.append(", ".join(f"`{one}`" for one in choices.group(1).split(",")))
    elif ":POSITIVE" in kind:
        words.append("above 0")
    elif ":NONNEGATIVE" in kind:
        words.append("0 or more")
    if many:
        words.append("may be repeated")
    if required:
        words.append("required")
    return name, "; ".join(words), default, description.replace("|", "\\|")


def table(rows):
    lines = ["| flag | default | values | description |", "|---|---|---|---|"]
    for name, values, default, description in rows:
        lines.append(f"| `{name}` | {f'`{default}`' if default else ''} | {values} | {description} |")
    return "\n".join(lines) + "\n"


def page(helps):
    parsed = {service: options(helps[service]) for service in SERVICES}
    names = [{row[0] for row in parsed[service]} for service in SERVICES]
    common = set.intersection(*names)
    # A default that differs stands with each service.
    for name in list(common):
        if len({row[1:3] for rows in parsed.values() for row in rows if row[0] == name}) > 1:
            common.discard(name)
    text = HEAD + "\n## All gRPC services\n\n" + table([row for row in parsed[SERVICES[0]] if row[0] in common])
    for service in SERVICES:
        text += f"\n## `kernelcast-{service}`\n\n"
        text += table([row for row in parsed[service] if row[0] not in common])
    for service in HTTP_SERVICES:
        text += f"\n## `kernelcast-{service}`\n\nServes HTTP. All of its flags:\n\n" + table(options(helps[service]))
    return text


def main():
    arguments = [one for one in sys.argv[1:] if one != "--check"]
    programs = arguments[0] if arguments else os.path.join(ROOT, "build/ci/bin")
    helps = {service: subprocess.run([os.path.join(programs, f"kernelcast-{service}"), "--help"], capture_output=True,
                                     text=True, check=True).stdout for service in SERVICES + HTTP_SERVICES}
    new = page(helps)
    if "--check" not in sys.argv:
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(new)
        return 0
    if "`--cuda-home`" not in new:
        print("the programs were built without the cuda target")
        return 77
    with open(PAGE, encoding="utf-8") as file:
        old = file.read()
    sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), "configuration.md", "--help"))
    if old != new:
        print("docs/reference/configuration.md is stale; scripts/configuration.py writes it")
    return int(old != new)


if __name__ == "__main__":
    sys.exit(main())
