#include "tests/support/gated_silu_candidates.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace kernelcast::testing {

const char* const kGatedSiluTask = R"(
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, gate, value):
        return torch.nn.functional.silu(gate) * value

def get_inputs():
    return [torch.randn(4096, 4096), torch.randn(4096, 4096)]

def get_init_inputs():
    return []
)";

const char* const kGatedSiluTriton = R"(
import torch
import triton
import triton.language as tl

@triton.jit
def silu(gate, value, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    g = tl.load(gate + at, mask=inside)
    v = tl.load(value + at, mask=inside)
    tl.store(out + at, g / (1 + tl.exp(-g)) * v, mask=inside)

class ModelNew(torch.nn.Module):
    def forward(self, gate, value):
        out = torch.empty_like(gate)
        n = out.numel()
        silu[(triton.cdiv(n, 1024),)](gate, value, out, n, BLOCK=1024)
        return out
)";

const char* const kMapsInputsAnew = R"(
import ctypes
from ctypes import byref, c_size_t, c_uint64
cuda = ctypes.CDLL('libcuda.so.1')
class Access(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in ('type', 'id', 'flags')]
class Array: pass
def expect(name, *arguments):
    failure = getattr(cuda, name)(*arguments)
    if failure: raise RuntimeError(f'{name}: {failure}')
offset = None
def writable(tensor):
    global offset
    at = tensor.data_ptr()
    if offset is None:
        base, size, handle, place = c_uint64(), c_size_t(), c_uint64(), c_uint64()
        expect('cuMemGetAddressRange_v2', byref(base), byref(size), c_uint64(at))
        expect('cuMemRetainAllocationHandle', byref(handle), base)
        expect('cuMemAddressReserve', byref(place), size, c_size_t(0), c_uint64(0), c_uint64(0))
        expect('cuMemMap', place, size, c_size_t(0), handle, c_uint64(0))
        expect('cuMemSetAccess', place, size, byref(Access(1, 0, 3)), c_size_t(1))
        offset = place.value - base.value
    array = Array()
    array.__cuda_array_interface__ = {
        'version': 2, 'typestr': '<f4', 'shape': tuple(tensor.shape), 'data': (at + offset, False)}
    return torch.as_tensor(array, device='cuda')
)";

std::string GatedSiluModel(const std::string& body, const std::string& before) {
  return absl::StrCat("import os\nimport torch\n", before,
                      "\nsilu = torch.nn.functional.silu\n"
                      "class ModelNew(torch.nn.Module):\n"
                      "    calls = 0\n"
                      "    def forward(self, gate, value):\n"
                      "        self.calls += 1\n",
                      body, "\n");
}

namespace {

std::string Replaced(const std::string& text, const std::string& from, const std::string& to) {
  std::string replaced = text;
  if (absl::StrReplaceAll({{from, to}}, &replaced) == 0) {
    throw std::runtime_error(absl::StrCat("nothing to replace: ", from));
  }
  return replaced;
}

// The device waits for 500 us or more.
const char* const kSlowAfterNewValues =
    "        global slow\n"
    "        key = float(gate.sum() + value.sum())\n"
    "        slow = 24 if last.get(gate.data_ptr()) != key else slow - 1\n"
    "        last[gate.data_ptr()] = key\n"
    "        if slow > 0: torch.cuda._sleep(1000000)\n";
const char* const kHonest = "        return silu(gate).mul_(value)";
const char* const kZeros = "        return torch.zeros_like(gate)";

const char* const kInline = R"py(
import torch
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/types.h>
#include <ATen/cuda/CUDAContext.h>
__global__ void silu(const float* g, const float* v, float* out, int n) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < n) out[at] = g[at] / (1 + __expf(-g[at])) * v[at];
}
torch::Tensor run(torch::Tensor gate, torch::Tensor value) {
  auto out = torch::empty_like(gate);
  const int n = out.numel();
  silu<<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      gate.data_ptr<float>(), value.data_ptr<float>(), out.data_ptr<float>(), n);
  return out;
}
"""
built = load_inline(
    "silu",
    cpp_sources="torch::Tensor run(torch::Tensor gate, torch::Tensor value);",
    cuda_sources=source,
    functions=["run"],
)

class ModelNew(torch.nn.Module):
    def forward(self, gate, value):
        return built.run(gate, value)
)py";

std::vector<PythonCase> RightOnes() {
  return {
      {"in place", GatedSiluModel(kHonest), {"ok"}},
      {"triton", kGatedSiluTriton, {"ok"}},
      {"triton, autotuned",
       Replaced(Replaced(kGatedSiluTriton, "@triton.jit",
                         "@triton.autotune([triton.Config({'BLOCK': b}) for b in (512, 2048)], "
                         "key=['n'])\n@triton.jit"),
                "silu[(triton.cdiv(n, 1024),)](gate, value, out, n, BLOCK=1024)",
                "silu[lambda meta: (triton.cdiv(n, meta['BLOCK']),)](gate, value, out, n)"),
       {"ok"}},
      {"load_inline", kInline, {"ok"}},
      {"torch.compile",
       GatedSiluModel(
           "        return fused(gate, value)",
           "fused = torch.compile(lambda gate, value: torch.nn.functional.silu(gate) * value)"),
       {"ok"}},
      {"its own side stream, awaited",
       GatedSiluModel("        main = torch.cuda.current_stream()\n"
                      "        side.wait_stream(main)\n"
                      "        with torch.cuda.stream(side):\n"
                      "            out = silu(gate).mul_(value)\n"
                      "        main.wait_stream(side)\n"
                      "        return out",
                      "side = torch.cuda.Stream()"),
       {"ok"}},
      {"patched timers",
       GatedSiluModel(kHonest,
                      "torch.cuda.Event.elapsed_time = lambda *a: 0.001\n"
                      "torch.cuda.synchronize = lambda *a: None\n"
                      "torch.allclose = lambda *a, **k: True\n"
                      "torch.Tensor.copy_ = lambda a, b: a"),
       {"ok"}},
      {"a call that cannot be captured",
       GatedSiluModel(absl::StrCat("        assert gate.sum().item() < 1e30\n", kHonest)),
       {"ok"},
       "no CUDA graph"},
      {"a graph of remembered results",
       GatedSiluModel(
           "        if torch.cuda.is_current_stream_capturing(): return seen[gate.data_ptr()]\n"
           "        seen[gate.data_ptr()] = out = silu(gate).mul_(value)\n"
           "        return out",
           "seen = {}"),
       {"ok"},
       "no CUDA graph"},
      {"triton, a row for each program",
       Replaced(Replaced(kGatedSiluTriton, "(triton.cdiv(n, 1024),)", "(gate.shape[0],)"),
                "BLOCK=1024", "BLOCK=4096"),
       {"ok"}},
      {"triton, passes over the input",
       Replaced(Replaced(kGatedSiluTriton, "(triton.cdiv(n, 1024),)", "(1024,)"), R"(
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    g = tl.load(gate + at, mask=inside)
    v = tl.load(value + at, mask=inside)
    tl.store(out + at, g / (1 + tl.exp(-g)) * v, mask=inside)
)",
                R"(
    for first in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        at = first + tl.arange(0, BLOCK)
        inside = at < n
        g = tl.load(gate + at, mask=inside)
        v = tl.load(value + at, mask=inside)
        tl.store(out + at, g / (1 + tl.exp(-g)) * v, mask=inside)
)"),
       {"ok"}},
      {"in eight pieces",
       GatedSiluModel("        return torch.cat([silu(g).mul_(v) for g, v in zip(gate.chunk(8), "
                      "value.chunk(8))])"),
       {"ok"}},
      {"sigmoid",
       GatedSiluModel("        return torch.sigmoid(gate).mul_(gate).mul_(value)"),
       {"ok"}},
      // get_inputs() never returns values this large.
      {"triton, overflows above 88",
       Replaced(kGatedSiluTriton, "g / (1 + tl.exp(-g))", "g * tl.exp(g) / (1 + tl.exp(g))"),
       {"ok"}},
      {"graphs that do nothing",
       GatedSiluModel(kHonest,
                      "torch.cuda.CUDAGraph.replay = lambda self: None\n"
                      "torch.cuda.CUDAGraph.capture_begin = lambda *a, **k: None\n"
                      "torch.cuda.CUDAGraph.capture_end = lambda self: None"),
       {"ok"}},
  };
}

std::vector<PythonCase> WrongOnes() {
  return {
      {"wrong gate",
       GatedSiluModel("        return torch.sigmoid(gate) * value"),
       {"wrong_result"}},
      {"zeros", GatedSiluModel("        return torch.zeros_like(gate)"), {"wrong_result"}},
      {"uninitialised memory",
       GatedSiluModel("        return torch.empty_like(gate)"),
       {"wrong_result"}},
      {"an alias of an input", GatedSiluModel("        return value"), {"wrong_result"}},
      {"half precision",
       GatedSiluModel("        return (silu(gate.half()) * value.half()).float()"),
       {"wrong_result"}},
      {"triton, half of the blocks",
       Replaced(kGatedSiluTriton, "BLOCK=1024", "BLOCK=512, num_warps=1"),
       {"wrong_result"}},
      {"triton, without the last block",
       Replaced(kGatedSiluTriton, "(triton.cdiv(n, 1024),)", "(triton.cdiv(n, 1024) - 1,)"),
       {"wrong_result"}},
      {"triton, bfloat16",
       Replaced(kGatedSiluTriton, "g / (1 + tl.exp(-g)) * v",
                "(g / (1 + tl.exp(-g))).to(tl.bfloat16) * v"),
       {"wrong_result"}},
      {"triton, adds to memory that is not zero",
       Replaced(kGatedSiluTriton, "tl.store(out", "tl.atomic_add(out"),
       {"wrong_result"}},
      {"triton, loads the wrong input",
       Replaced(kGatedSiluTriton, "tl.load(value + at", "tl.load(gate + at"),
       {"wrong_result"}},
      {"NaN",
       GatedSiluModel("        return torch.full_like(gate, float('nan'))"),
       {"wrong_result"}},
      {"half of the rows",
       GatedSiluModel("        out = torch.zeros_like(gate)\n"
                      "        out[:2048] = silu(gate[:2048]) * value[:2048]\n"
                      "        return out"),
       {"wrong_result"}},
      {"transposed", GatedSiluModel("        return (silu(gate) * value).t()"), {"wrong_result"}},
      {"the result of the call before",
       GatedSiluModel("        global last\n"
                      "        before, last = last, silu(gate).mul_(value)\n"
                      "        return last if before is None else before",
                      "last = None"),
       {"wrong_result"}},
  };
}

std::vector<PythonCase> FailingOnes() {
  return {
      {"raises", GatedSiluModel("        return self.unknown"), {"crash"}, "unknown"},
      {"another dtype",
       GatedSiluModel(absl::StrCat(kHonest, ".double()")),
       {"wrong_result"},
       "output 0 is float64 [4096, 4096] instead of float32 [4096, 4096]"},
      {"another shape",
       GatedSiluModel(absl::StrCat(kHonest, "[:1]")),
       {"wrong_result"},
       "output 0 is float32 [1, 4096] instead of float32 [4096, 4096]"},
      {"on the processor",
       GatedSiluModel(absl::StrCat(kHonest, ".cpu()")),
       {"wrong_result"},
       "output 0 is on cpu instead of the device"},
      {"exits", GatedSiluModel("        os._exit(0)"), {"crash"}},
      {"too much memory",
       GatedSiluModel("        return torch.empty(1 << 40, device='cuda')"),
       {"crash"},
       "memory"},
      {"reads far away",
       Replaced(kGatedSiluTriton, "gate + at, mask=inside", "gate + 4000000000000 + at"),
       {"crash"}},
      {"hangs on the host",
       GatedSiluModel(absl::StrCat("        while self.calls > 2: pass\n", kHonest)),
       {"timeout"}},
      {"hangs on the device",
       GatedSiluModel(
           absl::StrCat("        if self.calls > 2: torch.cuda._sleep(1 << 50)\n", kHonest)),
       {"timeout"}},
      {"triton, does not compile",
       Replaced(kGatedSiluTriton, "tl.exp(", "tl.exponential("),
       {"compile_error"},
       "exponential"},
      {"triton, a block that is no power of two",
       Replaced(kGatedSiluTriton, "BLOCK=1024", "BLOCK=1000"),
       {"compile_error"},
       "power of 2"},
      {"triton, a static assertion that fails",
       Replaced(kGatedSiluTriton, "    tl.store(",
                "    tl.static_assert(BLOCK > 4096)\n    tl.store("),
       {"compile_error"},
       "    tl.static_assert(BLOCK > 4096)"},
      {"triton, writes far away",
       Replaced(kGatedSiluTriton, "out + at, ", "out + 4000000000000 + at, "),
       {"crash"},
       "inputs are read-only"},
      {"triton, hangs",
       Replaced(
           kGatedSiluTriton, "    tl.store(",
           "    spins = 0\n"
           "    while spins < n: spins += (tl.load(gate, volatile=True) == 1e30).to(tl.int32)\n"
           "    tl.store("),
       {"timeout"}},
      {"a sparse result",
       GatedSiluModel(absl::StrCat(kHonest, ".to_sparse()")),
       {"wrong_result"},
       "sparse_coo"},
      {"a dictionary",
       GatedSiluModel("        return {'out': silu(gate) * value}"),
       {"wrong_result"},
       "a dict instead of a tensor"},
      {"kills itself", GatedSiluModel("        os.kill(os.getpid(), 9)"), {"crash"}},
      {"stops itself",
       GatedSiluModel(absl::StrCat("        os.kill(os.getpid(), 19)\n", kHonest)),
       {"crash", "timeout"}},
      {"hangs when it is loaded",
       GatedSiluModel(kHonest, "while True: pass"),
       {"timeout", "crash"}},
  };
}

std::vector<PythonCase> CheatingOnes() {
  return {
      {"writes its input",
       GatedSiluModel("        return gate.mul_(torch.sigmoid(gate)).mul(value)"),
       {"crash", "exploit"},
       "input"},
      {"maps its input anew, and writes it once it is timed",
       GatedSiluModel("        out = silu(gate).mul_(value)\n"
                      "        if self.calls > 40: writable(gate)[0, 0] = 1\n"
                      "        return out",
                      kMapsInputsAnew),
       {"exploit"},
       "changed the values of its inputs"},
      {"remembers by address",
       GatedSiluModel("        key = gate.data_ptr()\n"
                      "        if key not in seen: seen[key] = silu(gate).mul_(value)\n"
                      "        return seen[key]",
                      "seen = {}"),
       {"exploit", "wrong_result", "crash"}},
      {"remembers by value",
       GatedSiluModel("        key = float(gate[0, :64].sum() + value[7, 9])\n"
                      "        if key not in seen: seen[key] = silu(gate).mul_(value)\n"
                      "        return seen[key]",
                      "seen = {}"),
       {"exploit", "wrong_result", "crash", "ok"},
       "",
       1.1},
      // On a slow node an honest candidate looks like this one.
      {"slow for 24 calls after new values",
       GatedSiluModel(absl::StrCat(kSlowAfterNewValues, kHonest), "last, slow = {}, 0"),
       {"ok"},
       "no CUDA graph",
       0.5},
      {"remembers by value, and is slow for 24 calls after new values",
       GatedSiluModel(
           absl::StrCat(kSlowAfterNewValues,
                        "        if key not in seen: seen[key] = silu(gate).mul_(value)\n"
                        "        return seen[key].clone()"),
           "last, slow, seen = {}, 0, {}"),
       {"ok"},
       "no CUDA graph",
       0.5},
      // They run while the cache is overwritten.
      {"the first call of a request makes the results of the others on a side stream",
       GatedSiluModel(
           "        global last\n"
           "        if torch.cuda.is_current_stream_capturing(): raise RuntimeError('no graphs')\n"
           "        main, key, now = torch.cuda.current_stream(), gate.data_ptr(), "
           "time.perf_counter()\n"
           "        first, last, known[key] = now - last > 5e-4, now, (gate, value)\n"
           "        if first: made.clear()\n"
           "        if key in made:\n"
           "            out, ready = made.pop(key)\n"
           "            main.wait_event(ready)\n"
           "            out.record_stream(main)\n"
           "            return out\n"
           "        out = silu(gate).mul_(value)\n"
           "        if first:\n"
           "            side.wait_stream(main)\n"
           "            with torch.cuda.stream(side):\n"
           "                for other, (g, v) in known.items():\n"
           "                    if other != key: made[other] = silu(g).mul_(v), "
           "side.record_event()\n"
           "        return out",
           "import time\nside, known, made, last = torch.cuda.Stream(), {}, {}, 0.0"),
       {"ok", "exploit", "wrong_result"},
       "",
       1.1},
      {"right when checked only",
       GatedSiluModel(
           absl::StrCat("        if self.calls > 40: return torch.empty_like(gate)\n", kHonest)),
       {"exploit", "wrong_result"}},
      {"a side stream that nobody awaits",
       GatedSiluModel("        with torch.cuda.stream(side):\n"
                      "            torch.cuda._sleep(20000000)\n"
                      "            out = silu(gate).mul_(value)\n"
                      "        return out",
                      "side = torch.cuda.Stream()"),
       {"exploit", "wrong_result"}},
      {"a thread",
       GatedSiluModel(kHonest, "import threading\nthreading.Thread(target=print).start()"),
       {"crash"},
       "thread"},
      {"a lazy tensor",
       GatedSiluModel("        return silu(gate).mul_(value).as_subclass(Lazy)",
                      "class Lazy(torch.Tensor): pass"),
       {"wrong_result"},
       "Lazy"},
      {"files of the node",
       GatedSiluModel(kHonest, "open('/etc/passwd').read()"),
       {"crash"},
       "passwd"},
      {"the network",
       GatedSiluModel(kHonest, "import socket\nsocket.socket().connect(('127.0.0.1', 1))"),
       {"crash"}},
      {"expected outputs in frames and among all objects",
       GatedSiluModel(
           "        right = silu(gate).mul_(value)\n"
           "        for found in everything():\n"
           "            if found.shape == right.shape and found is not right and \\\n"
           "                    found.device == right.device and torch.equal(found, right): return "
           "found\n"
           "        raise LookupError('no expected output')",
           "import gc, sys\n"
           "def everything():\n"
           "    frame, found = sys._getframe(), list(gc.get_objects())\n"
           "    while frame is not None:\n"
           "        found += list(frame.f_locals.values()) + list(frame.f_globals.values())\n"
           "        frame = frame.f_back\n"
           "    return [v for v in found if type(v) is torch.Tensor]"),
       {"crash"},
       "no expected output"},
      {"what is behind its input",
       Replaced(kGatedSiluTriton, "tl.load(gate + at", "tl.load(gate + n + at"),
       {"wrong_result", "crash"}},
      {"copies that do nothing",
       GatedSiluModel("        torch.Tensor.copy_ = lambda self, *a: self\n        return "
                      "torch.zeros_like(gate)"),
       {"wrong_result"}},
      {"modules of the runner",
       GatedSiluModel(
           kZeros,
           "import sys\nmain = sys.modules['__main__']\nmain.outputs_of = lambda result: []\n"
           "main.Run = main.Program = None\nsys.modules['ctypes'] = sys.modules['json'] = None"),
       {"wrong_result", "crash"}},
      {"a trace function",
       GatedSiluModel(kZeros,
                      "import sys\ndef trace(frame, event, argument):\n"
                      "    if frame.f_code.co_name == 'call': frame.f_locals.clear()\n"
                      "sys.setprofile(trace)"),
       {"wrong_result", "crash"}},
      {"every tenth call left out",
       GatedSiluModel("        global last\n"
                      "        if self.calls % 10: last = silu(gate).mul_(value)\n"
                      "        return last"),
       {"exploit", "wrong_result"}},
      {"the task's own model",
       GatedSiluModel("        return Model.forward(self, gate, value)", "from task import Model"),
       {"ok"},
       "",
       1.1},
      {"memory of processes", GatedSiluModel(kHonest, "open('/proc/self/mem', 'rb')"), {"crash"}},
      {"memory of the parent",
       GatedSiluModel(kHonest,
                      "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
                      "if libc.process_vm_readv(os.getppid(), None, 0, None, 0, 0) < 0: raise "
                      "OSError(ctypes.get_errno(), 'refused')"),
       {"crash"},
       "refused"},
  };
}

}  // namespace

std::vector<PythonCase> GatedSiluCases() {
  std::vector<PythonCase> cases;
  for (std::vector<PythonCase>& some :
       std::vector{RightOnes(), WrongOnes(), FailingOnes(), CheatingOnes()}) {
    std::ranges::move(some, std::back_inserter(cases));
  }
  return cases;
}

}  // namespace kernelcast::testing
