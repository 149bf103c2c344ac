"""What a task passes to its reference and to candidates: tensors, and what holds them.

A tree describes such a value. A leaf is {"dtype", "shape"} or {"value"}; what holds others is {"tuple": [...]},
{"list": [...]}, {"dict": [[key, tree], ...]}, or {"class": [module, name], "fields": [[name, tree], ...]} for a
dataclass or a named tuple. The worker sees the tensors of a tree in its order.
"""

import dataclasses
import importlib
import importlib.abc
import importlib.machinery
import inspect
import json
import linecache
import sys


def is_packed(tensor):
    """Whether a tensor's elements fill its memory, in whatever order."""
    expected = 1
    for stride, size in sorted((t, s) for t, s in zip(tensor.stride(), tensor.shape) if s != 1):
        if stride != expected:
            return False
        expected *= size
    return True


def field_names(value):
    """The names of the fields of a dataclass or a named tuple; None for other values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [field.name for field in dataclasses.fields(value) if hasattr(value, field.name)]
    return getattr(type(value), "_fields", None) if isinstance(value, tuple) else None


def class_named(module, name):
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def object_of(kind, fields):
    """Creates a dataclass or a named tuple with these fields. A dataclass's constructor does not run."""
    if issubclass(kind, tuple):
        return tuple.__new__(kind, fields.values())
    made = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


def tree_of(what, value):
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            raise TaskError(f"{what} has the layout {value.layout}; only dense tensors are supported")
        leaf = {"dtype": dtype_name(value.dtype), "shape": list(value.shape)}
        if not value.is_contiguous() and is_packed(value):
            leaf["strides"] = list(value.stride())
        return leaf
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"value": value}
    names = field_names(value)
    if names is not None:
        kind = type(value)
        if class_named(kind.__module__, kind.__qualname__) is not kind:
            raise TaskError(f"{what} is a {kind.__qualname__}, which module {kind.__module__} does not have")
        fields = [[name, tree_of(f"{what}.{name}", getattr(value, name))] for name in names]
        return {"class": [kind.__module__, kind.__qualname__], "fields": fields}
    if type(value) in (tuple, list):
        return {type(value).__name__: [tree_of(f"{what}[{i}]", item) for i, item in enumerate(value)]}
    if type(value) is dict and all(isinstance(key, (str, int)) for key in value):
        return {"dict": [[key, tree_of(f"{what}[{key!r}]", item)] for key, item in value.items()]}
    raise TaskError(f"{what} is a {type(value).__name__}; allowed are tensors, numbers, strings and None, "
                    "and tuples, lists, dicts, dataclasses and named tuples of these")


def children(tree):
    for kind in ("tuple", "list"):
        if kind in tree:
            return tree[kind]
    return [child for _, child in tree.get("dict", tree.get("fields", ()))]


def classes(trees):
    """Yields (module, name) of each dataclass and named tuple."""
    for tree in trees:
        if "class" in tree:
            yield tuple(tree["class"])
        yield from classes(children(tree))


def leaves(trees):
    """The leaves of tensors, in order."""
    for tree in trees:
        if "dtype" in tree:
            yield tree
        yield from leaves(children(tree))


def tensors(values):
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif field_names(value) is not None:
            yield from tensors(getattr(value, name) for name in field_names(value))
        elif isinstance(value, dict):
            yield from tensors(value.values())
        elif isinstance(value, (tuple, list)):
            yield from tensors(value)


def build(tree, given):
    """The value of a tree. `given` has its tensors."""
    if "dtype" in tree:
        return next(given)
    if "tuple" in tree:
        return tuple(build(child, given) for child in tree["tuple"])
    if "list" in tree:
        return [build(child, given) for child in tree["list"]]
    if "dict" in tree:
        return {key: build(child, given) for key, child in tree["dict"]}
    if "fields" in tree:
        return object_of(class_named(*tree["class"]), {key: build(child, given) for key, child in tree["fields"]})
    return tree["value"]


def mapped(function, value):
    """Applies the function to each tensor. Copies what holds the tensors."""
    if isinstance(value, torch.Tensor):
        return function(value)
    names = field_names(value)
    if names is not None:
        return object_of(type(value), {name: mapped(function, getattr(value, name)) for name in names})
    if isinstance(value, dict):
        return {key: mapped(function, item) for key, item in value.items()}
    return type(value)(mapped(function, item) for item in value) if isinstance(value, (tuple, list)) else value


class TaskFormat:
    """What the formats of tasks share. One that lists its cases passes them to make_inputs(seed, case)."""

    # Whether the candidate takes its outputs as its last arguments.
    passes_outputs = False
    # Whether it may count on zeros in them.
    zeroed_outputs = False
    # Whether candidates of the format may do so.
    may_pass_outputs = False
    # Where tensors are made.
    device = "cpu"
    # Whether this process has the code that makes inputs.
    makes_inputs = True
    # Modules that the process of a candidate cannot import.
    private_modules = ()

    def cases(self):
        return [{}]

    def held_out_cases(self, seed):
        """Sizes that no case has. None where sizes may depend on each other or on values."""
        return []

    def names(self):
        """Of inputs and outputs, where the format names them."""
        return [], []

    def outputs_of(self, result):
        return outputs_of(result)


class Sources(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports modules from texts: {"kernel.py": "...", "parts/a.py": "..."}."""

    def __init__(self, texts):
        self.files = {}
        for path, text in texts.items():
            if path.endswith(".py"):
                name = path.removesuffix(".py").replace("/", ".")
                self.files[name.removesuffix(".__init__")] = (path, text)
        # Folders without __init__.py are packages too.
        self.folders = {name.rsplit(".", i)[0] for name in self.files for i in range(1, name.count(".") + 1)}
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        if name not in self.files and name not in self.folders:
            return None
        package = name in self.folders or self.files[name][0].endswith("__init__.py")
        return importlib.machinery.ModuleSpec(name, self, is_package=package)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        path, text = self.files.get(module.__name__, (module.__name__, ""))
        module.__file__ = path
        # inspect finds the text through linecache.
        linecache.cache[path] = (len(text), None, text.splitlines(True), path)
        exec(compile(text, path, "exec"), module.__dict__)
