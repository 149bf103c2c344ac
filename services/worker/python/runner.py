"""Runs the reference or a candidate of a Python task for the judge. Not meant to be started by hand.

    PYTHON -I -S -c SOURCE LIBRARY PACKAGES... -- READABLE...

LIBRARY is the native part (runner_library.cc). PACKAGES are folders to import from, and READABLE what
the process may read. Descriptor 6 holds the program, as python_program.h describes it.
"""

import ctypes
import json
import linecache
import os
import random
import sys
import traceback
import types

PROGRAM = 6
SEED = 42


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


class Case(ctypes.Structure):
    _fields_ = [("tensors", ctypes.POINTER(DLTensor)), ("inputs", ctypes.c_int32), ("outputs", ctypes.c_int32)]


class TaskError(Exception):
    """The task or the candidate does not have the form that its format asks for."""


def import_torch():
    global torch, numpy
    import torch

    try:
        import numpy
    except ImportError:
        numpy = None
    # The process is bound to one core.
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)


def seed_all(seed):
    torch.manual_seed(seed)
    random.seed(seed)
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def load(name, source):
    """Runs a source as a module. inspect finds its text through linecache."""
    module = types.ModuleType(name)
    module.__file__ = name + ".py"
    sys.modules[name] = module
    linecache.cache[module.__file__] = (len(source), None, source.splitlines(True), module.__file__)
    exec(compile(source, module.__file__, "exec"), module.__dict__)
    return module


def on_cpu(device):
    return "cpu" if str(device).startswith("cuda") else device


def remap_devices():
    """Tasks often name a GPU, which the cpu target does not have."""

    class OnCpu(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            kwargs = dict(kwargs or {})
            if kwargs.get("device") is not None:
                kwargs["device"] = on_cpu(kwargs["device"])
            name = getattr(function, "__name__", "")
            if name == "cuda":
                return args[0]
            if name == "to":
                args = tuple(on_cpu(a) if isinstance(a, (str, torch.device)) else a for a in args)
            return function(*args, **kwargs)

    return OnCpu()


class KernelBench:
    """class Model, get_inputs() and get_init_inputs(); a candidate has class ModelNew."""

    def __init__(self, source):
        self.module = load("task", source)
        for name in ("Model", "get_inputs", "get_init_inputs"):
            if not callable(self.module.__dict__.get(name)):
                raise TaskError(f"the task does not define {name}")

    def make_inputs(self, seed):
        seed_all(seed)
        return list(self.module.get_inputs())

    def construct(self, model):
        # KernelBench seeds before each constructor, so that the weights of both agree.
        seed_all(SEED)
        arguments = self.module.get_init_inputs()
        seed_all(SEED)
        return model(*arguments)

    def reference(self):
        return self.construct(self.module.Model)

    def candidate(self, source):
        module = load("candidate", source)
        if not callable(module.__dict__.get("ModelNew")):
            raise TaskError("the candidate does not define class ModelNew")
        return self.construct(module.ModelNew)


FORMATS = {"kernelbench": KernelBench}


def dtype_name(dtype):
    return str(dtype).removeprefix("torch.")


def describe_value(what, value):
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            raise TaskError(f"{what} has the layout {value.layout}; only dense tensors are supported")
        return {"dtype": dtype_name(value.dtype), "shape": list(value.shape)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"value": value}
    raise TaskError(f"{what} is a {type(value).__name__}; allowed are tensors, numbers, strings and None")


def outputs_of(result):
    if isinstance(result, (tuple, list)):
        return list(result)
    return [result]


def view(memory, spec):
    """A tensor over the judge's memory."""
    dtype = getattr(torch, spec["dtype"])
    count = 1
    for size in spec["shape"]:
        count *= size
    data = (ctypes.c_char * (count * torch.empty((), dtype=dtype).element_size())).from_address(memory.data)
    return torch.frombuffer(data, dtype=dtype, count=count).view(spec["shape"])


class Program:
    def __init__(self, given, library):
        self.given = given
        self.cases = []
        for index in range(library.kernelcast_case_count()):
            case = library.kernelcast_case(index).contents
            self.cases.append([case.tensors[t] for t in range(case.inputs + case.outputs)])

    def arguments(self, case):
        """The arguments of a call, over the judge's memory."""
        tensors = iter(case)
        return [
            view(next(tensors), spec) if "dtype" in spec else spec["value"] for spec in self.given["inputs"]
        ]

    def results(self, case):
        return [
            view(memory, dict(spec, dtype=self.output_dtype(memory, spec)))
            for memory, spec in zip(case[-len(self.given["outputs"]) :], self.given["outputs"])
        ]

    @staticmethod
    def output_dtype(memory, spec):
        # Expected values of floating-point outputs are kept in double precision.
        wide = memory.code in (2, 4) and memory.bits == 64
        return "float64" if wide else spec["dtype"]


class Describe:
    """Writes what the task's inputs and outputs are, as JSON, to the only output."""

    def __init__(self, given, library):
        task = FORMATS[given["format"]](given["task"])
        with remap_devices():
            inputs = task.make_inputs(SEED)
            model = task.reference()
        found = {"inputs": [describe_value(f"get_inputs()[{i}]", value) for i, value in enumerate(inputs)]}
        outputs = outputs_of(model(*inputs))
        found["outputs"] = []
        for i, value in enumerate(outputs):
            if not isinstance(value, torch.Tensor):
                raise TaskError(f"output {i} is a {type(value).__name__}; only tensors are supported")
            found["outputs"].append(describe_value(f"output {i}", value))
        self.text = json.dumps(found).encode()
        self.place = library.kernelcast_case(0).contents.tensors[0]

    def __call__(self, index):
        if len(self.text) + 1 > self.place.shape[0]:
            raise TaskError("the task has too many inputs or outputs")
        ctypes.memmove(self.place.data, self.text + b"\0", len(self.text) + 1)
        return 0


class Inputs(Program):
    """Writes the inputs that a seed gives."""

    def __init__(self, given, library):
        super().__init__(given, library)
        self.task = FORMATS[given["format"]](given["task"])

    def __call__(self, index):
        case = self.cases[index]
        seed = ctypes.c_int64.from_address(case[0].data).value
        with remap_devices():
            made = self.task.make_inputs(seed)
        wanted = [spec for spec in self.given["inputs"] if "dtype" in spec]
        tensors = [value for value in made if isinstance(value, torch.Tensor)]
        if [describe_value("input", tensor) for tensor in tensors] != wanted:
            raise TaskError("get_inputs() gives other dtypes or shapes with another seed")
        for memory, spec, tensor in zip(case[1:], wanted, tensors):
            view(memory, spec).copy_(tensor)
        return 0


class Run(Program):
    """Calls the model. Its results are copied to the judge's memory."""

    def __init__(self, given, library):
        super().__init__(given, library)
        calls = [(self.arguments(case), self.results(case)) for case in self.cases]
        outputs = [(getattr(torch, spec["dtype"]), torch.Size(spec["shape"])) for spec in given["outputs"]]
        task = FORMATS[given["format"]](given["task"])
        with remap_devices():
            if given["role"] == "candidate":
                model = task.candidate(given["candidate"])
            else:
                model = task.reference()
        Tensor, copy = torch.Tensor, torch.Tensor.copy_

        def call(index):
            arguments, places = calls[index]
            results = outputs_of(model(*arguments))
            if len(results) != len(places):
                raise TaskError(f"{len(results)} outputs instead of {len(places)}")
            for i, (result, place) in enumerate(zip(results, places)):
                if not isinstance(result, Tensor):
                    raise TaskError(f"output {i} is a {type(result).__name__} instead of a tensor")
                if (result.dtype, result.shape) != outputs[i]:
                    raise TaskError(
                        f"output {i} is {dtype_name(result.dtype)} {list(result.shape)} instead of "
                        f"{dtype_name(outputs[i][0])} {list(outputs[i][1])}"
                    )
                copy(place, result)
            return 0

        self.call = call


def print_error(error):
    """Prints the frames of the task and the candidate, not those of this file."""
    if isinstance(error, TaskError):
        print(error, file=sys.stderr)
        return
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename != "<string>"]
    text = traceback.format_list(own) + traceback.format_exception_only(type(error), error)
    print("".join(text), file=sys.stderr)


def main():
    sys.dont_write_bytecode = True
    split = sys.argv.index("--")
    library = ctypes.PyDLL(sys.argv[1])
    packages, readable = sys.argv[2:split], sys.argv[split + 1 :]
    library.kernelcast_case.restype = ctypes.POINTER(Case)
    given = json.loads(os.pread(PROGRAM, os.fstat(PROGRAM).st_size, 0))
    library.kernelcast_map()
    library.kernelcast_hide_files((ctypes.c_char_p * len(readable))(*[p.encode() for p in readable]), len(readable))
    sys.path += packages
    import_torch()
    library.kernelcast_restrict()
    try:
        if given["role"] == "describe":
            call = Describe(given, library)
        elif given["role"] == "inputs":
            call = Inputs(given, library)
        else:
            call = Run(given, library).call

        def guarded(index):
            try:
                return call(index)
            except BaseException as error:
                print_error(error)
                sys.stderr.flush()
                os._exit(1)

        library.kernelcast_serve(ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_uint32)(guarded))
    except BaseException as error:
        print_error(error)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


main()
