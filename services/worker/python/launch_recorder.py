"""Records which Triton kernels a Python candidate launches, without a GPU and without Triton. Follows compile_server.py,
runner.py and triton_stand_in.py in one program.

A request is JSON: `role`, `format`, `task`, `details` and `candidate` as for runner.py, `case` (its index), and `gpu`
with `name`, `multiprocessors` and `capability`. The answer is the JSON that recording.h describes. Tensors have shapes
and no values. The candidate is called twice, and the second call is recorded, as timed calls are repeated. With the
role "describe", the answer has the shapes of the tensors of all cases and of the weights instead, and the values of
small cases, which the processor computes.
"""

PACKAGE = "torch"
FILES = ()


def bytes_of(tensor):
    """Memory of the elements, each counted once."""
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride()):
        count *= size if stride != 0 else 1
    return count * tensor.element_size()


NO_WORK = ("empty", "new_empty", "detach", "device", "sym_", "lift_fresh", "is_", "resize_", "set_", "size", "stride")
PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "addbmm", "addmv", "mv", "dot", "convolution", "_scaled_mm", "linear")
ATTENTION = ("_scaled_dot_product",)


def product_flops(name, args, outputs):
    found = [a for a in args if isinstance(a, torch.Tensor)]
    if name == "convolution":
        # Products of an output element: those of one filter.
        weight, transposed = args[1], args[6]
        return 2 * (args[0] if transposed else outputs[0]).numel() * (weight.numel() // max(1, weight.shape[0]))
    if name.startswith(ATTENTION):
        query, key, value = found[:3]
        return 2 * query.numel() * key.shape[-2] + 2 * query.numel() // query.shape[-1] * key.shape[-2] * value.shape[-1]
    left = found[-2]  # addmm(added, a, b)
    if name == "linear":
        left = found[0]
    return 2 * outputs[0].numel() * left.shape[-1]


def unit_of(name, tensors):
    """Which peak bounds the operation."""
    dtypes = [dtype_name(t.dtype) for t in tensors if t.is_floating_point()]
    if name not in PRODUCTS and not name.startswith(ATTENTION):
        return "float64" if "float64" in dtypes else "float32"
    if "float64" in dtypes:
        return "matrix_float64"
    if any(d.startswith("float8") for d in dtypes):
        return "matrix_float8"
    if any(d in ("float16", "bfloat16") for d in dtypes):
        return "matrix_half"
    tf32 = torch.backends.cudnn.allow_tf32 if name == "convolution" else torch.backends.cuda.matmul.allow_tf32
    return "matrix_tf32" if tf32 and dtypes else "float32"


def make_modes():
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            name = str(function).removeprefix("aten.").split(".")[0]
            if name in ("_local_scalar_dense", "equal", "nonzero", "masked_select", "unique_dim", "_unique2"):
                RECORDER.refuse(f"reads values of a tensor ({name})")
            try:
                result = function(*args, **(kwargs or {}))
            except NotRecorded:
                raise
            except Exception as error:
                kind = type(error).__name__
                if kind in ("DataDependentOutputException", "DynamicOutputShapeException"):
                    RECORDER.refuse(f"reads values of a tensor ({name})")
                if kind == "UnsupportedOperatorException" or isinstance(error, NotImplementedError):
                    RECORDER.refuse(f"uses PyTorch's {name}, which has no form without values")
                raise
            self.count(function, name, args, kwargs or {}, result)
            return result

        @staticmethod
        def count(function, name, args, kwargs, result):
            outputs = list(tensors([result]))
            inputs = list(tensors([list(args), kwargs]))
            note_storages(inputs, outputs)
            if not outputs or name.startswith(NO_WORK):
                return
            note_range(name, args, inputs, outputs)
            if any(r.alias_info is not None and not r.alias_info.is_write for r in function._schema.returns):
                return  # a view
            note_reads(name, args, inputs)
            memory = {}
            for tensor in inputs + outputs:
                key = (storage_of(tensor)._cdata, tensor.storage_offset(), tensor.shape)
                memory[key] = bytes_of(tensor)
            moved = sum(memory.values())
            written = [a for a in function._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
            if any(not a.kwarg_only for a in written) and not name.startswith(("copy_", "fill_", "zero_")):
                moved += bytes_of(outputs[0])  # it is read and written
            if name in PRODUCTS or name.startswith(ATTENTION):
                flops = product_flops(name, args, outputs)
            else:
                flops = max((t.numel() for t in inputs + outputs), default=0)
            key = (name, moved, flops, unit_of(name, inputs + outputs))
            RECORDER.operations[key] = RECORDER.operations.get(key, 0) + 1
            if len(RECORDER.operations) > MAX_OPERATIONS:
                RECORDER.refuse(f"has more than {MAX_OPERATIONS} different operations")

    return FakeTensor, FakeTensorMode(), Count()


def note_storages(inputs, outputs):
    for tensor in inputs:
        key = storage_of(tensor)._cdata
        if key not in RECORDER.made:
            RECORDER.given.setdefault(key, [tensor, 0])
    for tensor in outputs:
        key = storage_of(tensor)._cdata
        if key not in RECORDER.given:
            RECORDER.made.setdefault(key, tensor)


# They read a part of their first tensor that depends on values.
GATHERS = ("embedding", "_embedding_bag", "index", "index_select", "gather", "take")


def note_reads(name, args, inputs):
    for tensor in inputs:
        read = RECORDER.given.get(storage_of(tensor)._cdata)
        if read is not None and not (name in GATHERS and tensor is args[0]):
            read[1] = max(read[1], bytes_of(tensor))


def needed_bytes(outputs):
    """What the call reads of what it was given, and its results, each counted once."""
    results = {}
    for tensor in tensors(outputs):
        key = storage_of(tensor)._cdata
        if key in RECORDER.made:
            results[key] = max(results.get(key, 0), bytes_of(tensor))
    return sum(read for _, read in RECORDER.given.values()) + sum(results.values())


def note_range(name, args, inputs, outputs):
    """Integers are often indices, so that kernels need plausible ones."""
    found = None
    if name == "randint":
        numbers = [a for a in args if isinstance(a, int)]
        found = (numbers[0], numbers[1] - 1) if len(numbers) > 1 else (0, numbers[0] - 1)
    elif name == "arange":
        numbers = [a for a in args if isinstance(a, (int, float))]
        found = (numbers[0], max(numbers[0], numbers[1] - 1)) if len(numbers) > 1 else (0, numbers[0] - 1)
    elif name in ("_to_copy", "clone", "copy_") and inputs:
        found = RECORDER.ranges.get(storage_of(inputs[-1])._cdata)
    if found is not None and all(isinstance(v, int) and abs(v) < MAX_EXACT for v in found[:2]):
        # With the tensor, because addresses of freed storages are used again.
        RECORDER.ranges[storage_of(outputs[0])._cdata] = (*found[:2], outputs[0])


READS = ("item", "tolist", "numpy", "cpu", "__bool__", "__int__", "__float__", "__index__", "data_ptr", "__array__",
         "__repr__", "__format__", "__cuda_array_interface__", "__dlpack__", "nonzero", "pin_memory")  # fmt: skip


def convert_module(module, function, recurse=True):
    """torch.nn.Module._apply. The original exchanges tensors in place, which those without values do not permit."""
    for child in module.children() if recurse else ():
        child._apply(function)
    for name, parameter in module._parameters.items():
        if parameter is not None:
            module._parameters[name] = torch.nn.Parameter(function(parameter), parameter.requires_grad)
    for name, buffer in module._buffers.items():
        if buffer is not None:
            module._buffers[name] = function(buffer)
    return module


def stand_for_gpu(gpu, fake_tensor):
    """A GPU as candidates see it."""
    device = torch.device("cuda", 0)
    getters = {torch.Tensor.device.__get__: device, torch.Tensor.is_cuda.__get__: True}
    own = fake_tensor.__dict__.get("device")
    if isinstance(own, property) and hasattr(torch._C, "_len_torch_function_stack"):
        # PyTorch's own code runs while no mode is active.
        active = torch._C._len_torch_function_stack
        fake_tensor.device = property(lambda self: device if active() else own.fget(self))

    class OnGpu(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            if function in getters:
                return getters[function]
            name = getattr(function, "__name__", "")
            if name in READS:
                RECORDER.refuse(f"reads values of a tensor ({name})" if name != "data_ptr" else "uses addresses of tensors")
            if name == "get_device":
                return 0
            destination = kwargs.get("device") if kwargs else None
            if name == "to":
                destination = next((a for a in args[1:] if isinstance(a, (str, torch.device))), destination)
            if destination is not None and str(destination).startswith("cpu"):
                if name == "to":
                    RECORDER.refuse("moves a tensor to the processor")
            return function(*args, **(kwargs or {}))

    properties = types.SimpleNamespace(
        name=gpu["name"],
        multi_processor_count=gpu["multiprocessors"],
        major=gpu["capability"][0],
        minor=gpu["capability"][1],
        total_memory=80 << 30,
        warp_size=32,
    )

    class Stream:
        cuda_stream = 0
        __init__ = wait_stream = wait_event = record_event = synchronize = lambda self, *a, **k: None
        query = lambda self: True

    class Event(Stream):
        record = wait = Stream.wait_stream
        elapsed_time = lambda self, other: RECORDER.refuse("reads a clock of the GPU")

    for name, value in {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "set_device": lambda device: None,
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
        "get_device_properties": lambda device=None: properties,
        "get_device_capability": lambda device=None: tuple(gpu["capability"]),
        "get_device_name": lambda device=None: gpu["name"],
        "current_stream": lambda device=None: Stream(),
        "default_stream": lambda device=None: Stream(),
        "is_current_stream_capturing": lambda: False,
        "stream": lambda stream: contextlib.nullcontext(),
        "device": lambda device: contextlib.nullcontext(),
        "Stream": Stream,
        "Event": Event,
        "CUDAGraph": refusing("replays a CUDA graph"),
        "graph": refusing("replays a CUDA graph"),
        "make_graphed_callables": refusing("replays a CUDA graph"),
    }.items():
        setattr(torch.cuda, name, value)
    torch.nn.Module._apply = convert_module
    torch.compile = refusing("uses torch.compile")
    torch.autocast = torch.cuda.amp.autocast = refusing("uses torch.autocast")
    if hasattr(torch, "jit"):
        torch.jit.script = refusing("uses torch.jit")
        torch.jit.trace = refusing("uses torch.jit")
    extension = types.ModuleType("torch.utils.cpp_extension")
    for name in ("load", "load_inline", "CUDAExtension", "CppExtension"):
        setattr(extension, name, refusing("compiles C++ or CUDA while it runs"))
    sys.modules[extension.__name__] = torch.utils.cpp_extension = extension
    return OnGpu()


def record(given):
    # First, because PyTorch may import the Triton that is installed.
    fake_tensor, fake, count = make_modes()
    for name in [name for name in sys.modules if name.split(".")[0] == "triton"]:
        del sys.modules[name]
    sys.meta_path.insert(0, TritonModules())
    on_gpu = stand_for_gpu(given["gpu"], fake_tensor)
    # The innermost mode comes last: devices are first seen as the candidate names them.
    with fake, count, remap_devices(), on_gpu:
        # Some formats keep what makes inputs from the candidate's process.
        task = whole_task = FORMATS[given["format"]]({**given, "role": "reference"})
        if given["role"] == "candidate":
            task = FORMATS[given["format"]](given)
            model = task.candidate(given["candidate"])
        else:
            model = task.reference()
        for _ in range(2):
            inputs = whole_task.make_inputs(SEED, task.cases()[given["case"]])
            places = []
            if task.passes_outputs and given["role"] == "candidate":
                result = whole_task.reference()(*inputs)
                places = [torch.empty_like(output) for output in whole_task.outputs_of(result)]
            RECORDER.start()
            result = model(*inputs, *places)
        if given["role"] == "reference":
            RECORDER.needed = needed_bytes(list(whole_task.outputs_of(result)))
    if not RECORDER.launches and not RECORDER.operations:
        RECORDER.refuse("launches nothing")


def describe_shapes(given):
    fake_tensor, fake, count = make_modes()
    on_gpu = stand_for_gpu(given["gpu"], fake_tensor)
    with fake, count, remap_devices(), on_gpu:
        task = FORMATS[given["format"]](given)
        reference = task.reference()
        cases = [Describe.form(task, reference, case)[0] for case in task.cases()]
        found = {"cases": cases, "weights": weight_leaves(reference)}
    try:
        if not found["weights"] and not hasattr(task, "check"):
            found["calls"] = calls_with_values(given, cases)
    except Exception:
        # For example because a dtype has no arithmetic on processors.
        pass
    return found


# Of all calls together: the bytes of their values, which fit into an answer as text.
MOST_VALUE_BYTES = 5 << 19
MOST_CALLS = 8


def value_bytes(case):
    """An upper bound of the bytes of a case's inputs and outputs."""
    return sum(8 * math.prod(leaf["shape"]) for leaf in [*leaves(case["inputs"]), *case["outputs"]])


def text_of(tensor):
    flat = stored(tensor).contiguous()
    return base64.b64encode(ctypes.string_at(flat.data_ptr(), flat.numel() * flat.element_size())).decode()


def calls_with_values(given, described):
    """The inputs and outputs of the smallest cases. Floating-point outputs are in double precision."""
    calls, left = [], MOST_VALUE_BYTES
    with remap_devices():
        task = FORMATS[given["format"]](given)
        reference = task.reference()
        for index in sorted(range(len(described)), key=lambda i: value_bytes(described[i])):
            left -= value_bytes(described[index])
            if left < 0 or len(calls) == MOST_CALLS:
                break
            inputs = task.make_inputs(SEED, task.cases()[index])
            # The reference may change them.
            before = [tensor.clone() for tensor in tensors(inputs)]
            if any(not tensor.is_contiguous() for tensor in tensors(inputs)):
                continue
            outputs = task.outputs_of(reference(*inputs))
            wide = [output.double() if output.is_floating_point() else output for output in outputs]
            calls.append({"case": index, "inputs": [*map(text_of, before)], "outputs": [*map(text_of, wide)]})
    return calls


def result_of(given):
    try:
        if given["role"] == "describe":
            return describe_shapes(given)
        record(given)
    except (NotRecorded, TaskError) as error:
        RECORDER.reason = RECORDER.reason or str(error)
    except BaseException as error:
        RECORDER.reason = RECORDER.reason or f"{type(error).__name__}: {error}"
    if RECORDER.reason:
        return {"not_recorded": RECORDER.reason[:300]}
    operations = [
        {"name": name, "bytes": moved, "operations": flops, "unit": unit, "count": count}
        for (name, moved, flops, unit), count in RECORDER.operations.items()
    ]
    return {
        "source": SOURCE.text() if RECORDER.launches else "",
        "tensors": RECORDER.tensors,
        "launches": RECORDER.launches,
        "operations": operations,
        "needed": RECORDER.needed,
    }


def import_compiler():
    # PyTorch asks for the user's name, which this user has not.
    os.environ.update(USER="kernelcast", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
    sys.path += sys.argv[1:]
    import_torch()
    make_modes()


def compile_request(request):
    return (json.dumps(result_of(json.loads(request.string()))),)


def describe(error):
    """There are no errors of a compiler."""
