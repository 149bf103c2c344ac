import triton
import triton.language as tl


# Mistake: the first three results of a row also get values of the row before, which lie there in memory.
@triton.jit
def previous_row(x, filters, y, channels, length, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < length
    channel = tl.program_id(0) % channels
    total = tl.zeros((BLOCK,), tl.float32)
    for tap in tl.static_range(4):
        before = row * length + at - 3 + tap
        value = tl.load(x + before, mask=inside & (before >= 0), other=0.0).to(tl.float32)
        total += value * tl.load(filters + channel * 4 + tap)
    tl.store(y + row * length + at, (total * tl.sigmoid(total)).to(tl.bfloat16), mask=inside)
