"""Tasks in the form of KernelBench, and candidates for each: Triton kernels with other block sizes, warps and algorithms, and
PyTorch alone. All are right. A reference takes 10 us to 1 ms on an H200.
"""

import pathlib

IMPORTS = "import torch\nimport torch.nn as nn\n"
TRITON = IMPORTS + "import triton\nimport triton.language as tl\n"
# Multiprocessors of an H200. Others take more or fewer rows per program.
PERSISTENT_PROGRAMS = 264


def task(rows, forward, inputs, init="", arguments="x"):
    made = f"    def __init__(self):\n        super().__init__()\n{init}\n" if init else ""
    return (f"{IMPORTS}\nROWS = {rows}\n\n\nclass Model(nn.Module):\n{made}    def forward(self, {arguments}):\n{forward}\n\n\n"
            f"def get_inputs():\n    return [{inputs}]\n\n\ndef get_init_inputs():\n    return []\n")


def torch_only(forward, init="", arguments="x"):
    made = f"    def __init__(self):\n        super().__init__()\n{init}\n" if init else ""
    return f"{IMPORTS}\n\nclass ModelNew(nn.Module):\n{made}    def forward(self, {arguments}):\n{forward}\n"


def triton(kernel, forward, init="", arguments="x"):
    made = f"    def __init__(self):\n        super().__init__()\n{init}\n" if init else ""
    return f"{TRITON}\n\n{kernel}\n\nclass ModelNew(nn.Module):\n{made}    def forward(self, {arguments}):\n{forward}\n"


# How rows are given to programs. `body` is for one row of a whole block: from `v` to `r`, masked by `inside`.
WHOLE = """\
@triton.jit
def kernel(x, y{pointers}, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < cols
    v = tl.load(x + row * cols + at, mask=inside, other={other}).to(tl.float32)
{body}
    tl.store(y + row * cols + at, r, mask=inside)
"""
PERSISTENT = """\
@triton.jit
def kernel(x, y{pointers}, rows, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < cols
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        v = tl.load(x + row * cols + at, mask=inside, other={other}).to(tl.float32)
{body}
        tl.store(y + row * cols + at, r, mask=inside)
"""
SEVERAL = """\
@triton.jit
def kernel(x, y{pointers}, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    at = tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (at < cols)
    v = tl.load(x + row * cols + at, mask=inside, other={other}).to(tl.float32)
{body}
    tl.store(y + row * cols + at, r, mask=inside)
"""


def indented(text, more):
    return "\n".join(" " * more + line for line in text.splitlines())


def row_candidates(one_row, many_rows, other, pointers, passed, init, warps, several):
    """Candidates that keep a row in registers. `passed` are the arguments after the output."""
    named = {}
    names = {"pointers": pointers, "other": other}
    head = "        cols = x.shape[1]\n        rows = x.numel() // cols\n        y = torch.empty_like(x)\n"
    block = "BLOCK=triton.next_power_of_2(cols)"
    for count in warps:
        named[f"whole_{count}_warps"] = triton(
            WHOLE.format(body=indented(one_row, 4), **names),
            f"{head}        kernel[(rows,)](x, y{passed}, cols, {block}, num_warps={count})\n        return y", init)
    named["persistent"] = triton(
        PERSISTENT.format(body=indented(one_row, 8), **names),
        f"{head}        kernel[(min(rows, {PERSISTENT_PROGRAMS}),)](x, y{passed}, rows, cols, {block}, num_warps=8)\n"
        "        return y", init)
    for rows, count in several:
        named[f"rows_{rows}_{count}_warps"] = triton(
            SEVERAL.format(body=indented(many_rows, 4), **names),
            f"{head}        kernel[(triton.cdiv(rows, {rows}),)](x, y{passed}, rows, cols, ROWS={rows}, {block}, "
            f"num_warps={count})\n        return y", init)
    return named


def looped(kernel, name, shapes, passed="", init=""):
    """Candidates that go over a row in blocks."""
    return {
        f"{name}_{block}_{warps}_warps": triton(
            kernel,
            "        cols = x.shape[1]\n        rows = x.numel() // cols\n        y = torch.empty_like(x)\n"
            f"        kernel[(rows,)](x, y{passed}, cols, BLOCK={block}, num_warps={warps})\n        return y", init)
        for block, warps in shapes
    }


def softmax(rows=8192):
    online = """\
@triton.jit
def kernel(x, y, cols, BLOCK: tl.constexpr):
    x += tl.program_id(0).to(tl.int64) * cols
    y += tl.program_id(0).to(tl.int64) * cols
    largest = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < cols, other=-1e30)
        larger = tl.maximum(largest, v)
        total = total * tl.exp(largest - larger) + tl.exp(v - larger)
        largest = larger
    top = tl.max(largest, 0)
    scale = 1.0 / tl.sum(total * tl.exp(largest - top), 0)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < cols)
        tl.store(y + at, tl.exp(v - top) * scale, mask=at < cols)
"""
    passes = """\
@triton.jit
def kernel(x, y, cols, BLOCK: tl.constexpr):
    x += tl.program_id(0).to(tl.int64) * cols
    y += tl.program_id(0).to(tl.int64) * cols
    top = float("-inf")
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        top = tl.maximum(top, tl.max(tl.load(x + at, mask=at < cols, other=float("-inf")), 0))
    total = 0.0
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.exp(tl.load(x + at, mask=at < cols, other=float("-inf")) - top), 0)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(y + at, tl.exp(tl.load(x + at, mask=at < cols) - top) / total, mask=at < cols)
"""
    candidates = row_candidates("v = tl.exp(v - tl.max(v, 0))\nr = v / tl.sum(v, 0)",
                                "v = tl.exp(v - tl.max(v, 1)[:, None])\nr = v / tl.sum(v, 1)[:, None]",
                                'float("-inf")', "", "", "", (2, 4, 8, 16, 32), ())
    candidates |= looped(online, "online", ((512, 4), (1024, 4), (2048, 8)))
    candidates |= looped(passes, "three_passes", ((1024, 4), (4096, 8)))
    candidates["torch_call"] = torch_only("        return torch.softmax(x, 1)")
    candidates["torch_steps"] = torch_only("        e = torch.exp(x - x.max(1, keepdim=True).values)\n"
                                           "        return e / e.sum(1, keepdim=True)")
    candidates["torch_in_place"] = torch_only("        e = (x - x.amax(1, keepdim=True)).exp_()\n"
                                              "        return e.div_(e.sum(1, keepdim=True))")
    return task(rows, "        return torch.softmax(x, dim=1)", "torch.randn(ROWS, 4096)"), candidates


WEIGHT = "        self.weight = nn.Parameter(torch.ones({0}))"
WEIGHT_AND_BIAS = WEIGHT + "\n        self.bias = nn.Parameter(torch.zeros({0}))"


def rmsnorm(rows=8192):
    init = WEIGHT.format(8192)
    passes = """\
@triton.jit
def kernel(x, y, weight, cols, BLOCK: tl.constexpr):
    x += tl.program_id(0).to(tl.int64) * cols
    y += tl.program_id(0).to(tl.int64) * cols
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < cols, other=0.0).to(tl.float32)
        squares += v * v
    scale = tl.rsqrt(tl.sum(squares, 0) / cols + 1e-6)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < cols).to(tl.float32)
        tl.store(y + at, v * scale * tl.load(weight + at, mask=at < cols), mask=at < cols)
"""
    candidates = row_candidates("r = v * tl.rsqrt(tl.sum(v * v, 0) / cols + 1e-6) * tl.load(weight + at, mask=inside)",
                                "", "0.0", ", weight", ", self.weight", init, (2, 4, 8, 16, 32), ())
    candidates |= looped(passes, "two_passes", ((256, 1), (512, 4), (1024, 4), (2048, 8), (4096, 8)), ", self.weight", init)
    candidates["torch_steps"] = torch_only("        v = x.float()\n        v = v * torch.rsqrt(v.pow(2).mean(1, keepdim=True) + 1e-6)\n"
                                           "        return (v * self.weight).to(x.dtype)", init)
    candidates["torch_in_place"] = torch_only("        v = x.float()\n        scale = (v * v).mean(1, keepdim=True).add_(1e-6).rsqrt_()\n"
                                              "        return v.mul_(scale).mul_(self.weight).to(x.dtype)", init)
    candidates["torch_norm"] = torch_only("        v = x.float()\n        size = v.norm(dim=1, keepdim=True)\n"
                                          "        scale = torch.rsqrt(size * size / x.shape[1] + 1e-6)\n"
                                          "        return (v * scale * self.weight).to(x.dtype)", init)
    return task(rows, "        v = x.float()\n        v = v * torch.rsqrt(v.pow(2).mean(dim=1, keepdim=True) + 1e-6)\n"
                "        return (v * self.weight).to(x.dtype)", "torch.randn(ROWS, 8192).bfloat16()", init), candidates


def layernorm(rows=16384):
    init = WEIGHT_AND_BIAS.format(1024)
    passes = """\
@triton.jit
def kernel(x, y, weight, bias, cols, BLOCK: tl.constexpr):
    x += tl.program_id(0).to(tl.int64) * cols
    y += tl.program_id(0).to(tl.int64) * cols
    sums = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < cols, other=0.0)
        sums += v
        squares += v * v
    mean = tl.sum(sums, 0) / cols
    scale = tl.rsqrt(tl.sum(squares, 0) / cols - mean * mean + 1e-5)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < cols
        v = (tl.load(x + at, mask=inside) - mean) * scale
        tl.store(y + at, v * tl.load(weight + at, mask=inside) + tl.load(bias + at, mask=inside), mask=inside)
"""
    last = "r = d * tl.rsqrt(s + 1e-5) * tl.load(weight + at, mask=inside) + tl.load(bias + at, mask=inside)"
    across = last.replace("mask=inside", "mask=at < cols")
    candidates = row_candidates(
        f"d = tl.where(inside, v - tl.sum(v, 0) / cols, 0.0)\ns = tl.sum(d * d, 0) / cols\n{last}",
        f"d = tl.where(inside, v - (tl.sum(v, 1) / cols)[:, None], 0.0)\ns = (tl.sum(d * d, 1) / cols)[:, None]\n{across}",
        "0.0", ", weight, bias", ", self.weight, self.bias", init, (1, 2, 4, 8, 16), ((2, 4), (8, 8)))
    candidates |= looped(passes, "two_passes", ((128, 1), (256, 2), (512, 4)), ", self.weight, self.bias", init)
    candidates["torch_call"] = torch_only("        return nn.functional.layer_norm(x, x.shape[1:], self.weight, self.bias)", init)
    candidates["torch_steps"] = torch_only("        d = x - x.mean(1, keepdim=True)\n"
                                           "        d = d * torch.rsqrt((d * d).mean(1, keepdim=True) + 1e-5)\n"
                                           "        return d * self.weight + self.bias", init)
    candidates["torch_moments"] = torch_only(
        "        variance, mean = torch.var_mean(x, dim=1, unbiased=False, keepdim=True)\n"
        "        d = (x - mean).mul_(torch.rsqrt(variance + 1e-5))\n        return d.mul_(self.weight).add_(self.bias)", init)
    return task(rows, "        return nn.functional.layer_norm(x, (1024,), self.weight, self.bias)", "torch.randn(ROWS, 1024)",
                init), candidates


def bias_gelu(rows=8192):
    flat = """\
@triton.jit
def kernel(x, bias, y, n, cols, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n) + tl.load(bias + at % cols, mask=at < n)
    tl.store(y + at, 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476)), mask=at < n)
"""
    stepped = """\
@triton.jit
def kernel(x, bias, y, n, cols, BLOCK: tl.constexpr):
    for block in range(tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0)):
        at = block * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < n) + tl.load(bias + at % cols, mask=at < n)
        tl.store(y + at, 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476)), mask=at < n)
"""
    tiled = """\
@triton.jit
def kernel(x, bias, y, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    col = (tl.program_id(1) * BLOCK + tl.arange(0, BLOCK))[None, :]
    inside = (row < rows) & (col < cols)
    v = tl.load(x + row * cols + col, mask=inside) + tl.load(bias + col, mask=col < cols)
    tl.store(y + row * cols + col, 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476)), mask=inside)
"""
    by_columns = """\
@triton.jit
def kernel(x, bias, y, rows, cols, ROWS: tl.constexpr):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    b = tl.program_id(1)
    v = tl.load(x + row * cols + b, mask=row < rows) + tl.load(bias + b)
    tl.store(y + row * cols + b, 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476)), mask=row < rows)
"""
    init = "        self.bias = nn.Parameter(torch.zeros(4096))"
    head = "        rows, cols = x.shape\n        n = x.numel()\n        y = torch.empty_like(x)\n"
    candidates = {}
    for block, warps in ((128, 4), (256, 4), (512, 4), (1024, 4), (4096, 8), (16384, 8)):
        candidates[f"flat_{block}_{warps}_warps"] = triton(
            flat, f"{head}        kernel[(triton.cdiv(n, {block}),)](x, self.bias, y, n, cols, BLOCK={block}, num_warps={warps})\n"
            "        return y", init)
    for programs, block in ((132, 1024), (1056, 2048)):
        candidates[f"stepped_{programs}"] = triton(
            stepped, f"{head}        kernel[({programs},)](x, self.bias, y, n, cols, BLOCK={block}, num_warps=8)\n"
            "        return y", init)
    for height, block in ((4, 1024), (32, 64)):
        candidates[f"tiled_{height}x{block}"] = triton(
            tiled, f"{head}        grid = (triton.cdiv(rows, {height}), triton.cdiv(cols, {block}))\n"
            f"        kernel[grid](x, self.bias, y, rows, cols, ROWS={height}, BLOCK={block}, num_warps=4)\n        return y", init)
    candidates["by_columns"] = triton(
        by_columns, f"{head}        kernel[(triton.cdiv(rows, 512), cols)](x, self.bias, y, rows, cols, ROWS=512, num_warps=4)\n"
        "        return y", init)
    candidates["torch_call"] = torch_only("        return nn.functional.gelu(x + self.bias)", init)
    candidates["torch_in_place"] = torch_only("        v = x + self.bias\n"
                                              "        return torch.erf(v * 0.7071067811865476).add_(1).mul_(v).mul_(0.5)", init)
    candidates["torch_steps"] = torch_only("        v = x + self.bias\n"
                                           "        return 0.5 * v * (1 + torch.erf(v * 0.7071067811865476))", init)
    return task(rows, "        return nn.functional.gelu(x + self.bias)", "torch.randn(ROWS, 4096)", init), candidates


def column_sum(rows=32768):
    # A program adds the rows of its part in its columns.
    parts = """\
@triton.jit
def kernel(x, y, rows, cols, PART: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, ADD: tl.constexpr):
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)
    first = tl.program_id(1) * PART
    end = tl.minimum(first + PART, rows)
    total = tl.zeros((ROWS, COLS), tl.float32)
    for start in range(first, first + PART, ROWS):
        row = (start + tl.arange(0, ROWS)).to(tl.int64)[:, None]
        total += tl.load(x + row * cols + col[None, :], mask=(row < end) & (col < cols)[None, :], other=0.0)
    if ADD:
        tl.atomic_add(y + col, tl.sum(total, 0), mask=col < cols)
    else:
        tl.store(y + tl.program_id(1) * cols + col, tl.sum(total, 0), mask=col < cols)
"""
    head = "        rows, cols = x.shape\n"
    candidates = {}

    def add(name, splits, rows, cols, warps, atomics):
        place = "y = torch.zeros(cols, device=x.device)" if atomics else f"y = torch.empty({splits}, cols, device=x.device)"
        result = "y" if atomics else "y.sum(0)" if splits > 1 else "y[0]"
        candidates[name] = triton(
            parts, f"{head}        {place}\n        part = triton.cdiv(rows, {splits})\n"
            f"        kernel[(triton.cdiv(cols, {cols}), {splits})](x, y, rows, cols, PART=part, ROWS={rows}, COLS={cols}, "
            f"ADD={atomics}, num_warps={warps})\n        return {result}")

    add("whole_16x32", 1, 16, 32, 4, False)
    add("whole_64x32", 1, 64, 32, 8, False)
    add("whole_32x128", 1, 32, 128, 8, False)
    add("parts_16_16x128", 16, 16, 128, 4, False)
    add("parts_64_32x128", 64, 32, 128, 8, False)
    add("parts_256_16x256", 256, 16, 256, 8, False)
    add("atomic_16_16x128", 16, 16, 128, 4, True)
    add("atomic_64_32x64", 64, 32, 64, 4, True)
    add("atomic_1024_16x256", 1024, 16, 256, 8, True)
    candidates["torch_call"] = torch_only("        return x.sum(0)")
    candidates["torch_two_steps"] = torch_only("        return x.view(64, -1, x.shape[1]).sum(1).sum(0)")
    candidates["torch_transposed"] = torch_only("        return x.t().contiguous().sum(1)")
    candidates["torch_product"] = torch_only("        return (torch.ones(1, x.shape[0], device=x.device) @ x)[0]")
    candidates["torch_mean"] = torch_only("        return x.mean(0) * x.shape[0]")
    return task(rows, "        return x.sum(dim=0)", "torch.randn(ROWS, 2048)"), candidates


def cross_entropy(rows=4096):
    whole = """\
@triton.jit
def kernel(x, target, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * cols + at, mask=at < cols, other=float("-inf"))
    top = tl.max(v, 0)
    picked = tl.load(x + row * cols + tl.load(target + row))
    tl.store(y + row, tl.log(tl.sum(tl.exp(v - top), 0)) + top - picked)
"""
    online = """\
@triton.jit
def kernel(x, target, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * cols
    largest = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < cols, other=-1e30)
        larger = tl.maximum(largest, v)
        total = total * tl.exp(largest - larger) + tl.exp(v - larger)
        largest = larger
    top = tl.max(largest, 0)
    total = tl.sum(total * tl.exp(largest - top), 0)
    tl.store(y + row, tl.log(total) + top - tl.load(x + tl.load(target + row)))
"""
    passes = """\
@triton.jit
def kernel(x, target, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * cols
    top = float("-inf")
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        top = tl.maximum(top, tl.max(tl.load(x + at, mask=at < cols, other=float("-inf")), 0))
    total = 0.0
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.exp(tl.load(x + at, mask=at < cols, other=float("-inf")) - top), 0)
    tl.store(y + row, tl.log(total) + top - tl.load(x + tl.load(target + row)))
"""
    candidates = {}
    arguments = "x, target"

    def add(kernel, name, block, warps):
        candidates[f"{name}_{warps}_warps"] = triton(
            kernel, "        rows, cols = x.shape\n        y = torch.empty(rows, device=x.device)\n"
            f"        kernel[(rows,)](x, target, y, cols, BLOCK={block}, num_warps={warps})\n        return y", "", arguments)

    for warps in (4, 8, 16, 32):
        add(whole, "whole", "triton.next_power_of_2(cols)", warps)
    for block, warps in ((256, 1), (1024, 4), (2048, 8), (8192, 16)):
        add(online, f"online_{block}", block, warps)
    for block, warps in ((512, 4), (4096, 8)):
        add(passes, f"two_passes_{block}", block, warps)
    candidates["torch_call"] = torch_only("        return nn.functional.cross_entropy(x, target, reduction='none')", "", arguments)
    candidates["torch_logsumexp"] = torch_only(
        "        return torch.logsumexp(x, 1) - x.gather(1, target[:, None])[:, 0]", "", arguments)
    candidates["torch_log_softmax"] = torch_only(
        "        return -torch.log_softmax(x, 1).gather(1, target[:, None])[:, 0]", "", arguments)
    candidates["torch_steps"] = torch_only(
        "        d = x - x.amax(1, keepdim=True)\n"
        "        return torch.log(torch.exp(d).sum(1)) - d.gather(1, target[:, None])[:, 0]", "", arguments)
    return task(rows, "        return nn.functional.cross_entropy(x, target, reduction='none')",
                "torch.randn(ROWS, 16384), torch.randint(0, 16384, (ROWS,))", arguments=arguments), candidates


TASKS = {"row_softmax": softmax, "rmsnorm": rmsnorm, "layernorm": layernorm, "bias_gelu": bias_gelu, "column_sum": column_sum,
         "cross_entropy": cross_entropy}


def write(folder, names=TASKS, rows=None):
    """Writes NAME.py for each task, and NAME/CANDIDATE.py. `rows` are for a quick trial."""
    folder = pathlib.Path(folder)
    for name in names:
        source, candidates = TASKS[name](rows) if rows else TASKS[name]()
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.py").write_text(source)
        for candidate, text in candidates.items():
            (folder / name / f"{candidate}.py").write_text(text)
