"""Tests what is found out about a task's reference: rounding, the bytes that a kernel must move, and FLOPs.

    reference_facts_test.py FOLDER

FOLDER is services/worker/python.
"""

import math
import pathlib
import sys
import unittest

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    print("skipped: there is no PyTorch")
    sys.exit(77)

SEED = 42
FOLDER = pathlib.Path(sys.argv.pop(1))
torch.set_num_threads(1)
torch.set_grad_enabled(False)
for file in ("task_values", "reference_facts"):
    exec((FOLDER / f"{file}.py").read_text(), globals())

rand, randn = torch.rand, torch.randn


def outputs_of(result):
    return [result] if isinstance(result, torch.Tensor) else list(result)


def facts(reference, make):
    def seeded():
        torch.manual_seed(SEED)
        return make()

    inputs = seeded()
    fresh = mapped(torch.clone, inputs)
    outputs = outputs_of(reference(*inputs))
    noise = rounding_noise(reference, outputs_of, fresh, outputs)
    return noise, least_bytes(reference, outputs_of, seeded, noise), count_flops(reference, seeded())


# A reference, its inputs, and the bytes that a right kernel surely moves. 64 x 64 values are 16 KiB.
K = 1024
SQUARE = lambda: [randn(64, 64)]
TWO = lambda: [randn(64, 64), randn(64, 64)]
IMAGES = lambda: [randn(4, 8, 16, 16)]
MOVED = {
    "elementwise": (lambda x: F.gelu(x), SQUARE, 32 * K),
    "two inputs": (lambda x, y: x + y, TWO, 48 * K),
    "cumulative sum": (lambda x: x.cumsum(1), SQUARE, 32 * K),
    "softmax": (lambda x: x.softmax(-1), SQUARE, 32 * K),
    "normalisation": (lambda x: F.layer_norm(x, (64,)), SQUARE, 32 * K),
    "mean of rows": (lambda x: x.mean(1), SQUARE, 16 * K),
    "sum of all": (lambda x: x.sum(), lambda: [rand(64, 64)], 16 * K),
    "matrix product": (lambda x, y: x @ y, TWO, 48 * K),
    "bfloat16": (lambda x, y: x @ y, lambda: [t.bfloat16() for t in TWO()], 24 * K),
    "convolution": (lambda x, w: F.conv2d(x, w), lambda: [randn(4, 3, 34, 34), randn(8, 3, 3, 3)], 186 * K),
    "attention": (lambda q, k, v: ((q @ k.mT) / 8).softmax(-1) @ v, lambda: [randn(2, 64, 64) for _ in "qkv"], 128 * K),
    "an input that is written": (lambda x: x.mul_(2), SQUARE, 32 * K),
}

# The most that a right kernel needs. It may return a view, skip masked elements, or know the answer.
LESS = {
    "view": (lambda x: x.view(-1), SQUARE, 0),
    "transposed copy": (lambda x: x.T.contiguous(), SQUARE, 0),
    "slice": (lambda x: x[:, :16].contiguous(), SQUARE, 0),
    "identity": (lambda x: F.dropout(x, 0.5, False) * 1.0, SQUARE, 0),
    "an input itself": (lambda x, y: (x, x + y), TWO, 48 * K),
    "expanded": (lambda x: x.mean(1, keepdim=True).expand(64, 4096), SQUARE, 17 * K),
    "expanded copy": (lambda x: x.mean(1, keepdim=True).expand(64, 4096).contiguous(), SQUARE, 17 * K),
    "expanded input": (lambda x: x + 1, lambda: [randn(1, 64).expand(64, 64)], 1 * K),
    "gathered rows": (lambda t, i: t[i] * 2, lambda: [randn(1024, 16), torch.randint(0, 1024, (64,))], 4 * K),
    "part": (lambda x: x[:, :16] * 2, SQUARE, 4 * K),
    "strided": (lambda x: x[:, ::4] * 2, SQUARE, 4 * K),
    "masked": (lambda x, m: x * m, lambda: [randn(64, 64), (rand(64, 64) > 0.5).float()], 9 * K),
    "where": (lambda x, m: torch.where(m, x, torch.zeros(())), lambda: [randn(64, 64), rand(64, 64) > 0.5], 9 * K),
    "lower triangle": (lambda a, b: torch.tril(a) @ b, TWO, 32 * K),
    "upper triangles as inputs": (lambda a, b: torch.triu(a @ b), lambda: [torch.triu(t) for t in TWO()], 9 * K),
    "diagonal": (lambda a, b: torch.diag(a) @ b, lambda: [randn(64), randn(64, 64)], 33 * K),
    "diagonal matrix as an input": (lambda a, b: a @ b, lambda: [torch.diag(randn(64)), randn(64, 64)], 33 * K),
    "times zero": (lambda x, y: x * 0 + y.exp(), TWO, 32 * K),
    "only the shape": (lambda x: torch.ones(x.shape), SQUARE, 0),
    "a table": (lambda x: torch.arange(4096.0).view(64, 64).sin(), SQUARE, 0),
    "x minus x": (lambda x: F.gelu(x.amax(1, True) - x.amax(1, True).mean(1, True)), SQUARE, 0),
    "always zero": (lambda x: F.group_norm(x, 4).clamp(max=0).clamp(0, 1), IMAGES, 0),
    "zero except for rounding": (lambda x: F.group_norm(x, 4).flatten(1).mean(-1), IMAGES, 0),
    "one except for rounding": (lambda x: x.softmax(1).sum(1), SQUARE, 0),
    "largest": (lambda x: x.amax(1), SQUARE, 1 * K),
    "index of the largest": (lambda x: x.argmax(1), SQUARE, 0),
    "decays": (lambda x: (x * torch.exp(-0.5 * torch.arange(64.0))).sum(1), lambda: [rand(64, 64)], 6 * K),
    "random": (lambda x: x + torch.randn(64, 64), SQUARE, 0),
    "refuses other values": (lambda x: torch.linalg.cholesky(x), lambda: [torch.eye(64) * 2.5], 16 * K),
}
MOVED["symmetric"] = (lambda a, b: a @ b, lambda: [(lambda t: t + t.T)(randn(64, 64)), randn(64, 64)], 40 * K)


class ReferenceFactsTest(unittest.TestCase):
    def test_bytes_of_dense_references_count(self):
        for name, (reference, make, bytes) in MOVED.items():
            with self.subTest(name):
                found = facts(reference, make)[1]
                self.assertGreaterEqual(found, 0.95 * bytes)
                self.assertLessEqual(found, 1.05 * bytes)

    def test_what_a_right_kernel_may_leave_out_does_not_count(self):
        for name, (reference, make, most) in LESS.items():
            with self.subTest(name):
                self.assertLessEqual(facts(reference, make)[1], most)

    def test_noise_is_small_unless_all_is_rounding(self):
        self.assertLess(facts(lambda x: x.softmax(-1), SQUARE)[0][0], 1e-3)
        means = facts(lambda x: x.mean(-1), lambda: [rand(16, 100000)])[0][0]
        self.assertGreater(means, 0)
        self.assertLess(means, 1e-5)
        self.assertLess(facts(lambda x: x.mean(-1), lambda: [rand(16, 4096).half()])[0][0], 1e-3)
        self.assertGreater(facts(lambda x: F.group_norm(x, 4).flatten(1).mean(-1), IMAGES)[0][0], 0.5)
        self.assertIsNone(facts(lambda x: x.argmax(1), SQUARE)[0][0])
        self.assertGreater(facts(lambda x: x + torch.randn(64, 64), SQUARE)[0][0], 0.5)

    def test_noise_does_not_depend_on_the_values_of_the_inputs(self):
        # The seed of the inputs would give the same numbers to what changes them.
        loss = facts(lambda x, y: F.mse_loss(x, y), lambda: [rand(512, 512), rand(512, 512)])[0][0]
        self.assertLess(loss, 1e-5)

    def own_error(self, reference, *inputs):
        outputs = outputs_of(reference(*mapped(torch.clone, list(inputs))))
        found = OwnErrors(reference)(outputs_of, inputs, outputs)
        self.assertEqual(torch.get_default_dtype(), torch.float32)
        return found[0]

    def test_own_errors_are_those_against_double_precision(self):
        x = randn(64, 256).bfloat16()
        casts = (
            lambda x: x.softmax(-1),
            lambda x: x.float().softmax(-1).bfloat16(),
            lambda x: x.to(torch.float32).softmax(-1).to(dtype=torch.bfloat16),
            lambda x: x.type(torch.float32).softmax(-1).type_as(x),
        )
        for reference in casts:
            largest, normwise = self.own_error(reference, x)
            # A value is off by half a step of its binade: 2**-9 to 2**-8 at most.
            self.assertLess(normwise, 2**-8)
            self.assertGreater(normwise, 2**-11)
            self.assertGreater(largest, normwise)
        module = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.LayerNorm(256))
        largest, normwise = self.own_error(module, randn(64, 256))
        self.assertLess(largest, 1e-4)
        self.assertGreater(normwise, 1e-8)
        self.assertEqual(module[0].weight.dtype, torch.float32)

    def test_own_errors_are_unknown_where_they_would_mean_nothing(self):
        weight = randn(256, 256)
        unknown = {
            "integers": lambda x: x.argmax(-1),
            "random": lambda x: F.dropout(x),
            "all rounding": lambda x: (x + 1e7) - 1e7,
            "a constant of another type": lambda x: x @ weight,
            "fails for other types": lambda x: x if x.dtype == torch.float32 else weight[0, 1000],
        }
        for name, reference in unknown.items():
            with self.subTest(name):
                self.assertIsNone(self.own_error(reference, randn(64, 256)))

    def test_rounded_values_keep_their_range_and_whole_numbers(self):
        generator = torch.Generator().manual_seed(1)
        for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
            values = rand(10000).to(dtype)
            values[:10], values[10:20] = 0, 1
            found = rounded(values, generator)
            self.assertEqual(found.dtype, dtype)
            self.assertTrue(bool((found[:20] == values[:20]).all()))
            self.assertTrue(bool(((found >= 0) & (found <= 1)).all()))
            change = (found.double() - values.double()).norm() / values.double().norm()
            self.assertGreater(change.item(), 1e-4)
            self.assertLess(change.item(), 4e-3)

    def test_flops_are_those_of_products_and_convolutions(self):
        self.assertEqual(facts(lambda x, y: x @ y, TWO)[2], 2 * 64**3)
        self.assertEqual(facts(lambda x, y: torch.baddbmm(y[None], x[None], y[None]), TWO)[2], 2 * 64**3)
        layer = torch.nn.Linear(64, 32)
        self.assertEqual(facts(layer, SQUARE)[2], 2 * 64 * 64 * 32)
        weight = randn(8, 3, 3, 3)
        self.assertEqual(facts(lambda x: F.conv2d(x, weight), lambda: [randn(2, 3, 10, 10)])[2], 2 * 2 * 8 * 64 * 27)
        weight = randn(3, 8, 3, 3)
        self.assertEqual(
            facts(lambda x: F.conv_transpose2d(x, weight), lambda: [randn(2, 3, 10, 10)])[2], 2 * 2 * 300 * 72
        )
        self.assertEqual(facts(lambda x: x.exp(), SQUARE)[2], 0)


unittest.main()
