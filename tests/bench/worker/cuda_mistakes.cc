#include "tests/bench/worker/cuda_mistakes.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace kernelcast::testing {
namespace {

// Odd warps start late. A missing barrier then always shows.
constexpr const char* kLate = R"(
__device__ inline void mutant_late() {
  const long long start = clock64();
  if (((threadIdx.y * blockDim.x + threadIdx.x) / 32) % 2 == 1) {
    while (clock64() - start < 40000) {
    }
  }
}
)";

// A float that loses the lower half of its bits with each operation.
constexpr const char* kNarrow = R"(
struct mutant_narrow {
  float value;
  __device__ static float cut(float v) {
    return __uint_as_float(__float_as_uint(v) & 0xffff0000u);
  }
  __device__ mutant_narrow(float v) : value(cut(v)) {}
  __device__ operator float() const { return value; }
  __device__ mutant_narrow& operator+=(float v) {
    value = cut(value + v);
    return *this;
  }
};
)";

// A replacement in the references of some problems. `problems` are separated by spaces.
struct Edit {
  std::string_view kind;
  const char* problems;
  const char* from;
  const char* to;
};

constexpr std::string_view kNoBarrier = "barrier missing";
constexpr std::string_view kWarpBarrier = "barrier of a warp instead of a block";
constexpr std::string_view kNarrowSum = "narrow accumulator";
constexpr std::string_view kShort = "loop ends one early";
constexpr std::string_view kLateStart = "loop starts one late";
constexpr std::string_view kIndex = "index off by one";
constexpr std::string_view kNoBound = "bounds check missing";
constexpr std::string_view kSign = "wrong sign";
constexpr std::string_view kLanes = "reduction over half of a warp";
constexpr std::string_view kStops = "reduction lacks its last step";
constexpr std::string_view kRace = "plain addition instead of an atomic one";

constexpr Edit kEdits[] = {
    {kNoBarrier,
     "argmax_rows attention_one_query column_sum cross_entropy histogram layernorm layernorm_fp16 "
     "matmul matmul_bf16 matmul_fp8 prefix_sum quantize_fp8 rmsnorm rmsnorm_bf16 row_softmax "
     "transpose",
     "__syncthreads();", ";"},
    {kWarpBarrier,
     "argmax_rows attention_one_query column_sum cross_entropy histogram layernorm layernorm_fp16 "
     "matmul matmul_bf16 matmul_fp8 prefix_sum quantize_fp8 rmsnorm rmsnorm_bf16 row_softmax "
     "transpose",
     "__syncthreads();", "__syncwarp();"},

    {kNarrowSum,
     "attention_one_query column_sum cross_entropy depthwise_conv layernorm layernorm_fp16 matmul "
     "prefix_sum row_softmax stencil2d",
     "float sum = 0;", "mutant_narrow sum = 0;"},
    {kNarrowSum, "rmsnorm rmsnorm_bf16", "float squares = 0;", "mutant_narrow squares = 0;"},

    {kShort, "argmax_rows layernorm layernorm_fp16 quantize_fp8 rmsnorm rmsnorm_bf16 row_softmax",
     "c < cols;", "c < cols - 1;"},
    {kShort, "cross_entropy", "c < classes;", "c < classes - 1;"},
    {kShort, "attention_one_query", "t < length;", "t < length - 1;"},
    {kShort, "column_sum", "r < rows;", "r < rows - 1;"},
    {kShort, "depthwise_conv", "a <= 1;", "a < 1;"},
    {kShort, "stencil2d", "di <= 1;", "di < 1;"},
    {kShort, "gather", "d < dim;", "d < dim - 1;"},
    {kShort, "histogram", "i < n;", "i < n - 1;"},
    {kShort, "matmul transpose", "i < 32;", "i < 31;"},
    {kShort, "matmul_bf16 matmul_fp8", "p < k; p", "p < k - BK; p"},
    {kShort, "prefix_sum", "i < ITEMS;", "i < ITEMS - 1;"},

    {kLateStart, "cross_entropy layernorm rmsnorm row_softmax", "c = threadIdx.x;",
     "c = threadIdx.x + 1;"},
    {kLateStart, "layernorm_fp16 quantize_fp8 rmsnorm_bf16", "p = threadIdx.x;",
     "p = threadIdx.x + 1;"},
    {kLateStart, "attention_one_query gather", "d = threadIdx.x;", "d = threadIdx.x + 1;"},
    {kLateStart, "column_sum", "first + threadIdx.y;", "first + threadIdx.y + 1;"},
    {kLateStart, "histogram", "256ll + threadIdx.x; i", "256ll + threadIdx.x + 1; i"},
    {kLateStart, "depthwise_conv", "int a = -1;", "int a = 0;"},
    {kLateStart, "stencil2d", "int di = -1;", "int di = 0;"},
    {kLateStart, "matmul", "int i = 0;", "int i = 1;"},
    {kLateStart, "matmul_bf16 matmul_fp8", "int p = 0;", "int p = BK;"},
    {kLateStart, "prefix_sum", "int i = 0;", "int i = 1;"},
    {kLateStart, "transpose", "int i = threadIdx.y;", "int i = threadIdx.y + 1;"},

    {kIndex, "argmax_rows", "at = (int)c;", "at = (int)c + 1;"},
    {kIndex, "attention_one_query", "k[t * dim + d]", "k[t * dim + d + 1]"},
    {kIndex, "column_sum", "x[r * cols + column]", "x[r * cols + column + 1]"},
    {kIndex, "cross_entropy", "x[labels[blockIdx.x]]", "x[labels[blockIdx.x] + 1]"},
    {kIndex, "depthwise_conv", "((a + 1) * 3 + b + 1)", "((a + 1) * 3 + b + 2)"},
    {kIndex, "gather", "table + index[row] * dim", "table + (index[row] + 1) * dim"},
    {kIndex, "histogram", "table + x[i]", "table + (x[i] + 1) % bins"},
    {kIndex, "layernorm layernorm_fp16", "gamma[c]", "gamma[c + 1]"},
    {kIndex, "matmul", "a[row * k + p + threadIdx.x]", "a[row * k + p + threadIdx.x + 1]"},
    {kIndex, "matmul_bf16 matmul_fp8", "a + (long long)(top + r) * k",
     "a + (long long)(top + r + 1) * k"},
    {kIndex, "prefix_sum", "before[i + 1] = carry", "before[i] = carry"},
    {kIndex, "quantize_fp8", "scale[blockIdx.x]", "scale[blockIdx.x + 1]"},
    {kIndex, "rmsnorm rmsnorm_bf16", "weight[c]", "weight[c + 1]"},
    {kIndex, "row_softmax", "y[c] = expf(x[c] - top)", "y[c] = expf(x[c + 1] - top)"},
    {kIndex, "stencil2d", "width + j + dj]", "width + j + dj + 1]"},
    {kIndex, "transpose", "tile[threadIdx.x][i]", "tile[threadIdx.x][i + 1]"},

    {kNoBound, "depthwise_conv", "if (e >= row) return;", ""},
    {kNoBound, "gather", "if (row >= n) return;", ""},
    {kNoBound, "column_sum", "if (column >= cols) return;", ""},
    {kNoBound, "matmul", "if (row < m && column < n) c[", "c["},
    {kNoBound, "matmul_bf16 matmul_fp8", "if (row < m && column < n) {", "{"},
    {kNoBound, "stencil2d", "if (i >= height || j >= width) return;", ""},
    {kNoBound, "prefix_sum", "if (e < n) y[e]", "y[e]"},
    {kNoBound, "transpose", "if (column + i < cols && row + threadIdx.x < rows) {", "{"},
    {kNoBound, "histogram", "if (bin < bins) y[bin]", "y[bin]"},
    {kNoBound, "attention_one_query", "threadIdx.y == 0 && d < dim", "threadIdx.y == 0"},

    {kSign, "attention_one_query layernorm layernorm_fp16 rmsnorm rmsnorm_bf16", "1 / sqrtf(",
     "-1 / sqrtf("},
    {kSign, "argmax_rows", "x[c] > top", "x[c] < top"},
    {kSign, "column_sum", "sum += sums[i]", "sum -= sums[i]"},
    {kSign, "cross_entropy", "+ top - x[", "+ top + x["},
    {kSign, "depthwise_conv matmul", "sum +=", "sum -="},
    {kSign, "histogram", "x[i], 1)", "x[i], -1)"},
    {kSign, "prefix_sum", "carry += total", "carry -= total"},
    {kSign, "quantize_fp8", "fmaxf(fabsf(value.x), fabsf(value.y))", "fmaxf(value.x, value.y)"},
    {kSign, "row_softmax", "expf(x[c] - top) / sum", "expf(top - x[c]) / sum"},

    {kLanes,
     "attention_one_query cross_entropy layernorm layernorm_fp16 quantize_fp8 rmsnorm rmsnorm_bf16 "
     "row_softmax",
     "int step = 16;", "int step = 8;"},
    {kLanes, "prefix_sum", "step < 32;", "step < 16;"},
    {kStops,
     "argmax_rows attention_one_query cross_entropy layernorm layernorm_fp16 quantize_fp8 rmsnorm "
     "rmsnorm_bf16 row_softmax",
     "step > 0;", "step > 1;"},
    {"maximum not subtracted", "attention_one_query", "expf(scores[t] - top)", "expf(scores[t])"},
    {"maximum not subtracted", "cross_entropy row_softmax", "expf(x[c] - top)", "expf(x[c])"},

    {kRace, "histogram", "atomicAdd(table + x[i], 1)", "++table[x[i]]"},
    {"plain addition between blocks", "histogram", "atomicAdd(y + b, table[b])",
     "y[b] += table[b]"},
    {"shared memory not cleared", "histogram", "table[b] = 0;", ";"},
    {"transposed tile", "matmul", "tile_b[i][threadIdx.x]", "tile_b[threadIdx.x][i]"},
    {"transposed tile", "transpose", "tile[threadIdx.x][i]", "tile[i][threadIdx.x]"},
    {"transposed tile", "matmul_bf16", "matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major",
     "matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major"},
    {"first row missing", "depthwise_conv", "const int i = blockIdx.y;",
     "const int i = blockIdx.y; if (i == 0) return;"},
    {"first row missing", "gather", "blockIdx.x * 8ll + threadIdx.y;",
     "blockIdx.x * 8ll + threadIdx.y; if (row == 0) return;"},
};

}  // namespace

std::string InsertAtKernels(std::string source, const std::vector<Launch>& launches,
                            const std::string& text) {
  std::set<std::string> names;
  for (const Launch& launch : launches) {
    if (!names.insert(launch.kernel).second) continue;
    // The name follows a space in the definition, which precedes other uses.
    const size_t name =
        source.find(absl::StrCat(" ", launch.kernel, "("), source.find("__global__"));
    const size_t body = source.find('{', source.find(')', name));
    source.insert(body + 1, text);
  }
  return source;
}

std::vector<MistakenSource> CudaMistakes(const Problem& problem) {
  const KernelProgram& reference = problem.targets.find(kCudaTargetName)->second.reference;
  std::vector<MistakenSource> mistakes;
  for (const Edit& edit : kEdits) {
    const std::vector<std::string> names = absl::StrSplit(edit.problems, ' ');
    if (std::find(names.begin(), names.end(), problem.name) == names.end()) continue;
    std::string source = reference.source;
    const bool replaced = absl::StrReplaceAll({{edit.from, edit.to}}, &source) > 0;
    if (edit.kind == kNoBarrier || edit.kind == kWarpBarrier) {
      source = absl::StrCat(
          kLate, InsertAtKernels(std::move(source), reference.launches, "mutant_late();"));
    } else if (edit.kind == kNarrowSum) {
      source = absl::StrCat(kNarrow, source);
    }
    mistakes.push_back({std::string(edit.kind), std::move(source), replaced});
  }
  return mistakes;
}

}  // namespace kernelcast::testing
