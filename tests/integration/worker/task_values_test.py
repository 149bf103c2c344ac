"""Tests what holds the tensors of a task's inputs, and the types that the judge does not know.

    task_values_test.py FOLDER

FOLDER is services/worker/python.
"""

import collections
import dataclasses
import json
import pathlib
import sys
import types
import typing
import unittest

try:
    import torch
except ImportError:
    print("skipped: there is no PyTorch")
    sys.exit(77)

FOLDER = pathlib.Path(sys.argv.pop(1))
RUNNER = {"__name__": "runner"}
sys.modules["runner"] = types.ModuleType("runner")
for file in ("task_values", "definition_task", "gpu_mode_task", "gpu_mode_eval", "reference_facts", "task_draws", "runner"):
    exec(compile((FOLDER / f"{file}.py").read_text(), f"{file}.py", "exec"), RUNNER)
RUNNER["import_torch"]()
TaskError = RUNNER["TaskError"]
randn = torch.randn


class Sizes(typing.NamedTuple):
    rows: int
    share: float


@dataclasses.dataclass(frozen=True)
class Config:
    weights: dict
    sizes: Sizes
    shape: torch.Size
    dtype: torch.dtype
    device: torch.device


class Plain:
    def __init__(self):
        self.x = randn(3)
        self.names = ["a", None]


class Slots:
    __slots__ = ("x",)


class Cache(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 2, bias=False)
        self.scale = torch.nn.Parameter(randn(4), requires_grad=False)
        self.register_buffer("data", torch.zeros(8, 4))
        self.register_buffer("scratch", randn(2), persistent=False)
        self.used = 2
        self.eval()

    def forward(self, new):
        self.data[self.used : self.used + len(new)] = new * self.scale
        self.used += len(new)
        return self.inner(self.data[: self.used])


def rebuilt(value):
    """What a candidate gets, and the tensors that it is made of."""
    tree = json.loads(json.dumps(RUNNER["tree_of"]("input", value)))
    given = [RUNNER["stored"](tensor).clone() for tensor in RUNNER["tensors"]([value])]
    leaves = list(RUNNER["leaves"]([tree]))
    assert [leaf["dtype"] for leaf in leaves] == [str(tensor.dtype)[6:] for tensor in given]
    return RUNNER["build"](tree, iter(given)), given


class Values(unittest.TestCase):
    def test_what_holds_tensors_is_rebuilt_around_those_of_the_judge(self):
        config = Config(
            {"w": [randn(2), (randn(3),)], 7: collections.OrderedDict(z=randn(1), a=4)},
            Sizes(5, 0.5),
            torch.Size((2, 3)),
            torch.bfloat16,
            torch.device("cpu"),
        )
        found, given = rebuilt(config)
        self.assertIs(type(found), Config)
        self.assertEqual(found.sizes, config.sizes)
        self.assertIs(type(found.shape), torch.Size)
        self.assertEqual((found.shape, found.dtype, found.device), (config.shape, config.dtype, config.device))
        self.assertIs(found.weights["w"][1][0], given[1])
        self.assertIs(type(found.weights[7]), collections.OrderedDict)
        self.assertEqual(list(found.weights[7]), ["z", "a"])

    def test_objects_with_attributes_are_rebuilt_without_their_constructors(self):
        for value in (Plain(), types.SimpleNamespace(x=randn(3), names=["a", None])):
            found, given = rebuilt({"config": value})
            self.assertIs(type(found["config"]), type(value))
            self.assertIs(found["config"].x, given[0])
            self.assertEqual(found["config"].names, ["a", None])

    def test_modules_keep_their_state_and_methods(self):
        cache = Cache()
        cache(randn(3, 4))
        found, given = rebuilt(cache)
        self.assertEqual(len(given), 4)
        self.assertEqual((found.used, found.training, found.inner.training), (5, False, False))
        self.assertIsNone(found.inner.bias)
        self.assertEqual(found.inner.in_features, 4)
        self.assertEqual([name for name, _ in found.named_parameters()], ["scale", "inner.weight"])
        self.assertEqual([p.requires_grad for p in found.parameters()], [False, True])
        self.assertEqual(list(found.state_dict()), list(cache.state_dict()))
        x = randn(2, 4)
        self.assertTrue(torch.equal(found(x), cache(x)))
        self.assertTrue(any(torch.equal(tensor, cache.data) for tensor in given))

    def test_mapped_copies_what_holds_the_tensors(self):
        cache = Cache()
        copied = RUNNER["mapped"](torch.clone, [cache, Plain()])
        x = randn(2, 4)
        self.assertTrue(torch.equal(copied[0](x), Cache.forward(RUNNER["mapped"](torch.clone, cache), x)))
        self.assertEqual(cache.used, 2)
        self.assertEqual(float(cache.data.abs().sum()), 0)

    def test_a_call_that_changes_more_than_tensors_is_seen(self):
        cache = Cache()
        trees = [RUNNER["tree_of"]("input", cache)]
        self.assertTrue(RUNNER["is_described"]([cache], trees))
        cache.used = 3
        self.assertFalse(RUNNER["is_described"]([cache], trees))
        cache.used = {1}
        self.assertFalse(RUNNER["is_described"]([cache], trees))

    def test_other_values_are_refused_by_name(self):
        class Local:
            pass

        hooked = Cache()
        hooked.register_forward_hook(lambda *_: None)
        slots = Slots()
        slots.x = randn(1)
        for value, why in (
            ({"a": {1}}, "input['a'] is a set; allowed are tensors"),
            ([Local()], "<locals>.Local, which module __main__ does not have"),
            (hooked, "a Cache with hooks"),
            (slots, "input is a Slots; allowed are"),
            (Sizes(lambda: 1, 2.0), "input.rows is a function"),
            ({1.5: 2}, "input is a dict; allowed are"),
        ):
            with self.assertRaises(TaskError) as caught:
                RUNNER["tree_of"]("input", value)
            self.assertIn(why, str(caught.exception))

    def test_float8_types_that_the_judge_does_not_know_are_data(self):
        names = [name for name in RUNNER["KEPT_OUTPUTS"] if hasattr(torch, name)]
        if not names:
            self.skipTest(f"PyTorch {torch.__version__} has none of them")
        codes = torch.arange(256, dtype=torch.uint8)
        for name in names:
            dtype = getattr(torch, name)
            every = codes.view(dtype)
            found, given = rebuilt([every, every.view(16, 16).T])
            self.assertEqual([tensor.dtype for tensor in found], [dtype, dtype])
            self.assertTrue(torch.equal(found[0].view(torch.uint8), codes))
            self.assertTrue(torch.equal(found[1].view(torch.uint8), codes.view(16, 16).T))
            # An output is kept in a wider type and given to the checker as it was.
            leaf = RUNNER["output_leaf"](every)
            self.assertEqual(RUNNER["result_dtype"](leaf), dtype)
            kept = torch.empty(256, dtype=getattr(torch, leaf["dtype"]))
            kept.copy_(every)
            again = kept.to(dtype, copy=True)
            numbers = ~kept.isnan()
            self.assertGreater(int(numbers.sum()), 240)
            self.assertTrue(torch.equal(again.view(torch.uint8)[numbers], codes[numbers]))
            self.assertTrue(bool(again.float()[~numbers].isnan().all()))
            self.assertTrue(torch.equal(kept.double()[numbers], every.to(torch.float64)[numbers]))


REFERENCE = '''"""A task."""
from __future__ import annotations
import os.path
import torch
from torch import nn
from utils import make_match_reference

try:
    import math
except ImportError:
    math = None
HALF: float = 1 / 2
UNUSED = open("/none")

def halved(x):
    return x * HALF

class Base(nn.Module):
    pass

class Cache(Base):
    def forward(self, x):
        return halved(x) + math.pi

class Judge:
    def check(self, data):
        return ref_kernel(data)

if __name__ == "__main__":
    x = generate_input(1)

def ref_kernel(data):
    return data

check_implementation = make_match_reference(ref_kernel)

def generate_input(seed):
    return Judge()
'''


class Classes(unittest.TestCase):
    def test_candidates_get_the_classes_of_inputs_and_what_they_need(self):
        source = RUNNER["source_of_classes"](REFERENCE, {"Cache"})
        kept = ("from __future__", "import math", "from torch import nn", "HALF", "def halved", "class Base", "class Cache")
        for part in kept:
            self.assertIn(part, source)
        for part in ("ref_kernel", "generate_input", "check_implementation", "utils", "UNUSED", "Judge"):
            self.assertNotIn(part, source)
        module = RUNNER["load"]("classes", source)
        self.assertAlmostEqual(float(module.Cache()(torch.ones(1))), 0.5 + 3.14159265, 5)

    def test_classes_that_need_the_reference_stay_private(self):
        self.assertIsNone(RUNNER["source_of_classes"](REFERENCE, {"Judge"}))

    def test_only_candidates_whose_inputs_need_them_get_classes(self):
        def candidate(module, name):
            tree = {"class": [module, name], "fields": []}
            details = {"cases": [], "modules": {"reference.py": REFERENCE, "task.py": "class Config:\n    pass\n"}}
            given = {"role": "candidate", "details": json.dumps(details), "cases": [{"inputs": [{"tuple": [tree]}]}]}
            return RUNNER["GpuMode"](given).modules

        self.assertNotIn("reference.py", candidate("task", "Config"))
        self.assertNotIn("ref_kernel", candidate("reference", "Cache")["reference.py"])
        RUNNER["forget_modules"]()


unittest.main()
