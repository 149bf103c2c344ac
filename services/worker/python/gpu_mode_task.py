"""GPU MODE's folders: generate_input, ref_kernel and check_implementation in reference.py."""

import ast
import dis

REFERENCE_FUNCTIONS = {"generate_input", "ref_kernel", "check_implementation"}


def bound_names(node):
    """The names that a statement of a module defines, without those in functions and classes."""
    if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    if isinstance(node, (ast.If, ast.Try, ast.With)):
        return set().union(*(bound_names(n) for n in ast.iter_child_nodes(node)))
    if isinstance(node, ast.ExceptHandler):
        return set().union(*map(bound_names, node.body))
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def needed_names(code):
    """The names that code looks up in its module, in its functions and classes too."""
    lookups = ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM")
    found = {one.argval for one in dis.get_instructions(code) if one.opname.startswith(lookups)}
    return found.union(*(needed_names(inner) for inner in code.co_consts if isinstance(inner, types.CodeType)))


def is_main_block(node):
    return isinstance(node, ast.If) and any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(node.test))


def source_of_classes(source, names):
    """The statements of a module that its classes `names` need; None if they need the reference or what checks it."""
    body = [node for node in ast.parse(source).body if not is_main_block(node)]
    kept, wanted, known = set(), set(names), set()
    while wanted - known:
        name = (wanted - known).pop()
        known.add(name)
        for i, node in enumerate(body):
            bound = bound_names(node)
            if (name in bound or "*" in bound) and i not in kept:
                if bound & REFERENCE_FUNCTIONS:
                    return None
                kept.add(i)
                wanted |= needed_names(compile(ast.Module([node], []), "reference.py", "exec"))
    # A docstring and "from __future__ import" are needed by no name.
    future = [i for i, node in enumerate(body) if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    return "\n".join(ast.unparse(body[i]) for i in sorted(kept.union(future)))


class GpuMode(TaskFormat):
    """custom_kernel(data) is a candidate's."""

    def __init__(self, given):
        details = json.loads(given["details"])
        self.given_cases = details["cases"]
        self.modules = details["modules"]
        self.makes_inputs = given["role"] != "candidate"
        self.classes_known = {}
        if not self.makes_inputs:
            self.hide_reference(given.get("cases", ()))
        Sources(self.modules)
        self.module = importlib.import_module("reference") if self.makes_inputs else None

    def hide_reference(self, cases):
        """Leaves of reference.py what a candidate's process has: the classes of inputs, and nothing if there are none.
        The reference and the format's own checker are never there.
        """
        reference = self.modules.pop("reference.py")
        found = {one for case in cases for one in classes(case["inputs"])}
        names = {name.split(".")[0] for module, name in found if module == "reference"}
        if names:
            self.modules["reference.py"] = source_of_classes(reference, names)

    def is_private(self, module, name):
        if module != "reference":
            return False
        name = name.split(".")[0]
        if name not in self.classes_known:
            self.classes_known[name] = self.loads_alone(name)
        return not self.classes_known[name]

    def loads_alone(self, name):
        source = source_of_classes(self.modules["reference.py"], {name})
        try:
            return source is not None and name in vars(load("reference_classes", source))
        except Exception:
            return False

    def cases(self):
        return self.given_cases

    def names(self):
        return ["data"], []

    def make_inputs(self, seed, case):
        seed_all(seed)
        arguments = dict(case["arguments"])
        if "seed" in arguments:
            arguments["seed"] = seed
        return [self.module.generate_input(**arguments)]

    def reference(self):
        return self.module.ref_kernel

    def check(self, data, output):
        """None, or why the output is wrong. Old checkers return a text, which is empty where it is right."""
        verdict = self.module.check_implementation(data, output)
        if isinstance(verdict, tuple):
            good, message = verdict
            return None if good else str(message) or "refused"
        return str(verdict) or None if isinstance(verdict, str) else None if verdict else "refused"

    def candidate(self, source):
        function = load("submission", source).__dict__.get("custom_kernel")
        if not callable(function):
            raise TaskError("the candidate does not define custom_kernel")
        return function
