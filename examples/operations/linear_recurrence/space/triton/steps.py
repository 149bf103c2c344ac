import triton
import triton.language as tl


# Some channels, step by step.
@triton.jit
def steps(gates, x, states, length, channels, CHANNELS: tl.constexpr, AHEAD: tl.constexpr):
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    inside = channel < channels
    at = tl.program_id(1).to(tl.int64) * length * channels + channel
    state = tl.zeros((CHANNELS,), tl.float32)
    for start in range(0, length, AHEAD):
        for i in tl.static_range(AHEAD):
            loads = inside & (start + i < length)
            gate = tl.load(gates + at + i * channels, mask=loads, other=0.0)
            state = gate * state + tl.load(x + at + i * channels, mask=loads, other=0.0)
            tl.store(states + at + i * channels, state, mask=loads)
        at += AHEAD * channels
