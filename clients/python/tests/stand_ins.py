"""Stand-ins for packages that a program imports and does not use."""

import importlib.abc
import importlib.machinery
import sys
import types
from unittest import mock


class _Module(types.ModuleType):
    """Classes are empty and fit pydantic's models. Functions return mocks, and those that ask for a package False."""

    __path__, __version__ = (), "99"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name[0].isupper():
            value = type(name, (), {"__get_pydantic_core_schema__": lambda *_: {"type": "any"}})
        else:
            value = mock.MagicMock(return_value=False if name.startswith("is_") else mock.DEFAULT)
        setattr(self, name, value)
        return value


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, packages):
        self.packages = packages

    def find_spec(self, name, path=None, target=None):
        inside = any(f"{name}.".startswith(f"{package}.") for package in self.packages)
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if inside else None

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        pass


def install(*packages):
    """Makes these packages and all their modules importable in this process, whether or not they are installed."""
    sys.meta_path.insert(0, _Finder(packages))
