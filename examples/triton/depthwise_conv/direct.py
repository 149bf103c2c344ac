import triton
import triton.language as tl


@triton.jit
def depthwise_conv(x, filter, y, height, width, channels, PIXELS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    column = (tl.program_id(0) * PIXELS + tl.arange(0, PIXELS))[:, None]
    channel = tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((PIXELS, BLOCK), tl.float32)
    for i in tl.static_range(3):
        for j in tl.static_range(3):
            r = row + i - 1
            c = column + j - 1
            inside = (r >= 0) & (r < height) & (c >= 0) & (c < width) & (channel < channels)
            value = tl.load(x + (r.to(tl.int64) * width + c) * channels + channel, mask=inside, other=0.0)
            weight = tl.load(filter + (i * 3 + j) * channels + channel, mask=channel < channels, other=0.0)
            total += value * weight
    inside = (column < width) & (channel < channels)
    tl.store(y + (row.to(tl.int64) * width + column) * channels + channel, total, mask=inside)
