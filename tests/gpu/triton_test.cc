// Triton kernels, right and wrong, on a GPU.

#include <catch2/catch.hpp>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/support/kernel_examples.h"

namespace kernelcast::testing {
namespace {

// The reason to skip, if any.
std::optional<std::string> NoTriton() {
  if (PythonOfTests("triton").empty()) {
    return "no interpreter with Triton: set KERNELCAST_PYTHON or run scripts/setup.sh";
  }
  return NoGpu();
}

#define KERNELCAST_NEEDS_TRITON()                  \
  if (const auto reason = NoTriton(); reason) {    \
    std::printf("skipped: %s\n", reason->c_str()); \
    SUCCEED("skipped: " << *reason);               \
    return;                                        \
  }

KernelExample FindExample(const std::string& problem, const std::string& name) {
  for (KernelExample& example : ReadKernelExamples(SourcePath("examples/triton"))) {
    if (example.problem == problem && example.candidate.name == name) return std::move(example);
  }
  throw std::runtime_error(absl::StrCat("no example ", problem, "/", name));
}

TEST_CASE("The Triton examples are correct") {
  KERNELCAST_NEEDS_TRITON();
  std::map<std::string, std::unique_ptr<GpuFixture>> fixtures;
  for (const KernelExample& example : ReadKernelExamples(SourcePath("examples/triton"))) {
    std::unique_ptr<GpuFixture>& fixture = fixtures[example.problem];
    if (fixture == nullptr) {
      // One at a time: each has its own runners and memory.
      for (auto& [name, other] : fixtures) {
        if (name != example.problem) other.reset();
      }
      fixture = std::make_unique<GpuFixture>(absl::StrCat("examples/problems/", example.problem),
                                             worker::CudaMeasureOptions());
    }
    const Measurement measurement = fixture->Measure(example.candidate);
    const std::string feedback = MeasurementFeedback(measurement);
    std::printf("%s/%s: %s\n", example.problem.c_str(), example.candidate.name.c_str(),
                feedback.c_str());
    INFO(example.problem << "/" << example.candidate.name << ": " << feedback);
    CHECK(std::holds_alternative<MeasuredOk>(measurement.outcome));
  }
}

// Compiling a point takes about half a second, so only every tenth is measured.
TEST_CASE("Points of a Triton space are correct") {
  KERNELCAST_NEEDS_TRITON();
  GpuFixture fixture("examples/triton_spaces/rmsnorm_triton", worker::CudaMeasureOptions());
  const Problem& problem = fixture.problem();
  const Space& space = *problem.targets.at("cuda").space;
  const std::vector<SpacePoint> points = EnumeratePoints(space);
  for (size_t i = 0; i < points.size(); i += 10) {
    const Candidate candidate = CandidateFromPoint(space, points[i], problem.problem_id);
    const std::string feedback = MeasurementFeedback(fixture.Measure(candidate));
    std::printf("%s: %s\n", candidate.candidate_id.c_str(), feedback.c_str());
    INFO(feedback);
    CHECK_THAT(feedback, Catch::StartsWith("Correct in"));
  }
}

struct Mistake {
  const char* what;
  const char* problem;
  const char* example;
  const char* from;  // in the source
  const char* to;
  std::set<std::string> outcomes;  // any of these
  const char* grid = "";           // of the first launch, if set
};

const std::vector<Mistake>& Mistakes() {
  static const std::vector<Mistake> mistakes = {
      {"wrong divisor",
       "row_softmax",
       "one_block",
       "/ tl.sum(value, 0)",
       "/ (tl.sum(value, 0) + 1.0)",
       {"wrong_result"}},
      {"maximum of the first block only",
       "row_softmax",
       "online",
       "largest = bigger",
       "largest = largest",
       {"wrong_result"}},
      {"wrong epsilon", "rmsnorm", "two_passes", "1e-6", "1e-1", {"wrong_result"}},
      {"not transposed",
       "transpose",
       "tiles",
       "turned = tl.trans(value)",
       "turned = value",
       {"wrong_result"}},
      {"a last index",
       "argmax_rows",
       "one_pass",
       "tl.min(tl.where",
       "tl.max(tl.where",
       {"wrong_result"}},
      {"maximum forgotten",
       "cross_entropy",
       "one_block",
       "tl.log(total) + largest - chosen",
       "tl.log(total) - chosen",
       {"wrong_result"}},
      {"sums of earlier chunks forgotten",
       "prefix_sum",
       "three_kernels",
       " + tl.load(sums + tl.program_id(0))",
       "",
       {"wrong_result"}},
      {"half of the rows",
       "row_softmax",
       "one_block",
       "",
       "",
       {"wrong_result"},
       "ceildiv(rows, 2)"},
      {"one filter tap too few",
       "depthwise_conv",
       "direct",
       "for j in tl.static_range(3)",
       "for j in tl.static_range(2)",
       {"wrong_result"}},
      {"low precision",
       "matmul",
       "ieee",
       "input_precision=\"ieee\"",
       "input_precision=\"tf32\"",
       {"wrong_result"}},
      {"writes beyond the end",
       "gather",
       "flat",
       "tl.store(out + at, tl.load(table + source * dim + at % dim, mask=inside), mask=inside)",
       "tl.store(out + at, tl.load(table + source * dim + at % dim, mask=inside))",
       {"exploit", "crash", "wrong_result"}},
      {"writes its input",
       "rmsnorm",
       "one_block",
       "    gain = ",
       "    tl.store(x + row * cols + offsets, value, mask=inside)\n    gain = ",
       {"exploit", "crash"}},
      {"reads far away",
       "layernorm",
       "one_block",
       "tl.load(gamma + offsets",
       "tl.load(gamma + 4000000000000 + offsets",
       {"crash"}},
      {"never ends",
       "row_softmax",
       "one_block",
       "    tl.store(",
       "    word = y.to(tl.pointer_type(tl.int32), bitcast=True)\n"
       "    while tl.load(word, volatile=True) != 123456789:\n"
       "        value += 1.0\n"
       "    tl.store(",
       {"timeout"}},
  };
  return mistakes;
}

TEST_CASE("Wrong Triton kernels get the verdict of their mistake, and the worker measures on") {
  KERNELCAST_NEEDS_TRITON();
  worker::MeasureOptions options = worker::CudaMeasureOptions();
  for (const Mistake& mistake : Mistakes()) {
    KernelExample example = FindExample(mistake.problem, mistake.example);
    Candidate& candidate = example.candidate;
    const size_t at = candidate.source.find(mistake.from);
    REQUIRE(at != std::string::npos);
    candidate.source.replace(at, std::string(mistake.from).size(), mistake.to);
    if (*mistake.grid != '\0') candidate.launches[0].grid = {mistake.grid};
    candidate.candidate_id = CandidateId(candidate);
    GpuFixture fixture(absl::StrCat("examples/problems/", mistake.problem), options);
    const Measurement measurement = fixture.Measure(candidate);
    const std::string outcome(OutcomeName(measurement.outcome));
    std::printf("%s: %s: %s\n", mistake.what, outcome.c_str(),
                MeasurementFeedback(measurement).c_str());
    INFO(mistake.what << ": " << MeasurementFeedback(measurement));
    CHECK(mistake.outcomes.contains(outcome));
    const Measurement after =
        fixture.Measure(FindExample(mistake.problem, mistake.example).candidate);
    CHECK(std::holds_alternative<MeasuredOk>(after.outcome));
  }
}

}  // namespace
}  // namespace kernelcast::testing
