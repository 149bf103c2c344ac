"""Prints what an interpreter needs to import and run a compiler, one fact per line. Follows the program of a language."""

import importlib
import importlib.metadata
import os
import sys
import sysconfig

if sys.version_info < (3, 10):
    sys.exit("Python 3.10 or later is needed")
import_compiler()

# compile_server.py imports these. They load shared libraries.
for module in ("ctypes", "select", "socket", "struct", "resource"):
    importlib.import_module(module)

# Folders of other packages.
OTHERS = ("site-packages", "dist-packages")

library = [os.path.dirname(os.__file__), sysconfig.get_config_var("DESTSHARED")]
library = [os.path.realpath(folder) for folder in library if folder]
packages = []
# Whole folders: without leave to list a folder, Python finds no module in it.
shown = list(library)


def is_beneath(path, folders):
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def show_distributions(name):
    for distribution in importlib.metadata.packages_distributions().get(name, []):
        packages.append(str(importlib.metadata.distribution(distribution)._path))


# The compiler, and what it imported from outside the standard library.
for name, module in sorted(sys.modules.items()):
    file = getattr(module, "__file__", None)
    if not file or "." in name or name.startswith("_") or name in ("sitecustomize", "usercustomize"):
        continue
    path = os.path.dirname(file) if os.path.basename(file).startswith("__init__.") else file
    if is_beneath(os.path.realpath(path), library) and not any(other in path for other in OTHERS):
        continue
    packages.append(path)
    show_distributions(name)

# Shared libraries, under each of their names. A link may be in the folder of another library.
with open("/proc/self/maps") as maps:
    fields = [line.split(maxsplit=5) for line in maps]
mapped = {field[5].strip() for field in fields if len(field) == 6}
libraries = sorted(path for path in mapped if path.startswith("/") and os.path.isfile(path))
names = {path: [path] for path in libraries}
for folder in sorted({os.path.dirname(path) for path in libraries}):
    for entry in os.scandir(folder):
        if entry.is_symlink():
            names.get(os.path.realpath(entry.path), []).append(entry.path)
for name in (name for path in libraries for name in names[path]):
    shown.append(name)
    # Where /lib is a link to /usr/lib, the loader uses the shorter path.
    if name.startswith("/usr/lib") and os.path.exists(name[4:]):
        shown.append(name[4:])

shown += FILES
print("program", os.path.realpath(sys.executable))
print("version", sys.modules[PACKAGE].__version__)
print("python", "%d.%d.%d" % sys.version_info[:3])
for path in packages:
    print("package", path)
for path in packages + shown:
    print("show", path)
