"""What calls of a task's reference show besides its outputs. The describing process finds it out once."""

# Relative precision of the inputs of tensor cores, and of half precision. A right kernel may compute with it inside.
INSIDE_PRECISION = 2**-11
# Values that are looked at together: double precision needs memory.
CHUNK = 1 << 24
# With fewer elements the mean of the change is part of the noise. As kFewestToVary in variation.h.
FEWEST_TO_VARY = 5


def rounded(tensor, generator):
    """A copy whose values differ at random as if they had been rounded.

    The values stay within the range of the tensor, since they may be probabilities. Whole numbers stay as they are:
    they may be masks, indices or counts, and a kernel that rounds keeps them.
    """
    if not tensor.is_floating_point() or tensor.element_size() == 1 or tensor.numel() == 0:
        return tensor.clone()
    random = torch.rand(tensor.shape, generator=generator, device=tensor.device, dtype=torch.float32)
    signed = 2 * random - 1
    step = torch.finfo(tensor.dtype).eps
    if step > INSIDE_PRECISION:
        # Narrow types cannot hold so small a change: a few values change by one step.
        share = INSIDE_PRECISION / step
        factor = torch.where(signed.abs() < share, 1 + 0.75 * step * signed.sign(), torch.ones_like(signed))
    else:
        factor = 1 + INSIDE_PRECISION * signed
    # Processors lack operations of half precision.
    wide = tensor if tensor.dtype == torch.float64 else tensor.float()
    changed = torch.minimum(torch.maximum(wide * factor, wide.min()), wide.max())
    return torch.where(wide == wide.round(), wide, changed).to(tensor.dtype)


def map_tensors(function, value):
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, dict):
        return {key: map_tensors(function, item) for key, item in value.items()}
    return type(value)([map_tensors(function, item) for item in value]) if type(value) in (tuple, list) else value


def relative_change(before, after):
    """The norm of the change, without its mean, relative to that of the values. None if nothing is known."""
    if not before.is_floating_point() or before.shape != after.shape or before.dtype != after.dtype:
        return None
    before, after = before.reshape(-1), after.reshape(-1)
    count = total = squares = norm = 0.0
    for start in range(0, before.numel(), CHUNK):
        old = before[start : start + CHUNK].double()
        change = after[start : start + CHUNK].double() - old
        finite = torch.isfinite(change)
        old, change = old[finite], change[finite]
        count += old.numel()
        total += change.sum().item()
        squares += change.square().sum().item()
        norm += old.square().sum().item()
    if count >= FEWEST_TO_VARY:
        squares = max(0.0, squares - total * total / count)
    found = math.sqrt(squares / norm) if norm > 0 else 0.0
    return found if math.isfinite(found) else None


def rounding_noise(reference, outputs_of, inputs, outputs):
    """By output: how much it changes when the inputs are rounded, relative to its norm. None where that is not known."""
    unknown = [None] * len(outputs)
    try:
        before = [output.clone() for output in outputs]
        generators = {}

        def changed(tensor):
            device = str(tensor.device)
            if device not in generators:
                generators[device] = torch.Generator(device)
                generators[device].manual_seed(SEED)
            return rounded(tensor, generators[device])

        after = outputs_of(reference(*map_tensors(changed, list(inputs))))
        if len(after) != len(before):
            return unknown
        return [relative_change(*pair) for pair in zip(before, after)]
    except Exception:
        # Such values may mean nothing to the reference, or there is too little memory.
        return unknown
