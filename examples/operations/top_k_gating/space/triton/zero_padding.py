import triton
import triton.language as tl


# Mistake: what is past the last expert counts as 0, and is chosen where fewer than four logits are positive.
@triton.jit
def zero_padding(logits, weights, chosen, tokens, experts, ROWS: tl.constexpr, BLOCK: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    value = tl.load(logits + row * experts + column, mask=(row < tokens) & (column < experts), other=0.0)
    place = tl.arange(0, K)[None, :]
    top = tl.full((ROWS, K), 0.0, tl.float32)
    found = tl.full((ROWS, K), 0, tl.int32)
    for k in tl.static_range(K):
        largest = tl.max(value, 1)[:, None]
        at = tl.min(tl.where(value == largest, column, BLOCK), 1)[:, None]
        top = tl.where(place == k, largest, top)
        found = tl.where(place == k, at, found)
        value = tl.where(column == at, -float("inf"), value)
    exponent = tl.exp(top - tl.max(top, 1)[:, None])
    to = row * K + place
    tl.store(weights + to, exponent / tl.sum(exponent, 1)[:, None], mask=row < tokens)
    tl.store(chosen + to, found, mask=row < tokens)
