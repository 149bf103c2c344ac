import triton
import triton.language as tl


# The heads of attention_one_query as the queries of one head.
@triton.jit
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
