"""What stands for Triton while a candidate is recorded. It notes launches, and keeps the source of their kernels."""

import ast
import builtins
import inspect
import textwrap

MAX_TENSORS, MAX_LAUNCHES, MAX_OPERATIONS = 64, 64, 1024
# Integers up to this are exact in launches.
MAX_EXACT = 2**53


class NotRecorded(Exception):
    """The candidate does something that launches as data cannot express."""


class Recorder:
    def __init__(self):
        self.reason = None  # the first one; a candidate may catch the exception
        self.ranges = {}  # of integers, by storage
        self.needed = 0  # bytes, of a reference
        self.start()

    def start(self):
        self.launches, self.operations, self.kept, self.buffers, self.tensors = [], {}, [], {}, []
        # By storage, each with a tensor, so that its address is not used again: what the call was given, with the bytes
        # that it reads of it, and what it made.
        self.given, self.made = {}, {}

    def refuse(self, reason):
        self.reason = self.reason or reason
        raise NotRecorded(reason)


RECORDER = Recorder()


def refusing(reason):
    def refuse(*args, **kwargs):
        RECORDER.refuse(reason)

    return refuse


class Name:
    """Something of Triton that host code only passes on, or that kernels use."""

    def __init__(self, path):
        self.__dict__["path"] = path

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Name(f"{self.path}.{name}")

    def __call__(self, *args, **kwargs):
        RECORDER.refuse(f"calls {self.path} on the host")

    def __repr__(self):
        return self.path

    def __eq__(self, other):
        return isinstance(other, Name) and other.path == self.path

    def __hash__(self):
        return hash(self.path)


class Constexpr:
    def __init__(self, value):
        self.value = value.value if isinstance(value, Constexpr) else value

    def __class_getitem__(cls, item):
        return cls

    def __index__(self):
        return self.value

    def __bool__(self):
        return bool(self.value)

    def __int__(self):
        return int(self.value)

    def __float__(self):
        return float(self.value)


for operator in ("add", "radd", "sub", "rsub", "mul", "rmul", "floordiv", "rfloordiv", "mod", "lt", "le", "gt", "ge", "eq"):

    def apply(self, other, name=f"__{operator}__"):
        return getattr(self.value, name)(other.value if isinstance(other, Constexpr) else other)

    setattr(Constexpr, f"__{operator}__", apply)
Constexpr.__hash__ = lambda self: hash(self.value)


def is_constexpr(annotation):
    return annotation is Constexpr or "constexpr" in (annotation if isinstance(annotation, str) else "")


# Arguments of a launch that are no parameters of the kernel. Those without effect here are left out.
OPTIONS = ("num_warps", "num_stages", "num_ctas")
IGNORED_OPTIONS = ("maxnreg", "enable_fp_fusion", "stream", "debug", "launch_cooperative_grid", "launch_pdl", "device")


class Kernel:
    """A function with @triton.jit."""

    def __init__(self, function, configurations=None, heuristics=()):
        self.fn = function
        self.__name__ = function.__name__
        self.__module__ = function.__module__
        self.signature = inspect.signature(function)
        self.arg_names = list(self.signature.parameters)
        self.configuration = configurations[0] if configurations else None
        self.heuristics = heuristics

    def __getitem__(self, grid):
        return lambda *args, **kwargs: self.run(*args, grid=grid, **kwargs)

    def __call__(self, *args, **kwargs):
        RECORDER.refuse(f"calls kernel '{self.__name__}' without a grid")

    warmup = preload = refusing("compiles kernels ahead of their launch")

    def run(self, *args, grid, warmup=False, **kwargs):
        if warmup:
            self.warmup()
        options = {}
        if self.configuration is not None:
            if self.configuration.pre_hook is not None:
                RECORDER.refuse(f"kernel '{self.__name__}' has a pre_hook")
            options.update(self.configuration.options)
            kwargs = {**self.configuration.kwargs, **kwargs}
        options.update({name: kwargs.pop(name) for name in OPTIONS if name in kwargs and name not in self.arg_names})
        for name in IGNORED_OPTIONS:
            if name not in self.arg_names:
                kwargs.pop(name, None)
        given = dict(zip(self.arg_names, args))
        given.update(kwargs)
        for name, value in self.heuristics:
            given[name] = value(dict(given))
        bound = self.signature.bind(**given)
        bound.apply_defaults()
        values = bound.arguments
        if callable(grid):
            grid = grid({**values, **options})
        launch = self.launch(grid, values, options)
        if 0 in launch["grid"]:
            return
        RECORDER.launches.append(launch)
        if len(RECORDER.launches) > MAX_LAUNCHES:
            RECORDER.refuse(f"launches more than {MAX_LAUNCHES} kernels")

    def launch(self, grid, values, options):
        if options.get("num_ctas", 1) not in (1, None):
            RECORDER.refuse(f"kernel '{self.__name__}' uses clusters of blocks")
        sizes = [whole(size) for size in (grid if isinstance(grid, (tuple, list)) else (grid,))]
        arguments, constants, fixed = [], {}, set()
        for name, parameter in self.signature.parameters.items():
            value = values[name]
            if is_constexpr(parameter.annotation):
                constants[name] = constant(name, value)
            elif value is None or isinstance(value, (bool, Constexpr)):
                # A kernel cannot take these as data.
                constants[name] = constant(name, value)
                fixed.add(name)
            else:
                arguments.append(argument(name, value))
        return {
            "kernel": SOURCE.add_launched(self, frozenset(fixed)),
            "grid": sizes,
            "arguments": arguments,
            "constants": constants,
            "num_warps": options.get("num_warps") or 0,
            "num_stages": options.get("num_stages") or 0,
        }


def whole(value):
    if isinstance(value, Constexpr):
        value = value.value
    if isinstance(value, bool) or not isinstance(value, int):
        RECORDER.refuse(f"has a grid of {type(value).__name__}")
    return value


def plain(name, value):
    """The number or text itself, without a class of its own."""
    if isinstance(value, (bool, str)):
        return value
    if not abs(value) <= MAX_EXACT:
        RECORDER.refuse(f"passes {value} as '{name}' to a kernel")
    return int(value) if isinstance(value, int) else float(value)


def constant(name, value):
    if isinstance(value, Constexpr):
        value = value.value
    if isinstance(value, Name):
        prefix = "triton.language."
        if value.path.startswith(prefix):
            return {"kind": "type", "value": value.path.removeprefix(prefix)}
    if value is None:
        return {"kind": "none"}
    for kind, wanted in (("bool", bool), ("int", int), ("float", float), ("text", str)):
        if isinstance(value, wanted):
            return {"kind": kind, "value": plain(name, value)}
    RECORDER.refuse(f"constexpr '{name}' is a {type(value).__name__}")


def argument(name, value):
    if isinstance(value, torch.Tensor):
        return {"tensor": buffer_of(value)}
    if isinstance(value, (int, float)):
        return {"int" if isinstance(value, int) else "float": plain(name, value)}
    RECORDER.refuse(f"passes a {type(value).__name__} as '{name}' to a kernel")


def storage_of(tensor):
    with torch._C.DisableTorchFunction():
        return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()


def buffer_of(tensor):
    """The index of the memory from where the tensor begins to the end of its storage."""
    storage = storage_of(tensor)
    key = (storage._cdata, tensor.storage_offset(), tensor.dtype)
    if key not in RECORDER.buffers:
        RECORDER.buffers[key] = len(RECORDER.tensors)
        RECORDER.kept.append(tensor)
        elements = storage.nbytes() // tensor.element_size() - tensor.storage_offset()
        described = {"dtype": dtype_name(tensor.dtype), "elements": elements}
        if storage._cdata in RECORDER.ranges:
            described["low"], described["high"] = RECORDER.ranges[storage._cdata][:2]
        RECORDER.tensors.append(described)
        if len(RECORDER.tensors) > MAX_TENSORS:
            RECORDER.refuse(f"passes more than {MAX_TENSORS} tensors to kernels")
    return RECORDER.buffers[key]


class KernelSource:
    """A module with the launched kernels and all that they use, and nothing else."""

    def __init__(self):
        self.lines = {}  # definitions by name, in order
        self.made = {}  # names of launched variants, by kernel and the parameters that are made constants

    def text(self):
        return "import triton\nimport triton.language\n" + "".join(f"{line}\n" for line in self.lines.values())

    def add_launched(self, kernel, fixed):
        key = (kernel.fn, fixed)
        if key not in self.made:
            name = kernel.__name__ if not fixed else f"{kernel.__name__}_{len(self.made)}"
            self.define(name, self.function_text(kernel, name, fixed))
            self.made[key] = name
        return self.made[key]

    def define(self, name, line):
        if self.lines.get(name, line) != line:
            RECORDER.refuse(f"has kernels that use different values of '{name}'")
        self.lines[name] = line

    def function_text(self, kernel, name, fixed):
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(kernel.fn)))
        except (OSError, SyntaxError):
            RECORDER.refuse(f"kernel '{kernel.__name__}' has no source")
        function = tree.body[0]
        if not isinstance(function, ast.FunctionDef):
            RECORDER.refuse(f"kernel '{kernel.__name__}' is no plain function")
        function.name = name
        function.decorator_list = [ast.parse("triton.jit", mode="eval").body]
        parameters = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
        for parameter in parameters:
            constant = is_constexpr(kernel.signature.parameters[parameter.arg].annotation) or parameter.arg in fixed
            parameter.annotation = ast.parse("triton.language.constexpr", mode="eval").body if constant else None
        function.args.defaults = function.args.kw_defaults = []
        function.args.args, function.args.kwonlyargs = function.args.posonlyargs + function.args.args, function.args.kwonlyargs
        function.args.posonlyargs = []
        self.add_defaults(kernel, function)
        local = {parameter.arg for parameter in parameters}
        cells = inspect.getclosurevars(kernel.fn).nonlocals
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in local:
                if node.id in cells:
                    self.add_global(kernel, node.id, cells[node.id])
                elif node.id in kernel.fn.__globals__:
                    self.add_global(kernel, node.id, kernel.fn.__globals__[node.id])
        return ast.unparse(function)

    @staticmethod
    def add_defaults(kernel, function):
        """Of helpers; launches give all values."""
        given = [kernel.signature.parameters[p.arg].default for p in function.args.args]
        given = given[next((i for i, value in enumerate(given) if value is not inspect.Parameter.empty), len(given)) :]
        for value in given:
            value = value.value if isinstance(value, Constexpr) else value
            text = value.path if isinstance(value, Name) else repr(value)
            try:
                function.args.defaults.append(ast.parse(text, mode="eval").body)
            except SyntaxError:
                RECORDER.refuse(f"kernel '{kernel.__name__}' has a default of type {type(value).__name__}")
        function.args.kw_defaults = [None] * len(function.args.kwonlyargs)

    def add_global(self, kernel, name, value):
        if name in ("triton", "tl") and isinstance(value, types.ModuleType) and value.__name__ == name:
            return
        if isinstance(value, Kernel):
            if name not in self.lines:
                self.lines[name] = ""  # it may call itself
                text = self.function_text(value, name, frozenset())
                del self.lines[name]
                self.lines[name] = text
            return
        if isinstance(value, types.ModuleType):
            if value.__name__ not in sys.stdlib_module_names and not value.__name__.startswith("triton"):
                RECORDER.refuse(f"kernel '{kernel.__name__}' uses module {value.__name__}")
            self.define(name, f"import {value.__name__} as {name}")
        elif isinstance(value, Name):
            self.define(name, f"{name} = {value.path}")
        elif value is Constexpr:
            self.define(name, f"{name} = triton.language.constexpr")
        elif isinstance(value, Constexpr) and isinstance(value.value, (int, float, str, type(None))):
            self.define(name, f"{name} = triton.language.constexpr({value.value!r})")
        elif isinstance(value, (int, float, str, type(None))):
            self.define(name, f"{name} = {value!r}")
        elif getattr(builtins, name, None) is not value:
            RECORDER.refuse(f"kernel '{kernel.__name__}' uses '{name}', which is a {type(value).__name__}")


SOURCE = KernelSource()


class Config:
    def __init__(self, kwargs, num_warps=4, num_stages=3, num_ctas=1, maxnreg=None, pre_hook=None, **unused):
        self.kwargs, self.pre_hook = dict(kwargs), pre_hook
        self.num_warps, self.num_stages, self.num_ctas = num_warps, num_stages, num_ctas
        self.options = {"num_warps": num_warps, "num_stages": num_stages, "num_ctas": num_ctas}


def jit(function=None, **options):
    return Kernel(function) if function is not None else Kernel


def autotune(configs, key=None, **options):
    return lambda kernel: Kernel(kernel.fn, list(configs), kernel.heuristics)


def heuristics(values):
    def decorate(kernel):
        made = Kernel(kernel.fn, None, tuple(values.items()) + tuple(kernel.heuristics))
        made.configuration = kernel.configuration
        return made

    return decorate


HOST_FUNCTIONS = {
    "triton": {
        "__version__": "3.6.0",
        "jit": jit,
        "autotune": autotune,
        "heuristics": heuristics,
        "Config": Config,
        "cdiv": lambda a, b: -(-a // b),
        "next_power_of_2": lambda n: 1 << max(0, n - 1).bit_length(),
    },
    "triton.language": {"constexpr": Constexpr},
}


class TritonModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes every module of Triton, without what is in it."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] != "triton":
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        path = module.__name__
        module.__dict__.update(HOST_FUNCTIONS.get(path, {}))
        if path == "triton":
            import triton.language
        if path == "triton.runtime":
            module.__dict__.update({"JITFunction": Kernel})

        def find(name):
            if name.startswith("__"):
                raise AttributeError(name)
            return Name(f"{path}.{name}")

        module.__getattr__ = find
