"""Tests the draws of a task's inputs (services/worker/python/task_draws.py).

    task_draws_test.py FOLDER

FOLDER is services/worker/python.
"""

import importlib.util
import itertools
import pathlib
import sys
import unittest
import unittest.mock

RUNNER = {"__name__": "runner"}
FILES = ("task_values", "definition_task", "gpu_mode_task", "gpu_mode_eval", "task_draws", "runner")
BEFORE = """
import functools, math, os, random
import numpy as np
import torch
from numpy.random import default_rng
from torch import manual_seed

class Model(torch.nn.Module):
    pass

def get_init_inputs():
    return []

"""
NEVER_CHANGES, FEW_VALUES, ONLY_SCALED = 1, 2, 4

# Each seeds itself, so that all of its draws are the same, or the next of a known sequence.
SEEDED = {
    "torch": "torch.manual_seed(7)\nreturn [torch.randn(64)]",
    "torch by name": "manual_seed(7)\nreturn [torch.randn(64)]",
    "torch.cuda": "torch.cuda.manual_seed_all(1)\ntorch.manual_seed(1)\nreturn [torch.randn(64, device='cuda')]",
    "generator": "return [torch.randn(64, generator=torch.Generator().manual_seed(3))]",
    "generator of a device": "g = torch.Generator(device='cuda')\ng.manual_seed(1)\n"
    "return [torch.randn(64, generator=g, device='cuda')]",
    "generator without a seed": "return [torch.randn(64, generator=torch.Generator())]",
    "default generator": "torch.default_generator.manual_seed(0)\nreturn [torch.randn(64)]",
    "fork_rng": "with torch.random.fork_rng():\n    torch.manual_seed(0)\n    return [torch.randn(64)]",
    "state of the import": "torch.set_rng_state(STATE)\nreturn [torch.randn(64)]",
    "random": "random.seed('abc')\nreturn [torch.tensor([random.random() for _ in range(8)])]",
    "Random": "r = random.Random(3)\nreturn [torch.tensor([r.gauss(0, 1) for _ in range(8)])]",
    "random state": "random.setstate(RANDOM)\nreturn [torch.tensor([random.random() for _ in range(8)])]",
    "numpy": "np.random.seed(0)\nreturn [torch.from_numpy(np.random.randn(64))]",
    "numpy state": "np.random.set_state(NUMPY)\nreturn [torch.from_numpy(np.random.randn(64))]",
    "default_rng": "return [torch.from_numpy(np.random.default_rng(0).normal(size=64))]",
    "default_rng by name": "return [torch.from_numpy(default_rng(0).normal(size=64))]",
    "RandomState": "return [torch.from_numpy(np.random.RandomState(0).randn(64))]",
    "bit generator": "g = np.random.Generator(np.random.PCG64(np.random.SeedSequence(4)))\n"
    "return [torch.from_numpy(g.normal(size=64))]",
    "seed of a hash": "torch.manual_seed(hash(('x', 64)) % 2**31)\nreturn [torch.randn(64)]",
    "data of the import": "return [DATA.clone()]",
    "generator of the import": "return [torch.from_numpy(RNG.normal(size=8))]",
    "cached": "return [cached()]",
    "counted seed": "COUNT[0] += 1\ntorch.manual_seed(COUNT[0])\nreturn [torch.randn(64)]",
    "generator of C": "return [torch.randn(64, generator=torch._C.Generator().manual_seed(3))]",
    "RandomState of mtrand": "return [torch.from_numpy(np.random.mtrand.RandomState(0).randn(64))]",
    "permutation": "torch.manual_seed(0)\nreturn [torch.randperm(1000)]",
}
AT_IMPORT = """
STATE = torch.get_rng_state()
RANDOM, NUMPY = random.getstate(), np.random.get_state()
DATA = torch.randn(8, 8)
RNG = np.random.default_rng(0)
COUNT = [0]

@functools.lru_cache
def cached():
    return torch.randn(8)

"""
# Properties of all inputs of a draw together.
STRUCTURED = {
    "sorted": ("return [torch.randint(0, 1000, (256,)).sort().values]", lambda x: bool((x.diff() >= 0).all())),
    "permutation": ("return [torch.randperm(500)]", lambda x: x.unique().numel() == 500),
    "CSR": (
        "counts = torch.randint(0, 9, (64,))\n"
        "rows = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])\n"
        "return [rows, torch.randint(0, 64, (600,)), torch.tensor(int(rows[-1]))]",
        lambda rows, columns, entries: bool((rows.diff() >= 0).all()) and int(rows[-1]) == int(entries),
    ),
    "symmetric": (
        "a = torch.randn(16, 16)\nreturn [a @ a.T + 16 * torch.eye(16)]",
        lambda a: bool(torch_().equal(a, a.T)) and torch_().linalg.cholesky_ex(a)[1] == 0,
    ),
    "decay": ("return [-torch.rand(8, 512).cumsum(1)]", lambda x: bool((x.diff(dim=1) <= 0).all())),
    "one-hot": (
        "return [torch.nn.functional.one_hot(torch.randint(0, 10, (64,)), 10)]",
        lambda x: bool((x.sum(1) == 1).all()),
    ),
    "mask": (
        "return [torch.arange(2048) < torch.randint(1, 2048, (8, 1))]",
        lambda x: bool((x.int().diff(dim=1) <= 0).all()),
    ),
}


def torch_():
    return RUNNER["torch"]


def draws_of(body, at_import=""):
    source = BEFORE + at_import + "def get_inputs():\n    " + body.replace("\n", "\n    ") + "\n"
    return RUNNER["Draws"](lambda: RUNNER["KernelBench"]({"task": source}), RUNNER["make_on_cpu"])


def tensors_of(draws, seed):
    made, flags = draws.draw(seed, {}, 0)
    return list(RUNNER["tensors"](made)), flags


def differ(first, second):
    return [not torch_().equal(a, b) for a, b in zip(first, second)]


class DrawsTest(unittest.TestCase):
    def test_draws_of_tasks_that_seed_themselves_differ(self):
        for name, body in SEEDED.items():
            with self.subTest(name):
                draws = draws_of(body, AT_IMPORT)
                drawn = [tensors_of(draws, seed) for seed in (11, 12, 13)]
                self.assertEqual([flags for _, flags in drawn], [0, 0, 0])
                for (first, _), (second, _) in itertools.combinations(drawn, 2):
                    self.assertTrue(all(differ(first, second)))

    def test_a_draw_cannot_be_distinguished_from_values_of_the_import(self):
        """Data and generators of an import are the same in another process that does the same."""
        for name in ("data of the import", "generator of the import", "cached", "counted seed"):
            with self.subTest(name):
                first, _ = tensors_of(draws_of(SEEDED[name], AT_IMPORT), 11)
                second, _ = tensors_of(draws_of(SEEDED[name], AT_IMPORT), 12)
                self.assertTrue(all(differ(first, second)))

    def test_equal_seeds_give_equal_values_in_one_draw(self):
        draws = draws_of(
            "torch.manual_seed(0)\na = torch.randn(9)\ntorch.manual_seed(0)\nb = torch.randn(9)\n"
            "state = torch.get_rng_state()\nc = torch.randn(9)\ntorch.set_rng_state(state)\nd = torch.randn(9)\n"
            "return [a, b, c, d]"
        )
        for seed in (11, 12):
            (a, b, c, d), _ = tensors_of(draws, seed)
            self.assertTrue(torch_().equal(a, b))
            self.assertTrue(torch_().equal(c, d))
            self.assertFalse(torch_().equal(a, c))

    def test_what_is_true_of_a_draw_stays_true(self):
        for name, (body, holds) in STRUCTURED.items():
            for seeded in ("", "torch.manual_seed(0)\n"):
                with self.subTest(name, seeded=seeded):
                    draws = draws_of(seeded + body)
                    drawn = [tensors_of(draws, seed)[0] for seed in (11, 12)]
                    self.assertTrue(any(differ(*drawn)))
                    self.assertTrue(all(holds(*tensors) for tensors in drawn))

    def test_inputs_that_never_change_are_scaled_where_that_keeps_them_valid(self):
        draws = draws_of(
            "mask = torch.zeros(4).masked_fill(torch.tensor([True, False, False, True]), float('-inf'))\n"
            "return [torch.linspace(0, 1, 9).bfloat16(), torch.arange(5), torch.eye(3), torch.tensor([True]), mask]"
        )
        drawn = [tensors_of(draws, seed) for seed in (11, 12)]
        self.assertEqual([flags for _, flags in drawn], [NEVER_CHANGES | ONLY_SCALED] * 2)
        self.assertEqual(differ(drawn[0][0], drawn[1][0]), [True, False, False, False, False])
        self.assertTrue(bool((drawn[0][0][0].diff() > 0).all()))

    def test_inputs_that_cannot_change_are_flagged(self):
        for body in ("return [torch.ones(3)]", "return [torch.arange(5)]", "return [torch.zeros(2).bool()]"):
            with self.subTest(body):
                self.assertEqual(tensors_of(draws_of(body), 11)[1], NEVER_CHANGES)

    def test_inputs_that_never_change_are_scaled_and_flagged_where_others_vary(self):
        draws = draws_of("return [torch.randn(8), {'x': torch.linspace(0, 1, 64)}, torch.arange(64), torch.rand(4)]")
        drawn = [tensors_of(draws, seed) for seed in (11, 12)]
        self.assertEqual(differ(drawn[0][0], drawn[1][0]), [True, True, False, True])
        self.assertEqual([flags for _, flags in drawn], [NEVER_CHANGES | ONLY_SCALED] * 2)
        self.assertTrue(bool((drawn[0][0][1].diff() > 0).all()))
        self.assertEqual(tensors_of(draws_of("return [torch.randn(8), torch.rand(()) + torch.linspace(0, 1, 64)]"), 11)[1], 0)
        self.assertEqual(tensors_of(draws_of("return [torch.randn(8), torch.linspace(0, 1, 64)]"), 11)[1], ONLY_SCALED)
        self.assertEqual(tensors_of(draws_of("return [torch.randn(8), torch.arange(64)]"), 11)[1], NEVER_CHANGES)
        self.assertEqual(tensors_of(draws_of("return [torch.randn(8), torch.tensor([0.5, 1])]"), 11)[1], 0)

    def test_inputs_of_which_few_values_change_count_as_equal(self):
        own = "x[0] = os.urandom(1)[0] / 256 + 1e-3\nreturn [x]"
        for body, expected in (
            (f"x = torch.linspace(0.1, 1, 512)\n{own}", ONLY_SCALED),
            (f"torch.manual_seed(0)\nx = torch.randn(512)\n{own}", 0),
            ("return [torch.randn(64, 64) * (torch.rand(64, 64) < 0.02)]", 0),
            ("return [torch.randn(16, 16).cumsum(0).tril()]", 0),
        ):
            with self.subTest(body):
                draws = draws_of(body)
                drawn = [tensors_of(draws, seed) for seed in (11, 12)]
                self.assertEqual([flags for _, flags in drawn], [expected] * 2)
                (first,), (second,) = drawn[0][0], drawn[1][0]
                self.assertGreater(int((first != second).sum()), 0.9 * int((first != 0).sum()))

    def test_inputs_of_few_values_are_flagged(self):
        for body in (
            "return [torch.randint(0, 2, (1,)).bool(), torch.full((3,), 2.5)]",
            "return [torch.randint(0, 100, (1,))]",
            "torch.manual_seed(0)\nreturn [torch.arange(2048) < torch.randint(0, 50, (1,))]",
        ):
            with self.subTest(body), unittest.mock.patch.dict(RUNNER, COMPARING_SECONDS=60):
                self.assertEqual(tensors_of(draws_of(body), 11)[1], FEW_VALUES)
        for body in ("return [torch.randn(1)]", "return [torch.randint(0, 9, (64,)), torch.ones(4)]"):
            with self.subTest(body):
                self.assertEqual(tensors_of(draws_of(body), 11)[1], 0)

    def test_a_task_that_works_with_its_own_seed_only_keeps_it(self):
        body = "torch.manual_seed(0)\nx = torch.randn(3)\nassert abs(x[0] - 1.5410) < 1e-3\nreturn [x]"
        self.assertEqual(tensors_of(draws_of(body), 11)[1], ONLY_SCALED)

    def test_the_generators_of_the_process_are_as_before(self):
        names = [(torch_(), "manual_seed"), (torch_(), "Generator"), (RUNNER["random"], "seed")]
        before = [getattr(*name) for name in names]
        tensors_of(draws_of("torch.manual_seed(0)\nreturn [torch.randn(3)]"), 11)
        self.assertEqual([getattr(*name) for name in names], before)

    def test_modules_of_a_folder_are_imported_again(self):
        modules = {
            "reference.py": "from parts import DATA\ndef generate_input(size): return DATA\n",
            "parts.py": "import torch\nDATA = torch.randn(9)\n",
        }
        given = {"details": RUNNER["json"].dumps({"cases": [], "modules": modules}), "role": "inputs"}
        draws = RUNNER["Draws"](lambda: RUNNER["GpuMode"](given), RUNNER["make_on_cpu"])
        drawn = [list(RUNNER["tensors"](draws.draw(seed, {"arguments": {"size": 3}}, 0)[0])) for seed in (11, 12)]
        self.assertTrue(all(differ(*drawn)))

    def test_fingerprints_of_a_device_tell_values_apart(self):
        of = RUNNER["on_device"]
        torch = torch_()
        permutations = [torch.tensor(p).view(torch.uint8) for p in itertools.permutations(range(6))]
        self.assertEqual(len(set(map(of, permutations))), 720)
        for size in (1, 7, 8, 9, 100):
            data = torch.arange(size, dtype=torch.uint8)
            self.assertEqual(of(data), of(data.clone()))
            self.assertNotEqual(of(data), of(data + 1))

    def test_fingerprints_of_views_are_those_of_their_values(self):
        of, torch = RUNNER["fingerprint"], torch_()
        data = torch.arange(24.0).view(4, 6)
        wave = torch.view_as_complex(data.view(-1, 2))
        for view in (data[:, ::2], data.t(), data[::2, 1:3], data[0].expand(3, 6), data[1:], wave.conj(), wave.imag):
            with self.subTest(shape=view.shape, strides=view.stride()):
                self.assertEqual(of(view), of(view.clone(memory_format=torch.contiguous_format).resolve_conj()))
                self.assertNotEqual(of(view), of(view + 1))


if __name__ == "__main__":
    if importlib.util.find_spec("torch") is None:
        sys.exit(77)
    folder = pathlib.Path(sys.argv.pop(1))
    exec("\n".join((folder / f"{name}.py").read_text() for name in FILES), RUNNER)
    RUNNER["import_torch"]()
    RUNNER["COMPARING_SECONDS"] = 0.03
    unittest.main()
