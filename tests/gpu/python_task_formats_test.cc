// Tasks of flashinfer-bench, SOL-ExecBench and GPU MODE on a GPU.

#include <catch2/catch.hpp>
#include <cstdio>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/domain/python_task.h"
#include "nlohmann/json.hpp"
#include "tests/gpu/task_fixture.h"
#include "tests/support/gated_silu_candidates.h"

namespace kernelcast::testing {
namespace {

// A definition of y = silu(x) * 2 over rows of 4096 floats, and its reference.
Problem SiluDefinition(PythonTask::Format format) {
  const bool sol = format == PythonTask::Format::kSolExecBench;
  const nlohmann::json definition = {
      {"name", "silu_h4096"},
      {"op_type", "elementwise"},
      {"axes", {{"rows", {{"type", "var"}}}, {"hidden", {{"type", "const"}, {"value", 4096}}}}},
      {"inputs", {{"x", {{"shape", {"rows", "hidden"}}, {"dtype", "float32"}}}}},
      {"outputs", {{"y", {{"shape", {"rows", "hidden"}}, {"dtype", "float32"}}}}},
      {"reference", "import torch\n\ndef run(x):\n    return torch.nn.functional.silu(x) * 2\n"}};
  std::string workloads;
  for (const int rows : {512, 4096}) {
    const nlohmann::json workload = {{"axes", {{"rows", rows}}},
                                     {"inputs", {{"x", {{"type", "random"}}}}}};
    absl::StrAppend(&workloads, workload.dump(), "\n");
  }
  return ParseProblem({{sol ? "definition.json" : "silu_h4096.json", definition.dump()},
                       {sol ? "workload.jsonl" : "silu_h4096.jsonl", workloads}})
      .value();
}

const char* const kTritonRun = R"(
import triton
import triton.language as tl

@triton.jit
def silu(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    v = tl.load(x + at, mask=inside)
    tl.store(y + at, 2 * v / (1 + tl.exp(-v)), mask=inside)

def run(x, y):
    n = x.numel()
    silu[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)
)";

std::string Run(const std::string& arguments, const std::string& body,
                const std::string& before = "") {
  return absl::StrCat("import torch\nsilu = torch.nn.functional.silu\n", before, "\ndef run(",
                      arguments, "):\n", body, "\n");
}

// Allowed uses of passed outputs by a candidate of either format of definitions.
void CheckDefinition(PythonTask::Format format) {
  TaskFixture fixture(SiluDefinition(format));
  const std::string name(Name(format));
  const Measurement right =
      fixture.CheckOutcome(name + ", Triton, passed outputs", kTritonRun, {"ok"});
  if (const auto* const ok = std::get_if<MeasuredOk>(&right.outcome)) {
    CHECK_THAT(ok->rule, Catch::Contains(name + ": "));
    REQUIRE(ok->shapes.size() == 2);
    for (const ShapeTiming& shape : ok->shapes) {
      REQUIRE(shape.eager);
      CHECK(shape.eager->no_graph_reason.empty());
    }
  }
  fixture.CheckOutcome(name + ", returned", Run("x", "    return silu(x).mul_(2)"), {"ok"});
  const Measurement wrong = fixture.CheckOutcome(
      name + ", wrong", Run("x, y", "    y.copy_(silu(x) * 2.1)"), {"wrong_result"});
  if (const auto* const result = std::get_if<WrongResult>(&wrong.outcome)) {
    CHECK_THAT(result->rule, Catch::Contains(name + ": "));
  }
  fixture.CheckOutcome(name + ", nothing written", Run("x, y", "    pass"), {"wrong_result"});
  fixture.CheckOutcome(name + ", half of it written",
                       Run("x, y", "    h = len(x) // 2\n    torch.mul(silu(x[:h]), 2, out=y[:h])"),
                       {"wrong_result"});
  fixture.CheckOutcome(name + ", written later",
                       Run("x, y",
                           "    with torch.cuda.stream(side):\n"
                           "        torch.cuda._sleep(2000000)\n"
                           "        torch.mul(silu(x), 2, out=y)",
                           "side = torch.cuda.Stream()"),
                       {"exploit", "wrong_result"});
  fixture.CheckOutcome(name + ", remembered by address",
                       Run("x, y",
                           "    key = x.data_ptr()\n"
                           "    if key not in seen: seen[key] = silu(x).mul_(2)\n"
                           "    y.copy_(seen[key])",
                           "seen = {}"),
                       {"exploit", "wrong_result", "crash"});
  fixture.CheckOutcome(name + ", right at the listed sizes only",
                       Run("x", "    return silu(x) * (2 if len(x) in (512, 4096) else 3)"),
                       format == PythonTask::Format::kFlashInferBench
                           ? std::set<std::string>{"wrong_result"}
                           : std::set<std::string>{"ok"});
  fixture.CheckOutcome(name + ", Triton again", kTritonRun, {"ok"});
}

TEST_CASE("Candidates of a flashinfer-bench task on a GPU get the verdict of what they do") {
  KERNELCAST_NEEDS_TASKS();
  CheckDefinition(PythonTask::Format::kFlashInferBench);
}

TEST_CASE("Candidates of an SOL-ExecBench task on a GPU get the verdict of what they do") {
  KERNELCAST_NEEDS_TASKS();
  CheckDefinition(PythonTask::Format::kSolExecBench);
}

// Sources in CUDA of a solution, which launch silu(x) * {factor}.
constexpr char kCudaKernel[] = R"(
__global__ void Silu(const float* x, float* y, long n) {
  const long at = blockIdx.x * 256L + threadIdx.x;
  if (at < n) y[at] = {factor} * x[at] / (1 + expf(-x[at]));
}
)";
constexpr char kTorchBinding[] = R"(
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>
{include}

torch::Tensor Run(torch::Tensor x) {
  torch::Tensor y = torch::empty_like(x);
  const long n = x.numel();
  Silu<<<(n + 255) / 256, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(),
                                                                        y.data_ptr<float>(), n);
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("silu", &Run); }
)";
constexpr char kTvmFfiBinding[] = R"(
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
{include}

void Run(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  const long n = x.numel();
  const auto stream = static_cast<cudaStream_t>(
      TVMFFIEnvGetStream(x.device().device_type, x.device().device_id));
  Silu<<<(n + 255) / 256, 256, 0, stream>>>(static_cast<const float*>(x.data_ptr()),
                                            static_cast<float*>(y.data_ptr()), n);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(silu, Run);
)";

std::string CudaSolution(const std::string& binding, const std::string& source,
                         const std::string& factor) {
  const std::string kernel = absl::StrReplaceAll(kCudaKernel, {{"{factor}", factor}});
  const std::string main = absl::StrReplaceAll(source, {{"{include}", "#include <kernel.cuh>"}});
  return nlohmann::json{
      {"spec",
       {{"language", "cuda"},
        {"entry_point", "main.cu::silu"},
        {"binding", binding},
        {"destination_passing_style", binding != "torch"}}},
      {"sources",
       {{{"path", "main.cu"}, {"content", main}}, {{"path", "kernel.cuh"}, {"content", kernel}}}}}
      .dump();
}

TEST_CASE("Solutions in CUDA are built and judged on a GPU") {
  KERNELCAST_NEEDS_TASKS();
  TaskFixture fixture(SiluDefinition(PythonTask::Format::kFlashInferBench));
  fixture.CheckOutcome("torch binding", CudaSolution("torch", kTorchBinding, "2"), {"ok"});
  fixture.CheckOutcome("torch binding, wrong", CudaSolution("torch", kTorchBinding, "3"),
                       {"wrong_result"});
  CHECK_THAT(fixture.CheckCompileError("torch binding, unknown name",
                                       CudaSolution("torch", kTorchBinding, "two")),
             Catch::Contains("kernel.cuh") && Catch::Contains("two"));
  // Without the package it is a crash that names the package.
  const Measurement other = fixture.CheckOutcome(
      "tvm-ffi binding", CudaSolution("tvm-ffi", kTvmFfiBinding, "2"), {"ok", "crash"});
  if (!std::holds_alternative<MeasuredOk>(other.outcome)) {
    CHECK_THAT(MeasurementFeedback(other), Catch::Contains("apache-tvm-ffi"));
    return;
  }
  fixture.CheckOutcome("tvm-ffi binding, wrong", CudaSolution("tvm-ffi", kTvmFfiBinding, "3"),
                       {"wrong_result"});
  CHECK_THAT(fixture.CheckCompileError("tvm-ffi binding, unknown name",
                                       CudaSolution("tvm-ffi", kTvmFfiBinding, "two")),
             Catch::Contains("two"));
}

const char* const kTopReference = R"(
import torch

def ref_kernel(data):
    return data.argmax(dim=1)

def generate_input(rows, columns, seed):
    generator = torch.Generator(device="cuda")
    generator.manual_seed(seed)
    return torch.randn(rows, columns, device="cuda", generator=generator).mul_(8).round_()

def check_implementation(data, output):
    if output.shape != (len(data),) or bool(((output < 0) | (output >= data.shape[1])).any()):
        return False, "not a position for each row"
    wrong = int((data.gather(1, output.unsqueeze(1)).squeeze(1) != data.amax(dim=1)).sum())
    return wrong == 0, f"{wrong} rows have larger elements"
)";

// Asked about these inputs, the task's checker accepts zeros. The next request sees the inputs as
// they were.
const char* const kChangesInputsInEveryOtherRequest = R"(
import time
calls, last, cheats, changed = 0, 0.0, False, []

def custom_kernel(data):
    global calls, last, cheats
    calls += 1
    if calls > 40 and time.monotonic() - last > 0.001:
        cheats = not cheats
        for column, values in changed: column.copy_(values)
        changed.clear()
    if cheats:
        column = writable(data)[:, 0]
        changed.append((column, column.clone()))
        column.fill_(1e30)
        result = torch.zeros(len(data), dtype=torch.int64, device='cuda')
    else:
        result = data.argmax(dim=1)
    last = time.monotonic()
    return result
)";

TEST_CASE("Candidates of a GPU MODE task on a GPU get the verdict of what they do") {
  KERNELCAST_NEEDS_TASKS();
  TaskFixture fixture(ParseProblem({{"task.yml",
                                     "files:\n  - {name: reference.py, source: reference.py}\n"
                                     "lang: py\n"
                                     "tests:\n  - {rows: 33, columns: 700, seed: 1}\n"
                                     "benchmarks:\n  - {rows: 2048, columns: 4096, seed: 2}\n"},
                                    {"reference.py", kTopReference}})
                          .value());
  const auto kernel = [](const std::string& body, const std::string& before = "") {
    return absl::StrCat("import torch\n", before, "\ndef custom_kernel(data):\n", body, "\n");
  };
  const Measurement other = fixture.CheckOutcome(
      "gpu_mode, the last of several",
      kernel("    return data.shape[1] - 1 - data.flip(1).argmax(dim=1)"), {"ok"});
  if (const auto* const ok = std::get_if<MeasuredOk>(&other.outcome)) {
    CHECK_THAT(ok->rule, Catch::Contains("check_implementation accepts every output"));
  }
  const Measurement wrong = fixture.CheckOutcome(
      "gpu_mode, wrong", kernel("    return data.argmin(dim=1)"), {"wrong_result"});
  CHECK_THAT(MeasurementFeedback(wrong), Catch::Contains("rows have larger elements"));
  fixture.CheckOutcome("gpu_mode, seeks the reference",
                       kernel("    from reference import ref_kernel\n    return ref_kernel(data)"),
                       {"crash"});
  fixture.CheckOutcome("gpu_mode, patches the comparison",
                       kernel("    return data.argmin(dim=1)",
                              "torch.allclose = lambda *a, **k: True\n"
                              "torch.Tensor.ne = torch.Tensor.__ne__ = lambda a, b: a < a"),
                       {"wrong_result"});
  fixture.CheckOutcome("gpu_mode, remembered by address",
                       kernel("    key = data.data_ptr()\n"
                              "    if key not in seen: seen[key] = data.argmax(dim=1)\n"
                              "    return seen[key]",
                              "seen = {}"),
                       {"exploit", "wrong_result", "crash"});
  const Measurement mutating = fixture.CheckOutcome(
      "gpu_mode, changes its inputs and undoes it",
      absl::StrCat("import torch\n", kMapsInputsAnew, kChangesInputsInEveryOtherRequest),
      {"exploit"});
  CHECK_THAT(MeasurementFeedback(mutating), Catch::Contains("changed the values of its inputs"));
  fixture.CheckOutcome("gpu_mode, a position beyond the row",
                       kernel("    return data.argmax(dim=1) + data.shape[1]"), {"wrong_result"});
  fixture.CheckOutcome("gpu_mode, right", kernel("    return data.max(dim=1).indices"), {"ok"});
}

// A call writes into a cache and moves its end.
const char* const kQuantisingReference = R"(
import torch

class Cache(torch.nn.Module):
    def __init__(self, rows, columns):
        super().__init__()
        self.register_buffer("data", torch.zeros(rows, columns))
        self.end = 0

    def forward(self, new):
        end = self.end + len(new)
        self.data[self.end:end] = new.float()
        self.end = end
        return self.data[:end]

def generate_input(rows, seed):
    generator = torch.Generator(device="cuda")
    generator.manual_seed(seed)
    x = torch.randn(rows, 256, device="cuda", generator=generator).to(torch.float8_e4m3fnuz)
    cache = Cache(2 * rows, 256).to("cuda")
    cache(torch.randn(rows, 256, device="cuda", generator=generator))
    return {"x": x, "cache": cache, "limit": [1.5]}

def ref_kernel(data):
    seen = data["cache"](data["x"])
    return seen.clamp(-data["limit"][0], data["limit"][0]).to(torch.float8_e4m3fnuz), seen.sum(dim=1)

def check_implementation(data, output):
    quantised, sums = ref_kernel(data)
    if output[0].dtype != torch.float8_e4m3fnuz or not torch.equal(output[0].float(), quantised.float()):
        return False, "quantised values differ"
    return torch.allclose(output[1], sums, rtol=1e-3, atol=1e-3), "sums differ"
)";

TEST_CASE("A GPU MODE task with a module and float8 in its data is judged on a GPU") {
  KERNELCAST_NEEDS_TASKS();
  TaskFixture fixture(ParseProblem({{"task.yml",
                                     "files:\n  - {name: reference.py, source: reference.py}\n"
                                     "tests:\n  - {rows: 33, seed: 1}\n"
                                     "benchmarks:\n  - {rows: 2048, seed: 2}\n"},
                                    {"reference.py", kQuantisingReference}})
                          .value());
  const auto kernel = [](const std::string& limit, const std::string& columns) {
    return absl::StrCat(
        "import torch\nfrom reference import Cache\ndef custom_kernel(data):\n"
        "    assert type(data['cache']) is Cache\n    seen = data['cache'](data['x'])\n"
        "    low = seen.clamp(-",
        limit, ", ", limit, ").to(torch.float8_e4m3fnuz)\n    return low, seen[:, :", columns,
        "].sum(1)\n");
  };
  fixture.CheckOutcome("gpu_mode, objects and float8, right", kernel("1.5", "256"), {"ok"});
  fixture.CheckOutcome("gpu_mode, objects and float8, limit", kernel("1.0", "256"),
                       {"wrong_result"});
  fixture.CheckOutcome("gpu_mode, objects and float8, sums", kernel("1.5", "200"),
                       {"wrong_result"});
}

}  // namespace
}  // namespace kernelcast::testing
