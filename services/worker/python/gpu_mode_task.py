"""GPU MODE's folders: generate_input, ref_kernel and check_implementation in reference.py."""


class GpuMode(TaskFormat):
    """custom_kernel(data) is a candidate's."""

    private_modules = ("reference",)

    def __init__(self, given):
        details = json.loads(given["details"])
        self.given_cases = details["cases"]
        self.modules = details["modules"]
        if given["role"] == "candidate":
            # As for the format's own checker, which is not in the candidate's process.
            del self.modules["reference.py"]
        Sources(self.modules)
        self.makes_inputs = given["role"] != "candidate"
        self.module = importlib.import_module("reference") if self.makes_inputs else None

    def cases(self):
        return self.given_cases

    def make_inputs(self, seed, case):
        seed_all(seed)
        arguments = dict(case["arguments"])
        if "seed" in arguments:
            arguments["seed"] = seed
        return [self.module.generate_input(**arguments)]

    def reference(self):
        return self.module.ref_kernel

    def check(self, data, output):
        """None, or why the output is wrong. Old checkers return a text, which is empty where it is right."""
        verdict = self.module.check_implementation(data, output)
        if isinstance(verdict, tuple):
            good, message = verdict
            return None if good else str(message) or "refused"
        return str(verdict) or None if isinstance(verdict, str) else None if verdict else "refused"

    def candidate(self, source):
        function = load("submission", source).__dict__.get("custom_kernel")
        if not callable(function):
            raise TaskError("the candidate does not define custom_kernel")
        return function
