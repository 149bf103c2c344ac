"""Definitions with workloads: the formats of flashinfer-bench and SOL-ExecBench."""

import base64

# Inputs that SOL-ExecBench draws by their names (core/bench/io.py).
NORM_PREFIXES = ("norm", "layernorm")
POSITIVE_NAMES = ("rstd", "std", "variance", "var")
COSINES, SINES = ("cos", "cos_cached", "rope_cos"), ("sin", "sin_cached", "rope_sin")
BINARY_MASKS = ("x_mask", "text_mask", "aspect_ratio_mask", "drop_mask", "attention_mask")
BINARY_WORDS = ("binary", "{0, 1}", "0 or 1", "1.0 for valid", "0.0 for masked")
SOFTMAX_NAMES = ("attn_weights", "attention_weights", "routing_weights")
WEIGHT_ENDS = ("_weight", "_weights", "_proj", "_projs", "_proj_weight", "_proj_weights", "_weight_matrix")
DECAYS = {"A_log": (-5.0, -1.0), "A": (-1.0, -0.001), "g": (-5.0, 0.0), "A_cumsum": (-0.1, 0.0)}
INTEGER_RANGES = {"int8": (-128, 128), "int16": (-1024, 1024), "int32": (-1024, 1024), "int64": (-1024, 1024)}
HELD_OUT = 2
# Types of tensors in files.
FILE_TYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool"}
# Of solutions whose sources a compiler builds.
NATIVE_LANGUAGES = {"cuda", "cpp", "cuda_cpp", "cutlass", "cudnn", "cublas"}
NATIVE_SOURCES = (".cu", ".cpp", ".cc", ".cxx", ".c")


def random_values(dtype, shape):
    if dtype.is_floating_point:
        name = dtype_name(dtype)
        if name.startswith("float8"):
            return torch.randn(shape).clamp_(-2.0, 2.0).to(dtype)
        return torch.randn(shape, dtype=dtype)
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, dtype=dtype)
    if dtype_name(dtype) not in INTEGER_RANGES:
        raise TaskError(f"values of {dtype_name(dtype)} cannot be drawn")
    return torch.randint(*INTEGER_RANGES[dtype_name(dtype)], shape, dtype=dtype)


def is_norm(name, kind):
    prefix = name.removesuffix("_" + kind)
    if prefix == name:
        return False
    return prefix == "norm" or any(
        p.endswith(("_norm", "layernorm")) or (p != prefix and p.endswith(NORM_PREFIXES))
        for p in (prefix, prefix.rstrip("0123456789")))


def values_by_name(name, dtype, shape, description):
    """What an input of this name holds, or None for normal values."""
    if not dtype.is_floating_point or dtype_name(dtype).startswith("float8"):
        return None
    text = (description or "").lower()
    base = name.rstrip("0123456789")
    if is_norm(name, "weight"):
        return torch.ones(shape, dtype=dtype)
    if is_norm(name, "bias"):
        return torch.zeros(shape, dtype=dtype)
    causal = name in ("attention_mask", "causal_mask") or ("attention mask" in text and "causal" in text)
    if causal and len(shape) >= 2 and shape[-1] == shape[-2]:
        future = torch.ones(shape[-1], shape[-1]).triu(1).bool()
        return torch.zeros(shape, dtype=dtype).masked_fill_(future, torch.finfo(dtype).min)
    if name in BINARY_MASKS or (name.endswith("_mask") and any(word in text for word in BINARY_WORDS)):
        return torch.randint(0, 2, shape).to(dtype)
    if name in COSINES + SINES:
        angles = torch.randn(shape).clamp_(-math.pi, math.pi)
        return (torch.cos(angles) if name in COSINES else torch.sin(angles)).to(dtype)
    if base in POSITIVE_NAMES or base.endswith(("_rstd", "_std", "_var")) or name.endswith("_variance"):
        return torch.randn(shape, dtype=dtype).abs() + 0.1
    if name in DECAYS:
        drawn = torch.empty(shape, dtype=dtype).uniform_(*DECAYS[name])
        return drawn.cumsum(dim=-1) if name == "A_cumsum" else drawn
    if name in SOFTMAX_NAMES or ("softmax" in text and "output" in text):
        return torch.softmax(torch.randn(shape), dim=-1).to(dtype)
    if len(shape) >= 2 and (base == "weight" or base.endswith(WEIGHT_ENDS)):
        return torch.randn(shape, dtype=dtype) / math.sqrt(shape[-1])
    return None


class DefinitionTask(TaskFormat):
    """`run` returns its outputs. A candidate's may take them as its last arguments instead."""

    may_pass_outputs = True
    private_modules = ("task",)

    def __init__(self, given):
        details = json.loads(given["details"])
        self.definition, self.workloads = details["definition"], details["cases"]
        self.files = details.get("tensors", {})
        self.source = given["task"]
        self.module = None

    def load_reference(self):
        if self.module is None:
            self.module = load("task", self.source)
        return self.module

    def cases(self):
        return self.workloads

    def axes(self, case):
        values = {n: a["value"] for n, a in self.definition["axes"].items() if a["type"] == "const"}
        values.update((n, v) for n, v in case["axes"].items() if n in self.definition["axes"])
        waiting = {n: a["expression"] for n, a in self.definition["axes"].items() if a["type"] == "expr"}
        while waiting:
            known = len(waiting)
            for name, expression in list(waiting.items()):
                try:
                    values[name] = int(eval(expression, {"__builtins__": {}}, values))
                except NameError:
                    continue
                del waiting[name]
            if len(waiting) == known:
                raise TaskError(f"axes refer to unknown ones: {', '.join(waiting)}")
        return values

    def shape(self, spec, axes):
        return [int(eval(size, {"__builtins__": {}}, axes)) for size in spec["shape"]]

    def draw(self, name, dtype, shape, description):
        return random_values(dtype, shape)

    def stored(self, name, value, dtype, shape):
        """A tensor of a file."""
        found = self.files[value["path"]][value["tensor_key"]]
        form, wanted = (FILE_TYPES[found["dtype"]], found["shape"]), (dtype_name(dtype), shape)
        if form != wanted:
            raise TaskError(f"input {name} is {form[0]} {form[1]} in {value['path']}, and {wanted[0]} {wanted[1]} in the definition")
        content = bytearray(base64.b64decode(found["data"]))
        flat = torch.frombuffer(content, dtype=dtype) if content else torch.empty(0, dtype=dtype)
        return flat.reshape(shape).to(self.device)

    def make_inputs(self, seed, case):
        seed_all(seed)
        axes, given = self.axes(case), case["inputs"]
        custom = {}
        if any(value["type"] == "custom" for value in given.values()):
            scalars = {n: v["value"] for n, v in given.items() if v["type"] == "scalar"}
            entry = getattr(self.load_reference(), self.definition["custom_inputs_entrypoint"])
            custom = entry({**axes, **scalars}, torch.device(self.device))
        inputs = []
        for name, spec in self.definition["inputs"].items():
            value = given.get(name, {"type": "random"})
            dtype = getattr(torch, spec["dtype"], None)
            if dtype is None:
                raise TaskError(f"input {name} is {spec['dtype']}, which this PyTorch does not have")
            if value["type"] == "scalar":
                inputs.append(value["value"])
            elif value["type"] == "custom":
                inputs.append(custom[name])
            elif value["type"] == "safetensors":
                inputs.append(self.stored(name, value, dtype, self.shape(spec, axes)))
            elif spec["shape"] is None:
                # The same for every seed, as the worker keeps numbers with the task.
                seed_all(SEED)
                inputs.append(random_values(dtype, ()).item())
                seed_all(seed)
            else:
                inputs.append(self.draw(name, dtype, self.shape(spec, axes), spec.get("description")))
        return inputs

    def names(self):
        return list(self.definition["inputs"]), list(self.definition["outputs"])

    def outputs_of(self, result):
        specs = self.definition["outputs"]
        if isinstance(result, dict):
            result = [result[name] for name in specs if name in result]
        values = list(result) if isinstance(result, (tuple, list)) else [result]
        return [torch.tensor(value, dtype=getattr(torch, spec["dtype"]), device=self.device)
                if isinstance(value, (bool, int, float)) else value for value, spec in zip(values, specs.values())] + values[len(specs):]

    def reference(self):
        return self.load_reference().run

    def native_binding(self, spec):
        """How a solution in C++ or CUDA exports its functions; None for other languages."""
        languages = spec["languages"] if "languages" in spec else [spec["language"]]
        if not NATIVE_LANGUAGES.intersection(language.lower() for language in languages):
            return None
        return spec.get("binding") or self.default_binding

    def candidate(self, source):
        """A solution's JSON, or the source of `run`."""
        if source.lstrip().startswith("{"):
            solution = json.loads(source)
            path, _, entry = solution["spec"]["entry_point"].rpartition("::")
            self.passes_outputs = solution["spec"].get("destination_passing_style", True)
            binding = self.native_binding(solution["spec"])
            if binding is not None:
                return built(solution, entry, binding)
            Sources({file["path"]: file["content"].removeprefix("\ufeff") for file in solution["sources"]})
            module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
            run = getattr(module, entry or "run", None)
        else:
            run = load("candidate", source).__dict__.get("run")
            if callable(run):
                inputs, outputs = self.names()
                self.passes_outputs = takes(run, len(inputs) + len(outputs)) and not takes(run, len(inputs))
        if not callable(run):
            raise TaskError("the candidate does not define run()")
        return run


def built(solution, entry, binding):
    """The function `entry` of a solution in C++ or CUDA, which a compiler in this sandbox builds."""
    folder = tempfile.mkdtemp()
    files = []
    for source in solution["sources"]:
        path = os.path.normpath(os.path.join(folder, source["path"]))
        if not path.startswith(folder + os.sep):
            raise TaskError(f"sources: {source['path']} is outside the solution's folder")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(source["content"].removeprefix("\ufeff"))
        if path.endswith(NATIVE_SOURCES):
            files.append(path)
    in_cuda = [file for file in files if file.endswith(".cu")]
    if in_cuda:
        # No program may be started that asks the driver. Architectures from 9.0 on have instructions of their own ("a").
        major, minor = torch.cuda.get_device_capability()
        architecture = f"{major}.{minor}{'a' if major >= 9 else ''}"
        os.environ.update(TORCH_CUDA_ARCH_LIST=architecture, TVM_FFI_CUDA_ARCH_LIST=architecture)
    options = solution["spec"].get("compile_options") or {}
    if binding == "torch":
        from torch.utils import cpp_extension

        module = cpp_extension.load(
            "solution", files, build_directory=folder, extra_include_paths=[folder], extra_cflags=options.get("cflags"),
            extra_cuda_cflags=options.get("cuda_cflags"), extra_ldflags=options.get("ld_flags"), with_cuda=bool(in_cuda))
    else:
        try:
            import tvm_ffi.cpp
        except ImportError:
            raise TaskError("a solution with the binding tvm-ffi needs the package apache-tvm-ffi") from None
        library = tvm_ffi.cpp.build(
            name="solution", cpp_files=[file for file in files if file not in in_cuda], cuda_files=in_cuda,
            extra_include_paths=[folder], extra_ldflags=["-lcuda"] if in_cuda else [], build_directory=folder)
        module = tvm_ffi.load_module(library)
    function = getattr(module, entry, None)
    if not callable(function):
        raise TaskError(f"the solution does not export {entry}")
    return function


def takes(function, count):
    """Whether a function can be called with this many arguments."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except (TypeError, ValueError):
        return False
    return True


class FlashInferBench(DefinitionTask):
    default_binding = "tvm-ffi"

    def held_out_cases(self, seed):
        variable = [name for name, axis in self.definition["axes"].items() if axis["type"] == "var"]
        simple = not self.definition.get("constraints") and all(
            getattr(torch, spec["dtype"], torch.int8).is_floating_point
            for spec in self.definition["inputs"].values() if spec["shape"] is not None)
        drawn = all(value["type"] in ("random", "scalar") for case in self.workloads for value in case["inputs"].values())
        if not variable or not simple or not drawn:
            return []
        draw = random.Random(seed)
        cases = []
        for _ in range(HELD_OUT):
            case = dict(draw.choice(self.workloads))
            axis = draw.choice(variable)
            largest = max(workload["axes"][axis] for workload in self.workloads)
            case["axes"] = {**case["axes"], axis: draw.randint(1, min(largest, 2 * case["axes"][axis]))}
            cases.append(case)
        return cases


class SolExecBench(DefinitionTask):
    default_binding = "torch"
    zeroed_outputs = True

    def held_out_cases(self, seed):
        ranges = {name: axis["held_out"] for name, axis in self.definition["axes"].items() if "held_out" in axis}
        if not ranges:
            return []
        draw = random.Random(seed)
        # Those that are not timed are small.
        untimed = [case for case in self.workloads if not case.get("timed", True)] or self.workloads
        cases = []
        for _ in range(HELD_OUT):
            case = dict(draw.choice(untimed))
            drawn = {name: draw.randrange(low, high + 1, *step) for name, (low, high, *step) in ranges.items()}
            case["axes"] = {**case["axes"], **drawn}
            cases.append(case)
        return cases

    def draw(self, name, dtype, shape, description):
        drawn = values_by_name(name, dtype, shape, description)
        drawn = random_values(dtype, shape) if drawn is None else drawn
        sampling = self.definition.get("op_type") == "sampling" and name == "probs"
        return torch.softmax(drawn, dim=-1) if sampling else drawn
