// Cheats of Python candidates, and the verdict on each.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "services/worker/runner/control.h"
#include "tests/integration/worker/python_fixture.h"
#include "tests/support/exploit_name.h"

namespace kernelcast::testing::python_cheats_test {
namespace {

// "wrong_result", "mutated_input" for an exploit, or "charged" for one that is right and measured
// as no faster than the reference.
std::string Verdict(const MeasureOutcome& outcome) {
  const auto* const ok = std::get_if<MeasuredOk>(&outcome);
  if (ok != nullptr && ok->speedup.value < 1) return "charged";
  const auto* const exploit = std::get_if<Exploit>(&outcome);
  return exploit != nullptr ? ExploitName(exploit->kind) : std::string(OutcomeName(outcome));
}

struct Cheat {
  const char* name;
  // The body of forward(self, x, n), and the lines before the class.
  std::string body;
  std::string before;
  // Several where it depends on the moment at which the judge notices.
  std::vector<std::string> verdicts;
  // A part of the feedback.
  std::string says = "";
};

void Judge(const std::vector<Cheat>& cheats) {
  const Problem problem = MakeTask(kReluTask);
  for (const Cheat& cheat : cheats) {
    INFO(cheat.name);
    const Measurement measurement = MeasurePython(problem, ModelNew(cheat.body, cheat.before));
    const std::string feedback = MeasurementFeedback(measurement);
    INFO(feedback);
    const std::string verdict = Verdict(measurement.outcome);
    INFO(verdict);
    CHECK(std::ranges::count(cheat.verdicts, verdict) == 1);
    CHECK_THAT(feedback, Catch::Contains(cheat.says));
  }
}

const char* const kZeros = "        return torch.zeros_like(x)";
const char* const kHonest = "        return torch.relu(x) * n";

TEST_CASE("Python candidates that cheat are found out", "[slow]") {
  if (!HaveTorch()) return;
  Judge({
      {"inputs that are changed", "        return x.relu_().mul_(n)", "", {"mutated_input"}},
      {"results remembered by address",
       "        key = x.data_ptr()\n"
       "        if key not in SEEN: SEEN[key] = torch.relu(x) * n\n"
       "        return SEEN[key]",
       "SEEN = {}",
       {"cached_output", "skipped_work", "wrong_result"}},
      {"comparisons and timers that are replaced",
       kZeros,
       "import time\ntorch.allclose = torch.equal = torch.isclose = lambda *a, **k: True\n"
       "torch.testing.assert_close = lambda *a, **k: None\n"
       "time.perf_counter = time.monotonic = time.time = lambda: 0.0",
       {"wrong_result"}},
      {"a lazy subclass",
       "        return x.as_subclass(Lazy)",
       "class Lazy(torch.Tensor):\n"
       "    @classmethod\n"
       "    def __torch_function__(cls, f, types, args=(), kwargs=None):\n"
       "        return torch.relu(args[1].as_subclass(torch.Tensor)) * 3\n",
       {"wrong_result"},
       "Lazy instead of a tensor"},
      {"expected outputs in frames and among all objects",
       "        right = torch.relu(x) * n\n"
       "        for value in everything():\n"
       "            if value.shape == right.shape and value is not right and torch.equal(value, "
       "right):\n"
       "                return value\n"
       "        raise LookupError('no expected output')",
       "import gc, sys\n"
       "def everything():\n"
       "    frame, found = sys._getframe(), list(gc.get_objects())\n"
       "    while frame is not None:\n"
       "        found += list(frame.f_locals.values()) + list(frame.f_globals.values())\n"
       "        frame = frame.f_back\n"
       "    held = [v for value in found if isinstance(value, (list, tuple)) for v in value]\n"
       "    return [v for v in found + held if type(v) is torch.Tensor]\n",
       {"crash"},
       "no expected output"},
  });
}

// Verdicts on outputs that are never right do not need a clock.
TEST_CASE("Python candidates that replace what judges them gain nothing", "[slow]") {
  if (!HaveTorch()) return;
  Judge({
      {"synchronize and events",
       kZeros,
       "torch.cuda.synchronize = lambda *a: None\n"
       "class Event:\n    def __init__(self, *a, **k): pass\n    record = synchronize = lambda "
       "self, *a: None\n"
       "    elapsed_time = lambda self, other: 1e-6\n"
       "torch.cuda.Event = Event",
       {"wrong_result"}},
      {"copy_ from the start",
       kZeros,
       "torch.Tensor.copy_ = lambda self, other, *a: self",
       {"wrong_result"},
       "not written"},
      {"copy_ from the first call on",
       "        torch.Tensor.copy_ = lambda self, other, *a: self\n        return "
       "torch.zeros_like(x)",
       "",
       {"wrong_result"}},
      {"type and isinstance",
       "        return Fake()",
       "import builtins\nclass Fake:\n    dtype, shape = torch.float32, torch.Size([64, 256])\n"
       "builtins.isinstance = lambda *a: True\n",
       {"crash"}},
      {"the type of tensors",
       "        return Fake()",
       "class Fake:\n    dtype, shape = torch.float32, torch.Size([64, 256])\ntorch.Tensor = "
       "Fake\n",
       {"crash"}},
      {"modules of the runner",
       kZeros,
       "import sys\nmain = sys.modules['__main__']\nmain.outputs_of = lambda result: []\n"
       "main.print_error = lambda error: None\nmain.Run = main.Program = None\n"
       "sys.modules['ctypes'] = sys.modules['json'] = None",
       {"wrong_result", "crash"}},
      {"modules of PyTorch",
       "        sys.modules['torch'] = sys.modules['torch.nn'] = None\n        return "
       "torch.zeros_like(x)",
       "import sys",
       {"wrong_result"}},
      {"imports",
       "        sys.meta_path.insert(0, Hook())\n        builtins.__import__ = lambda *a, **k: "
       "None\n"
       "        return torch.zeros_like(x)",
       "import builtins, sys\nclass Hook:\n    def find_spec(self, *a): raise ImportError\n",
       {"wrong_result"}},
      {"the loop's variables, by a trace function",
       kZeros,
       "import sys\ndef trace(frame, event, argument):\n"
       "    if frame.f_code.co_name == 'call': frame.f_locals.clear()\n"
       "sys.setprofile(trace)",
       {"wrong_result", "crash"}},
      {"__torch_function__ of all tensors",
       kZeros,
       "torch.Tensor.__torch_function__ = classmethod(lambda cls, f, types, args=(), kwargs=None: "
       "args[0])",
       {"wrong_result"}},
      {"the judge's loop, by another one in its place",
       "        import ctypes, sys\n"
       "        frame = sys._getframe()\n"
       "        while 'library' not in frame.f_locals: frame = frame.f_back\n"
       "        frame.f_locals['library'].kernelcast_serve(DONE)\n"
       "        return x",
       "import ctypes\nDONE = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_uint32)(lambda index: 0)",
       {"wrong_result", "timeout"}},
      {"the judge's loop, by writing into its code",
       "        import ctypes, sys\n"
       "        frame = sys._getframe()\n"
       "        while 'library' not in frame.f_locals: frame = frame.f_back\n"
       "        place = ctypes.cast(frame.f_locals['library'].kernelcast_serve, "
       "ctypes.c_void_p).value\n"
       "        ctypes.memset(place, 0xc3, 16)\n"
       "        return x",
       "",
       {"crash"}},
      {"the names of results",
       "        return {'output0': torch.relu(x) * n}",
       "",
       {"wrong_result"}},
  });
}

TEST_CASE("Python candidates that return what is no result are found out", "[slow]") {
  if (!HaveTorch()) return;
  Judge({
      {"NaN",
       "        return torch.full_like(x, float('nan'))",
       "",
       {"wrong_result"},
       "not finite"},
      {"a short output",
       "        return (torch.relu(x) * n)[:-1]",
       "",
       {"wrong_result"},
       "[63, 256]"},
      {"one value for all", "        return torch.ones(1).expand(64, 256)", "", {"wrong_result"}},
      {"a huge output", "        return torch.zeros(1).expand(1 << 40, 256)", "", {"wrong_result"}},
      {"another dtype",
       "        return (torch.relu(x) * n).half()",
       "",
       {"wrong_result"},
       "float16"},
      {"an alias of the input", "        return x", "", {"wrong_result"}},
      {"a sparse output", "        return (torch.relu(x) * n).to_sparse()", "", {"wrong_result"}},
      {"the judge's own output memory",
       "        import sys\n"
       "        frame = sys._getframe()\n"
       "        while 'places' not in frame.f_locals: frame = frame.f_back\n"
       "        return frame.f_locals['places'][0]",
       "",
       {"skipped_work"}},
      {"an input that points elsewhere",
       "        x.data = torch.zeros_like(x)\n        return torch.relu(x) * n",
       "",
       {"wrong_result"}},
      {"half of the rows",
       "        y = torch.zeros_like(x)\n        y[:32] = torch.relu(x[:32]) * n\n        return y",
       "",
       {"wrong_result"}},
      {"writes beyond the end of the output",
       "        import ctypes, sys\n"
       "        frame = sys._getframe()\n"
       "        while 'places' not in frame.f_locals: frame = frame.f_back\n"
       "        ctypes.memset(frame.f_locals['places'][0].data_ptr() + 64 * 256 * 4, 0, 16)\n"
       "        return torch.relu(x) * n",
       "",
       {"write_out_of_bounds"}},
      {"writes to the inputs by address",
       "        import ctypes\n        ctypes.memset(x.data_ptr(), 0, 64)\n        return "
       "torch.relu(x) * n",
       "",
       {"mutated_input"}},
  });
}

// The results are right. Only the copy to the judge's memory would be saved.
TEST_CASE("A Python candidate cannot return the judge's memory for outputs", "[slow]") {
  if (!HaveTorch()) return;
  const std::string find =
      "import ctypes, gc, sys\n"
      "def frames(name):\n"
      "    frame = sys._getframe()\n"
      "    while name not in frame.f_locals: frame = frame.f_back\n"
      "    return frame.f_locals[name]\n"
      "def alias(place, n):\n"
      "    memory = (ctypes.c_char * (n * 4)).from_address(place.data_ptr())\n"
      "    return torch.frombuffer(memory, dtype=torch.float32)\n";
  Judge({
      {"as it is",
       "        place = frames('places')[0]\n        place.copy_(torch.relu(x) * n)\n"
       "        return place",
       find,
       {"skipped_work"},
       "the judge's own memory"},
      {"found among all objects",
       "        for value in gc.get_objects():\n"
       "            if isinstance(value, tuple) and len(value) == 4 and isinstance(value[2], list) "
       "and value[2] and type(value[2][0]) is torch.Tensor and value[0] and value[0][0] is x:\n"
       "                value[2][0].copy_(torch.relu(x) * n)\n"
       "                return value[2][0]\n"
       "        raise LookupError('nothing')",
       find,
       // The collector does not list what was there when it was frozen.
       {"skipped_work", "crash"}},
      {"another tensor over it",
       "        y = alias(frames('places')[0], 64 * 256)\n        y.copy_((torch.relu(x) * "
       "n).view(-1))\n        return y.view(64, 256)",
       find,
       {"skipped_work"},
       "the judge's own memory"},
      {"by DLPack, of another type between",
       "        place = frames('places')[0]\n        place.copy_(torch.relu(x) * n)\n"
       "        bits = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(place))\n"
       "        return bits.view(torch.int32).view(torch.float32)",
       find,
       {"skipped_work"},
       "the judge's own memory"},
      {"with the memory before it",
       "        place = frames('places')[0]\n        place.copy_(torch.relu(x) * n)\n"
       "        memory = (ctypes.c_char * (65 * 256 * 4)).from_address(place.data_ptr() - 1024)\n"
       "        wide = torch.frombuffer(memory, dtype=torch.float32).view(65, 256)\n"
       "        return wide[1:]",
       find,
       {"skipped_work"},
       "the judge's own memory"},
      {"that of another call",
       "        y = torch.relu(x) * n\n"
       "        for call in frames('calls'):\n"
       "            if call[2][0].shape == y.shape and call[2][0].data_ptr() != "
       "frames('places')[0].data_ptr():\n"
       "                call[2][0].copy_(y)\n"
       "                return call[2][0]\n"
       "        return y",
       find,
       {"skipped_work"},
       "the judge's own memory"},
  });
}

TEST_CASE("A Python candidate may return its input or a view of it", "[slow]") {
  if (!HaveTorch()) return;
  const Problem problem = MakeTask(
      "import torch\nimport torch.nn as nn\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
      "        return x.t() + 0\n\ndef get_inputs():\n    return [torch.randn(64, 256)]\n\n"
      "def get_init_inputs():\n    return []\n");
  MeasureAs<MeasuredOk>(
      problem,
      "import torch\nimport torch.nn as nn\n\nclass ModelNew(nn.Module):\n    def forward(self, "
      "x):\n        return x.t()\n");
}

// In Python alone: finds the shared block by the words on the stack, serves the judge's commands
// itself from its first timed call on, and computes in empty calls. CHANGED says whether all or
// what has changed.
constexpr const char* kServeLoop = R"(
import ctypes, sys
import torch
import torch.nn as nn

def work(x):
    for i in range(40):
        x = torch.sin(x) + torch.cos(x)
    return x

libc = ctypes.CDLL(None, use_errno=True)
Word = ctypes.c_uint32

def find_block():
    end = ctypes.c_void_p.in_dll(libc, '__libc_stack_end').value & ~7
    for address in range(end, end - (1 << 17), -8):
        value = ctypes.c_uint64.from_address(address).value
        if value and value % 4096 == 0 and value >> 47 == 0:
            # Says whether it is mapped; the text is dropped.
            if libc.write(2, ctypes.c_void_p(value), 4) == 4 and Word.from_address(value).value == MARK:
                return value
    return 0

def serve(block):
    frame = sys._getframe()
    while 'calls' not in frame.f_locals: frame = frame.f_back
    cases = [(c[0][0], c[2][0]) for c in frame.f_locals['calls']]
    word = lambda at: Word.from_address(block + 4 * at)
    sequence, done, command, case = word(SEQUENCE), word(DONE), word(COMMAND), word(CASE)
    sleeps, judge_sleeps, status = word(SLEEPS), word(JUDGE_SLEEPS), word(STATUS)
    futex, null = 202, ctypes.c_void_p(0)
    syscall = libc.syscall
    at = lambda i: ctypes.c_void_p(block + 4 * i)
    seen = [x.clone() for x, _ in cases]
    ahead = [work(x) for x in seen]
    moves = [(place.data_ptr(), y.data_ptr(), y.numel() * 4) for (_, place), y in zip(cases, ahead)]
    move = ctypes.memmove
    served = sequence.value
    move(*moves[case.value])
    while True:
        status.value = 0
        done.value = served
        if judge_sleeps.value:
            syscall(futex, at(DONE), 1, 1, null, null, 0)
        for _ in range(200):
            if sequence.value != served: break
        while sequence.value == served:
            sleeps.value = 1
            if sequence.value == served:
                syscall(futex, at(SEQUENCE), 0, served, null, null, 0)
            sleeps.value = 0
        served = sequence.value
        if command.value == NOP:
            for i, (x, _) in enumerate(cases):
                if not CHANGED or not torch.equal(seen[i], x):
                    seen[i].copy_(x)
                    ahead[i].copy_(work(seen[i]))
        elif command.value == RUN:
            move(*moves[case.value])
        else:
            i = case.value
            cases[i][1].copy_(work(cases[i][0]))

class ModelNew(nn.Module):
    count = 0

    def forward(self, x):
        self.count += 1
        if self.count > 20:
            block = find_block()
            if block == 0: raise LookupError('no block')
            serve(block)
        return work(x)
)";

TEST_CASE("A Python candidate that serves the judge's commands itself gains nothing", "[slow]") {
  if (!HaveTorch()) return;
  using Block = worker::runner::ControlBlock;
  const Problem problem = MakeTask(R"(
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        for i in range(40):
            x = torch.sin(x) + torch.cos(x)
        return x

def get_inputs():
    return [torch.randn(64, 256)]

def get_init_inputs():
    return []
)");
  for (const bool changed : {true, false}) {
    std::string source = kServeLoop;
    const std::vector<std::pair<std::string, size_t>> words = {
        {"MARK", worker::runner::kMagic},
        {"NOP", worker::runner::kNop},
        {"RUN", worker::runner::kRun},
        {"SEQUENCE", offsetof(Block, command_sequence) / 4},
        {"COMMAND", offsetof(Block, command) / 4},
        {"CASE", offsetof(Block, case_index) / 4},
        {"DONE", offsetof(Block, done_sequence) / 4},
        {"STATUS", offsetof(Block, entry_status) / 4},
        {"SLEEPS", offsetof(Block, runner_sleeps) / 4},
        {"JUDGE_SLEEPS", offsetof(Block, judge_sleeps) / 4},
        {"CHANGED", changed ? 1 : 0}};
    for (const auto& [name, value] : words) absl::StrAppend(&source, name, " = ", value, "\n");
    const absl::StatusOr<Measurement> measured =
        TryMeasure(problem, PythonCandidate(problem, source));
    REQUIRE(measured.ok());
    INFO(MeasurementFeedback(*measured));
    // A loop that the judge does not understand would also end.
    CHECK_FALSE(std::holds_alternative<Crash>(measured->outcome));
    CHECK_FALSE(std::holds_alternative<WrongResult>(measured->outcome));
    if (const auto* const ok = std::get_if<MeasuredOk>(&measured->outcome)) {
      CHECK(ok->speedup.low <= 1.1);
    }
  }
}

TEST_CASE("Python candidates that do their work later or once are found out", "[slow]") {
  if (!HaveTorch()) return;
  Judge({
      {"results remembered by object",
       "        key = id(x)\n        if key not in SEEN: SEEN[key] = torch.relu(x) * n\n        "
       "return SEEN[key]",
       "SEEN = {}",
       {"cached_output", "skipped_work", "wrong_result"}},
      {"results remembered by a few values",
       "        key = x[::16, ::64].sum().item()\n"
       "        if key not in SEEN: SEEN[key] = torch.relu(x) * n\n        return SEEN[key]",
       "SEEN = {}",
       // A sum of few values may also be too slow to gain.
       {"cached_output", "wrong_result", "charged"}},
      {"the result of the call before",
       "        global LAST\n        last, LAST = LAST, torch.relu(x) * n\n        return LAST if "
       "last is None else last",
       "LAST = None",
       {"wrong_result"}},
      {"work at exit",
       "        import atexit\n        y = torch.empty_like(x)\n"
       "        atexit.register(lambda: y.copy_(torch.relu(x) * n))\n        return y",
       "",
       {"wrong_result"}},
      {"work in a signal handler",
       "        import signal\n        y = torch.empty_like(x)\n"
       "        signal.signal(signal.SIGALRM, lambda *a: y.copy_(torch.relu(x) * n))\n"
       "        signal.setitimer(signal.ITIMER_REAL, 1e-3)\n        return y",
       "",
       {"wrong_result", "crash"}},
      {"work in a finaliser",
       "        y = torch.empty_like(x)\n        class Late:\n            def __del__(self): "
       "y.fill_(0)\n"
       "        late = Late()\n        return y",
       "",
       {"wrong_result"}},
      {"work in a thread",
       "        import _thread\n        y = torch.empty_like(x)\n"
       "        _thread.start_new_thread(lambda: y.copy_(torch.relu(x) * n), ())\n        return y",
       "",
       {"crash"}},
      {"threads of PyTorch",
       "        torch.set_num_threads(4)\n        return torch.relu(x.repeat(64, 1))[:64] * n",
       "",
       {"charged"}},
      {"honest calls only at first",
       "        global COUNT, LAST\n        COUNT += 1\n        if COUNT < 60: LAST = "
       "torch.relu(x) * n\n        return LAST",
       "COUNT, LAST = 0, None",
       {"wrong_result", "cached_output", "skipped_work"}},
      {"one call in ten left out",
       "        global COUNT, LAST\n        COUNT += 1\n        if COUNT % 10: LAST = "
       "torch.relu(x) * n\n        return LAST",
       "COUNT, LAST = 0, None",
       {"wrong_result", "cached_output", "skipped_work"}},
  });
}

TEST_CASE("A Python candidate's process holds nothing that it could use", "[slow]") {
  if (!HaveTorch()) return;
  const std::string honest = absl::StrCat("\n", kHonest);
  Judge({
      {"memory of processes",
       absl::StrCat("        open('/proc/self/mem', 'rb')", honest),
       "",
       {"crash"},
       "Error"},
      {"maps of processes",
       absl::StrCat("        open('/proc/self/maps')", honest),
       "",
       {"crash"},
       "Error"},
      {"shared memory",
       absl::StrCat("        __import__('os').listdir('/dev/shm')", honest),
       "",
       {"crash"},
       "Error"},
      {"descriptors of the judge",
       "        import os\n        found = []\n        for fd in range(3, 64):\n            try: "
       "os.fstat(fd); found.append(fd)\n"
       "            except OSError: pass\n        if not found: raise LookupError('no "
       "descriptor')\n        return x",
       "",
       {"crash"},
       "no descriptor"},
      {"another core",
       absl::StrCat("        __import__('os').sched_setaffinity(0, range(64))", honest),
       "",
       {"crash"},
       "Error"},
      {"a stopped process",
       absl::StrCat("        __import__('os').kill(__import__('os').getpid(), 19)", honest),
       "",
       {"crash", "timeout"}},
      {"memory of the parent",
       "        import ctypes, os\n        libc = ctypes.CDLL(None, use_errno=True)\n"
       "        if libc.process_vm_readv(os.getppid(), None, 0, None, 0, 0) < 0: raise "
       "OSError(ctypes.get_errno(), 'no')\n"
       "        return x",
       "",
       {"crash"},
       "Error"},
      {"a fake end",
       "        import os\n        print('done')\n        os._exit(0)",
       "",
       {"crash"}},
  });
}

TEST_CASE("A Python candidate that patches timers is timed by the judge's clock", "[slow]") {
  if (!HaveTorch()) return;
  const Problem problem = MakeTask(kReluTask);
  const auto ok = MeasureAs<MeasuredOk>(
      problem,
      ModelNew(
          "        for i in range(20): y = torch.relu(x) * n\n        return y",
          "import time\ntime.perf_counter = time.perf_counter_ns = time.monotonic = lambda: 0\n"));
  CHECK(ok.speedup.value < 0.5);
}

TEST_CASE("A Python candidate that does the work of all calls in one is not faster", "[slow]") {
  if (!HaveTorch()) return;
  const Problem problem = MakeTask(kReluTask);
  const Measurement measurement = MeasurePython(
      problem,
      ModelNew("        frame = sys._getframe()\n"
               "        while 'calls' not in frame.f_locals: frame = frame.f_back\n"
               "        for arguments, rebuild, places, wanted in frame.f_locals['calls']:\n"
               "            places[0].copy_(torch.relu(arguments[0]) * n)\n"
               "        return torch.relu(x) * n",
               "import sys\n"));
  INFO(MeasurementFeedback(measurement));
  const Ratio* const speedup = MeasuredSpeedup(measurement);
  CHECK((speedup == nullptr || speedup->value < 1));
}

TEST_CASE("A Python candidate that calls the task's own model is not faster than it", "[slow]") {
  if (!HaveTorch()) return;
  const Problem problem = MakeTask(kReluTask);
  const auto ok = MeasureAs<MeasuredOk>(
      problem, ModelNew("        return Model.forward(self, x, n)", "from task import Model\n"));
  CHECK(ok.speedup.low < 1.1);
}

TEST_CASE("A candidate that replaces clone gets copies of inputs that are written to", "[slow]") {
  if (!HaveTorch()) return;
  const std::string work = "    def forward(self, x):\n        return x.add_(1).mul(2)\n";
  const Problem problem =
      MakeTask(absl::StrCat("import torch\nclass Model(torch.nn.Module):\n", work,
                            "def get_inputs():\n    return [torch.randn(64, 256)]\n"
                            "def get_init_inputs():\n    return []\n"));
  const auto ok = MeasureAs<MeasuredOk>(
      problem, absl::StrCat("import torch\ntorch.Tensor.clone = lambda self, *a, **k: self\n"
                            "class ModelNew(torch.nn.Module):\n",
                            work));
  CHECK(ok.speedup.low < 1.1);
}

TEST_CASE("Results remembered by their whole input are charged or refused", "[slow]") {
  if (!HaveTorch()) return;
  const Problem problem = MakeTask(R"(
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        for i in range(40):
            x = torch.sin(x) + torch.cos(x)
        return x

def get_inputs():
    return [torch.randn(64, 256)]

def get_init_inputs():
    return []
)");
  const Measurement measurement = MeasurePython(problem, R"(
import torch
import torch.nn as nn
SEEN = {}

class ModelNew(nn.Module):
    def forward(self, x):
        key = x.numpy().tobytes()
        if key not in SEEN:
            y = x
            for i in range(40):
                y = torch.sin(y) + torch.cos(y)
            SEEN[key] = y
        return SEEN[key]
)");
  INFO(MeasurementFeedback(measurement));
  if (const auto* const ok = std::get_if<MeasuredOk>(&measurement.outcome)) {
    CHECK(ok->speedup.low < 1.1);
    return;
  }
  // On a busy machine its times may stay too uncertain.
  const std::string verdict = Verdict(measurement.outcome);
  CHECK((verdict == "cached_output" || verdict == "environment_unstable"));
}

TEST_CASE("A candidate that gets its outputs must write them in every call", "[slow]") {
  if (!HaveTorch()) return;
  const Problem problem =
      ParseProblem({{"a.json",
                     R"({"name": "a", "op_type": "elementwise", "axes": {"n": {"type": "var"}},
                "inputs": {"x": {"shape": ["n"], "dtype": "float32"}},
                "outputs": {"y": {"shape": ["n"], "dtype": "float32"}},
                "reference": "def run(x):\n    return x * 2\n"})"},
                    {"a.jsonl", R"({"axes": {"n": 16384}, "inputs": {"x": {"type": "random"}}})"}})
          .value();
  const Measurement once = MeasurePython(
      problem,
      "import torch\nSEEN = {}\n\n\ndef run(x, y):\n    SEEN[id(y)] = SEEN.get(id(y), 0) + 1\n"
      "    if SEEN[id(y)] <= 4:\n        torch.mul(x, 2, out=y)\n");
  INFO(MeasurementFeedback(once));
  CHECK(Verdict(once.outcome) == "skipped_work");
  const Measurement moved =
      MeasurePython(problem, "import torch\n\n\ndef run(x, y):\n    y.set_(x * 2)\n");
  INFO(MeasurementFeedback(moved));
  CHECK(Verdict(moved.outcome) == "wrong_result");
}

}  // namespace
}  // namespace kernelcast::testing::python_cheats_test
