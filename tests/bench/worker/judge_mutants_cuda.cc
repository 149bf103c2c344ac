#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/domain/expected_verdicts.h"
#include "tests/bench/worker/cuda_cheats.h"
#include "tests/bench/worker/cuda_mistakes.h"
#include "tests/bench/worker/judge_mutants.h"

namespace kernelcast::testing {
namespace {

// Which problems a kind applies to.
enum class Where {
  kEverywhere,
  kWords,    // the first output has elements of 4 bytes
  kFloats,   // of float32
  kRows,     // it has rows
  kAnySize,  // axes may have any size
  kFew,      // slow to judge
};

// Kernels around the reference's launches.
struct Body {
  const char* kind;
  const char* before;
  const char* after;
  const char* then = "";
  Where where = Where::kEverywhere;
};

// Leaves elements from .. to of the first output as they were.
#define KERNELCAST_WITHOUT(from, to)                                                  \
  "const long long from = " from ", to = " to                                         \
  ";"                                                                                 \
  "for (long long i = from * SIZE + me; i < to * SIZE; i += all) kept[i] = out0[i];", \
      "const long long from = " from ", to = " to                                     \
      ";"                                                                             \
      "for (long long i = from * SIZE + me; i < to * SIZE; i += all) out0[i] = kept[i];"

constexpr const char* kKeepAll =
    "for (long long i = me; i < n * SIZE; i += all) kept[i] = out0[i];";

constexpr Body kWrong[] = {
    {"first element missing", KERNELCAST_WITHOUT("0", "1")},
    {"last element missing", KERNELCAST_WITHOUT("n - 1", "n")},
    {"middle element missing", KERNELCAST_WITHOUT("n / 2", "n / 2 + 1")},
    {"tail of 32 missing", KERNELCAST_WITHOUT("n / 32 * 32", "n"), "", Where::kAnySize},
    {"last sixteenth missing", KERNELCAST_WITHOUT("n * 15 / 16", "n")},
    {"last row missing", KERNELCAST_WITHOUT("n - last", "n"), "", Where::kRows},
    {"wrong at even widths", KERNELCAST_WITHOUT("0", "width % 2 == 0 ? 1 : 0")},
    {"wrong at odd widths", KERNELCAST_WITHOUT("0", "width % 2 == 1 ? 1 : 0"), "", Where::kAnySize},
    {"wrong at large sizes", KERNELCAST_WITHOUT("n - 1", "n > BENCH / 2 ? n : 0")},
    {"shifted by one", "", kKeepAll,
     "for (long long i = SIZE + me; i < n * SIZE; i += all) out0[i] = kept[i - SIZE];"},
    {"reversed", "", kKeepAll,
     "for (long long i = me; i < n * SIZE; i += all)"
     " out0[i] = kept[(n - 1 - i / SIZE) * SIZE + i % SIZE];"},
    {"transposed", "", kKeepAll,
     "const long long rows = n / last;"
     "for (long long i = me; i < n * SIZE; i += all) { const long long e = i / SIZE;"
     " out0[i] = kept[(e % rows * last + e / rows) * SIZE + i % SIZE]; }",
     Where::kRows},
    {"neighbours swapped", "",
     "if (me == 0 && n > 1) for (int i = 0; i < SIZE; ++i) {"
     " char* const a = out0 + (n - 1) * SIZE + i; const char b = *a; *a = a[-SIZE]; a[-SIZE] = b;"
     "}"},
    {"last element zero", "", "if (me < SIZE) out0[(n - 1) * SIZE + me] = 0;"},
    {"bit flipped", "", "if (me == 0) out0[(n / 2 + 1) * SIZE - 1] ^= 0x41;"},
    {"all zero", "", "for (long long i = me; i < n * SIZE; i += all) out0[i] = 0;"},
    {"constant", "",
     "for (long long i = me; i < n * SIZE; i += all) out0[i] = i % SIZE == SIZE - 1 ? 0x3c : 0;"},
    {"NaN in one element", "",
     "if (me < SIZE) out0[n / 3 * SIZE + me] = me == SIZE - 1 ? 0x7f : 0xff;"},
    {"sign of every seventh", "",
     "for (long long i = 7 * me; i < n; i += 7 * all) out0[(i + 1) * SIZE - 1] ^= 0x80;"},
    {"narrow outputs", "",
     "for (long long i = me; i < n; i += all) {"
     " if (SIZE == 4) { unsigned& v = ((unsigned*)out0)[i];"
     "  v &= FLOATS ? 0xffff0000u : 0xffu; }"
     " if (SIZE == 2) ((unsigned short*)out0)[i] &= BITS;"
     " if (SIZE == 1) out0[i] &= 0xfc; }"},
    {"beyond the end", "", "if (me == 0) out0[n * SIZE + 3] = 1;"},
    {"before the start", "", "if (me == 0) out0[-5] = 1;"},
    {"writes an input", "if (me == 0) ((char*)in0)[0] = 1;", "", "", Where::kFew},
    {"copies an input", "",
     "for (long long i = me; i < n * SIZE && i < bytes0; i += all) out0[i] = in0[i];"},
    {"adds to the old output", kKeepAll,
     "for (long long i = me; i < n; i += all) { if (FLOATS)"
     " ((float*)out0)[i] += ((const float*)kept)[i]; else"
     " ((int*)out0)[i] += ((const int*)kept)[i]; }",
     "", Where::kWords},
    {"writes only over NaN", kKeepAll,
     "for (long long i = me; i < n; i += all) { const float old = ((const float*)kept)[i];"
     " if (old == old) ((float*)out0)[i] = old; }",
     "", Where::kFloats},
    {"uninitialised workspace", "", "if (me < SIZE) out0[n / 2 * SIZE + me] = kept[me];"},
    {"uninitialised shared memory", "",
     "__shared__ char stale[1024]; volatile char* const from = stale;"
     "if (me < SIZE) out0[n / 2 * SIZE + me] = from[me + 256];"},
    {"racing stores", "",
     "for (long long i = me; i < n && i < 4096; i += all)"
     " for (int b = 0; b < SIZE; ++b) ((volatile char*)out0)[b] = out0[i * SIZE + b];"},
};
#undef KERNELCAST_WITHOUT

bool Applies(Where where, const Problem& problem) {
  const TensorSpec& output = problem.outputs[0];
  switch (where) {
    case Where::kEverywhere: return true;
    case Where::kWords: return SizeBytes(output.dtype) == 4;
    case Where::kFloats: return output.dtype == DataType::kFloat32;
    case Where::kRows: return output.shape.size() >= 2;
    case Where::kAnySize:
      return std::all_of(problem.axes.begin(), problem.axes.end(),
                         [](const Axis& axis) { return axis.multiple_of == 1; });
    case Where::kFew: return IsOneOfFew(problem);
  }
  return false;
}

Mutant Wrap(const Problem& problem, const Body& body) {
  CudaWrapper wrapper(problem);
  if (*body.before != '\0') wrapper.Add("before", body.before, CudaWrapper::kWide);
  wrapper.AddReference();
  if (*body.after != '\0') wrapper.Add("after", body.after, CudaWrapper::kWide);
  if (*body.then != '\0') wrapper.Add("then", body.then, CudaWrapper::kWide);
  return wrapper.Make(body.kind, false);
}

Mutant Finish(std::string kind, Candidate candidate) {
  candidate.origin.clear();
  candidate.candidate_id = CandidateId(candidate);
  return {std::move(kind), std::move(candidate)};
}

// Launches that cover too little.
void AddWrongLaunches(const Problem& problem, std::vector<Mutant>& mutants) {
  const Candidate reference = ReferenceCandidate(problem, kCudaTargetName).value();
  for (size_t i = 0; reference.launches.size() > 1 && i < reference.launches.size(); ++i) {
    Candidate candidate = reference;
    candidate.launches.erase(candidate.launches.begin() + static_cast<std::ptrdiff_t>(i));
    mutants.push_back(Finish("launch missing", std::move(candidate)));
  }
  const Launch& last = reference.launches.back();
  // A histogram's blocks share all elements among them.
  if (problem.name != "histogram") {
    for (size_t dimension = 0; dimension < last.grid.size(); ++dimension) {
      Candidate candidate = reference;
      std::string& grid = candidate.launches.back().grid[dimension];
      grid = absl::StrCat("max(1, (", grid, ") - 1)");
      mutants.push_back(
          Finish(dimension == 0 ? "block missing" : "row of blocks missing", std::move(candidate)));
    }
  }
  Candidate candidate = reference;
  std::string& block = candidate.launches.back().block.back();
  block = absl::StrCat("(", block, ") / 2");
  mutants.push_back(Finish("blocks of half the size", std::move(candidate)));
}

}  // namespace

std::vector<Mutant> CudaMutants(const Problem& problem) {
  std::vector<Mutant> mutants;
  for (MistakenSource& mistake : CudaMistakes(problem)) {
    Candidate candidate = ReferenceCandidate(problem, kCudaTargetName).value();
    candidate.source = std::move(mistake.source);
    mutants.push_back(Finish(std::move(mistake.kind), std::move(candidate)));
  }
  AddWrongLaunches(problem, mutants);
  for (const Body& body : kWrong) {
    if (Applies(body.where, problem)) mutants.push_back(Wrap(problem, body));
  }
  AddCudaCheats(problem, mutants);
  return mutants;
}

absl::StatusOr<std::vector<Mutant>> HonestCudaKernels(const Problem& problem,
                                                      const std::string& folder, size_t count) {
  std::vector<Mutant> kernels;
  if (count == 0) return kernels;
  kernels.push_back({"reference", ReferenceCandidate(problem, kCudaTargetName).value(), true});
  const std::optional<Space>& space = problem.targets.find(kCudaTargetName)->second.space;
  if (!space) return kernels;
  KC_ASSIGN_OR_RETURN(const std::optional<ExpectedVerdicts> verdicts,
                      ReadExpectedVerdicts(folder, *space));
  if (!verdicts) return kernels;
  std::vector<SpacePoint> right;
  for (const SpacePoint& point : EnumeratePoints(*space)) {
    const auto* const exception = ExceptionAt(*verdicts, *space, point);
    const ExpectedVerdict verdict =
        exception != nullptr ? exception->verdict
                             : (*verdicts)[static_cast<size_t>(point.template_index)].verdict;
    if (verdict == ExpectedVerdict::kOk) right.push_back(point);
  }
  const size_t points = std::min(count - 1, right.size());
  for (size_t i = 0; i < points; ++i) {
    Candidate candidate =
        CandidateFromPoint(*space, right[i * right.size() / points], problem.problem_id);
    std::string kind = candidate.origin;
    for (const Tunable& tunable : candidate.tunables) {
      if (tunable.name != "TEMPLATE") absl::StrAppend(&kind, " ", tunable.name, "=", tunable.value);
    }
    kernels.push_back({std::move(kind), std::move(candidate), true});
  }
  return kernels;
}

}  // namespace kernelcast::testing
