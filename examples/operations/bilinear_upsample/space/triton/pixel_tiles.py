import triton
import triton.language as tl


# A tile of pixels with its nine neighbourhoods gives four results for each, joined to pairs.
@triton.jit
def mix(image, row, left, column, right, width, inside):
    own = tl.load(image + row * width + column, mask=inside, other=0.0)
    before = 0.75 * own + 0.25 * tl.load(image + row * width + left, mask=inside, other=0.0)
    after = 0.75 * own + 0.25 * tl.load(image + row * width + right, mask=inside, other=0.0)
    return before, after


@triton.jit
def pixel_tiles(x, y, height, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = (row < height) & (column < width)
    image = x + tl.program_id(0).to(tl.int64) * height * width
    left = tl.maximum(column - 1, 0)
    right = tl.minimum(column + 1, width - 1)
    above_left, above_right = mix(image, tl.maximum(row - 1, 0), left, column, right, width, inside)
    own_left, own_right = mix(image, row, left, column, right, width, inside)
    below_left, below_right = mix(image, tl.minimum(row + 1, height - 1), left, column, right, width, inside)
    to = y + tl.program_id(0).to(tl.int64) * 4 * height * width + 4 * row * width + 2 * column
    pair = tl.arange(0, 2)[None, None, :]
    upper = tl.join(0.75 * own_left + 0.25 * above_left, 0.75 * own_right + 0.25 * above_right)
    lower = tl.join(0.75 * own_left + 0.25 * below_left, 0.75 * own_right + 0.25 * below_right)
    tl.store(to[:, :, None] + pair, upper, mask=inside[:, :, None])
    tl.store(to[:, :, None] + 2 * width + pair, lower, mask=inside[:, :, None])
