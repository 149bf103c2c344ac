import triton
import triton.language as tl


@triton.jit
def join(first_gate, first_state, second_gate, second_state):
    return first_gate * second_gate, second_gate * first_state + second_state


# TIME steps of some channels are one scan; the last state goes on to the next.
@triton.jit
def scans(gates, x, states, length, channels, TIME: tl.constexpr, CHANNELS: tl.constexpr):
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    step = tl.arange(0, TIME)[:, None]
    base = tl.program_id(1).to(tl.int64) * length * channels
    carry = tl.zeros((1, CHANNELS), tl.float32)
    for start in range(0, length, TIME):
        inside = (start + step < length) & (channel < channels)
        at = base + (start + step) * channels + channel
        gate = tl.load(gates + at, mask=inside, other=1.0)
        value = tl.load(x + at, mask=inside, other=0.0)
        gate, value = tl.associative_scan((gate, value), 0, join)
        state = gate * carry + value
        tl.store(states + at, state, mask=inside)
        carry = tl.sum(tl.where(step == TIME - 1, state, 0.0), 0)[None, :]
