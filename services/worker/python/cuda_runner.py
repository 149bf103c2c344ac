"""Runs tasks and candidates on a GPU. Follows runner.py in one program, and replaces its main().

    PYTHON -I -S -c SOURCE LIBRARY DEVICE PACKAGES... -- READABLE...

This process makes copies of itself, as that of runner.py does. A copy creates a CUDA context and serves
one program. LIBRARY is the native part (cuda/python/runner_library.cc), which speaks to the judge. DEVICE
is "cuda", or "cpu" where the memory of a stand-in for the driver is the processor's. PACKAGES are folders
to import from, and READABLE what a program may read.
"""

import gc
import importlib

# Importing these does not initialise the driver, which copies of a process could not use then.
PRELOADED = ("triton", "triton.language")
SCRATCH = "/scratch"
MESSAGE_BYTES = 1024
DRIVER_LIBRARY = "libcuda.so.1"
# The exit code of a program that found too little memory on the device (runner_client.cc).
LACKS_MEMORY = 12
# The exit code of a program that failed after its kernels had accessed an illegal address (task_programs.h).
ILLEGAL_ADDRESS = 116
CUDA_ERROR_ILLEGAL_ADDRESS = 700


def out_of_memory_error():
    """Nothing where PyTorch is too old to have it."""
    return getattr(torch.cuda, "OutOfMemoryError", ())


class DLManagedTensor(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


LOAD = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
CALL = ctypes.PYFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_uint64,
    ctypes.POINTER(ctypes.c_uint64),
    ctypes.c_int32,
    ctypes.c_int32,
    ctypes.c_int32,
)
DELIVER = ctypes.PYFUNCTYPE(None)


class Functions(ctypes.Structure):
    _fields_ = [("load", LOAD), ("call", CALL), ("deliver", DELIVER)]


class Device:
    """The judge's memory and stream, as PyTorch sees them."""

    def __init__(self, library, name, stream):
        self.name = name
        self.deleter = ctypes.cast(library.kernelcast_release, ctypes.c_void_p).value
        self.kept = []  # what tensors point to
        self.capsule = ctypes.pythonapi.PyCapsule_New
        self.capsule.restype = ctypes.py_object
        self.capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.stream = self.query = None
        if name == "cuda":
            self.query, self.handle = ctypes.CDLL(DRIVER_LIBRARY).cuStreamQuery, ctypes.c_void_p(stream)
            torch.cuda.init()
            self.stream = torch.cuda.ExternalStream(stream)
            self.set_stream = torch.cuda.set_stream
            self.enter()
            torch.zeros(1, device=name).add_(1)
            torch.cuda.synchronize()

    def enter(self):
        """Makes the judge's stream the current one."""
        if self.stream is not None:
            self.set_stream(self.stream)

    def synchronize(self):
        if self.stream is not None:
            torch.cuda.synchronize()

    def error(self):
        """The driver's result for the judge's stream. An error of a kernel stays. Does not wait."""
        return 0 if self.query is None else self.query(self.handle)

    def view(self, address, spec):
        """A tensor over the judge's memory."""
        dtype = getattr(torch, spec["dtype"])
        count = torch.empty((), dtype=dtype).element_size()
        for size in spec["shape"]:
            count *= size
        shape = (ctypes.c_int64 * 1)(count)
        managed = DLManagedTensor()
        managed.tensor.data = address
        managed.tensor.device_type = 2 if self.name == "cuda" else 1
        managed.tensor.ndim = 1
        managed.tensor.code, managed.tensor.bits, managed.tensor.lanes = 1, 8, 1
        managed.tensor.shape = shape
        managed.deleter = self.deleter
        self.kept.append((managed, shape))
        capsule = self.capsule(ctypes.addressof(managed), b"dltensor", None)
        flat = torch.utils.dlpack.from_dlpack(capsule).view(dtype)
        return flat.as_strided(spec["shape"], spec["strides"]) if "strides" in spec else flat.view(spec["shape"])

    def put(self, value):
        return mapped(lambda tensor: tensor.to(self.name), value)

    def naming(self):
        """Tasks and candidates name a GPU, for which the processor stands if there is none."""
        return contextlib.nullcontext() if self.name == "cuda" else remap_devices()

    def make_inputs(self, task, seed, case):
        """The task's inputs. It draws on the device where it can, which is faster."""
        with self.naming():
            try:
                with torch.device(self.name):
                    made = task.make_inputs(seed, case)
            except out_of_memory_error():
                raise  # other problems may use the memory
            except (AttributeError, RuntimeError, TypeError, ValueError):
                task.device = "cpu"
                made = task.make_inputs(seed, case)
                task.device = self.name
        return [self.put(value) for value in made]

    def place(self, model):
        # As in KernelBench: weights are drawn on the processor and then moved.
        return model.to(self.name) if isinstance(model, torch.nn.Module) else model

    def load_task(self, given):
        with self.naming():
            task = FORMATS[given["format"]](given)
        task.device = self.name
        return task


class OnDevice:
    """A view of a task whose inputs are on the device, for Describe."""

    def __init__(self, task, device):
        self.task, self.device = task, device

    def __getattr__(self, name):
        return getattr(self.task, name)

    def make_inputs(self, seed, case):
        return self.device.make_inputs(self.task, seed, case)


class DescribeOnDevice:
    """Writes what the task's cases, inputs and outputs are, as JSON, to the only output."""

    def __init__(self, given, device):
        task = OnDevice(device.load_task(given), device)
        with device.naming():
            reference = device.place(task.reference())
            found = Describe.describe_all(task, reference, given["held_out_seed"])
        device.synchronize()
        self.text = json.dumps(found).encode() + b"\0"
        self.limit = given["description_bytes"]
        self.device = device

    def call(self, id, addresses, replay, case):
        if len(self.text) > self.limit:
            raise TaskError("the task has too many cases, inputs or outputs")
        place = self.device.view(addresses[0], {"dtype": "uint8", "shape": [len(self.text)]})
        place.copy_(torch.frombuffer(bytearray(self.text), dtype=torch.uint8))
        return 0

    def deliver(self):
        pass


class InputsOnDevice:
    """Writes the inputs that a seed gives, and flags about them over the seed."""

    def __init__(self, given, device):
        self.draws = Draws(lambda: device.load_task(given), device.make_inputs)
        self.specs, self.device = given["cases"], device

    def call(self, id, addresses, replay, case):
        spec = self.specs[case]
        seed = self.device.view(addresses[0], {"dtype": "int64", "shape": [1]})
        made, flags = self.draws.draw(int(seed), spec["case"], case)
        wanted = list(leaves(spec["inputs"]))
        found = [(leaf["dtype"], leaf["shape"]) for leaf in leaves([tree_of("input", value) for value in made])]
        if found != [(leaf["dtype"], leaf["shape"]) for leaf in wanted]:
            raise TaskError("the task makes inputs of other dtypes or shapes with another seed")
        for address, leaf, tensor in zip(addresses[1:], wanted, tensors(made)):
            self.device.view(address, leaf).copy_(stored(tensor))
        seed.fill_(flags)
        self.device.kept.clear()
        return 0

    def deliver(self):
        pass


class WeightsOnDevice:
    """Writes the parameters and buffers of the reference, as it is constructed."""

    def __init__(self, given, device):
        with device.naming():
            reference = device.place(device.load_task(given).reference())
        self.weights, self.specs, self.device = dict(named_weights(reference)), given["weights"], device

    def call(self, id, addresses, replay, case):
        for spec in self.specs:
            self.device.view(addresses[0] + spec["offset"], spec).copy_(self.weights[spec["name"]])
        self.device.kept.clear()
        return 0

    def deliver(self):
        pass


class CheckOnDevice:
    """Lets the task's own code decide about a candidate's outputs. No code of the candidate is in this process."""

    def __init__(self, given, device):
        self.task, self.specs, self.device = device.load_task(given), given["cases"], device

    def call(self, id, addresses, replay, case):
        spec, view = self.specs[case], self.device.view
        views = [view(*pair) for pair in zip(addresses, [*leaves(spec["inputs"]), *spec["outputs"]])]
        outputs = len(views) - len(spec["outputs"])
        with self.device.naming():
            reason = refusal(self.task, spec, views[:outputs], views[outputs:])
        text = message_of(reason, MESSAGE_BYTES)
        message = view(addresses[-1], {"dtype": "uint8", "shape": [len(text)]})
        message.copy_(torch.frombuffer(bytearray(text), dtype=torch.uint8))
        self.device.kept.clear()
        return 0 if reason is None else 1

    def deliver(self):
        pass


class PassedOutputs:
    """Outputs that a candidate takes as arguments, in memory of this process.

    They are copied to the judge's memory after a call, so that what is written later is not seen, and then filled
    with zeros, or with bytes that are NaN in every floating-point type. The reference's process has them too, so
    that the time between two calls is the same in both.
    """

    def __init__(self, specs, device, zeroed):
        self.filling = 0 if zeroed else 0xFF
        self.memory, self.values = [], []
        for spec in specs:
            dtype = getattr(torch, spec["dtype"])
            count = math.prod(spec["shape"]) * torch.empty((), dtype=dtype).element_size()
            self.memory.append(torch.empty(count, dtype=torch.uint8, device=device.name))
            self.values.append(self.memory[-1].view(dtype).view(spec["shape"]))
        self.fill_bytes = torch.Tensor.fill_
        self.fill()

    def fill(self):
        for memory in self.memory:
            self.fill_bytes(memory, self.filling)


class RunOnDevice:
    """Calls the model. Its results are copied to the judge's memory between two calls."""

    def __init__(self, given, device):
        self.role, self.specs, self.device = given["role"], given["cases"], device
        self.calls, self.graphs, self.pool = {}, {}, None
        self.results = self.places = None
        self.forms = [form_checks(spec["outputs"], device.name) for spec in self.specs]
        self.copy, self.clone = torch.Tensor.copy_, torch.Tensor.clone
        self.output_memory = OutputMemory()
        task = device.load_task(given)
        # One set for the calls of a case, which follow each other.
        self.passed_by_case = {}
        if task.may_pass_outputs and self.role != "oracle":
            self.passed_by_case = {
                case: PassedOutputs(spec["outputs"], device, task.zeroed_outputs)
                for case, spec in enumerate(self.specs)
            }
        with device.naming():
            model = task.candidate(given["candidate"]) if self.role == "candidate" else task.reference()
        self.passes_outputs, self.outputs_of = task.passes_outputs, task.outputs_of
        model = device.place(model)
        self.model = compiled(model) if self.role == "compiled" else model
        for case, spec in enumerate(self.specs):
            self.warm_up(task, case, spec)
        device.synchronize()
        gc.collect()
        gc.freeze()
        if device.stream is not None:
            torch.cuda.empty_cache()  # memory that compiling took

    def warm_up(self, task, case, spec):
        """Compiles what is compiled at the first call of a case, before the judge's calls."""
        if task.makes_inputs:
            self.model(*self.device.make_inputs(task, SEED, spec["case"]), *self.outputs_to_pass(case))
            return
        made = iter([self.stand_in(leaf) for leaf in leaves(spec["inputs"])])
        try:
            self.model(*[build(tree, made) for tree in spec["inputs"]], *self.outputs_to_pass(case))
        except Exception:
            pass  # such values may mean nothing to it

    def stand_in(self, leaf):
        """An input where the candidate's process does not have the code that makes inputs."""
        made = torch.zeros(math.prod(leaf["shape"]), dtype=getattr(torch, leaf["dtype"]), device=self.device.name)
        if made.dtype.is_floating_point and made.element_size() > 1:
            made.normal_()
        shape = leaf["shape"]
        return made.as_strided(shape, leaf["strides"]) if "strides" in leaf else made.view(shape)

    def outputs_to_pass(self, case):
        """Views, so that a candidate cannot exchange what is copied."""
        if not self.passes_outputs:
            return []
        return [value.view(value.shape) for value in self.passed_by_case[case].values]

    def prepare(self, id, addresses, case):
        """Makes the tensors of a call, once."""
        spec = self.specs[case]
        addresses = iter(addresses)
        views = [self.device.view(next(addresses), leaf) for leaf in leaves(spec["inputs"])]
        trees, written, passed = spec["inputs"], set(spec["written"]), self.outputs_to_pass(case)

        def rebuild():
            given = iter([self.clone(tensor) if i in written else tensor for i, tensor in enumerate(views)])
            return [build(tree, given) for tree in trees] + passed

        places = []
        for address, leaf in zip(addresses, spec["outputs"]):
            # The type in which expected values of floating-point outputs are kept.
            kept = "float64" if leaf["dtype"] == "float64" else "float32"
            wide = self.role == "oracle" and getattr(torch, leaf["dtype"]).is_floating_point
            place = self.device.view(address, dict(leaf, dtype=kept) if wide else leaf)
            self.output_memory.add(address, place.numel() * place.element_size())
            places.append(place)
        # Inputs that the reference changes are copied for each call.
        arguments, rebuild = (None, rebuild) if written or spec.get("changed") else (rebuild(), None)
        self.calls[id] = (arguments, rebuild, (places, self.forms[case], self.passed_by_case.get(case)))

    def call(self, id, addresses, replay, case):
        arguments, rebuild, self.places = self.calls[id]
        if replay:
            return self.replay(id, arguments, rebuild)
        if rebuild is not None:
            arguments = rebuild()
        self.results = self.model(*arguments)
        return 0

    def replay(self, id, arguments, rebuild):
        if id not in self.graphs:
            try:
                self.graphs[id] = self.capture(arguments, rebuild)
            except Exception as error:
                print_error(error)
                sys.stderr.flush()
                return 1
        graph, self.results = self.graphs[id]
        graph.replay()
        return 0

    def capture(self, arguments, rebuild):
        """Graphs run one after the other: they share the memory of what a call frees."""
        if self.device.stream is None:
            raise TaskError("there are no graphs without a device")
        graph = torch.cuda.CUDAGraph()
        self.device.synchronize()
        # torch.cuda.graph also collects garbage and returns unused memory, which is slower.
        collects = gc.isenabled()
        gc.disable()
        try:
            graph.capture_begin(*([] if self.pool is None else [self.pool]))
            try:
                results = self.model(*(arguments if rebuild is None else rebuild()))
            finally:
                graph.capture_end()
        finally:
            if collects:
                gc.enable()
            self.device.enter()
        self.pool = graph.pool()
        return graph, results

    def deliver(self):
        self.device.enter()
        places, (check_count, check, shapes), passed = self.places
        results = passed.values if self.passes_outputs else self.outputs_of(self.results)
        check_count(results)
        for i, (result, place) in enumerate(zip(results, places)):
            check(i, result)
            self.output_memory.refuse(result, shapes[i])
            self.copy(place, result)
        if passed is not None:
            passed.fill()
        self.results = self.places = None


class Reporter:
    """Prints why a program has failed, and says it by the exit code."""

    def __init__(self, device):
        # Before any code of a candidate runs.
        self.device = device
        self.out_of_memory = out_of_memory_error()
        self.kernel_errors = kernel_errors()
        # The reference, also under torch.compile, has no compile errors: it fails.
        self.runs_candidate = False

    def report(self, error, code):
        if code == NOT_COMPILED:
            print(kernel_error_text(error), file=sys.stderr)
        print_error(error)
        sys.stdout.flush()
        sys.stderr.flush()

    def code_of(self, error):
        if isinstance(error, TookOutputMemory):
            return TOOK_OUTPUT_MEMORY
        if isinstance(error, WrongForm):
            return error.exit_code
        if isinstance(error, self.out_of_memory):
            return LACKS_MEMORY
        if self.device.error() == CUDA_ERROR_ILLEGAL_ADDRESS:
            return ILLEGAL_ADDRESS
        return NOT_COMPILED if self.runs_candidate and is_kernel_error(error, self.kernel_errors) else 1


ROLES = {
    "describe": DescribeOnDevice,
    "inputs": InputsOnDevice,
    "weights": WeightsOnDevice,
    "check": CheckOnDevice,
}


class Program:
    """What the judge calls. A failure ends the process."""

    def __init__(self, device):
        self.device = device
        self.reporter = Reporter(device)
        self.functions = Functions(
            *(
                kind(self.guard(function, self.reporter))
                for kind, function in ((LOAD, self.load), (CALL, self.call), (DELIVER, self.deliver))
            )
        )

    @staticmethod
    def guard(function, reporter):
        def guarded(*arguments):
            try:
                return function(*arguments)
            except BaseException as error:
                code = 1
                try:
                    code = reporter.code_of(error)
                    reporter.report(error, code)
                finally:
                    # Printing the candidate's error may raise another one.
                    os._exit(code)

        return guarded

    def load(self, content, size):
        given = json.loads(ctypes.string_at(content, size))
        self.reporter.runs_candidate = given["role"] == "candidate"
        self.running = ROLES.get(given["role"], RunOnDevice)(given, self.device)
        self.known = {}
        self.call_program, self.deliver_results = self.running.call, self.running.deliver

    def call(self, id, addresses, count, replay, case):
        known = self.known.get(id)
        if known is None:
            known = self.known[id] = addresses[:count]
            if hasattr(self.running, "prepare"):
                self.running.prepare(id, known, case)
        return self.call_program(id, known, replay, case)

    def deliver(self):
        self.deliver_results()


def loaded_library(name):
    """The path of a library that this process has loaded, or an empty text."""
    with open("/proc/self/maps") as maps:
        paths = (line.split(maxsplit=5)[-1].strip() for line in maps)
        return next((path for path in paths if f"/{name}" in path), "")


def name_driver_folder():
    """Names the folder of the driver's library. Otherwise Triton starts a program to find it."""
    if driver := loaded_library("libcuda.so"):
        os.environ["TRITON_LIBCUDA_PATH"] = os.path.dirname(driver)


def prepare_triton():
    """Compiles Triton's C module now, so that copies of this process do not. gcc needs half a second for it.

    Does nothing if there is no driver, or if this version of Triton has no such module. Loading the driver's library
    does not initialise the driver.
    """
    try:
        ctypes.CDLL(DRIVER_LIBRARY)
        name_driver_folder()
        utilities = importlib.import_module("triton.backends.nvidia.driver").CudaUtils
        knobs = importlib.import_module("triton.knobs")
        with tempfile.TemporaryDirectory() as folder, knobs.cache.scope():
            knobs.cache.dir = folder
            utilities()
        # The class has one object. Its constructor would compile the module again.
        utilities.__init__ = lambda self: None
    except Exception:
        pass


def serve(library, name, environment, readable):
    profiler = environment.pop("KERNELCAST_PROFILER", "")
    os.environ.update(environment)
    tempfile.tempdir = None  # the scratch folder did not exist before
    library.kernelcast_leave_files()
    library.kernelcast_start.restype = ctypes.c_void_p
    # PyTorch brings a copy of the profiler, which works once in a process.
    used = (loaded_library("libcupti.so") or profiler) if profiler else ""
    stream = library.kernelcast_start(used.encode())
    functions = Functions()
    program = None
    if stream:
        name_driver_folder()
        program = Program(Device(library, name, stream))
        functions = program.functions
    paths = (ctypes.c_char_p * len(readable))(*[path.encode() for path in readable])
    library.kernelcast_serve(ctypes.byref(functions), paths, len(readable))


def main():
    sys.dont_write_bytecode = True
    split = sys.argv.index("--")
    name = sys.argv[2]
    sys.path += sys.argv[3:split]
    readable = sys.argv[split + 1 :]
    import_torch()
    for module in PRELOADED:
        try:
            importlib.import_module(module)
        except Exception:
            pass
    if name == "cuda":
        prepare_triton()
    # After PyTorch, so that both use the C++ library that PyTorch was made for.
    library = ctypes.PyDLL(sys.argv[1])
    serve_copies(library, lambda environment: serve(library, name, environment, readable))


main()
