"""GPU MODE's folders with a program (eval.py) that calls functions of its own choice.

The program never runs a candidate. It runs in the mode "test" with the folder's own solution (submission.py), and is
watched: a function of the task makes the inputs, and calls of the solution follow. The judge makes inputs by that function
and has the candidate's process make the same calls. Then the program runs again, in a process without the candidate:
there that function returns the judge's inputs, and the solution's functions return what the candidate has returned. So
the program decides about outputs, and no candidate can forge its verdict.
"""

import ast
import builtins
import contextlib
import functools
import importlib
import inspect
import io
import itertools
import json
import linecache
import multiprocessing
import os
import sys
import types

# What the program takes for the file of its tests, and for the descriptor that it reports to.
TESTS, REPORT = "tests.txt", 1000


class TracedSources(Sources):
    """Functions of the modules are called through `watch`."""

    def __init__(self, texts, watch):
        super().__init__(texts)
        self.watch = watch

    def exec_module(self, module):
        path, text = self.files.get(module.__name__, (module.__name__, ""))
        self.execute(module, path, text)

    def execute(self, module, path, text):
        module.__file__ = path
        linecache.cache[path] = (len(text), None, text.splitlines(True), path)
        tree = ast.parse(text, path)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                node.decorator_list.insert(0, ast.Name("kernelcast_traced", ast.Load()))
        module.__dict__["kernelcast_traced"] = self.traced
        exec(compile(ast.fix_missing_locations(tree), path, "exec"), module.__dict__)

    def traced(self, function):
        @functools.wraps(function)
        def call(*given, **named):
            return self.watch(function, given, named)

        return call


class Report(io.StringIO):
    """The key: value lines that a program writes to POPCORN_FD."""

    def close(self):
        pass

    def values(self):
        pairs = [line.split(":", 1) for line in self.getvalue().splitlines() if ":" in line]
        return {key.strip(): value.strip() for key, value in pairs}


class Pool:
    """A pool of processes that is this process, which may start no others."""

    def __init__(self, *given, **named):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

    def close(self):
        pass

    join = terminate = close

    def apply(self, function, given=(), named=None):
        return function(*given, **(named or {}))

    def apply_async(self, function, given=(), named=None, **callbacks):
        result = self.apply(function, given, named)
        return types.SimpleNamespace(get=lambda timeout=None: result, wait=lambda timeout=None: None)

    def map(self, function, items, chunksize=None):
        return [function(item) for item in items]

    def starmap(self, function, items, chunksize=None):
        return [function(*item) for item in items]


def described(what, values):
    """A tree for each value, and all their tensors."""
    return [tree_of(what, value) for value in values], list(tensors(values))


class Call:
    """A call of a function of the solution."""

    def __init__(self, function, given, named, found):
        self.function, self.names = function, list(named)
        self.arguments, self.given = described(f"an argument of {function}", [*given, *named.values()])
        self.versions = [tensor._version for tensor in self.given]
        # By argument: where the tensor is among those of earlier events, as {event: index}.
        self.found = [found(tensor) for tensor in self.given]

    def end(self, result):
        (self.result,), self.tensors = described(f"the result of {self.function}", [result])
        # Pairs of an argument that it has written and the output that this is. It may have returned the argument.
        self.written = []
        for i, tensor in enumerate(self.given):
            if tensor._version != self.versions[i]:
                at = next((at for at, output in enumerate(self.tensors) if output is tensor), len(self.tensors))
                self.tensors += [tensor] if at == len(self.tensors) else []
                self.written.append([i, at])
        if not self.tensors:
            raise TaskError(f"{self.function} of the reference solution returns no tensor, and writes to none")
        self.versions = [tensor._version for tensor in self.tensors]

    def form(self):
        return {"function": self.function, "arguments": self.arguments, "names": self.names, "result": self.result,
                "written": self.written}


class Made:
    """What a function of the task has made of no tensors."""

    def __init__(self, function, given, named, result):
        self.function, self.names = [function.__module__, function.__name__], list(named)
        self.arguments, _ = described("an argument", [*given, *named.values()])
        self.tensors = list(tensors([result]))
        self.versions = [tensor._version for tensor in self.tensors]

    def form(self):
        return {"function": self.function, "arguments": self.arguments, "names": self.names}


def has_tensors(value):
    try:
        return any(True for _ in tensors([value]))
    except RecursionError:
        return True  # an object that holds itself


def index_of(tensor, others):
    """Of the tensor among others, or of one with the same values. None stands for no tensor."""
    for i, other in enumerate(others):
        if other is tensor:
            return i
    for i, other in enumerate(others):
        if other is not None and (other.shape, other.dtype) == (tensor.shape, tensor.dtype):
            if torch.equal(words_of(other), words_of(tensor.to(other.device))):
                return i
    return None


def words_of(tensor):
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


class Recording:
    """What a program does with the solution: functions that make tensors, and calls of the solution's functions."""

    def __init__(self):
        self.events, self.inside = [], False

    def watch(self, function, given, named):
        result = function(*given, **named)
        if not self.inside and has_tensors(result) and not has_tensors([given, named]):
            with contextlib.suppress(TaskError):  # such arguments cannot be given again
                self.events.append(Made(function, given, named, result))
        return result

    def found(self, tensor):
        """By event: the index of the tensor there."""
        found = {}
        for i, event in enumerate(self.events):
            # A tensor that has changed since is another one.
            kept = [t if t._version == version else None for t, version in zip(event.tensors, event.versions)]
            index = index_of(tensor, kept)
            if index is not None:
                found[i] = index
        return found

    def stand_in(self, name, function):
        def call(*given, **named):
            if self.inside:
                return function(*given, **named)
            event = Call(name, given, named, self.found)
            self.inside = True
            try:
                result = function(*given, **named)
            finally:
                self.inside = False
            event.end(result)
            self.events.append(event)
            return result

        return call

    def calls_from(self, start):
        """The calls on what one event has made, before it happens again. Tensors are numbered: those made, then outputs."""
        maker, places, count, calls = self.events[start], {start: 0}, len(self.events[start].tensors), []
        for i, event in enumerate(self.events[start + 1 :], start + 1):
            if isinstance(event, Call):
                at = [next((places[e] + index for e, index in found.items() if e in places), None) for found in event.found]
                calls.append(dict(event.form(), tensors=at))
                places[i] = count
                count += len(event.tensors)
            elif event.function == maker.function:
                break
        used = {index for call in calls for index in call["tensors"]}
        return calls if None not in used and used.issuperset(range(len(maker.tensors))) else []

    def plan(self):
        """What makes the inputs, the calls that follow, and the inputs and all outputs."""
        for start, event in enumerate(self.events):
            if isinstance(event, Call):
                break
            calls = self.calls_from(start)
            made = [e.form() for e in self.events[start:] if isinstance(e, Call)]
            one = [{key: call[key] for key in call if key != "tensors"} for call in calls]
            # All later rounds must be like the first one.
            if calls and made == one * (len(made) // len(one)):
                outputs = [t for e in self.events[start:] if isinstance(e, Call) for t in e.tensors]
                return event.form(), calls, [*event.tensors, outputs]
        called = next((event.function for event in self.events if isinstance(event, Call)), None)
        why = f"no function of the task makes exactly the tensors that {called} gets" if called else "it calls no candidate"
        raise TaskError(f"the program cannot be run without a candidate: {why}")


class GpuModeEval(GpuMode):
    """The candidate defines the functions that the program calls."""

    def __init__(self, given):
        details = json.loads(given["details"])
        self.given_cases, self.modules, self.main = details["cases"], details["modules"], details["program"]
        self.describes, self.makes_inputs = given["role"] == "describe", given["role"] != "candidate"
        self.classes_known = {}
        known = [one["case"] for one in given.get("cases", ())]
        self.plans = {case["number"]: case["calls"] for case in known}
        self.makers = {case["number"]: case["maker"] for case in known}
        self.observer = None
        if not self.makes_inputs:
            self.hide_task()
        self.sources = TracedSources(self.modules, self.watch)

    def hide_task(self):
        for name in (self.main, "submission.py"):
            self.modules.pop(name)
        trees = [{"list": call["arguments"]} for calls in self.plans.values() for call in calls]
        if "reference.py" in self.modules:
            self.hide_reference([{"inputs": trees}])

    def watch(self, function, given, named):
        return function(*given, **named) if self.observer is None else self.observer(function, given, named)

    def run_program(self, case, observer, stand_in):
        """The lines that the program reports in the mode test. stand_in(name, function) replaces the solution's own."""
        solution = importlib.import_module("submission")
        submission, main = types.ModuleType("submission"), types.ModuleType("__main__")
        for name, value in vars(solution).items():
            own = isinstance(value, types.FunctionType) and value.__module__ == "submission"
            vars(submission)[name] = stand_in(name, value) if own else value
        report, line = Report(), "; ".join(f"{name}: {value}" for name, value in case["arguments"].items())
        with contextlib.ExitStack() as stack:
            self.replace_surroundings(stack, report, line + "\n")
            for name, module in (("submission", submission), ("__main__", main)):
                stack.callback(sys.modules.__setitem__, name, sys.modules[name])
                sys.modules[name] = module
            printed = stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
            stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            self.observer = observer
            stack.callback(setattr, self, "observer", None)
            with contextlib.suppress(SystemExit):
                self.sources.execute(main, self.main, self.modules[self.main])
        return report.values(), printed.getvalue()

    def replace_surroundings(self, stack, report, tests):
        """Its files, and what this process may not do."""

        def replace(place, name, value):
            stack.callback(setattr, place, name, getattr(place, name))
            setattr(place, name, value)

        def opener(original):
            def open(file, *given, **named):
                if file == REPORT:
                    return report
                return io.StringIO(tests) if str(file) == TESTS else original(file, *given, **named)

            return open

        for place, name in ((builtins, "open"), (io, "open"), (os, "fdopen")):
            replace(place, name, opener(getattr(place, name)))
        inheritable, write = os.set_inheritable, os.write
        replace(os, "set_inheritable", lambda fd, value: None if fd == REPORT else inheritable(fd, value))
        replace(os, "write", lambda fd, data: report.write(data.decode()) if fd == REPORT else write(fd, data))
        replace(os, "environ", {**os.environ, "POPCORN_FD": str(REPORT)})
        replace(sys, "argv", [self.main, "test", TESTS])
        replace(multiprocessing, "Pool", Pool)
        replace(multiprocessing, "get_context", lambda method=None: types.SimpleNamespace(Pool=Pool))
        if self.device == "cpu":
            replace(torch.cuda, "is_available", lambda: True)

    def cases(self):
        if not self.describes:
            raise TaskError("calls of a task with a program of its own are not recorded")
        cases = []
        for number, case in enumerate(self.given_cases):
            recording = Recording()
            values, printed = self.run_program(case, recording.watch, recording.stand_in)
            refused = refusal_in(values, printed)
            if refused is not None:
                raise TaskError(f"{self.main} refuses the reference, submission.py: {refused}")
            maker, calls, values = recording.plan()
            for module, name in classes([tree for call in calls for tree in call["arguments"]]):
                if self.is_private(module, name):
                    raise TaskError(f"a candidate gets a {name} of module {module}, which candidates do not have")
            self.plans[number], self.makers[number] = calls, maker
            if number == 0 and self.check(number, *values[:-1], map(other_than, values[-1])) is None:
                raise TaskError(f"{self.main} accepts wrong outputs in its mode test")
            cases.append(dict(case, number=number, maker=maker, calls=calls))
        return cases

    def make_inputs(self, seed, case):
        seed_all(seed)
        module, name = case["maker"]["function"]
        main = self.main.removesuffix(".py")
        function = getattr(importlib.import_module(main if module == "__main__" else module), name)
        given, named = arguments_of(case["maker"], iter(()))
        bound = inspect.signature(function).bind(*given, **named)
        if "seed" in inspect.signature(function).parameters:
            bound.arguments["seed"] = seed
        return [case["number"], *tensors([function(*bound.args, **bound.kwargs)])]

    def functions_of(self, module):
        """All calls of a case, as one."""
        functions = vars(module)

        def call(number, *made):
            known = list(made)
            for one in self.plans[number]:
                given, named = arguments_of(one, iter([known[i] for i in one["tensors"]]))
                held = list(tensors([given, named]))
                result = functions[one["function"]](*given, **named)
                outputs, count = list(tensors([result])), len(list(leaves([one["result"]])))
                if len(outputs) != count:
                    raise WrongForm(f"{one['function']} returns {len(outputs)} tensors instead of {count}")
                known += outputs + [held[i] for i, at in one["written"] if at >= count]
            return known[len(made) :]

        return call

    def reference(self):
        return self.functions_of(importlib.import_module("submission"))

    def candidate(self, source):
        module = load("submission", source)
        for name in sorted({call["function"] for calls in self.plans.values() for call in calls}):
            if not callable(vars(module).get(name)):
                raise TaskError(f"the candidate does not define {name}")
        return self.functions_of(module)

    def check(self, number, *values):
        case, outputs = self.given_cases[number], iter(values[-1])
        calls, maker = self.plans[number], self.makers[number]
        results = {}
        for call in calls:
            count = max([len(list(leaves([call["result"]]))), *(at + 1 for _, at in call["written"])])
            results.setdefault(call["function"], []).append((call, list(itertools.islice(outputs, count))))
        rounds = {name: itertools.cycle(found) for name, found in results.items()}

        def observer(function, given, named):
            result = function(*given, **named)
            if [function.__module__, function.__name__] != maker["function"]:
                return result
            made = iter(values[:-1])
            return mapped(lambda tensor: next(made).clone(), result)

        def stand_in(name, function):
            def call(*given, **named):
                form, values = next(rounds[name])
                held = list(tensors([given, named]))
                for i, at in form["written"]:
                    held[i].copy_(values[at])
                return build(form["result"], iter([value.clone() for value in values]))

            return call

        return refusal_in(*self.run_program(case, observer, stand_in))


def arguments_of(form, given):
    """The positional and the named arguments of a call; `given` has their tensors."""
    values = [build(tree, given) for tree in form["arguments"]]
    positional = len(values) - len(form["names"])
    return values[:positional], dict(zip(form["names"], values[positional:]))


def other_than(tensor):
    """Other values, except where they are -1."""
    return ~tensor if tensor.dtype is torch.bool else (tensor.double() * 2 + 1).to(tensor.dtype)


def refusal_in(values, printed):
    """Why a program has not accepted a candidate; None if it has."""
    if values.get("check") == "pass":
        return None
    reasons = [text for key, text in values.items() if key.rpartition(".")[2] in ("error", "message")]
    return "; ".join(reasons) or printed.strip().rpartition("\n")[2] or f"check: {values.get('check', 'nothing')}"
