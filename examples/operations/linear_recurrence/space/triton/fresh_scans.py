import triton
import triton.language as tl


@triton.jit
def join(first_gate, first_state, second_gate, second_state):
    return first_gate * second_gate, second_gate * first_state + second_state


# Mistake: a scan for each TIME steps that knows nothing of the steps before.
@triton.jit
def fresh_scans(gates, x, states, length, channels, TIME: tl.constexpr, CHANNELS: tl.constexpr):
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    step = tl.program_id(2) * TIME + tl.arange(0, TIME)[:, None]
    inside = (step < length) & (channel < channels)
    at = tl.program_id(1).to(tl.int64) * length * channels + step * channels + channel
    gate = tl.load(gates + at, mask=inside, other=1.0)
    value = tl.load(x + at, mask=inside, other=0.0)
    gate, value = tl.associative_scan((gate, value), 0, join)
    tl.store(states + at, value, mask=inside)
