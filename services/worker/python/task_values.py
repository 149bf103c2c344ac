"""What a task passes to its reference and to candidates: tensors, and what holds them.

A tree describes such a value. A leaf is {"dtype", "shape"}, {"value"}, {"torch": [kind, text]} or {"size": [...]}; what
holds others is {"tuple": [...]}, {"list": [...]}, {"dict": [[key, tree], ...]}, or {"class": [module, name], "fields":
[[name, tree], ...]} for an object. The worker sees the tensors of a tree in its order.

The judge does not know all types of PyTorch. A leaf with "as" is a tensor of that type, which the judge keeps as
"dtype": an input as bytes, an output in a wider type that has all of its values.
"""

import collections
import dataclasses
import importlib
import importlib.abc
import importlib.machinery
import inspect
import json
import linecache
import sys
import types

# Types that the judge does not know, and those in which it keeps outputs.
KEPT_OUTPUTS = {"float8_e4m3fnuz": "float16", "float8_e5m2fnuz": "float16", "float8_e8m0fnu": "float32"}
# What a module of PyTorch holds besides its parameters, buffers, modules and attributes: functions.
HOOKS = ("_hooks", "_hooks_with_kwargs", "_hooks_always_called", "_pre_hooks")


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


def is_plain(value):
    """Whether an object is what its attributes are."""
    kind = type(value)
    if kind is types.SimpleNamespace:
        return True
    own = [base for base in kind.__mro__ if base is not object]
    made_by_class_statement = all(base.__flags__ & 1 << 9 and not base.__dict__.get("__slots__") for base in own)
    return made_by_class_statement and kind.__new__ is object.__new__ and hasattr(value, "__dict__")


def module_parts(module):
    """The head and the fields of a module of PyTorch."""
    internal = vars(torch.nn.Module())
    held = vars(module)
    if any(content for name, content in held.items() if name in internal and name.endswith(HOOKS)):
        raise TaskError(f"an input is a {type(module).__name__} with hooks; modules with hooks are not supported")
    parameters, buffers, modules = held["_parameters"], held["_buffers"], held["_modules"]
    head = {
        "training": module.training,
        "parameters": {name: value is not None and value.requires_grad for name, value in parameters.items()},
        "buffers": {name: name not in held["_non_persistent_buffers_set"] for name in buffers},
        "modules": list(modules),
    }
    attributes = [(name, content) for name, content in held.items() if name not in internal]
    return {"module": head}, [*parameters.items(), *buffers.items(), *modules.items(), *attributes]


def opened(value):
    """What a value that holds others is: the key of what it holds in its tree, the tree's other keys, and pairs of name
    and value. None for other values.
    """
    kind = type(value)
    if kind in (tuple, list):
        return kind.__name__, {}, list(enumerate(value))
    if kind in (dict, collections.OrderedDict) and all(isinstance(key, (str, int)) for key in value):
        return "dict", {} if kind is dict else {"ordered": True}, list(value.items())
    head, names = {}, field_names(value)
    if names is not None:
        fields = [(name, getattr(value, name)) for name in names]
    elif isinstance(value, torch.nn.Module):
        head, fields = module_parts(value)
    elif is_plain(value):
        fields = list(vars(value).items())
    else:
        return None
    return "fields", {"class": [kind.__module__, kind.__qualname__], **head}, fields


def module_of(kind, fields, head):
    made = object.__new__(kind)
    torch.nn.Module.__init__(made)
    made.training = head["training"]
    held = vars(made)
    for name, content in fields.items():
        if name in head["parameters"]:
            if content is not None:
                content = torch.nn.Parameter(content, requires_grad=head["parameters"][name])
            held["_parameters"][name] = content
        elif name in head["buffers"]:
            held["_buffers"][name] = content
            if not head["buffers"][name]:
                held["_non_persistent_buffers_set"].add(name)
        elif name in head["modules"]:
            held["_modules"][name] = content
        else:
            held[name] = content
    return made


def object_of(kind, fields, head):
    """Creates an object with these fields. No constructor of its class runs."""
    if issubclass(kind, tuple):
        return tuple.__new__(kind, fields.values())
    if "module" in head:
        return module_of(kind, fields, head["module"])
    made = kind.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


def closed(place, head, items, kind=None):
    """The reverse of opened. `kind` is the class where it is known."""
    if place in ("tuple", "list"):
        return (tuple if place == "tuple" else list)(value for _, value in items)
    if place == "dict":
        return collections.OrderedDict(items) if "ordered" in head else dict(items)
    return object_of(kind or class_named(*head["class"]), dict(items), head)


def name_of(what, place, key):
    return f"{what}.{key}" if place == "fields" else f"{what}[{key!r}]"


def leaf_of(tensor, kept):
    """`kept` gives the type in which the judge keeps one that it does not know."""
    name = dtype_name(tensor.dtype)
    leaf = {"dtype": kept[name], "as": name} if name in KEPT_OUTPUTS else {"dtype": name}
    return dict(leaf, shape=list(tensor.shape))


def output_leaf(tensor):
    return leaf_of(tensor, KEPT_OUTPUTS)


def result_dtype(leaf):
    """The type of a leaf's tensor for the task's code."""
    return getattr(torch, leaf.get("as", leaf["dtype"]))


def stored(tensor):
    """An input as the judge keeps it."""
    return tensor.view(torch.uint8) if dtype_name(tensor.dtype) in KEPT_OUTPUTS else tensor


def tree_of(what, value):
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            raise TaskError(f"{what} has the layout {value.layout}; only dense tensors are supported")
        leaf = leaf_of(value, collections.defaultdict(lambda: "uint8"))
        if not value.is_contiguous() and is_packed(value):
            leaf["strides"] = list(value.stride())
        return leaf
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"value": value}
    if isinstance(value, (torch.dtype, torch.device)):
        return {"torch": [type(value).__name__, dtype_name(value)]}
    if isinstance(value, torch.Size):
        return {"size": list(value)}
    found = opened(value)
    if found is None:
        raise TaskError(
            f"{what} is a {type(value).__name__}; allowed are tensors, numbers, strings and None, and tuples, lists, dicts, "
            "dataclasses, named tuples, modules of PyTorch and objects with attributes of these"
        )
    place, head, items = found
    if place == "fields":
        kind = type(value)
        if class_named(*head["class"]) is not kind:
            raise TaskError(f"{what} is a {kind.__qualname__}, which module {kind.__module__} does not have")
    trees = [(key, tree_of(name_of(what, place, key), item)) for key, item in items]
    return {**head, place: [tree for _, tree in trees] if place in ("tuple", "list") else [*map(list, trees)]}


def is_described(values, trees):
    """Whether the trees still describe the values."""
    try:
        return [tree_of("input", value) for value in values] == trees
    except TaskError:
        return False


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


def held_values(value):
    found = opened(value)
    if found is not None:
        return [item for _, item in found[2]]
    return value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()


def tensors(values):
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        else:
            yield from tensors(held_values(value))


def build(tree, given):
    """The value of a tree. `given` has its tensors."""
    if "dtype" in tree:
        return next(given).view(result_dtype(tree)) if "as" in tree else next(given)
    if "torch" in tree:
        kind, text = tree["torch"]
        return getattr(torch, text) if kind == "dtype" else torch.device(text)
    if "size" in tree:
        return torch.Size(tree["size"])
    for place in ("tuple", "list"):
        if place in tree:
            return closed(place, tree, [(None, build(child, given)) for child in tree[place]])
    for place in ("dict", "fields"):
        if place in tree:
            return closed(place, tree, [(key, build(child, given)) for key, child in tree[place]])
    return tree["value"]


def mapped(function, value):
    """Applies the function to each tensor. Copies what holds the tensors."""
    if isinstance(value, torch.Tensor):
        return function(value)
    found = opened(value)
    if found is not None:
        place, head, items = found
        return closed(place, head, [(key, mapped(function, item)) for key, item in items], type(value))
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

    def is_private(self, module, name):
        """Whether the process of a candidate cannot import this class."""
        return module in self.private_modules

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
