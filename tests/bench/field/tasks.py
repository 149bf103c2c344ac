"""The tasks of KernelBench and GPU MODE in folders, and candidates made from them."""

import ast
import dataclasses
import json
import os
import re

KINDS = ("reference", "zeros", "mean", "input", "last_tile", "float16", "previous")

# What a generated candidate does with the result of the task's reference.
HELPERS = '''

import torch as field_torch


def field_tensors(value):
    if isinstance(value, field_torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from field_tensors(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from field_tensors(item)


def field_map(function, value):
    if isinstance(value, field_torch.Tensor):
        return function(value)
    if isinstance(value, dict):
        return type(value)((key, field_map(function, item)) for key, item in value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(field_map(function, item) for item in value))
    if isinstance(value, (tuple, list)):
        return type(value)(field_map(function, item) for item in value)
    return value


def field_memory(tensor):
    return getattr(tensor, "untyped_storage", tensor.storage)().data_ptr()


def field_own(tensor, inputs):
    """The result in memory that may be changed. Inputs may not."""
    own = tensor.detach().contiguous()
    taken = {field_memory(x) for x in field_tensors(inputs)}
    return own.clone() if field_memory(own) in taken else own
'''

CHANGES = {
    "reference": "",
    "zeros": '''

def field_change(out, inputs):
    return field_map(lambda t: field_own(t, inputs).zero_(), out)
''',
    "mean": '''

def field_change(out, inputs):
    def mean(t):
        own = field_own(t, inputs)
        wide = own if own.dtype in (field_torch.float32, field_torch.float64) else own.float()
        return own.copy_(wide.mean())

    return field_map(mean, out)
''',
    "input": '''

def field_change(out, inputs):
    written = {field_memory(t) for t in field_tensors(out)}
    given = [x for x in field_tensors(inputs) if x.numel() > 0 and field_memory(x) not in written]

    def from_input(t):
        if not given:
            raise ValueError("no tensor is an input only")
        best = min(given, key=lambda x: (x.shape != t.shape, x.numel() != t.numel(), not x.is_floating_point(), -x.numel()))
        flat = best.reshape(-1)[: t.numel()].to(t.dtype)
        return flat.repeat(-(-t.numel() // flat.numel()))[: t.numel()].reshape(t.shape)

    return field_map(from_input, out)
''',
    "last_tile": '''

def field_change(out, inputs):
    def without_end(t):
        own = field_own(t, inputs)
        own.view(-1)[own.numel() - max(1, min(128, own.numel() // 8)) :].zero_()
        return own

    return field_map(without_end, out)
''',
    "float16": '''

def field_round(inputs):
    wide = (field_torch.float32, field_torch.float64)
    return field_map(lambda t: t.to(field_torch.float16).to(t.dtype) if t.dtype in wide else t, inputs)


def field_change(out, inputs):
    return out
''',
    "previous": '''

field_previous = {}


def field_change(out, inputs):
    key = tuple(t.shape for t in field_tensors(out))
    now = field_map(lambda t: t.clone(), out)
    before = field_previous.get(key)
    field_previous[key] = now
    return out if before is None else before
''',
}

WRAPPERS = {
    "kernelbench": '''

class ModelNew(Model):
    def forward(self, *inputs):
        return field_change(super().forward(*{inputs}), inputs)
''',
    "gpu_mode": '''

def custom_kernel(data):
    data = {inputs}
    return field_change(ref_kernel(data), data)
''',
}
REFERENCES = {
    "kernelbench": "\n\nclass ModelNew(Model):\n    pass\n",
    "gpu_mode": "\n\ndef custom_kernel(data):\n    return ref_kernel(data)\n",
}
# Tasks that one GPU of NVIDIA cannot run, by what their files say: not among those that count.
OTHER_MACHINES = (
    ("task.yml", r"^multi_gpu:\s*true", "needs several GPUs"),
    ("reference.py", r"float4_e2m1fn_x2", "is in NVFP4"),
    ("reference.py", r"^\s*(?:import|from) aiter\b", "needs aiter, a package for GPUs of AMD"),
)


@dataclasses.dataclass
class Task:
    name: str  # kernelbench/level1/19_ReLU, gpu_mode/pmpp_v2/sort_py
    form: str  # kernelbench, gpu_mode
    group: str  # of the summary's rows
    path: str  # what Kernelcast takes
    source: str  # the text that defines the reference
    other_machine: str = ""  # why it does not count
    cases: list = dataclasses.field(default_factory=list)  # arguments of generate_input
    files: dict = dataclasses.field(default_factory=dict)  # of modules: their paths by name

    def candidate(self, kind):
        if kind == "reference":
            return self.source + REFERENCES[self.form]
        inputs = "inputs" if self.form == "kernelbench" else "data"
        given = f"field_round({inputs})" if kind == "float16" else inputs
        return self.source + HELPERS + CHANGES[kind] + WRAPPERS[self.form].format(inputs=given)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def flow_map(text):
    """A map of YAML's short form: {"size": 3, "on": True} or {size: 3}."""
    text = text[: text.rindex("}") + 1]
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError):
            pass
    quoted = re.sub(r'([{,]\s*)([A-Za-z_]\w*)\s*:', r'\1"\2":', text)
    return json.loads(re.sub(r":\s*([A-Za-z_]\w*)\s*(?=[,}])",
                             lambda found: ": " + {"true": "true", "false": "false"}.get(found[1].lower(), f'"{found[1]}"'),
                             quoted))


def lists_of(text):
    """The lists of short maps at the top level of a task.yml."""
    lists, section = {}, None
    for line in text.splitlines():
        head = re.match(r"(\w+):\s*(\|)?", line)
        if head:
            section = None if head[2] else head[1]
        item = re.match(r"\s*-\s*(\{.*\})", line)
        if item and section:
            lists.setdefault(section, []).append(flow_map(item[1]))
    return lists


def gpu_mode_task(folder):
    text = read(os.path.join(folder, "task.yml"))
    lists = lists_of(text)
    files = {}
    for entry in lists.get("files", ()):
        path = os.path.normpath(os.path.join(folder, entry["source"]))
        if entry["name"].endswith(".py") and entry["name"] not in ("submission.py", "eval.py") and os.path.isfile(path):
            files[entry["name"]] = path
    texts = {"task.yml": text, "reference.py": read(files["reference.py"]) if "reference.py" in files else ""}
    where = [why for name, pattern, why in OTHER_MACHINES if re.search(pattern, texts[name], re.MULTILINE)]
    parts = os.path.abspath(folder).split(os.sep)[-2:]
    return Task(name="gpu_mode/" + "/".join(parts), form="gpu_mode", group="gpu_mode", path=folder,
                source=texts["reference.py"], other_machine=where[0] if where else "",
                cases=lists.get("tests", []) + lists.get("benchmarks", []), files=files)


def natural(text):
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", text)]


def find(folders, level4=False):
    """Yields the tasks below the folders, by name."""
    found = {}
    for top in folders:
        for folder, below, names in os.walk(top):
            below[:] = [name for name in below if not name.startswith(".")]
            level = re.fullmatch(r"level([1-4])", os.path.basename(os.path.abspath(folder)))
            if level and (level[1] != "4" or level4):
                for name in names:
                    path = os.path.join(folder, name)
                    source = read(path) if name.endswith(".py") else ""
                    if re.search(r"^class Model\b", source, re.MULTILINE) and "def get_inputs" in source:
                        task = f"kernelbench/level{level[1]}/{name[:-3]}"
                        found[task] = Task(task, "kernelbench", f"kernelbench level {level[1]}", path, source)
            if "task.yml" in names:
                task = gpu_mode_task(folder)
                found[task.name] = task
    return [found[name] for name in sorted(found, key=natural)]
