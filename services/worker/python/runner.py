"""Runs the reference or a candidate of a Python task for the judge. Not meant to be started by hand.

    PYTHON -I -S -c SOURCE LIBRARY PACKAGES... -- READABLE...

This process imports PyTorch and waits on descriptor 3 for the worker, which asks for copies of it
(zygote.h). A copy serves one program: its descriptor 6 holds it, as python_task.h describes it. LIBRARY
is the native part (runner_library.cc). PACKAGES are folders to import from, and READABLE what a copy may
read. SOURCE starts with the files of the formats, of draws and of facts: task_values.py,
definition_task.py, gpu_mode_task.py, gpu_mode_eval.py, reference_facts.py and task_draws.py.
"""

import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import linecache
import math
import os
import random
import socket
import struct
import sys
import tempfile
import traceback
import types

# The zygote's socket. A copy has the descriptors that the worker passes in its place.
CONTROL = 3
MOST_DESCRIPTORS = 8
PROGRAM = 6
SEED = 42
# The exit code of a candidate whose result is in the judge's memory (task_programs.h).
TOOK_OUTPUT_MEMORY = 113
# The exit codes of a candidate whose outputs have another form, shape or dtype than the reference's, and of one whose
# kernels do not compile (task_programs.h).
WRONG_FORM, WRONG_SHAPE, WRONG_DTYPE, NOT_COMPILED = 114, 117, 118, 115


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


class TookOutputMemory(TaskError):
    """A candidate's result is in memory that only the judge has given to this process."""


class WrongForm(TaskError):
    """An output of the candidate has another dtype, shape or kind than the reference's."""

    def __init__(self, why, exit_code=WRONG_FORM):
        super().__init__(why)
        self.exit_code = exit_code


def form_of(dtype, shape):
    return f"{dtype_name(dtype)} {list(shape)}"


def form_checks(specs, device):
    """Functions that refuse another number of outputs, and an output that is not as its spec says.

    They are made before any code of a candidate runs, and hold what they need.
    """
    names = [f"output {spec['name']}" if "name" in spec else f"output {i}" for i, spec in enumerate(specs)]
    kinds = [(result_dtype(spec), torch.Size(spec["shape"])) for spec in specs]
    # A subclass could compute its values when they are copied.
    Tensor, Parameter, strided = torch.Tensor, torch.nn.Parameter, torch.strided

    def check_count(results):
        if len(results) != len(kinds):
            raise WrongForm(f"{len(results)} outputs instead of {len(kinds)}")

    def check(i, result):
        if type(result) is not Tensor and type(result) is not Parameter:
            raise WrongForm(f"{names[i]} is a {type(result).__name__} instead of a tensor")
        if result.device.type != device:
            raise WrongForm(f"{names[i]} is on {result.device} instead of the device ({device})")
        if result.layout is not strided:
            raise WrongForm(f"{names[i]} is a {dtype_name(result.layout)} tensor instead of a dense one")
        if (result.dtype, result.shape) != kinds[i]:
            why = f"{names[i]} is {form_of(result.dtype, result.shape)} instead of {form_of(*kinds[i])}"
            raise WrongForm(why, WRONG_DTYPE if result.shape == kinds[i][1] else WRONG_SHAPE)

    return check_count, check, [shape for _, shape in kinds]


class OutputMemory:
    """The judge's memory for outputs, in one piece. A candidate that finds it could save the copy of its results."""

    def __init__(self):
        self.begin, self.end = sys.maxsize, 0
        Tensor = torch.Tensor
        self.address, self.strides, self.element_bytes = Tensor.data_ptr, Tensor.stride, Tensor.element_size

    def add(self, address, count):
        self.begin, self.end = min(self.begin, address), max(self.end, address + count)

    def refuse(self, result, shape):
        """`shape` is that of the result, which is not empty and has a storage."""
        address = self.address(result)
        if address >= self.end:
            return
        last = sum([(size - 1) * stride for size, stride in zip(shape, self.strides(result))])
        if address + (last + 1) * self.element_bytes(result) > self.begin and address != 0:
            raise TookOutputMemory("a result is in the judge's own memory")


def import_torch():
    global torch, numpy
    import torch

    try:
        import numpy
    except ImportError:
        numpy = None
    # The process is bound to one core, and may not start threads. Asking for more waits for them for ever.
    torch.set_num_threads(1)
    torch.set_num_threads = torch.set_num_interop_threads = lambda count: None
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

    class CpuGenerator(torch.Generator):
        def __new__(cls, device="cpu"):
            return super().__new__(cls, on_cpu(device))

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

    stack = contextlib.ExitStack()
    for place, name, replacement in (
        (torch, "Generator", CpuGenerator),
        (torch.cuda, "synchronize", lambda device=None: None),
    ):
        stack.callback(setattr, place, name, getattr(place, name))
        setattr(place, name, replacement)
    stack.enter_context(OnCpu())
    return stack


def parameter_names(function):
    """Of a function's positional parameters; none where that is not known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


class KernelBench(TaskFormat):
    """class Model, get_inputs() and get_init_inputs(); a candidate has class ModelNew."""

    def __init__(self, given):
        self.module = load("task", given["task"])
        for name in ("Model", "get_inputs", "get_init_inputs"):
            if not callable(self.module.__dict__.get(name)):
                raise TaskError(f"the task does not define {name}")

    def make_inputs(self, seed, case):
        seed_all(seed)
        return list(self.module.get_inputs())

    def names(self):
        return parameter_names(getattr(self.module.Model, "forward", None))[1:], []

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


FORMATS = {
    "kernelbench": KernelBench,
    "flashinfer_bench": FlashInferBench,
    "sol_execbench": SolExecBench,
    "gpu_mode": GpuMode,
    "gpu_mode_eval": GpuModeEval,
}


def dtype_name(dtype):
    return str(dtype).removeprefix("torch.")


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
    flat = torch.frombuffer(data, dtype=dtype, count=count)
    return flat.as_strided(spec["shape"], spec["strides"]) if "strides" in spec else flat.view(spec["shape"])


def compiled(model):
    """The reference as PyTorch compiles it by default."""
    if not hasattr(torch, "compile"):
        raise TaskError(f"PyTorch {torch.__version__} has no torch.compile")
    return torch.compile(model)


class Program:
    def __init__(self, given, library):
        self.given = given
        self.cases = []
        for index, spec in enumerate(given["calls"]):
            case = library.kernelcast_case(index).contents
            self.cases.append(([case.tensors[t] for t in range(case.inputs + case.outputs)], given["cases"][spec]))

    @staticmethod
    def input_views(memory, spec):
        return [view(place, leaf) for place, leaf in zip(memory, leaves(spec["inputs"]))]

    def output_views(self, memory, spec, skipped=0):
        places = memory[len(memory) - len(spec["outputs"]) - skipped :]
        return [view(m, dict(leaf, dtype=self.output_dtype(m, leaf))) for m, leaf in zip(places, spec["outputs"])]

    @staticmethod
    def output_dtype(memory, spec):
        # Expected values of floating-point outputs are kept in double precision.
        wide = memory.code in (2, 4) and memory.bits == 64
        return "float64" if wide else spec["dtype"]


class Describe:
    """Writes what the task's cases, inputs and outputs are, as JSON, to the only output."""

    def __init__(self, given, library):
        task = FORMATS[given["format"]](given)
        with remap_devices():
            found = self.describe_all(task, task.reference(), given["held_out_seed"])
        self.text = json.dumps(found).encode()
        self.place = library.kernelcast_case(0).contents.tensors[0]

    @classmethod
    def describe_all(cls, task, reference, held_out_seed):
        own_errors = OwnErrors(reference)
        found = [cls.describe(task, reference, own_errors, case, timed=True) for case in task.cases()]
        for case in task.held_out_cases(held_out_seed):
            found.append(dict(cls.describe(task, reference, own_errors, case), axes=case["axes"]))
        return {"cases": found, "weights": weight_leaves(reference)}

    @staticmethod
    def form(task, reference, case):
        """What the tensors of a call are, the inputs that it had and its outputs."""
        inputs = task.make_inputs(SEED, case)
        given = list(tensors(inputs))
        before = [tensor._version for tensor in given]
        trees = [tree_of(f"input {i}", value) for i, value in enumerate(inputs)]
        result = reference(*inputs)
        outputs = task.outputs_of(result)
        names = task.names()
        found = {"case": case, "inputs": trees, "outputs": [], "single": isinstance(result, torch.Tensor)}
        found["changed"] = not is_described(inputs, trees)
        for tree, name in zip(trees, names[0]):
            tree["name"] = name
        for module, name in classes(found["inputs"]):
            if task.is_private(module, name):
                raise TaskError(f"an input holds a {name} of module {module}, which candidates do not have")
        found["written"] = [i for i, tensor in enumerate(given) if tensor._version != before[i]]
        for i, value in enumerate(outputs):
            if not isinstance(value, torch.Tensor):
                raise TaskError(f"output {i} is a {type(value).__name__}; only tensors are supported")
            found["outputs"].append(output_leaf(value))
            if task.may_pass_outputs and "as" in found["outputs"][i]:
                raise TaskError(f"output {i} is {dtype_name(value.dtype)}, which no candidate can take as an argument")
            if names[1]:
                found["outputs"][i]["name"] = names[1][i]
        return found, inputs, outputs

    @classmethod
    def describe(cls, task, reference, own_errors, case, timed=False):
        found, inputs, outputs = cls.form(task, reference, case)
        fresh = task.make_inputs(SEED, case) if found["written"] or found["changed"] else inputs
        found["own_errors"] = own_errors(task.outputs_of, fresh, outputs)
        found["noise"] = rounding_noise(reference, task.outputs_of, fresh, outputs)
        if timed:
            found["bytes"] = least_bytes(
                reference, task.outputs_of, lambda: task.make_inputs(SEED, case), found["noise"]
            )
            found["flops"] = count_flops(reference, task.make_inputs(SEED, case))
        return found

    def __call__(self, index):
        if len(self.text) + 1 > self.place.shape[0]:
            raise TaskError("the task has too many cases, inputs or outputs")
        ctypes.memmove(self.place.data, self.text + b"\0", len(self.text) + 1)
        return 0


def named_weights(model):
    """Pairs of the name and the tensor of each parameter and buffer of a module. None of other callables."""
    if not isinstance(model, torch.nn.Module):
        return
    for path, module in model.named_modules(remove_duplicate=False):
        for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
            if tensor is not None and tensor.layout == torch.strided and tensor.numel() > 0:
                yield f"{path}.{name}" if path else name, tensor.detach()


def weight_leaves(model):
    return [
        {"name": name, "dtype": dtype_name(tensor.dtype), "shape": list(tensor.shape)}
        for name, tensor in named_weights(model)
    ]


def make_on_cpu(task, seed, case):
    with remap_devices():
        return task.make_inputs(seed, case)


class Inputs(Program):
    """Writes the inputs that a seed gives, and flags about them over the seed."""

    def __init__(self, given, library):
        super().__init__(given, library)
        self.draws = Draws(lambda: FORMATS[given["format"]](given), make_on_cpu)

    def __call__(self, index):
        memory, spec = self.cases[index]
        seed = ctypes.c_int64.from_address(memory[0].data)
        made, flags = self.draws.draw(seed.value, spec["case"], index)
        found = leaves([tree_of("input", value) for value in made])
        if [(leaf["dtype"], leaf["shape"]) for leaf in found] != [
            (leaf["dtype"], leaf["shape"]) for leaf in leaves(spec["inputs"])
        ]:
            raise TaskError("the task makes inputs of other dtypes or shapes with another seed")
        for place, tensor in zip(self.input_views(memory[1:], spec), tensors(made)):
            place.copy_(stored(tensor))
        seed.value = flags
        return 0


def refusal(task, spec, inputs, outputs):
    """Why the task's own code refuses copies of these outputs; None if it accepts them."""
    given = iter(inputs)
    data = [mapped(torch.Tensor.clone, build(tree, given)) for tree in spec["inputs"]]
    outputs = [output.to(result_dtype(leaf), copy=True) for output, leaf in zip(outputs, spec["outputs"])]
    seed_all(SEED)
    try:
        return task.check(*data, outputs[0] if spec["single"] else tuple(outputs))
    except Exception as error:
        # For example an index that is out of range.
        return f"{type(error).__name__}: {error}"


def message_of(reason, limit):
    return (reason or "").encode(errors="replace")[: limit - 1] + b"\0"


class Check(Program):
    """Lets the task's own code decide about a candidate's outputs. No code of the candidate is in this process."""

    def __init__(self, given, library):
        super().__init__(given, library)
        self.task = FORMATS[given["format"]](given)

    def __call__(self, index):
        memory, spec = self.cases[index]
        with remap_devices():
            reason = refusal(self.task, spec, self.input_views(memory, spec), self.output_views(memory, spec, skipped=1))
        message = memory[-1]
        text = message_of(reason, message.shape[0])
        ctypes.memmove(message.data, text, len(text))
        return 0 if reason is None else 1


class Run(Program):
    """Calls the reference or the candidate. Its results are copied to the judge's memory."""

    def __init__(self, given, library):
        super().__init__(given, library)
        self.output_memory = OutputMemory()
        task = FORMATS[given["format"]](given)
        # Inputs may be objects of the task's classes.
        calls = [self.prepare(memory, spec) for memory, spec in self.cases]
        refuse = self.output_memory.refuse
        with remap_devices():
            if given["role"] == "candidate":
                model = task.candidate(given["candidate"])
            else:
                model = task.reference()
                if given["role"] == "compiled":
                    model = compiled(model)
        copy = torch.Tensor.copy_
        passes_outputs, zeroed, outputs_of = task.passes_outputs, task.zeroed_outputs, task.outputs_of

        def call(index):
            arguments, rebuild, places, (check_count, check, shapes) = calls[index]
            if rebuild is not None:
                arguments = rebuild()
            if passes_outputs:
                if zeroed:
                    for place in places:
                        place.zero_()
                model(*arguments, *places)
                return 0
            results = outputs_of(model(*arguments))
            check_count(results)
            for i, (result, place) in enumerate(zip(results, places)):
                check(i, result)
                refuse(result, shapes[i])
                copy(place, result)
            return 0

        self.call = call

    def prepare(self, memory, spec):
        views, trees, written = self.input_views(memory, spec), spec["inputs"], set(spec["written"])
        clone = torch.Tensor.clone  # a candidate may replace it

        def rebuild():
            given = iter([clone(tensor) if i in written else tensor for i, tensor in enumerate(views)])
            return [build(tree, given) for tree in trees]

        forms = form_checks(spec["outputs"], "cpu")
        places = self.output_views(memory, spec)
        for place in places:
            self.output_memory.add(place.data_ptr(), place.numel() * place.element_size())
        # Inputs that the reference changes are copied for each call.
        return (None, rebuild, places, forms) if written or spec.get("changed") else (rebuild(), None, places, forms)


def own_frames(error):
    """The frames of the task and the candidate, not those of this file."""
    return [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != "<string>"]


def print_error(error):
    if isinstance(error, TaskError):
        print(error, file=sys.stderr)
        return
    own = own_frames(error)
    text = traceback.format_list(own) + traceback.format_exception_only(type(error), error)
    print("".join(text), file=sys.stderr)


def become_copy(message, descriptors):
    """Gives a copy the descriptors that the worker has passed, of which the last is its output. Returns its environment."""
    os.setpgid(0, 0)
    # First to numbers that are free.
    *passed, output = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, CONTROL + MOST_DESCRIPTORS) for descriptor in descriptors]
    os.dup2(output, 1)
    os.dup2(output, 2)
    for number, descriptor in enumerate(passed, CONTROL):
        os.dup2(descriptor, number, inheritable=False)
    os.closerange(CONTROL + len(passed), 1024)
    if numpy is not None:
        numpy.random.seed()  # as in a process of its own; Python does it for random
    return dict(pair.split("=", 1) for pair in message.decode().split("\0") if "=" in pair)


def serve_copies(library, serve):
    """Makes a copy of this process for each request of the worker. In it, calls `serve` with the environment."""
    library.kernelcast_fork.restype = ctypes.c_int64
    # Otherwise each copy would copy all pages with objects when it collects garbage.
    gc.collect()
    gc.freeze()
    control = socket.socket(fileno=CONTROL)
    control.send(struct.pack("<q", 0))
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1 << 16, MOST_DESCRIPTORS)
        if not message:
            os._exit(0)
        ctypes.pythonapi.PyOS_BeforeFork()
        child = library.kernelcast_fork()
        if child == 0:
            try:
                ctypes.pythonapi.PyOS_AfterFork_Child()
                serve(become_copy(message, descriptors))
            except BaseException as error:
                print_error(error)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)
        ctypes.pythonapi.PyOS_AfterFork_Parent()
        for descriptor in descriptors:
            os.close(descriptor)
        control.send(struct.pack("<q", child))


def serve_program(library, readable):
    library.kernelcast_case.restype = ctypes.POINTER(Case)
    given = json.loads(os.pread(PROGRAM, os.fstat(PROGRAM).st_size, 0))
    library.kernelcast_map()
    library.kernelcast_hide_files((ctypes.c_char_p * len(readable))(*[p.encode() for p in readable]), len(readable))
    library.kernelcast_restrict()
    if given["role"] == "describe":
        call = Describe(given, library)
    elif given["role"] == "inputs":
        call = Inputs(given, library)
    elif given["role"] == "check":
        call = Check(given, library)
    else:
        call = Run(given, library).call

    def guarded(index):
        try:
            return call(index)
        except BaseException as error:
            print_error(error)
            sys.stderr.flush()
            took_memory = isinstance(error, TookOutputMemory)
            os._exit(TOOK_OUTPUT_MEMORY if took_memory else error.exit_code if isinstance(error, WrongForm) else 1)

    # A later collection would delay one call.
    gc.collect()
    gc.freeze()
    library.kernelcast_serve(ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_uint32)(guarded))


def main():
    sys.dont_write_bytecode = True
    split = sys.argv.index("--")
    sys.path += sys.argv[2:split]
    import_torch()
    library = ctypes.PyDLL(sys.argv[1])
    serve_copies(library, lambda environment: serve_program(library, sys.argv[split + 1 :]))
