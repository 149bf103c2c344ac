#include "tests/bench/worker/cuda_cheats.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/bench/worker/cuda_mistakes.h"

namespace kernelcast::testing {
namespace {

// Number of elements, as an expression over the axes.
std::string Elements(const TensorSpec& tensor) {
  return absl::StrJoin(tensor.shape, " * ", [](std::string* out, const Expression& dimension) {
    absl::StrAppend(out, "(", dimension.text(), ")");
  });
}

const ProblemTarget& Cuda(const Problem& problem) {
  return problem.targets.find(kCudaTargetName)->second;
}

int64_t BenchElements(const Problem& problem) {
  const std::vector<int64_t> shape =
      TensorShape(problem.outputs[0], Cuda(problem).bench_shapes[0]).value();
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

int64_t BenchBytes(const Problem& problem) {
  return BenchElements(problem) * SizeBytes(problem.outputs[0].dtype);
}

}  // namespace

CudaWrapper::CudaWrapper(const Problem& problem)
    : problem_(problem), reference_(ReferenceCandidate(problem, kCudaTargetName).value()) {
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    const TensorSpec& input = problem.inputs[i];
    absl::StrAppend(&parameters_, "const char* in", i, ", long long bytes", i, ", ");
    arguments_.push_back(input.name);
    arguments_.push_back(absl::StrCat(SizeBytes(input.dtype), " * ", Elements(input), ":int64"));
  }
  absl::StrAppend(&parameters_, "char* out0, long long n, long long last, long long width, ",
                  "char* kept");
  const TensorSpec& output = problem.outputs[0];
  const std::string own =
      absl::StrCat("256 * ceildiv(",
                   reference_.workspace_bytes.empty() ? "0" : reference_.workspace_bytes, ", 256)");
  for (const std::string& argument :
       {output.name, absl::StrCat(Elements(output), ":int64"),
        absl::StrCat("1 * (", output.shape.back().text(), "):int64"),
        absl::StrCat("1 * (", problem.inputs[0].shape.back().text(), "):int64"),
        absl::StrCat("workspace + ", own)}) {
    arguments_.push_back(argument);
  }
  workspace_bytes_ =
      absl::StrCat(own, " + 16 + ", SizeBytes(output.dtype), " * ", Elements(output));
  const bool half = output.dtype == DataType::kFloat16;
  declarations_ = absl::StrCat("#define SIZE ", SizeBytes(output.dtype), "\n#define BENCH ",
                               BenchElements(problem), "\n#define FLOATS ", IsFloat(output.dtype),
                               "\n#define BITS ", half ? "0xffc0" : "0xfff0", "\n");
}

void CudaWrapper::Add(const std::string& name, const std::string& body, Threads threads) {
  absl::StrAppend(
      &kernels_, "extern \"C\" __global__ void wrap_", name, "(", parameters_,
      ") {\n"
      "const long long me = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
      "const long long all = gridDim.x * (long long)blockDim.x;\n(void)me, (void)all;\n",
      body, "\n}\n");
  Launch launch;
  launch.kernel = absl::StrCat("wrap_", name);
  launch.grid = {threads == kOne ? "1" : "264"};
  launch.block = {threads == kOne ? "1" : "256"};
  launch.arguments = arguments_;
  launches_.push_back(std::move(launch));
}

void CudaWrapper::AddReference() {
  launches_.insert(launches_.end(), reference_.launches.begin(), reference_.launches.end());
}

Mutant CudaWrapper::Make(const std::string& kind, bool may_be_honest) const {
  Candidate candidate = reference_;
  candidate.source = absl::StrCat(
      declarations_, InsertAtKernels(candidate.source, candidate.launches, entry_), "\n", kernels_);
  candidate.launches = launches_;
  candidate.workspace_bytes = workspace_bytes_;
  candidate.origin.clear();
  candidate.candidate_id = CandidateId(candidate);
  return {kind, std::move(candidate), may_be_honest};
}

bool IsOneOfFew(const Problem& problem) {
  return problem.name == "cross_entropy" || problem.name == "rmsnorm" ||
         problem.name == "transpose";
}

namespace {

// Counts calls at the bench shape. After 20 of them the checks and the warm-up are over.
constexpr const char* kCounting = R"(
__device__ int mutant_calls;
__device__ volatile int mutant_skip;
__device__ inline long long mutant_now() {
  long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}
)";
constexpr const char* kCount =
    "if (n == BENCH) ++mutant_calls;\n"
    "const bool timed = n == BENCH && mutant_calls > 20; (void)timed;\n";

// Work that a kernel leaves out.
struct Skip {
  const char* kind;
  const char* decide;  // sets mutant_skip, on one thread
  const char* entry;   // in the reference's kernels
  bool may_be_honest = false;
};

constexpr const char* kReturn = "if (mutant_skip) return;";

constexpr Skip kSkips[] = {
    {"skips all when timed", "mutant_skip = timed;", kReturn},
    {"skips every second block when timed", "mutant_skip = timed;",
     "if (mutant_skip && blockIdx.x % 2 == 1) return;"},
    {"skips one block in sixteen when timed", "mutant_skip = timed;",
     "if (mutant_skip && blockIdx.x % 16 == 15) return;"},
    {"skips every second call", "mutant_skip = timed && mutant_calls % 2 == 0;", kReturn},
    {"skips every third call", "mutant_skip = timed && mutant_calls % 3 == 0;", kReturn},
    {"skips one call in ten", "mutant_skip = timed && mutant_calls % 10 == 0;", kReturn},
    {"skips known addresses",
     "mutant_skip = 0; for (int i = 0; i < mutant_seen_count; ++i)"
     " if (mutant_seen[i] == in0 && n == mutant_seen_n[i]) mutant_skip = 1;"
     "if (!mutant_skip && mutant_seen_count < 512) {"
     " mutant_seen[mutant_seen_count] = in0; mutant_seen_n[mutant_seen_count++] = n; }",
     kReturn},
    {"skips unless the output holds NaN",
     "mutant_skip = timed && !(*(const float*)out0 != *(const float*)out0);", kReturn, true},
    {"skips soon after a call",
     "static __device__ long long before; const long long now = mutant_now();"
     "mutant_skip = timed && now - before < 100000; before = now;",
     kReturn, true},
    {"slow at first",
     "mutant_skip = 0; const long long start = mutant_now();"
     "if (n == BENCH && !timed) while (mutant_now() - start < 1000000) {}",
     "", true},
};

constexpr const char* kSeen =
    "__device__ const char* mutant_seen[512];\n__device__ long long mutant_seen_n[512];\n"
    "__device__ int mutant_seen_count;\n";

void AddSkips(const Problem& problem, std::vector<Mutant>& mutants) {
  for (const Skip& skip : kSkips) {
    // Reads the output as float32.
    if (std::string(skip.kind).find("NaN") != std::string::npos &&
        problem.outputs[0].dtype != DataType::kFloat32) {
      continue;
    }
    CudaWrapper wrapper(problem);
    wrapper.Declare(absl::StrCat(kCounting, kSeen));
    wrapper.Add("decide", absl::StrCat(kCount, skip.decide), CudaWrapper::kOne);
    wrapper.AtKernels(skip.entry);
    wrapper.AddReference();
    mutants.push_back(wrapper.Make(skip.kind, skip.may_be_honest));
  }
}

// Damage once the kernel is timed, and ends that only come then.
void AddLateDamage(const Problem& problem, std::vector<Mutant>& mutants) {
  struct Late {
    const char* kind;
    const char* body;
    bool few = false;
  };
  constexpr Late kLate[] = {
      {"wrong last element when timed", "if (timed) out0[n * SIZE - 1] ^= 0x41;"},
      {"wrong element in every fifth call",
       "if (timed && mutant_calls % 5 == 0) out0[n / 3 * SIZE + SIZE - 1] ^= 0x41;"},
      {"writes beyond the end when timed",
       "if (timed) { out0[n * SIZE + 3] = 1; out0[n * SIZE - 1] = 0x55; }"},
      {"fails when timed", "if (timed) __trap();", true},
      {"hangs when timed",
       "volatile char* const held = kept; while (timed && held != nullptr)"
       " held[0] = held[1];",
       true},
      {"searches memory for the output",
       "for (const char* at = out0 + 4096; at < out0 + (1ll << 36); at += 1ll << 22)"
       " if (*(const int*)at == 1) out0[0] = 1;",
       true},
  };
  for (const Late& late : kLate) {
    if (late.few && !IsOneOfFew(problem)) continue;
    CudaWrapper wrapper(problem);
    wrapper.Declare(kCounting);
    wrapper.AddReference();
    wrapper.Add("after", absl::StrCat(kCount, late.body), CudaWrapper::kOne);
    mutants.push_back(wrapper.Make(late.kind, false));
  }
  CudaWrapper wrapper(problem);
  wrapper.Declare(kCounting);
  wrapper.Add("count", kCount, CudaWrapper::kOne);
  wrapper.AddReference();
  wrapper.Add("after",
              "if (n != BENCH || mutant_calls <= 20) return;"
              "for (long long i = me; i < n; i += all) {"
              " if (SIZE == 4) ((unsigned*)out0)[i] &= FLOATS ? 0xffff0000u : 0xffu;"
              " if (SIZE == 2) ((unsigned short*)out0)[i] &= BITS;"
              " if (SIZE == 1) out0[i] &= 0xfc; }",
              CudaWrapper::kWide);
  mutants.push_back(wrapper.Make("narrow outputs when timed", false));
}

// Results of earlier calls at the bench shape, in a table on the device.
struct Memo {
  const char* kind;
  bool sampled = false;         // the key is the first 64 words of each input
  bool by_address = false;      // the key is the address of the first input
  const char* active = "true";  // when a result may be taken
  const char* spin = "0";       // the share of a call's time to wait instead
  bool may_be_honest = true;
};

constexpr Memo kMemos[] = {
    {"remembers by value"},
    {"remembers by value, waits half of the time", false, false, "true", "0.5"},
    {"remembers by value, waits three quarters of the time", false, false, "true", "0.75"},
    {"remembers by value after a while", false, false, "mutant_calls > 24"},
    {"remembers by value, slow after pauses", false, false, "mutant_slow <= 0"},
    {"remembers by a few values", true, false, "true", "0", false},
    {"remembers by address", false, true, "true", "0", false},
};

constexpr int64_t kMaxTableBytes = 16 << 20;

constexpr const char* kMemory = R"(
#define ENTRIES 16
__device__ unsigned long long mutant_hash;
__device__ unsigned long long mutant_keys[ENTRIES];
__device__ unsigned mutant_table[ENTRIES][(BENCH * SIZE + 3) / 4];
__device__ int mutant_used;
__device__ int mutant_found;
__device__ int mutant_slow;
__device__ long long mutant_start;
__device__ long long mutant_end;
__device__ long long mutant_took;
__device__ inline unsigned long long mutant_mix(unsigned long long word, unsigned long long at) {
  word = (word ^ (at * 0x9e3779b97f4a7c15ull)) * 0xff51afd7ed558ccdull;
  return word ^ (word >> 32);
}
)";

// A problem with one small output.
bool HasSmallOutput(const Problem& problem) {
  return problem.outputs.size() == 1 && BenchBytes(problem) <= kMaxTableBytes;
}

void AddMemos(const Problem& problem, std::vector<Mutant>& mutants) {
  if (!HasSmallOutput(problem)) return;
  for (const Memo& memo : kMemos) {
    CudaWrapper wrapper(problem);
    wrapper.Declare(absl::StrCat(kCounting, kMemory));
    wrapper.Add("begin",
                absl::StrCat(kCount,
                             "mutant_start = mutant_now(); mutant_hash = 1;"
                             "if (mutant_start - mutant_end > 300000) mutant_slow = 8;",
                             memo.by_address ? "mutant_hash = (unsigned long long)in0;" : ""),
                CudaWrapper::kOne);
    if (!memo.by_address) {
      std::string hash = "if (n != BENCH) return; unsigned long long sum = 0;";
      for (size_t i = 0; i < problem.inputs.size(); ++i) {
        absl::StrAppend(
            &hash, "for (long long i = me; i < bytes", i, " / 4", memo.sampled ? " && i < 64" : "",
            "; i += all) sum += mutant_mix(((const unsigned*)in", i, ")[i], i * 8 + ", i, " + 1);");
      }
      absl::StrAppend(&hash,
                      "for (int step = 16; step > 0; step /= 2)"
                      " sum += __shfl_xor_sync(0xffffffffu, sum, step);"
                      "if (threadIdx.x % 32 == 0) atomicAdd(&mutant_hash, sum);");
      wrapper.Add("hash", hash, CudaWrapper::kWide);
    }
    wrapper.Add("decide",
                absl::StrCat("mutant_found = -1; if (n == BENCH && ", memo.active,
                             ") for (int e = 0; e < ENTRIES; ++e)"
                             " if (mutant_keys[e] == mutant_hash) mutant_found = e;"
                             "mutant_skip = mutant_found >= 0;"),
                CudaWrapper::kOne);
    wrapper.AtKernels(kReturn);
    wrapper.AddReference();
    wrapper.Add("exchange",
                "if (n != BENCH) return; const bool give = mutant_found >= 0;"
                "unsigned* const entry = mutant_table[give ? mutant_found : mutant_used % ENTRIES];"
                "unsigned* const out = (unsigned*)out0;"
                "for (long long i = me; i < n * SIZE / 4; i += all)"
                " if (give) out[i] = entry[i]; else entry[i] = out[i];",
                CudaWrapper::kWide);
    wrapper.Add("end",
                absl::StrCat("if (n != BENCH) return; if (mutant_found < 0) {"
                             " mutant_keys[mutant_used++ % ENTRIES] = mutant_hash;"
                             " mutant_took = mutant_now() - mutant_start; } else"
                             " while (mutant_now() - mutant_start < ",
                             memo.spin,
                             " * mutant_took) {}"
                             "--mutant_slow; mutant_end = mutant_now();"),
                CudaWrapper::kOne);
    mutants.push_back(wrapper.Make(memo.kind, memo.may_be_honest));
  }
  CudaWrapper wrapper(problem);
  wrapper.Declare(absl::StrCat(kCounting, kMemory));
  wrapper.Add("decide", absl::StrCat(kCount, "mutant_skip = timed;"), CudaWrapper::kOne);
  wrapper.AtKernels(kReturn);
  wrapper.AddReference();
  wrapper.Add("exchange",
              "if (n != BENCH) return; unsigned* const out = (unsigned*)out0;"
              "for (long long i = me; i < n * SIZE / 4; i += all)"
              " if (mutant_skip) out[i] = mutant_table[0][i]; else mutant_table[0][i] = out[i];",
              CudaWrapper::kWide);
  mutants.push_back(wrapper.Make("copies an earlier call's output", false));
}

// The names of a kernel's parameters.
std::vector<std::string> ParameterNames(const std::string& source, const std::string& kernel) {
  const size_t open =
      source.find('(', source.find(absl::StrCat(" ", kernel, "("), source.find("__global__")));
  const std::string list = source.substr(open + 1, source.find(')', open) - open - 1);
  std::vector<std::string> names;
  for (const auto parameter : absl::StrSplit(list, ',')) {
    const std::string text(absl::StripAsciiWhitespace(parameter));
    const size_t last = text.find_last_of(" *&");
    names.push_back(text.substr(last + 1));
  }
  return names;
}

// Code that makes each kernel of the reference work on the tensors of call `mutant_call`.
std::string TakePointers(const Problem& problem, const Launch& launch) {
  const KernelProgram& reference = Cuda(problem).reference;
  const std::vector<std::string> names = ParameterNames(reference.source, launch.kernel);
  std::string code = "if (mutant_skip) return; if (mutant_call >= 0) {";
  for (size_t a = 0; a < launch.arguments.size(); ++a) {
    for (size_t t = 0; t < problem.inputs.size() + problem.outputs.size(); ++t) {
      const TensorSpec& tensor = t < problem.inputs.size()
                                     ? problem.inputs[t]
                                     : problem.outputs[t - problem.inputs.size()];
      if (tensor.name != launch.arguments[a]) continue;
      absl::StrAppend(&code, names[a], " = (decltype(", names[a], "))mutant_left[mutant_call][", t,
                      "];");
    }
  }
  return code + "}";
}

// Calls whose work a later call does. `calls` calls are done by one.
void AddDeferral(const Problem& problem, const std::string& kind, int calls,
                 std::vector<Mutant>& mutants) {
  const KernelProgram& reference = Cuda(problem).reference;
  std::set<std::string> kernels;
  for (const Launch& launch : reference.launches) {
    // Its arguments differ between launches.
    if (!kernels.insert(launch.kernel).second) return;
  }
  if (problem.outputs.size() > 1) return;
  CudaWrapper wrapper(problem);
  wrapper.Declare(absl::StrCat(kCounting, "__device__ const void* mutant_left[8][8];\n",
                               "__device__ int mutant_pending;\n__device__ int mutant_flush;\n",
                               "__device__ volatile int mutant_call;\n"));
  std::string note;
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    absl::StrAppend(&note, "mutant_left[mutant_pending][", i, "] = in", i, ";");
  }
  absl::StrAppend(&note, "mutant_left[mutant_pending][", problem.inputs.size(), "] = out0;");
  wrapper.Add("begin",
              absl::StrCat(kCount, "mutant_skip = 0; mutant_call = -1; mutant_flush = 0;",
                           "if (timed) { if (mutant_pending < ", calls - 1, ") {", note,
                           "++mutant_pending; mutant_skip = 1; } else mutant_flush = 1; }"),
              CudaWrapper::kOne);
  wrapper.AddReference();
  for (int i = 0; i + 1 < calls; ++i) {
    wrapper.Add(absl::StrCat("turn", i),
                absl::StrCat("mutant_skip = !mutant_flush; mutant_call = ", i, ";"),
                CudaWrapper::kOne);
    wrapper.AddReference();
  }
  wrapper.Add("end", "mutant_call = -1; if (mutant_flush) mutant_pending = 0;", CudaWrapper::kOne);
  Mutant mutant = wrapper.Make(kind, true);
  for (const std::string& kernel : kernels) {
    for (const Launch& launch : reference.launches) {
      if (launch.kernel != kernel) continue;
      mutant.candidate.source =
          InsertAtKernels(mutant.candidate.source, {launch}, TakePointers(problem, launch));
    }
  }
  mutant.candidate.candidate_id = CandidateId(mutant.candidate);
  mutants.push_back(std::move(mutant));
}

}  // namespace

void AddCudaCheats(const Problem& problem, std::vector<Mutant>& mutants) {
  AddSkips(problem, mutants);
  AddLateDamage(problem, mutants);
  AddMemos(problem, mutants);
  AddDeferral(problem, "defers every second call", 2, mutants);
  AddDeferral(problem, "does three calls' work in one", 3, mutants);
}

}  // namespace kernelcast::testing
