import triton
import triton.language as tl


@triton.jit
def kernel(x, y, rows, cols, R: tl.constexpr, C: tl.constexpr):
    source = tl.make_block_ptr(x, (rows, cols), (cols, 1), (tl.program_id(0) * R, 0), (R, C), (1, 0))
    target = tl.make_block_ptr(y, (rows, cols), (cols, 1), (tl.program_id(0) * R, 0), (R, C), (1, 0))
    for start in range(0, cols, C):
        v = tl.load(source, boundary_check=(0, 1), padding_option="zero")
        tl.store(target, v * 2.0, boundary_check=(0, 1))
        source = tl.advance(source, (0, C))
        target = tl.advance(target, (0, C))
