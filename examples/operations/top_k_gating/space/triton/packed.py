import triton
import triton.language as tl


# A logit and its index are one integer of 64 bits in the order of the logits, so that a round is one maximum.
@triton.jit
def packed(logits, weights, chosen, tokens, experts, ROWS: tl.constexpr, BLOCK: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    value = tl.load(logits + row * experts + column, mask=(row < tokens) & (column < experts), other=-float("inf"))
    bits = value.to(tl.int32, bitcast=True)
    # Negative numbers are ordered the other way round.
    bits = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    # Of equal logits the first is larger.
    key = (bits.to(tl.int64) << 32) | (BLOCK - 1 - column).to(tl.int64)
    place = tl.arange(0, K)[None, :]
    keys = tl.full((ROWS, K), 0, tl.int64)
    for k in tl.static_range(K):
        largest = tl.max(key, 1)[:, None]
        keys = tl.where(place == k, largest, keys)
        key = tl.where(key == largest, -0x7FFFFFFFFFFFFFFF, key)
    found = BLOCK - 1 - (keys & 0x7FFFFFFF).to(tl.int32)
    bits = (keys >> 32).to(tl.int32)
    top = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.float32, bitcast=True)
    exponent = tl.exp(top - tl.max(top, 1)[:, None])
    to = row * K + place
    tl.store(weights + to, exponent / tl.sum(exponent, 1)[:, None], mask=row < tokens)
    tl.store(chosen + to, found, mask=row < tokens)
