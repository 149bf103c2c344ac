#!/usr/bin/env python3
"""Runs other projects' own clients against the gateway, with real services that measure on the cpu target.

    clients_test.py --programs FOLDER [TEST ...]

Environment variables name clients that scripts/setup.sh does not install: KERNELCAST_TEST_POPCORN a popcorn-cli, and
KERNELCAST_TEST_FLASHINFER, _GEPA, _KERNELGYM and _SLIME a checkout of the project. KERNELCAST_TEST_PYTHON runs these clients.
"""

import json
import os
import pathlib
import shutil
import subprocess
import unittest

import served_gateway
from served_gateway import BROKEN, DEFINITIONS, FAST, PYTHON, ROOT, TASK_SECONDS, TASKS, ZEROS, has_torch

HERE = pathlib.Path(__file__).resolve().parent
STAND_INS = ROOT / "clients/python/tests"


class ClientTest(served_gateway.ServicesTest):
    """Its client is the program or the Python `client`."""

    probe = ("--version",)  # arguments with which the client succeeds where it is installed
    environment = {}

    @classmethod
    def setUpClass(cls):
        if not cls.client or not os.path.exists(cls.client):
            raise unittest.SkipTest(cls.missing)
        found = subprocess.run([cls.client, *cls.probe], capture_output=True, text=True, check=False,
                               env={**os.environ, **cls.environment})
        if found.returncode != 0:
            raise unittest.SkipTest(f"{cls.missing}: {found.stderr[-500:]}")
        super().setUpClass()
        cls.url = f"http://{cls.gateway.address}"

    def run_client(self, *arguments, succeeds=True, **environment):
        ended = subprocess.run([self.client, *arguments], capture_output=True, text=True, timeout=3 * TASK_SECONDS,
                               check=False, cwd=self.folder,
                               env={**os.environ, **self.environment, "HOME": str(self.folder), **environment})
        if succeeds:
            self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        return ended

    def run_script(self, script, *arguments):
        """What a script of the client prints as its last line."""
        return json.loads(self.run_client("-c", script, *arguments).stdout.splitlines()[-1])

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path


class CheckoutTest(ClientTest):
    """The client is a module in the checkout that the environment variable names."""

    client = os.environ.get("KERNELCAST_TEST_PYTHON", ROOT / ".setup/python/bin/python")
    variable = ""
    project = ""
    sources = ""   # folder of the checkout with the module
    imports = ""   # as lines of Python

    @classmethod
    def setUpClass(cls):
        checkout = os.environ.get(cls.variable)
        if not checkout:
            raise unittest.SkipTest(f"{cls.variable} names no checkout of {cls.project}")
        cls.missing = f"{cls.client} cannot import the client of {cls.project}"
        cls.environment = {"PYTHONPATH": f"{pathlib.Path(checkout).resolve() / cls.sources}:{HERE}:{STAND_INS}"}
        cls.probe = ("-c", cls.imports)
        super().setUpClass()

    def run_script(self, script, *arguments):
        return super().run_script(self.imports + script, *arguments)


class PopcornTest(ClientTest):
    client = os.environ.get("KERNELCAST_TEST_POPCORN") or shutil.which("popcorn-cli")
    missing = ("there is no popcorn-cli on PATH, and KERNELCAST_TEST_POPCORN names none; "
               "https://github.com/gpu-mode/popcorn-cli says how to install it")

    def popcorn(self, *arguments, succeeds=True):
        return self.run_client(*arguments, succeeds=succeeds, POPCORN_API_URL=f"{self.url}/popcorn")

    def submit(self, name, source, mode):
        """The ended process, once a submission has a verdict."""
        file = self.write(name, source)

        def ask():
            ended = self.popcorn("submit", "--no-tui", "--leaderboard", "softmax", "--gpu", "cpu", "--mode", mode, file,
                                 succeeds=False)
            return None if "no verdict" in ended.stderr.lower() else ended

        return self.judged(ask)

    def test_submits_and_shows_results(self):
        self.write(".popcorn.yaml", "cli_id: me\n")
        good = self.submit("two_rows.cpp", FAST, "leaderboard")
        self.assertEqual(good.returncode, 0, good.stderr)
        self.assertIn("Geomean score (public) on cpu: ", good.stdout)
        result = json.loads(good.stdout[good.stdout.index("{"):])
        self.assertEqual([run["passed"] for run in result["runs"]], [True, True, True])
        self.assertGreater(result["runs"][2]["score"], 0)
        broken = self.submit("broken.cpp", BROKEN, "test")
        self.assertNotEqual(broken.returncode, 0)
        self.assertIn("Does not compile:", broken.stderr)
        zeros = self.submit("zeros.cpp", ZEROS, "benchmark")
        self.assertNotEqual(zeros.returncode, 0)
        self.assertIn("Wrong result", zeros.stderr)
        listed = self.popcorn("submissions", "list", "--leaderboard", "softmax").stdout.splitlines()[2:]
        self.assertEqual([line.split()[2] for line in listed], ["zeros.cpp", "broken.cpp", "two_rows.cpp"])
        # Only runs that passed have a GPU here.
        self.assertEqual([line.count("cpu") for line in listed], [0, 0, 3])
        shown = self.popcorn("submissions", "show", str(result["submission_id"])).stdout
        self.assertIn("kernelcast_run", shown)
        refused = self.popcorn("submit", "--no-tui", "--leaderboard", "none", "--gpu", "cpu", "--mode", "test",
                               self.folder / "two_rows.cpp", succeeds=False)
        self.assertIn("Leaderboard none does not exist.", refused.stderr)


class FlashinferTest(ClientTest):
    client = ROOT / ".setup/flashinfer/bin/python"
    probe = ("-c", "import flashinfer_bench")
    missing = "there is no flashinfer-bench in .setup/flashinfer (scripts/setup.sh --test installs it)"
    # The project has no client beyond its data model, and httpx in its tests.
    script = """
import json, sys
import httpx
from flashinfer_bench.data import BuildSpec, Definition, Solution, SourceFile, SupportedLanguages, Trace, Workload

client = httpx.Client(base_url=sys.argv[1], timeout=200)
for served in client.get("/definitions").json():
    Definition.model_validate(client.get(f"/definitions/{served['name']}").json())
workloads = [Workload.model_validate(one) for one in client.get("/definitions/softmax/workloads").json()]
assert Workload.model_validate(client.get(f"/workloads/{workloads[0].uuid}").json()) == workloads[0]
statuses = []
for source in sys.argv[2:]:
    solution = Solution(
        name="mine", definition="softmax", author="me", sources=[SourceFile(path="main.cc", content=source)],
        spec=BuildSpec(language=SupportedLanguages.CPP, target_hardware=["cpu"], entry_point="main.cc::kernelcast_run"))
    reply = client.post("/evaluate", json={"solution": solution.model_dump(mode="json")}).raise_for_status()
    task = client.get(f"/tasks/{reply.json()['task_id']}", params={"timeout": 120}).raise_for_status().json()
    traces = [Trace.model_validate(trace) for trace in task["traces"] or []]
    assert [trace.workload for trace in traces] in ([], workloads), traces
    assert all(trace.evaluation.performance is None or trace.evaluation.performance.speedup_factor > 0 for trace in traces)
    statuses.append([task["status"], *(trace.evaluation.status.value for trace in traces)])
print(json.dumps(statuses))
"""

    def test_evaluates_solutions(self):
        def ask():
            statuses = self.run_script(self.script, f"{self.url}/flashinfer", FAST, BROKEN, ZEROS)
            return statuses if all(status == "completed" for status, *_ in statuses) else None

        self.assertEqual([traces for _, *traces in self.judged(ask)],
                         [["PASSED"], ["COMPILE_ERROR"], ["INCORRECT_NUMERICAL"]])


class FlashinferServerTest(ClientTest):
    """The test of flashinfer-bench's server in a checkout, unchanged, with an installed flashinfer-bench."""

    client = CheckoutTest.client
    checkout = os.environ.get("KERNELCAST_TEST_FLASHINFER")
    probe = ("-c", "import flashinfer_bench.data, httpx, pytest, pytest_asyncio, torch")
    missing = f"{client} lacks flashinfer-bench, httpx, pytest, pytest-asyncio or torch"

    @classmethod
    def setUpClass(cls):
        if not cls.checkout:
            raise unittest.SkipTest("KERNELCAST_TEST_FLASHINFER names no checkout of "
                                    "https://github.com/flashinfer-ai/flashinfer-bench")
        super().setUpClass()

    def test_passes(self):
        if not has_torch():
            self.skipTest(f"no PyTorch in {PYTHON} (install python3-torch)")
        theirs = pathlib.Path(self.checkout).resolve() / "tests/serve"
        ours = self.folder / "tests/serve"
        ours.mkdir(parents=True)
        shutil.copy(theirs / "test_serve_api.py", ours)
        shutil.copy(DEFINITIONS / "conftest.py", ours)
        ended = self.run_client("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/serve",
                                KERNELCAST_FLASHINFER_URL=f"{self.url}/flashinfer",
                                KERNELCAST_FLASHINFER_CONFTEST=str(theirs / "conftest.py"))
        self.assertIn(" passed", ended.stdout)
        self.assertNotIn("skipped", ended.stdout)


class KernelgymTest(CheckoutTest):
    variable = "KERNELCAST_TEST_KERNELGYM"
    project = "https://github.com/hkust-nlp/KernelGYM"
    sources = "drkernel"
    imports = """
import stubs
stubs.replace_ray_and_verl()
from kernel.rewards.reward_client import KernelRewardClient
"""
    script = """
import asyncio, json, sys

class Config(dict):
    def __getattr__(self, name):
        if name not in self:
            raise AttributeError(name)
        return Config(self[name]) if isinstance(self[name], dict) else self[name]

url, reference, *kernels = sys.argv[1:]
client = KernelRewardClient(reward_config=Config({
    "server_url": url, "timeout": 120, "task_timeout_in_client": 300, "max_retries": 3, "rate_limit": 4,
    "max_concurrent": 4, "acquire_timeout": 30, "reward_func_name": "calculate_reward_speedup", "init_correct_weight": 1,
    "init_performance_weight": 1, "speedup_eps": 0.05, "speedup_reward_upper_bound": 3, "speedup_reward_lower_bound": 0,
    "reward_policy": {"penalties": {"penalty_score": -1}},
    "coverage_reward": {"enable": False, "reward_type": "time_coverage", "weight": 0}}))
results = asyncio.run(client.compute_batch_rewards(
    [{"reference_code": reference, "kernel_code": kernel, "entry_point": "Model"} for kernel in kernels]))
print(json.dumps([{key: result.get(key) for key in ("status", "compiled", "correctness", "reward")} for result in results]))
"""

    def test_rewards_kernels(self):
        if not has_torch():
            self.skipTest(f"no PyTorch in {PYTHON} (install python3-torch)")
        texts = [TASKS / "gated_silu.py", *(TASKS / "candidates/gated_silu" / f"{name}.py"
                                            for name in ("in_place", "wrong_gate"))]

        def ask():
            results = self.run_script(self.script, f"{self.url}/kernelgym", *(path.read_text() for path in texts),
                                      "class ModelNew(:\n    pass\n")
            return results if all(result["status"] == "completed" for result in results) else None

        good, wrong, broken = self.judged(ask)
        self.assertTrue(good["compiled"] and good["correctness"], good)
        self.assertGreater(good["reward"], 1)
        self.assertEqual((wrong["compiled"], wrong["correctness"], wrong["reward"]), (True, False, 0))
        self.assertEqual((broken["compiled"], broken["correctness"], broken["reward"]), (False, False, 0))


class SlimeTest(CheckoutTest):
    variable = "KERNELCAST_TEST_SLIME"
    project = "https://github.com/THUDM/slime"
    imports = """
import stand_ins
stand_ins.install("torch", "sympy", "pylatexenc")
from slime.rollout.rm_hub import batched_async_rm
from slime.utils.types import Sample
"""
    script = """
import asyncio, json, sys, types

args = types.SimpleNamespace(rm_type="remote_rm", rm_url=sys.argv[1], custom_rm_path=None)
samples = [Sample(prompt=[{"role": "user", "content": "Faster!"}], response=f"```cpp\\n{source}```", label="softmax")
           for source in sys.argv[2:]]
print(json.dumps(asyncio.run(batched_async_rm(args, samples))))
"""

    def test_rewards_samples(self):
        rewards = self.run_script(self.script, f"{self.url}/slime", FAST, BROKEN, FAST)
        self.assertGreater(rewards[0], 0)
        self.assertEqual(rewards, [rewards[0], 0, rewards[0]])


class GepaTest(CheckoutTest):
    variable = "KERNELCAST_TEST_GEPA"
    project = "https://github.com/gepa-ai/gepa, whose releases have no gepa.oa yet"
    sources = "src"
    # The client of an EvalServer is a script for agents.
    imports = """
from gepa.oa.engines.autoresearch import EVAL_SCRIPT_DATASET, EVAL_SCRIPT_SINGLE
"""
    script = """
import json, sys

print(json.dumps([text.format(server_url=sys.argv[1]) for text in (EVAL_SCRIPT_SINGLE, EVAL_SCRIPT_DATASET)]))
"""

    def evaluate(self, script, source):
        """The exit code and the reply, once there is a verdict."""
        candidate = self.write("candidate.txt", source)

        def ask():
            ended = subprocess.run(["bash", script, candidate], capture_output=True, text=True, timeout=TASK_SECONDS,
                                   check=False)
            reply = json.loads(ended.stdout)
            return None if "error" in reply and ended.returncode == 0 else (ended.returncode, reply)

        return self.judged(ask)

    def test_scores_candidates_within_the_budget(self):
        if shutil.which("jq") is None:
            self.skipTest("its script needs jq")
        single, dataset = (self.write(f"eval_{number}.sh", text) for number, text in enumerate(
            self.run_script(self.script, f"{self.url}/gepa/softmax")))
        code, reply = self.evaluate(single, FAST)
        self.assertEqual(code, 0, reply)
        self.assertGreater(reply["score"], 0)
        self.assertEqual(self.evaluate(dataset, FAST)[1]["average_score"], reply["score"])
        code, reply = self.evaluate(single, BROKEN)
        self.assertEqual((code, reply["score"]), (0, 0))
        code, reply = self.evaluate(single, ZEROS)
        self.assertEqual((code, reply["error"]), (1, "Budget exhausted"))


if __name__ == "__main__":
    served_gateway.main(__doc__)
