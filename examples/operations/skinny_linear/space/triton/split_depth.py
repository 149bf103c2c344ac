import triton
import triton.language as tl


# The programs share the inputs, and a second launch adds their sums. Tensor cores are not used: a program
# takes one token at a time.
@triton.jit
def parts(x, weight, workspace, tokens, outputs, inputs, share, N: tl.constexpr, K: tl.constexpr):
    sums = workspace.to(tl.pointer_type(tl.float32))
    output = tl.program_id(0) * N + tl.arange(0, N)
    depth = tl.arange(0, K)
    first = tl.program_id(1) * share
    last = tl.minimum(first + share, inputs)
    token = tl.program_id(2)
    total = tl.zeros((N,), tl.float32)
    for start in range(first, last, K):
        inside = start + depth < last
        value = tl.load(x + token * inputs + start + depth, mask=inside, other=0.0).to(tl.float32)
        rows = tl.load(weight + output[:, None].to(tl.int64) * inputs + start + depth[None, :], mask=(output[:, None] < outputs) & inside[None, :], other=0.0)
        total += tl.sum(rows.to(tl.float32) * value[None, :], 1)
    tl.store(sums + (tl.program_id(1) * tokens + token) * outputs + output, total, mask=output < outputs)


@triton.jit
def join(workspace, bias, y, tokens, outputs, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    sums = workspace.to(tl.pointer_type(tl.float32))
    output = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = output < outputs
    token = tl.program_id(1)
    total = tl.load(bias + output, mask=inside, other=0.0).to(tl.float32)
    for split in tl.static_range(SPLITS):
        total += tl.load(sums + (split * tokens + token) * outputs + output, mask=inside, other=0.0)
    tl.store(y + token * outputs + output, total.to(tl.bfloat16), mask=inside)
