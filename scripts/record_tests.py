#!/usr/bin/env python3
"""Adds the results of a ctest run to a file of records, one JSON object per line.

    record_tests.py JUNIT_XML RECORDS

A record has the test, its result, its duration, the date, the commit, the machine, and how many processes wanted to run
in the last 15 minutes on average (load).
"""

import datetime
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree

RESULTS = {"run": "passed", "fail": "failed", "notrun": "skipped", "disabled": "skipped"}


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        name = re.search(r"^model name\s*: (.*)$", file.read(), re.MULTILINE)
    return name.group(1).strip() if name else os.uname().machine


def main():
    junit, records = sys.argv[1:]
    commit = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=8", "--exclude=*"],
                            capture_output=True, text=True, check=True).stdout.strip()
    machine = f"{processor()}, {os.cpu_count()} cores"
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    with open(records, "a", encoding="utf-8") as file:
        for case in xml.etree.ElementTree.parse(junit).getroot().iter("testcase"):
            json.dump({"date": today, "commit": commit, "machine": machine, "test": case.get("name"),
                       "result": RESULTS[case.get("status")], "seconds": round(float(case.get("time")), 1),
                       "load": round(os.getloadavg()[2], 1)}, file)
            file.write("\n")


if __name__ == "__main__":
    main()
