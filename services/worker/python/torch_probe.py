"""Prints what an interpreter needs to import and run PyTorch, one fact per line."""

import os
import sys
import sysconfig

if sys.version_info < (3, 10):
    sys.exit("Python 3.10 or later is needed")
import torch

packages = [path for path in sys.path if path and os.path.isdir(path)]
standard = os.path.dirname(os.__file__)
packages = [path for path in packages if os.path.realpath(path) != os.path.realpath(standard)]
shown = packages + [standard, sysconfig.get_config_var("DESTSHARED")]
# Libraries load others by name while they run, such as those of linear algebra.
with open("/proc/self/maps") as maps:
    mapped = {line.split(maxsplit=5)[5].strip() for line in maps if len(line.split(maxsplit=5)) == 6}
shown += sorted({os.path.dirname(path) for path in mapped if path.startswith("/") and ".so" in path})

# PyTorch reads these when it is imported and when it chooses instructions.
shown += ["/dev/urandom", "/proc/cpuinfo", "/sys/devices/system/cpu"]

# Where an environment has its programs, such as ninja.
print("tools", os.path.dirname(sys.executable))
print("program", os.path.realpath(sys.executable))
print("version", torch.__version__)
if torch.version.cuda:
    print("cuda", torch.version.cuda)
print("python", "%d.%d.%d" % sys.version_info[:3])
for path in packages:
    print("package", path)
for path in dict.fromkeys(path for path in shown if path):
    print("show", path)
