"""Draws of a task's inputs that differ from each other, as new values must.

Tasks often seed their generators themselves, so that every draw is the same, or the next of a known sequence. Where
draws of newly imported modules are equal, the task's modules are imported again for each draw, and every seed that
their code gives is mixed with that of the draw. Tensors that are still equal in all draws are multiplied by a factor,
unless their values are whole numbers. That keeps order, signs, symmetry, masks and positive definiteness.

Elements of two draws are never mixed. That would break what a task's code makes true of all of them.
"""

import contextlib
import ctypes
import hashlib
import random
import sys
import time
import types

# Bits of a draw about its case. The same numbers are in task_programs.h.
NEVER_CHANGES, FEW_VALUES, ONLY_SCALED = 1, 2, 4
LOW_FACTORS, HIGH_FACTORS = (0.5, 0.55), (0.9, 0.95)
# Draws that are compared: two, and more where they are quick.
MOST_COMPARED, MOST_COUNTED, COMPARING_SECONDS = 12, 256, 0.1
# Smaller tensors count as parameters: what depends on them alone is quick to compute.
FEWEST_TO_REMEMBER = 64
# Where less than this share of a tensor's values has changed, an answer can be mended instead of computed.
LEAST_CHANGED_SHARE = 1 / 8
# Values of a tensor that are compared one by one.
SAMPLED_VALUES = 1 << 14
# The number of seeds of the worker (kTaskSeeds), PyTorch and NumPy.
SEEDS = 2**32


class Reseeding(contextlib.ExitStack):
    """While it is entered, each seed is mixed with this one, so that equal seeds still give equal values."""

    def __init__(self, seed):
        super().__init__()
        self.key = str(seed).encode()
        self.states = set()  # handed out since, which may be restored

    def mix(self, seed):
        return int.from_bytes(hashlib.blake2b(repr(seed).encode(), key=self.key, digest_size=4).digest(), "little")

    def replace(self, place, name, make):
        """Replaces a function or class by what `make` makes of it."""
        original = getattr(place, name, None)
        if original is not None:
            self.callback(setattr, place, name, original)
            setattr(place, name, make(original))

    def seeds(self, function):
        return lambda *given, **named: function(*map(self.mix, given), **{k: self.mix(v) for k, v in named.items()})

    def states_of(self, function):
        def get(*given, **named):
            state = function(*given, **named)
            self.states.add(fingerprint(state))
            return state

        return get

    def restores(self, seed):
        """A state that nobody asked for is a seed too."""

        def make(function):
            def set(state, *given, **named):
                known = fingerprint(state) in self.states
                return function(state, *given, **named) if known else seed(self.mix(fingerprint(state)))

            return set

        return make

    def class_of_generators(self, base):
        mix, states = self.mix, self.states

        class Mixed(base):
            def __new__(cls, *given, **named):
                made = super().__new__(cls, *given, **named)
                base.manual_seed(made, mix(None))
                return made

            def manual_seed(self, seed):
                base.manual_seed(self, mix(seed))
                return self

            def get_state(self):
                state = super().get_state()
                states.add(fingerprint(state))
                return state

            def set_state(self, state):
                if fingerprint(state) in states:
                    return super().set_state(state)
                return self.manual_seed(fingerprint(state))

        return Mixed

    def class_of_random(self, base):
        mix = self.mix

        class Mixed(base):
            def seed(self, a=None, version=2):
                super().seed(a if a is None else mix(a))

        return Mixed

    def numpy_class(self, base):
        mix = self.mix

        class Mixed(base):
            def __init__(self, seed=None, **named):
                super().__init__(mix(seed) if is_seed(seed) else seed, **named)

            def seed(self, seed=None):
                super().seed(mix(seed) if is_seed(seed) else seed)

        return Mixed

    def seed_sequence(self, base):
        mix = self.mix

        class Mixed(base):
            def __init__(self, entropy=None, **named):
                super().__init__(mix(entropy) if is_seed(entropy) else entropy, **named)

        return Mixed

    def numpy_function(self, function):
        return lambda seed=None: function(self.mix(seed) if is_seed(seed) else seed)

    def __enter__(self):
        super().__enter__()
        seed_torch, seed_random = torch.manual_seed, random.seed
        for place in (torch, torch._C):
            self.replace(place, "Generator", self.class_of_generators)
        self.replace(torch, "default_generator", lambda original: torch.Generator())
        for place in (torch, torch.random):
            self.replace(place, "get_rng_state", self.states_of)
            self.replace(place, "set_rng_state", self.restores(seed_torch))
            self.replace(place, "manual_seed", self.seeds)
        for name in ("manual_seed", "manual_seed_all"):
            self.replace(torch.cuda, name, self.seeds)
        self.replace(torch.cuda, "get_rng_state", self.states_of)
        self.replace(torch.cuda, "set_rng_state", self.restores(torch.cuda.manual_seed))
        self.replace(random, "getstate", self.states_of)
        self.replace(random, "setstate", self.restores(seed_random))
        self.replace(random, "seed", lambda seed: lambda a=None, version=2: seed(a if a is None else self.mix(a)))
        self.replace(random, "Random", self.class_of_random)
        if numpy is not None:
            seed_numpy = numpy.random.seed
            modules = [value for value in vars(numpy.random).values() if isinstance(value, types.ModuleType)]
            for place in (numpy.random, *modules):
                self.replace(place, "get_state", self.states_of)
                self.replace(place, "set_state", self.restores(seed_numpy))
                self.replace(place, "SeedSequence", self.seed_sequence)
                for name in ("RandomState", "PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"):
                    self.replace(place, name, self.numpy_class)
                for name in ("seed", "default_rng"):
                    self.replace(place, name, self.numpy_function)
        return self


def is_seed(value):
    """Not a generator or a sequence of seeds, whose own seed is mixed, and not a request for a new one."""
    return value is not None and (isinstance(value, (int, str, bytes, tuple, list, numpy.ndarray, numpy.integer)))


def fingerprint(value):
    """Of values that a task makes. Equal for equal values of equal types."""
    if not isinstance(value, torch.Tensor):
        return repr(value)
    # A view may have gaps between its values. reshape does not remove gaps of equal size.
    words = value.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
    content = on_host if words.device.type == "cpu" else on_device
    return (str(value.dtype), tuple(value.shape), content(words) if words.numel() else None)


class Print:
    """Of a tensor in a draw: its fingerprint, and a sample of its values if it is large and holds fractions."""

    def __init__(self, tensor):
        self.all, self.sample = fingerprint(tensor), None
        if tensor.numel() >= FEWEST_TO_REMEMBER and tensor.dtype.is_floating_point:
            flat = tensor.detach().contiguous().reshape(-1)
            self.sample = flat[:: max(1, flat.numel() // SAMPLED_VALUES)].to("cpu", torch.float64)

    def differs_from(self, other):
        """Whether enough values do, of those that are not zero in both."""
        if self.all == other.all or self.sample is None or other.sample is None or self.sample.shape != other.sample.shape:
            return self.all != other.all
        used = (self.sample != 0) | (other.sample != 0)
        return bool(((self.sample != other.sample) & used).sum() >= LEAST_CHANGED_SHARE * used.sum())


def on_host(words):
    return hashlib.blake2b((ctypes.c_char * words.numel()).from_address(words.data_ptr())).digest()


def on_device(words):
    """Without copying them to the host."""
    pieces = []
    for piece in words.split(1 << 22):
        # The copy is aligned.
        piece = piece.clone().view(torch.int64) if piece.numel() % 8 == 0 else piece.to(torch.int64)
        places = torch.arange(1, 2 * piece.numel(), 2, dtype=torch.int64, device=piece.device)
        mixed = piece * 0x1E3779B97F4A7C15 + places * 0x3F58476D1CE4E5B9
        mixed = (mixed ^ (mixed >> 31)) * 0x14D049BB133111EB
        pieces.append(int((mixed ^ (mixed >> 29)).sum()))
    return tuple(pieces)


def scaled(value, factor, varies=()):
    """The value with its tensors multiplied, except those that vary and those of whole numbers, which may be masks,
    counts or positions. `varies`: by tensor.
    """
    given = iter(varies)

    def multiplied(tensor):
        if next(given, False) or not tensor.dtype.is_floating_point:
            return tensor
        wide = tensor.to(torch.float64 if tensor.dtype == torch.float64 else torch.float32)
        if not bool(((wide != wide.round()) & wide.isfinite()).any()):
            return tensor
        return (wide * factor).to(tensor.dtype)

    return mapped(multiplied, value)


def forget_modules():
    """The next import of a task's module runs it again."""
    for name, module in list(sys.modules.items()):
        if isinstance(getattr(module, "__loader__", None), Sources):
            del sys.modules[name]
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, Sources)]


class Clock:
    """Counts processor time, which other programs do not take, or a tenth of all time."""

    def __init__(self):
        self.start = time.process_time(), time.perf_counter()

    def seconds(self):
        return max(time.process_time() - self.start[0], (time.perf_counter() - self.start[1]) / 10)


class Draws:
    """`load` imports the task, and make(task, seed, case) gives its inputs. Only for a process that does nothing else:
    the modules of the task are exchanged.
    """

    def __init__(self, load, make):
        self.load, self.make = load, make
        self.task = load()
        self.known = {}  # by case: how it is drawn, and its flags

    def draw(self, seed, case, index):
        """Inputs, and flags about all inputs of the case."""
        if index not in self.known:
            self.known[index] = self.survey(seed, case)
        (reseeded, varies), flags = self.known[index]
        made = self.drawn(seed, case, reseeded)
        return made if all(varies) else scaled(made, self.factor(seed), varies), flags

    def factor(self, seed):
        # No answer is close to those of both ranges, however wide the tolerance is.
        chance = random.Random(f"factor {seed}")
        return chance.uniform(*chance.choice((LOW_FACTORS, HIGH_FACTORS)))

    def drawn(self, seed, case, reseeded, fresh=False):
        if not (reseeded or fresh):
            return self.make(self.task, seed, case)
        forget_modules()
        with Reseeding(seed) if reseeded else contextlib.nullcontext():
            seed_all(SEED)
            self.task = self.load()
            return self.make(self.task, seed, case)

    def compare(self, seed, case, reseeded):
        """Fingerprints by draw and tensor, of two draws, or more until one differs or time is up."""
        found, clock = [], Clock()
        while len(found) < 2 or (
            not any(varying(found)) and len(found) < MOST_COMPARED and clock.seconds() < COMPARING_SECONDS
        ):
            found.append(self.fingerprints((seed + len(found)) % SEEDS, case, reseeded, fresh=True))
        return found

    def fingerprints(self, *given, **named):
        return tuple(map(Print, tensors(self.drawn(*given, **named))))

    def survey(self, seed, case):
        clock, found, reseeded = Clock(), self.compare(seed, case, False), False
        # Random values that a module makes at its import only differ in newly imported modules.
        later = self.fingerprints((seed + len(found)) % SEEDS, case, False)
        varies = [new and now.differs_from(last) for new, now, last in zip(varying(found), later, found[-1])]
        if not all(varies):
            try:
                again = self.compare(seed, case, True)
                if sum(varying(again)) > sum(varies):
                    found, reseeded, varies = again, True, varying(again)
            except Exception:
                pass  # the task's code depends on its seeds
        reseeded = reseeded and any(varies)
        if all(varies):
            flags = 0
        else:
            flags = self.flags_of_constants(self.drawn(seed, case, reseeded), varies)
        if not any(varies):
            return (False, varies), flags
        seen = [tuple(one.all for one in draw) for draw in found]
        while len(set(seen)) == len(seen) < MOST_COUNTED and clock.seconds() < 3 * COMPARING_SECONDS:
            made = tensors(self.drawn((seed + len(seen)) % SEEDS, case, reseeded))
            seen.append(tuple(map(fingerprint, made)))
        return (reseeded, varies), flags | (0 if len(set(seen)) == len(seen) else FEW_VALUES)

    @staticmethod
    def flags_of_constants(made, varies):
        """Flags about the large tensors that do not vary, or about the small ones if no tensor varies."""
        pairs = zip(tensors(made), tensors(scaled(made, HIGH_FACTORS[1], varies)))
        constants = [pair for pair, new in zip(pairs, varies) if not new]
        large = [pair for pair in constants if pair[0].numel() >= FEWEST_TO_REMEMBER]
        if not large and any(varies):
            return 0
        changed = [fingerprint(before) != fingerprint(after) for before, after in large or constants]
        return (ONLY_SCALED if any(changed) else 0) | (0 if all(changed) else NEVER_CHANGES)


def varying(found):
    """By tensor: whether its draws have differed."""
    return [any(one.differs_from(first) for one in others) for first, *others in zip(*found)]
