"""What calls of a task's reference show besides its outputs. The describing process finds it out once."""

import copy
import time

# Relative precision of the inputs of tensor cores, and of half precision. A right kernel may compute with it inside.
INSIDE_PRECISION = 2**-11
# Values that are looked at together: double precision needs memory.
CHUNK_VALUES = 1 << 24
# With fewer elements the mean of the change is part of the noise. As kFewestToVary in variation.h.
FEWEST_TO_VARY = 5


class Generators:
    """Random generators by device. Their seed differs from those of tasks, whose inputs would be the same numbers."""

    def __init__(self):
        self.by_device = {}

    def on(self, device):
        if str(device) not in self.by_device:
            self.by_device[str(device)] = torch.Generator(str(device))
            self.by_device[str(device)].manual_seed(0x9E3779B97F4A7C15 >> 1)
        return self.by_device[str(device)]


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


def relative_change(before, after):
    """The norm of the change, without its mean, relative to that of the values. None if nothing is known."""
    if not before.is_floating_point() or before.shape != after.shape or before.dtype != after.dtype:
        return None
    before, after = before.reshape(-1), after.reshape(-1)
    count = total = squares = norm = 0.0
    for start in range(0, before.numel(), CHUNK_VALUES):
        old = before[start : start + CHUNK_VALUES].double()
        change = after[start : start + CHUNK_VALUES].double() - old
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
        generators = Generators()

        def changed(tensor):
            return rounded(tensor, generators.on(tensor.device))

        after = outputs_of(reference(*mapped(changed, list(inputs))))
        if len(after) != len(before):
            return unknown
        return [relative_change(*pair) for pair in zip(before, after)]
    except Exception:
        # Such values may mean nothing to the reference, or there is too little memory.
        return unknown


# Methods of tensors that cast to two or four bytes.
CASTS = ("half", "bfloat16", "float")
# A reference whose error is larger, relative to its norm, says nothing about what a kernel may do.
MOST_OWN_ERROR = 2**-6
# Double precision is slow on some devices.
OWN_ERROR_BUDGET_S = 20


def in_double():
    """A context in which casts to float32, float16 and bfloat16 give float64. Casts to fewer bits quantise and stay."""

    def raised(value):
        wide = isinstance(value, torch.dtype) and value in (torch.float16, torch.bfloat16, torch.float32)
        return torch.float64 if wide else value

    class InDouble(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            kwargs = {name: raised(value) for name, value in (kwargs or {}).items()}
            name = getattr(function, "__name__", "")
            if name in CASTS and args[0].is_floating_point():
                return args[0].double()
            if name in ("to", "type"):
                args = tuple(map(raised, args))
            return function(*args, **kwargs)

    return InDouble()


class OwnErrors:
    """Measures the errors of a task's reference against double precision, case by case."""

    def __init__(self, reference):
        self.reference, self.seconds = reference, 0.0

    def __call__(self, outputs_of, inputs, outputs):
        """By output: the largest error relative to the root mean square of the values, and the norm of the error
        relative to that of the values. None if the reference cannot compute in double precision.
        """
        unknown = [None] * len(outputs)
        if self.seconds > OWN_ERROR_BUDGET_S:
            return unknown
        start, default = time.monotonic(), torch.get_default_dtype()
        try:
            reference = copy.deepcopy(self.reference)
            if isinstance(reference, torch.nn.Module):
                reference = reference.double()
            wide = mapped(lambda t: t.double() if t.is_floating_point() and t.element_size() > 1 else t, list(inputs))
            torch.set_default_dtype(torch.float64)
            with in_double():
                exact = outputs_of(reference(*wide))
            if len(exact) != len(outputs):
                return unknown
            return [own_error(*pair) for pair in zip(outputs, exact)]
        except Exception:
            return unknown
        finally:
            torch.set_default_dtype(default)
            self.seconds += time.monotonic() - start


def own_error(output, exact):
    if not isinstance(exact, torch.Tensor) or exact.dtype != torch.float64 or exact.shape != output.shape:
        return None
    if not output.is_floating_point() or output.element_size() == 1:
        return None
    output, exact = output.reshape(-1), exact.reshape(-1)
    largest = squares = norm = count = 0.0
    for start in range(0, output.numel(), CHUNK_VALUES):
        right = exact[start : start + CHUNK_VALUES]
        error = output[start : start + CHUNK_VALUES].double() - right
        finite = torch.isfinite(error)
        right, error = right[finite], error[finite]
        if error.numel() == 0:
            continue
        count += error.numel()
        largest = max(largest, error.abs().max().item())
        squares += error.square().sum().item()
        norm += right.square().sum().item()
    if not (norm > 0 and math.isfinite(squares) and squares <= MOST_OWN_ERROR**2 * norm):
        return None
    return [largest / math.sqrt(norm / count), math.sqrt(squares / norm)]


# A kernel may leave out what changes an output by less, relative to its values.
LEAST_EFFECT = 1e-3
# From this part of its elements on an input counts as read.
LEAST_READ = 0.6
# An output of which rounding changes this part is noise.
MOST_NOISE = 0.25
MOST_DRAWS = 3
# No further draws once this part of each input is seen to be needed.
ALL_READ = 0.98
# Draws end after this time.
TRAFFIC_BUDGET_S = 4
# Elements of an output that are looked for in the inputs.
SAMPLED_VALUES = 64


def other_values(tensor, generator):
    """Other values of the same tensor, of any two the smaller. Whole numbers may be masks or indices and stay."""
    if not tensor.is_floating_point() or tensor.element_size() == 1:
        return tensor.clone()
    # Processors lack operations of half precision.
    flat = tensor.reshape(-1) if tensor.element_size() > 2 else tensor.reshape(-1).float()
    if bool((flat == flat.round()).all()):
        return tensor.clone()
    shifts = torch.randint(flat.numel(), (2,), generator=generator, device=flat.device).tolist()
    smaller = torch.minimum(flat.roll(shifts[0]), flat.roll(shifts[1]))
    return smaller.to(tensor.dtype).reshape(tensor.shape)


def distinct_share(tensor):
    """The part of a tensor's elements that is left without dimensions along which it repeats itself."""
    share = 1.0
    for dim, size in enumerate(tensor.shape):
        if size > 1 and bool((tensor == tensor.narrow(dim, 0, 1)).all()):
            share /= size
    return share


def is_symmetric(tensor):
    return tensor.dim() >= 2 and tensor.shape[-1] == tensor.shape[-2] and bool((tensor == tensor.mT).all())


def only_moves(output, inputs, generator):
    """Whether the output's values are those of an input, of which it may be a view."""
    places = torch.randint(output.numel(), (SAMPLED_VALUES,), generator=generator, device=output.device)
    sample = output.reshape(-1)[places].float().sort().values
    for given in inputs:
        found = torch.zeros(SAMPLED_VALUES, dtype=torch.bool, device=output.device)
        flat = given.reshape(-1)
        for start in range(0, flat.numel() if given.dtype == output.dtype else 0, CHUNK_VALUES):
            values = flat[start : start + CHUNK_VALUES].float()
            at = torch.searchsorted(sample, values).clamp_(max=SAMPLED_VALUES - 1)
            found[at[sample[at] == values]] = True
        # searchsorted finds the first of equal values.
        if bool(found[torch.searchsorted(sample, sample)].double().mean() > 0.9):
            return True
    return False


def changed(before, after):
    """Which elements depend on the inputs, beyond rounding."""
    if before.element_size() == 2:
        before, after = before.float(), after.float()
    finite = torch.isfinite(before)
    scale = before[finite].square().mean().sqrt() if bool(finite.any()) else 0
    return (before - after).abs() > LEAST_EFFECT * scale


def needed(gradient):
    """Which elements of an input an output depends on."""
    size = gradient.abs() if gradient.element_size() > 2 else gradient.float().abs()
    size = torch.where(torch.isfinite(size), size, torch.zeros_like(size))
    largest = size.max()
    if not largest > 0:
        return torch.zeros_like(size, dtype=torch.bool)
    # Squares of small numbers would vanish.
    squares = (size / largest).square_()
    return size > LEAST_EFFECT * largest * (squares.sum() / (size > 0).sum()).sqrt()


def bytes_to_move(reference, outputs_of, make_inputs, noise):
    """The least that a right kernel must read and write, by what the reference's outputs depend on.

    Outputs: elements that change with the inputs, unless they may be views. Inputs: elements with a gradient, at a few
    draws of their values, if that is most of the input and not known to be zero. Everything that is uncertain counts
    0: other kernels may not need it.
    """
    start = time.monotonic()
    inputs = make_inputs()
    given = list(tensors(inputs))
    floats = [i for i, tensor in enumerate(given) if tensor.is_floating_point() and tensor.element_size() > 1]
    generators = Generators()

    def call(values):
        values = iter(values)
        return outputs_of(reference(*mapped(lambda _: next(values), inputs)))

    def others():
        return [other_values(tensor, generators.on(tensor.device)) for tensor in given]

    before = [output.clone() for output in call([tensor.clone() for tensor in given])]
    after = call(others())
    total, depends = 0, []
    for i, output in enumerate(before):
        known = output.is_floating_point() and output.element_size() > 1 and output.numel() > 0
        depends.append(known and noise[i] is not None and noise[i] < MOST_NOISE)
        if depends[i] and only_moves(output, given, generators.on(output.device)):
            depends[i] = False
        if depends[i]:
            written = changed(output, after[i]).sum().item()
            total += written * output.element_size() * distinct_share(output)
            depends[i] = written > 0
    del after
    read = [torch.zeros(given[i].shape, dtype=torch.bool, device=given[i].device) for i in floats]
    for draw in range(MOST_DRAWS):
        if time.monotonic() - start > TRAFFIC_BUDGET_S:
            break
        try:
            with torch.enable_grad():
                values = [tensor.clone() for tensor in given] if draw == 0 else others()
                leaves = [values[i].detach().requires_grad_() for i in floats]
                # References may write into what they are given.
                for i, leaf in zip(floats, leaves):
                    values[i] = leaf.clone()
                results = [
                    result
                    for result, depend in zip(call(values), depends)
                    if depend and result.requires_grad and result.is_floating_point()
                ]
                weights = [
                    torch.randn(result.shape, generator=generators.on(result.device), device=result.device).to(result.dtype)
                    for result in results
                ]
                gradients = torch.autograd.grad(results, leaves, weights, allow_unused=True) if results else []
            for mask, gradient in zip(read, gradients):
                if gradient is not None:
                    mask |= needed(gradient)
            if all(bool(mask.float().mean() > ALL_READ) for mask in read):
                break
        except RuntimeError:
            # An operation without a gradient, or too little memory.
            break
    for i, mask in zip(floats, read):
        # Elements that are always zero need not be read.
        share = (mask & (given[i] != 0)).double().mean().item()
        if share >= LEAST_READ:
            half = 0.5 if is_symmetric(given[i]) else 1
            total += share * half * given[i].numel() * given[i].element_size() * distinct_share(given[i])
    return int(total)


def least_bytes(reference, outputs_of, make_inputs, noise):
    try:
        return bytes_to_move(reference, outputs_of, make_inputs, noise)
    except Exception:
        # Such values may mean nothing to the reference, or there is too little memory.
        return 0


def flops_of(name, given, result):
    """Of an operation of PyTorch, by the shapes of its arguments. 0 for those that are not mostly multiply-adds."""
    if name in ("mm", "bmm"):
        return 2 * result.numel() * given[0].shape[-1]
    if name in ("addmm", "baddbmm"):
        return 2 * result.numel() * given[1].shape[-1]
    if name in ("convolution", "_convolution"):
        values, weight, transposed = given[0], given[1], given[6]
        return 2 * (values if transposed else result).numel() * weight.numel() // weight.shape[0]
    if name.startswith("_scaled_dot_product") and "backward" not in name:
        query, key, value = given[:3]
        return 2 * query[..., 0].numel() * key.shape[-2] * (query.shape[-1] + value.shape[-1])
    return 0


def count_flops(reference, inputs):
    """The multiply-adds, twice, of a call; 0 where they cannot be seen."""
    try:
        from torch.utils._python_dispatch import TorchDispatchMode

        class Counter(TorchDispatchMode):
            total = 0

            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                result = function(*args, **(kwargs or {}))
                first = result[0] if isinstance(result, (tuple, list)) and result else result
                self.total += flops_of(function.overloadpacket.__name__, args, first)
                return result

        with Counter() as counter:
            reference(*inputs)
        return counter.total
    except Exception:
        return 0
