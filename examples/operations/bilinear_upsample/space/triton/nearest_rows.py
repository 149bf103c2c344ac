import triton
import triton.language as tl


# Mistake: the remainder of the column decides whether a row is mixed with the one above or below.
@triton.jit
def nearest_rows(x, y, height, width, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    column = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    inside = column < 2 * width
    image = x + tl.program_id(0).to(tl.int64) * height * width
    near_row = row // 2
    far_row = tl.minimum(tl.maximum(near_row - 1 + 2 * (column % 2), 0), height - 1)
    own = column // 2
    other = tl.minimum(tl.maximum(own - 1 + 2 * (column % 2), 0), width - 1)
    near = 0.75 * tl.load(image + near_row * width + own, mask=inside, other=0.0)
    near += 0.25 * tl.load(image + near_row * width + other, mask=inside, other=0.0)
    far = 0.75 * tl.load(image + far_row * width + own, mask=inside, other=0.0)
    far += 0.25 * tl.load(image + far_row * width + other, mask=inside, other=0.0)
    to = y + (tl.program_id(0).to(tl.int64) * 2 * height + row) * 2 * width
    tl.store(to + column, 0.75 * near + 0.25 * far, mask=inside)
