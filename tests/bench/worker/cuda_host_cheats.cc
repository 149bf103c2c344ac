#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/bench/worker/judge_mutants.h"

namespace kernelcast::testing {
namespace {

constexpr const char* kHead = R"(#include <cuda_runtime.h>
#include <kernelcast/candidate.h>

#include <cstdint>
)";

// The common part of the entries, after the reference and a function Run that launches it.
constexpr const char* kShared = R"(
int64_t Bytes(const DLTensor& t) {
  int64_t bytes = t.dtype.bits / 8;
  for (int d = 0; d < t.ndim; ++d) bytes *= t.shape[d];
  return bytes;
}
int calls;
bool Timed(const DLTensor* out) {
  if (Bytes(out[0]) == BENCH_BYTES) ++calls;
  return Bytes(out[0]) == BENCH_BYTES && calls > 20;
}
int32_t Copy(void* to, const void* from, int64_t bytes, void* stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                         static_cast<cudaStream_t>(stream));
}
}  // namespace
extern "C" int32_t kernelcast_run(const DLTensor* in, int32_t, const DLTensor* out, int32_t,
                                  void* stream) {
  const bool timed = Timed(out);
  (void)timed;
)";

struct Body {
  const char* kind;
  const char* code;
  bool may_be_honest = false;
};

constexpr Body kBodies[] = {
    {"host code skips all when timed", "if (!timed) Run(in, out, stream); return 0;"},
    {"host code skips every third call",
     "if (!timed || calls % 3 != 0) Run(in, out, stream); return 0;"},
    {"host code skips one call in ten",
     "if (!timed || calls % 10 != 0) Run(in, out, stream); return 0;"},
    {"host code fails when timed", "Run(in, out, stream); return timed ? 7 : 0;"},
    {"host code works on another stream",
     "static cudaStream_t side;"
     "if (side == nullptr && cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking) != 0) return "
     "1;"
     "Run(in, out, side); return 0;"},
    {"host code copies an earlier call's output",
     "static char* kept; if (timed) return Copy(out[0].data, kept, Bytes(out[0]), stream);"
     "Run(in, out, stream); if (calls == 0) return 0;"
     "if (kept == nullptr && cudaMalloc(&kept, BENCH_BYTES) != 0) return 1;"
     "return Bytes(out[0]) == BENCH_BYTES ? Copy(kept, out[0].data, BENCH_BYTES, stream) : 0;"},
    {"host code remembers by address",
     "static const void* seen[16]; static char* kept[16]; static int used;"
     "if (!timed) { Run(in, out, stream); return 0; }"
     "for (int i = 0; i < used; ++i) if (seen[i] == in[0].data)"
     " return Copy(out[0].data, kept[i], BENCH_BYTES, stream);"
     "Run(in, out, stream); if (used == 16) return 0;"
     "if (cudaMalloc(&kept[used], BENCH_BYTES) != 0) return 1; seen[used] = in[0].data;"
     "return Copy(kept[used++], out[0].data, BENCH_BYTES, stream);"},
    {"host code writes beyond the output",
     "Run(in, out, stream); return cudaMemsetAsync(static_cast<char*>(out[0].data) + Bytes(out[0]),"
     " 1, 16, static_cast<cudaStream_t>(stream));"},
    {"host code ends the process when timed",
     "if (timed) __builtin_trap(); Run(in, out, stream);"
     "return 0;"},
};

// Defines Run, which launches the reference as its launch says.
std::string RunFunction(const Problem& problem, const Launch& launch) {
  std::string code =
      "namespace {\n"
      "int64_t ceildiv(int64_t a, int64_t b) { return (a + b - 1) / b; }\n"
      "void Run(const DLTensor* in, const DLTensor* out, void* stream) {\n";
  for (const Axis& axis : problem.axes) {
    for (size_t i = 0; i < problem.inputs.size(); ++i) {
      const auto& shape = problem.inputs[i].shape;
      const auto dimension = std::find_if(
          shape.begin(), shape.end(), [&](const Expression& e) { return e.text() == axis.name; });
      if (dimension == shape.end()) continue;
      absl::StrAppend(&code, "  const int64_t ", axis.name, " = in[", i, "].shape[",
                      dimension - shape.begin(), "];\n");
      break;
    }
  }
  std::vector<std::string> arguments;
  for (const std::string& argument : launch.arguments) {
    std::string value = argument;
    const auto find = [&](const std::vector<TensorSpec>& tensors, const char* side) {
      for (size_t i = 0; i < tensors.size(); ++i) {
        if (tensors[i].name != argument) continue;
        value = absl::StrCat("static_cast<", tensors[i].dtype == DataType::kInt32 ? "int" : "float",
                             "*>(", side, "[", i, "].data)");
      }
    };
    find(problem.inputs, "in");
    find(problem.outputs, "out");
    arguments.push_back(std::move(value));
  }
  absl::StrAppend(&code, "  ", launch.kernel, "<<<dim3(", absl::StrJoin(launch.grid, ", "),
                  "), dim3(", absl::StrJoin(launch.block, ", "),
                  "), 0, static_cast<cudaStream_t>(stream)>>>(", absl::StrJoin(arguments, ", "),
                  ");\n}\n");
  return code;
}

}  // namespace

std::vector<Mutant> CudaHostMutants(const Problem& problem) {
  const ProblemTarget& target = problem.targets.find(kCudaTargetName)->second;
  const KernelProgram& reference = target.reference;
  std::vector<Mutant> mutants;
  // Other types than float and int need their headers, and workspaces memory.
  const auto plain = [](const TensorSpec& tensor) {
    return tensor.dtype == DataType::kFloat32 || tensor.dtype == DataType::kInt32;
  };
  if (reference.launches.size() != 1 || !reference.workspace_bytes.empty() ||
      !std::all_of(problem.inputs.begin(), problem.inputs.end(), plain) ||
      !std::all_of(problem.outputs.begin(), problem.outputs.end(), plain)) {
    return mutants;
  }
  int64_t bytes = SizeBytes(problem.outputs[0].dtype);
  const std::vector<int64_t> shape =
      TensorShape(problem.outputs[0], target.bench_shapes[0]).value();
  for (const int64_t size : shape) {
    bytes *= size;
  }
  for (const Body& body : kBodies) {
    Candidate candidate = ReferenceCandidate(problem, kCudaTargetName).value();
    candidate.kind = CandidateKind::kHostNative;
    candidate.launches.clear();
    candidate.source =
        absl::StrCat(kHead, "constexpr int64_t BENCH_BYTES = ", bytes, ";\n", reference.source,
                     RunFunction(problem, reference.launches[0]), kShared, body.code, "\n}\n");
    candidate.origin.clear();
    candidate.candidate_id = CandidateId(candidate);
    mutants.push_back({body.kind, std::move(candidate), body.may_be_honest});
  }
  return mutants;
}

}  // namespace kernelcast::testing
