#!/usr/bin/env python3
"""Writes Triton kernels that between them use most of Triton's language, for bench_triton --folder.

    triton_kernels.py FOLDER

Each is a candidate of the example problem whose name its folder has: a source, and its launches in a file NAME.json.
"""

import json
import os
import sys

HEAD = "import triton\nimport triton.language as tl\n"
LIBDEVICE = "from triton.language.extra import libdevice\n"
JIT = "\n\n@triton.jit\n"

# Bodies between the load of `v` and its store, by name: for each element at `at`.
ELEMENTWISE = {
    "bfloat_math": "h = v.to(tl.bfloat16)\nv = (h * h - h).to(tl.float32)",
    "bits": "b = v.to(tl.int32, bitcast=True)\n"
            "b = (b ^ (b >> 7)) & 0x7FFFFF | 0x3F800000\n"
            "v = b.to(tl.float32, bitcast=True)",
    "cache_hints": 'v = v + tl.load(x + at, mask=inside, other=0.0, cache_modifier=".cg", eviction_policy="evict_first")',
    "dropout": "v = tl.where(tl.rand(42, at.to(tl.int32)) > 0.5, v * 2.0, 0.0)",
    "float64": "v = (tl.sqrt(v.to(tl.float64) * v + 1.0) / 3.0).to(tl.float32)",
    "float64_exp": "v = tl.exp(v.to(tl.float64)).to(tl.float32)",
    "floor_ceil": "v = tl.floor(v) + tl.ceil(v * 0.5)",
    "fma_clamp": "v = tl.clamp(tl.fma(v, v, 1.0), 0.0, 6.0)",
    "fp8_round_trip": "v = v.to(tl.float8e5).to(tl.float32)",
    "gelu_erf": "v = 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476))",
    "gelu_tanh": "v = 0.5 * v * (1.0 + libdevice.tanh(0.7978845608 * (v + 0.044715 * v * v * v)))",
    "half_round_trip": "v = v.to(tl.float16).to(tl.float32) + v.to(tl.bfloat16).to(tl.float32)",
    "inline_asm": 'v = tl.inline_asm_elementwise("ex2.approx.f32 $0, $1;", "=f,f", [v], dtype=tl.float32, '
                  "is_pure=True, pack=1)",
    "int64_division": "v = v + (at // (n % 97 + 1)).to(tl.float32) + (at % 1000).to(tl.float32)",
    "int8_round_trip": "v = (v * 16.0).to(tl.int8).to(tl.float32)",
    "integer_division": "i = at.to(tl.int32)\nv = v + (i // 7).to(tl.float32) + (i % 13).to(tl.float32)",
    "isnan": "v = tl.where(libdevice.isnan(v), 0.0, v)",
    "leaky": "v = tl.where(v > 0, v, 0.01 * v)",
    "log_exp2": "v = tl.log2(tl.abs(v) + 1.0) + tl.exp2(v)",
    "nested_if": "if tl.program_id(0) % 2 == 0:\n    v = v + 1.0\nelse:\n    v = v * 2.0",
    "normal_noise": "v = v + tl.randn(7, at.to(tl.int32))",
    "pow": "v = libdevice.pow(tl.abs(v) + 0.1, 1.7)",
    "relu": "v = tl.maximum(v, 0.0)",
    "round": "v = libdevice.rint(v) + libdevice.trunc(v)",
    "rsqrt_div": "v = tl.rsqrt(tl.abs(v) + 1.0) / (v * v + 1.0)",
    "silu": "v = v * tl.sigmoid(v)",
    "sixteen_bit_math": "h = v.to(tl.float16)\nv = (h * h + h).to(tl.float32)",
    "softplus": "v = tl.where(v > 20.0, v, tl.log(1.0 + tl.exp(v)))",
    "static_loop": "for i in tl.static_range(5):\n    v = v * 0.5 + i",
    "tan_atan": "v = libdevice.atan(v) + libdevice.sinh(v)",
    "trig": "v = tl.sin(v) * tl.cos(v)",
    "uint8_saturate": "v = tl.minimum(tl.maximum(v * 255.0, 0.0), 255.0).to(tl.uint8).to(tl.float32)",
    "umulhi": "i = at.to(tl.uint32)\nv = v + tl.umulhi(i, i + 0x9E3779B9).to(tl.float32)",
    "while_loop": "steps = 0\nwhile steps < 4:\n    v = v * 1.5\n    steps += 1",
}
# The same for each row.
ROWS = {
    "row_argmin": "v = v + tl.argmin(v, 0).to(tl.float32)",
    "row_blocked_mean": "t = tl.reshape(v, (BLOCK // 16, 16))\n"
                        "t = t - tl.sum(t, 1)[:, None] / 16\n"
                        "v = tl.reshape(t, (BLOCK,))",
    "row_cumprod": "v = tl.cumprod(v * 0.01 + 1.0, 0)",
    "row_cumsum": "v = tl.cumsum(v, 0)",
    "row_flip": "v = tl.flip(v)",
    "row_gather_in_block": "v = tl.gather(v, (at * 7) % BLOCK, 0)",
    "row_interleave": "a, b = tl.split(tl.reshape(v, (BLOCK // 2, 2)))\nv = tl.interleave(b, a)",
    "row_minmax": "v = (v - tl.min(v, 0)) / (tl.max(v, 0) - tl.min(v, 0) + 1e-6)",
    "row_reshape_permute": "v = tl.reshape(tl.permute(tl.reshape(v, (BLOCK // 64, 8, 8)), (0, 2, 1)), (BLOCK,))",
    "row_reverse_cumsum": "v = tl.cumsum(v, 0, reverse=True)",
    "row_softmax_library": "v = tl.softmax(v)",
    "row_sort": "v = tl.sort(v)",
    "row_sort_descending": "v = tl.sort(v, descending=True)",
    "row_top_value": "v = tl.where(v >= tl.max(v, 0), 1.0, 0.0)",
    "row_variance": "m = tl.sum(v, 0) / cols\n"
                    "d = tl.where(inside, v - m, 0.0)\n"
                    "v = d / tl.sqrt(tl.sum(d * d, 0) / cols + 1e-5)",
    "row_xor_sum": "v = v + tl.xor_sum(v.to(tl.int32), 0).to(tl.float32)",
}

ROW_SCAN_CUSTOM = HEAD + JIT + """\
def combine(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2
""" + JIT + """\
def kernel(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * cols + at, mask=at < cols, other=0.0)
    _, v = tl.associative_scan((tl.full((BLOCK,), 0.9, tl.float32), v), 0, combine)
    tl.store(y + row * cols + at, v, mask=at < cols)
"""
BLOCK_POINTERS = HEAD + JIT + """\
def kernel(x, y, rows, cols, R: tl.constexpr, C: tl.constexpr):
    source = tl.make_block_ptr(x, (rows, cols), (cols, 1), (tl.program_id(0) * R, 0), (R, C), (1, 0))
    target = tl.make_block_ptr(y, (rows, cols), (cols, 1), (tl.program_id(0) * R, 0), (R, C), (1, 0))
    for start in range(0, cols, C):
        v = tl.load(source, boundary_check=(0, 1), padding_option="zero")
        tl.store(target, v * 2.0, boundary_check=(0, 1))
        source = tl.advance(source, (0, C))
        target = tl.advance(target, (0, C))
"""
LOCK = HEAD + JIT + """\
def kernel(x, y, workspace, cols, BLOCK: tl.constexpr):
    lock = workspace.to(tl.pointer_type(tl.int32))
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * cols + at, mask=at < cols, other=0.0)
    old = tl.atomic_cas(lock + row, 0, 1)
    tl.atomic_max(lock + row, old + 2)
    tl.store(y + row * cols + at, v + old, mask=at < cols)
"""
PERSISTENT = HEAD + JIT + """\
def kernel(x, y, n, BLOCK: tl.constexpr):
    for block in range(tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0)):
        at = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at, mask=at < n) + 1.0, mask=at < n)
"""
DESCRIPTORS = HEAD + JIT + """\
def matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    left = tl.make_tensor_descriptor(a, (m, k), (k, 1), (M, K))
    right = tl.make_tensor_descriptor(b, (k, n), (n, 1), (K, N))
    out = tl.make_tensor_descriptor(c, (m, n), (n, 1), (M, N))
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        total = tl.dot(left.load((tl.program_id(0) * M, start)), right.load((start, tl.program_id(1) * N)), total)
    out.store((tl.program_id(0) * M, tl.program_id(1) * N), total.to(tl.bfloat16))
"""
MATMUL = HEAD + JIT + """\
def matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)
    column = tl.program_id(1) * N + tl.arange(0, N)
    depth = tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        left = tl.load(a + row[:, None] * k + start + depth[None, :], mask=start + depth[None, :] < k, other=0.0)
        right = tl.load(b + (start + depth[:, None]) * n + column[None, :], mask=start + depth[:, None] < k, other=0.0)
        total = tl.dot(PRODUCT)
    total = EPILOGUE
    tl.store(c + row[:, None] * n + column[None, :], total.to(c.dtype.element_ty), mask=(row[:, None] < m) & (column[None, :] < n))
"""
ATTENTION = HEAD + "\n\n# The heads of attention_one_query as the queries of one head.\n" + JIT.lstrip("\n") + """\
def attention(q, k, v, out, queries, length, dim, factor, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr, TYPE: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)
    column = tl.arange(0, D)
    query = tl.load(q + row[:, None] * dim + column[None, :], mask=(row[:, None] < queries) & (column[None, :] < dim), other=0.0).to(TYPE)
    largest = tl.full((M,), -1e30, tl.float32)
    total = tl.zeros((M,), tl.float32)
    result = tl.zeros((M, D), tl.float32)
    for start in tl.range(0, length, N):
        key = start + tl.arange(0, N)
        keys = tl.load(k + key[None, :] * dim + column[:, None], mask=(key[None, :] < length) & (column[:, None] < dim), other=0.0).to(TYPE)
        score = tl.dot(query, keys) * factor
        score = tl.where(key[None, :] < length, score, -1e30)
        bigger = tl.maximum(largest, tl.max(score, 1))
        weight = tl.exp(score - bigger[:, None])
        shrink = tl.exp(largest - bigger)
        values = tl.load(v + key[:, None] * dim + column[None, :], mask=(key[:, None] < length) & (column[None, :] < dim), other=0.0).to(TYPE)
        result = tl.dot(weight.to(TYPE), values, result * shrink[:, None])
        total = total * shrink + tl.sum(weight, 1)
        largest = bigger
    tl.store(out + row[:, None] * dim + column[None, :], result / total[:, None], mask=(row[:, None] < queries) & (column[None, :] < dim))
"""


def per_element(body, address, prologue, other):
    lines = prologue + [f"v = tl.load(x + {address}, mask=inside, other={other})", *body.split("\n"),
                        f"tl.store(y + {address}, v, mask=inside)"]
    return HEAD + (LIBDEVICE if "libdevice" in body else "") + JIT + lines[0] + "".join(
        f"\n    {line}" for line in lines[1:]) + "\n"


def launches(kernel, grid, arguments, constexprs, **options):
    return {"kernel": kernel, "grid": grid, "arguments": arguments, "constexprs": constexprs, **options}


def row_softmax():
    elements = launches("kernel", ["ceildiv(rows * cols, 1024)"], ["x", "y", "rows*cols:int64"], {"BLOCK": 1024},
                        num_warps=4)
    rows = launches("kernel", ["rows"], ["x", "y", "cols"], {"BLOCK": 1024}, num_warps=4)
    for name, body in ELEMENTWISE.items():
        yield name, per_element(body, "at", ["def kernel(x, y, n, BLOCK: tl.constexpr):",
                                             "at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)",
                                             "inside = at < n"], "1.0"), elements
    for name, body in ROWS.items():
        yield name, per_element(body, "row * cols + at", ["def kernel(x, y, cols, BLOCK: tl.constexpr):",
                                                          "row = tl.program_id(0).to(tl.int64)",
                                                          "at = tl.arange(0, BLOCK)", "inside = at < cols"], "0.0"), rows
    yield "row_scan_custom", ROW_SCAN_CUSTOM, rows
    yield "block_pointers", BLOCK_POINTERS, launches(
        "kernel", ["ceildiv(rows, 16)"], ["x", "y", "rows", "cols"], {"R": 16, "C": 128}, num_warps=4)
    yield "lock", LOCK, launches("kernel", ["rows"], ["x", "y", "workspace", "cols"], {"BLOCK": 1024})
    yield "persistent", PERSISTENT, launches("kernel", [264], ["x", "y", "rows*cols:int64"], {"BLOCK": 1024}, num_warps=8)


def products(*rows):
    for name, m, n, k, warps, stages, product, epilogue in rows:
        yield (name, MATMUL.replace("PRODUCT", product).replace("EPILOGUE", epilogue),
               launches("matmul", [f"ceildiv(m, {m})", f"ceildiv(n, {n})"], ["a", "b", "c", "m", "n", "k"],
                        {"M": m, "N": n, "K": k}, num_warps=warps, num_stages=stages))


PLAIN = "left, right, total"
SAME = "total * 1.0"


def matmul():
    yield from products(
        ("bf16x3", 64, 64, 32, 4, 3, PLAIN + ', input_precision="bf16x3"', SAME),
        ("fp16_inputs", 128, 64, 64, 4, 3, "left.to(tl.float16), right.to(tl.float16), total", SAME),
        ("fp8_inputs", 64, 64, 64, 4, 3, "left.to(tl.float8e5), right.to(tl.float8e5), total", SAME),
        ("tf32", 128, 128, 32, 8, 3, PLAIN, SAME))


def matmul_bf16():
    yield "descriptors", DESCRIPTORS, launches(
        "matmul", ["ceildiv(m, 128)", "ceildiv(n, 128)"], ["a", "b", "c", "m", "n", "k"], {"M": 128, "N": 128, "K": 64},
        num_warps=8)
    yield from products(
        ("m16n16", 16, 16, 64, 1, 2, PLAIN, SAME),
        ("m256n64", 256, 64, 32, 8, 3, PLAIN, SAME),
        ("m32n128", 32, 128, 64, 4, 5, PLAIN, SAME),
        ("m64n32", 64, 32, 32, 4, 2, PLAIN, SAME),
        ("one_stage", 128, 128, 32, 4, 1, PLAIN, SAME),
        ("relu_epilogue", 128, 128, 64, 8, 3, PLAIN, "tl.maximum(total, 0.0)"),
        ("row_sums", 64, 128, 64, 4, 3, PLAIN, "total / (tl.sum(tl.abs(total), 1)[:, None] + 1.0)"),
        ("silu_epilogue", 128, 64, 64, 4, 3, PLAIN, "total * tl.sigmoid(total)"))


def attention_one_query():
    for dtype, m in (("bfloat16", 128), ("bfloat16", 64), ("float16", 128), ("float16", 64), ("float32", 64)):
        yield f"flash_{dtype}_{m}", ATTENTION, launches(
            "attention", [f"ceildiv(heads, {m})"], ["q", "k", "v", "out", "heads", "length", "dim", "1 / sqrt(dim):float32"],
            {"M": m, "N": 64, "D": 64, "TYPE": f"tl.{dtype}"}, num_warps=m // 16, num_stages=2)


def histogram():
    for operation in ("add", "and", "max", "min", "or", "xchg", "xor"):
        yield f"atomic_{operation}", HEAD + JIT + f"""\
def kernel(x, y, n, bins, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + at, mask=inside, other=0)
    tl.atomic_{operation}(y + value % bins, value, mask=inside)
""", launches("kernel", ["ceildiv(n, 1024)"], ["x", "y", "n", "bins"], {"BLOCK": 1024})


def main():
    for problem in (attention_one_query, histogram, matmul, matmul_bf16, row_softmax):
        folder = os.path.join(sys.argv[1], problem.__name__)
        os.makedirs(folder, exist_ok=True)
        for name, source, launch in problem():
            workspace = {"workspace_bytes": "4 * rows"} if "workspace" in launch["arguments"] else {}
            with open(os.path.join(folder, name + ".py"), "w") as file:
                file.write(source)
            with open(os.path.join(folder, name + ".json"), "w") as file:
                file.write(json.dumps({"target": "cuda", **workspace, "launches": [launch]}, indent=2) + "\n")


if __name__ == "__main__":
    main()
