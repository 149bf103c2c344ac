"""Says which generated candidates are wrong, without Kernelcast: PYTHON truth.py cuda|cpu

Reads requests as lines of JSON and answers each with one. Needs PyTorch. A candidate is called on inputs drawn here, and
its result is compared by the stated rules:

    right = it follows the variation of the right answer (the rule against trivial answers)
            AND (the format's rule accepts it OR its error against float64 is at most K times the reference's own)

KernelBench: the format's rule is applied to the error against float64. GPU MODE: the task's checker decides in place of
both, and the right answer is that of the task's reference.

Classes: `wrong`, `right`; `near`: it breaks a rule, but by no more than the reference's own error, or the noise of the
answer, could hide from a judge that compares with the reference; `unknown`: only the float64 error could tell, and there
is none.
"""

import contextlib
import copy
import gc
import importlib
import json
import math
import os
import shutil
import sys
import tempfile
import time
import types

import torch

CHUNK = 1 << 25
OWN_ERROR_FACTOR = 2  # K
# A judge that compares with the reference adds the reference's error to both sides.
OWN_ERROR_FACTOR_NEAR = OWN_ERROR_FACTOR + 2
MOST_OWN_ERROR = 2.0**-6
UNEXPLAINED = 0.3
INPUT_ROUNDING = 2.0**-11
ROUNDOFF = {torch.float64: 2.0**-24, torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
FLOAT8_ROUNDOFF = {"float8_e4m3": 2.0**-4, "float8_e5m2": 2.0**-3}
TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 1e-2}
WORST_FIRST = ("wrong", "unknown", "near", "right")
LOW = (torch.float16, torch.bfloat16, torch.float32)
CASTS = ("float", "half", "bfloat16")


def roundoff(dtype):
    if dtype in ROUNDOFF:
        return ROUNDOFF[dtype]
    return next((r for name, r in FLOAT8_ROUNDOFF.items() if name in str(dtype)), None)


def tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors(item)


class InDouble(torch.overrides.TorchFunctionMode):
    """Casts to float32, float16 and bfloat16 give float64."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        def raised(value):
            return torch.float64 if isinstance(value, torch.dtype) and value in LOW else value

        kwargs = {name: raised(value) for name, value in (kwargs or {}).items()}
        name = getattr(function, "__name__", "")
        if name in CASTS and args and args[0].is_floating_point():
            return args[0].double()
        return function(*(map(raised, args) if name in ("to", "type") else args), **kwargs)


@contextlib.contextmanager
def double_precision():
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with InDouble():
            yield
    finally:
        torch.set_default_dtype(default)


def sums(chunks):
    """Adds up what the chunks yield, by name; names that start with max are maxima."""
    total = {}
    for chunk in chunks:
        # One copy from the device.
        values = torch.stack([value.double() for value in chunk.values()]).tolist()
        for name, value in zip(chunk, values):
            total[name] = max(total.get(name, 0.0), value) if name.startswith("max") else total.get(name, 0.0) + value
    return total


def spread(squares, total, count):
    """The norm of values without their mean."""
    return math.sqrt(max(0.0, squares - total * total / count)) if count else 0.0


def noise_of(before, after):
    """How much of an answer changes with the rounding of inputs."""
    if not before.is_floating_point() or before.shape != after.shape:
        return 0.0
    before, after = before.reshape(-1), after.reshape(-1)

    def chunks():
        for start in range(0, before.numel(), CHUNK):
            old = before[start : start + CHUNK].double()
            change = after[start : start + CHUNK].double() - old
            good = torch.isfinite(change) & torch.isfinite(old)
            zero = old.new_zeros(())
            old, change = torch.where(good, old, zero), torch.where(good, change, zero)
            yield {"norm": old.square().sum(), "squares": change.square().sum(), "sum": change.sum(), "count": good.sum()}

    s = sums(chunks())
    return spread(s["squares"], s["sum"], s["count"]) / math.sqrt(s["norm"]) if s.get("norm") else 0.0


def compare(out, ref, exact, noise, tolerance=None, checked=None):
    """The class of an output and figures.

    `exact` is the right answer, None where only `ref`, the reference's, is known. `checked`: the verdict of the task's
    checker, where it has one.
    """
    if not isinstance(out, torch.Tensor) or out.shape != ref.shape or out.dtype != ref.dtype:
        return "wrong", {"why": "another shape or dtype"}
    right = ref if exact is None else exact
    if not ref.is_floating_point():
        different = int((out != ref).sum().item())
        if checked is not None:
            return ("right" if checked else "wrong"), {"different": different}
        return ("wrong" if different else "right"), {"different": different}
    tolerance = TOLERANCE.get(ref.dtype, 1e-4) if tolerance is None else tolerance
    out, ref, right = out.reshape(-1), ref.reshape(-1), right.reshape(-1)

    def chunks():
        for start in range(0, out.numel(), CHUNK):
            o, f, e = (x[start : start + CHUNK].double() for x in (out, ref, right))
            error, own = o - e, f - e
            error[o == e] = 0  # infinities
            own[f == e] = 0
            limit = tolerance + tolerance * e.abs()
            breaks = ~(error.abs() <= limit)
            surely = ~(error.abs() <= limit + (1 + tolerance) * own.abs())
            good = torch.isfinite(error) & torch.isfinite(e)
            counted = good if checked is not None else good & ~breaks
            zero = torch.zeros((), dtype=torch.float64, device=o.device)
            finite_own = torch.where(torch.isfinite(own), own, zero)
            finite_e = torch.where(torch.isfinite(e), e, zero)
            counted_error, counted_e = torch.where(counted, error, zero), torch.where(counted, e, zero)
            yield {
                "breaks": breaks.sum(), "surely": surely.sum(),
                "max_used": (error.abs() / limit).nan_to_num(nan=math.inf).max() if error.numel() else zero,
                "max_error": error.abs().nan_to_num(nan=math.inf).max() if error.numel() else zero,
                "max_own": finite_own.abs().max() if own.numel() else zero,
                "error_squares": error.square().nan_to_num(nan=math.inf).sum(), "own_squares": finite_own.square().sum(),
                "right_squares": finite_e.square().sum(), "count": counted.sum(),
                "d": counted_error.sum(), "d_squares": counted_error.square().sum(),
                "e": counted_e.sum(), "e_squares": counted_e.square().sum(),
            }

    s = sums(chunks())
    if not s:
        return "right", {}
    figures = {name: s[name] for name in ("breaks", "surely", "max_used", "max_error", "max_own")} | {"elements": out.numel()}
    known = exact is not None
    own_silent = not known or s["own_squares"] > MOST_OWN_ERROR**2 * s["right_squares"]

    def within_own(factor):
        return (not own_silent and s["max_error"] <= factor * s["max_own"]
                and s["error_squares"] <= factor**2 * s["own_squares"])

    if checked is not None:
        accepted, surely_refused = checked, not checked
        for name in ("breaks", "surely", "max_used"):
            del figures[name]
    else:
        accepted = s["breaks"] == 0 or within_own(OWN_ERROR_FACTOR)
        surely_refused = s["surely"] > 0 and not within_own(OWN_ERROR_FACTOR_NEAR)
    varied = spread(s["e_squares"], s["e"], s["count"])
    unexplained = spread(s["d_squares"], s["d"], s["count"])
    figures["unexplained"] = unexplained / varied if varied else None

    def trivial(times):
        rounding = times * (4 * (roundoff(ref.dtype) or 0) + 4 * noise) * math.sqrt(s["e_squares"])
        return rounding < varied / 2 and unexplained > UNEXPLAINED * varied + rounding

    if trivial(2):
        return "wrong", figures | {"rule": "trivial"}
    if surely_refused:
        # Without float64 the reference's own error may be as large.
        figures["rule"] = "checker" if checked is not None else "tolerance"
        return ("wrong" if known or checked is not None else "unknown"), figures
    if trivial(1) or not accepted:
        return "near", figures | {"rule": "trivial" if trivial(1) else "tolerance"}
    return "right", figures


def worst(results):
    results = list(results)
    return min(results, key=lambda result: WORST_FIRST.index(result[0])) if results else ("right", {})


def seed_all(seed):
    import random

    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
    torch.manual_seed(seed)


def made_on(device, function):
    """Calls a function whose new tensors are made on the device, where it permits that: drawing there is faster."""
    if device != "cpu" and hasattr(torch.device, "__enter__"):
        try:
            with torch.device(device):
                return function()
        except Exception as error:
            if short_of_memory(error):
                raise
    return function()


def moved(value, device):
    return mapped(lambda t: t.to(device), value)


def mapped(function, value):
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, dict):
        return type(value)((key, mapped(function, item)) for key, item in value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(function, item) for item in value))
    if isinstance(value, (tuple, list)):
        return type(value)(mapped(function, item) for item in value)
    return value


def rounded(value):
    """The same with each value changed at random by at most the rounding of inputs."""

    def change(t):
        if not t.is_floating_point():
            return t
        changed = t.clone(memory_format=torch.contiguous_format)
        for part in changed.view(-1).split(CHUNK):
            wide = part.float()
            factor = 1 + INPUT_ROUNDING * (2 * torch.rand_like(wide) - 1)
            part.copy_(torch.where(wide == wide.round(), wide, wide * factor))
        return changed

    return mapped(change, value)


def module_of(name, text, folder):
    """A module from a text, with a file, which Triton and inspect need."""
    path = os.path.join(folder, f"{name}.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    module = types.ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)
    return module


def for_device(text, device):
    if device != "cpu":
        return text
    return text.replace('"cuda"', '"cpu"').replace("'cuda'", "'cpu'").replace(".cuda()", "")


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def skip_reason(kind, inputs):
    given = list(tensors(inputs))
    if kind == "float16" and not any(t.dtype in (torch.float32, torch.float64) for t in given):
        return "no input is float32"
    if kind == "input" and not any(t.numel() for t in given):
        return "no input is a tensor"
    return None


def short_of_memory(error):
    return "out of memory" in str(error).lower()


def attempt(function, alone):
    """The class and figures of a candidate. Raises an exception if it may succeed alone on the device."""
    try:
        return function()
    except Exception as error:
        if short_of_memory(error) and not alone:
            raise
        return "unknown", {"why": f"{type(error).__name__}: {error}"[:200]}


def kernelbench(request, folder, device):
    task = module_of("field_task", for_device(read(request["path"]), device), folder)
    seed_all(42)

    def construct():
        arguments = moved(task.get_init_inputs(), device)
        seed_all(42)
        model = task.Model(**arguments) if isinstance(arguments, dict) else task.Model(*arguments)
        return model.to(device)

    def draw(seed):
        def inputs():
            seed_all(seed)
            return list(moved(task.get_inputs(), device))

        return made_on(device, inputs)

    # The judge, as KernelBench, constructs models on the processor. Weights of a device's generator are others.
    model, inputs = construct(), draw(2)

    def call(function, given):
        seed_all(7)
        return list(tensors(function(*given)))

    ref = call(model, inputs)
    noise = [noise_of(*pair) for pair in zip(ref, call(model, rounded(inputs)))]
    truth, exact = "float64", None
    try:
        wide = copy.deepcopy(model).double()
        given = [t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in inputs]
        with double_precision():
            exact = call(wide, given)
        if [(t.shape, t.is_floating_point()) for t in exact] != [(t.shape, t.is_floating_point()) for t in ref]:
            raise ValueError("another shape or type in float64")
    except Exception as error:
        if short_of_memory(error) and not request["alone"]:
            raise
        truth, exact = f"float32, because float64 failed: {type(error).__name__}: {error}"[:200], None
    wide = given = None
    results = {}
    for kind, path in request["candidates"].items():
        why = skip_reason(kind, inputs)
        if why:
            results[kind] = {"skipped": why}
            continue

        def judge():
            source = module_of(f"field_{kind}", for_device(read(path), device), folder)
            # The same weights and buffers.
            candidate = copy.copy(model)
            candidate.__class__ = source.ModelNew
            if kind == "previous":
                call(candidate, draw(1))
            out = call(candidate, inputs)
            if len(out) != len(ref):
                return "wrong", {"why": "another number of outputs"}
            return worst(compare(out[i], ref[i], exact[i] if exact else None, noise[i]) for i in range(len(ref)))

        found, figures = attempt(judge, request["alone"])
        results[kind] = {"class": found, **figures}
    return {"truth": truth, "candidates": results}


def gpu_mode(request, folder, device):
    for name, path in request["files"].items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(for_device(read(path), device))
    task = importlib.import_module("reference")
    started = time.monotonic()
    results, cases = {}, 0
    left = dict(request["candidates"])
    seen = []
    for case in request["cases"]:
        shape = {name: value for name, value in case.items() if name != "seed"}
        if shape in seen:
            continue
        if not left or (cases and time.monotonic() - started > request["limit_s"] / 2):
            break
        seen.append(shape)
        cases += 1

        def draw(seed):
            seed_all(seed)
            return task.generate_input(**(dict(case, seed=seed) if "seed" in case else case))

        before, data = draw(101), draw(202)
        ref = list(tensors(copy.deepcopy(task.ref_kernel(copy.deepcopy(data)))))
        try:
            changed = copy.deepcopy(list(tensors(task.ref_kernel(rounded(copy.deepcopy(data))))))
            noise = [noise_of(*pair) for pair in zip(ref, changed)]
        except Exception:
            noise = [math.inf] * len(ref)  # the rule is silent
        for kind, path in list(left.items()):
            why = skip_reason(kind, data)
            if why:
                results[kind] = {"skipped": why}
                del left[kind]
                continue

            def judge():
                source = module_of(f"field_{kind}", for_device(read(path), device), folder)
                if kind == "previous":
                    source.custom_kernel(copy.deepcopy(before))
                result = copy.deepcopy(source.custom_kernel(copy.deepcopy(data)))
                verdict = task.check_implementation(copy.deepcopy(data), result)
                good = verdict[0] if isinstance(verdict, tuple) else not verdict if isinstance(verdict, str) else bool(verdict)
                out = list(tensors(result))
                if len(out) != len(ref):
                    return ("near" if good else "wrong"), {"why": "another number of outputs"}
                if not out:
                    return ("right" if good else "wrong"), {}
                return worst(compare(o, r, None, n, checked=good) for o, r, n in zip(out, ref, noise))

            found, figures = attempt(judge, request["alone"])
            if kind not in results or WORST_FIRST.index(found) < WORST_FIRST.index(results[kind]["class"]):
                results[kind] = {"class": found, "case": json.dumps(shape), **figures}
            if found == "wrong":
                del left[kind]
    truth = f"the task's checker, {cases} of {len(request['cases'])} cases"
    return {"truth": truth, "candidates": results}


def answer(request, device):
    folder = tempfile.mkdtemp(prefix="field-truth-")
    modules = set(sys.modules)
    sys.path.insert(0, folder)
    share = request.get("memory_share", 1.0)
    if device != "cpu":
        torch.cuda.set_per_process_memory_fraction(share)
    start = time.monotonic()
    try:
        with torch.no_grad():
            made = {"kernelbench": kernelbench, "gpu_mode": gpu_mode}[request["form"]](request, folder, device)
        if device != "cpu":
            made["memory_bytes"] = torch.cuda.max_memory_allocated()
    except Exception as error:
        text = f"{type(error).__name__}: {error}"[:300]
        made = {"error": text, "out_of_memory": short_of_memory(error)}
    finally:
        sys.path.remove(folder)
        for name in set(sys.modules) - modules:
            module = sys.modules[name]
            if str(getattr(module, "__file__", "") or "").startswith(folder):
                del sys.modules[name]
        shutil.rmtree(folder, ignore_errors=True)
    made["seconds"] = time.monotonic() - start
    return made


def main():
    device = sys.argv[1]
    # Tasks print.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.dont_write_bytecode = True
    if device == "cpu":
        torch.set_num_threads(1)
    for line in sys.stdin:
        made = answer(json.loads(line), device)
        answers.write(json.dumps(made) + "\n")
        answers.flush()
        if device != "cpu":
            # After the answer: the next request is rarely here already.
            gc.collect()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()


if __name__ == "__main__":
    main()
