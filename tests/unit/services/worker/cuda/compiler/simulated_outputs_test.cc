#include "services/worker/cuda/compiler/simulated_outputs.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/support/kernel_examples.h"

namespace kernelcast::worker {
namespace {

template <class T>
std::string BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// A case of the problem at which its only output is expected to hold `expected`.
template <class T>
SimulatedCase Expecting(const Problem& problem, const AxisValues& axes,
                        const std::vector<T>& expected) {
  const ProblemTarget& target = problem.targets.at(std::string(kCudaTargetName));
  SimulatedCase at = SimulatedCases(problem, target).front();
  at.spec.axes = axes;
  at.text = "here";
  REQUIRE(SetExpected(problem, std::vector<std::string>{BytesOf(expected)}, at).ok());
  return at;
}

TEST_CASE("Cases have the declared inputs at every shape, and adversarial ones at one") {
  const Problem problem = testing::ReadExampleProblem("layernorm");
  const std::vector<SimulatedCase> cases =
      SimulatedCases(problem, problem.targets.at(std::string(kCudaTargetName)));
  std::set<std::string> texts;
  int declared = 0;
  for (const SimulatedCase& at : cases) {
    CHECK(texts.insert(at.text).second);
    CHECK(at.not_compared.empty());
    CHECK(at.outputs == std::vector<std::string>{"y"});
    declared += at.spec.adversarial ? 0 : 1;
    REQUIRE(at.inputs.size() == 3);
    float first = 0;
    std::memcpy(&first, at.inputs[0].data(), sizeof(first));
    if (!at.spec.adversarial) CHECK(first == Approx(100).margin(6));
  }
  // Four check shapes and three held-out ones.
  CHECK(declared == 7);
  CHECK(cases.size() == 7 + 3);
}

TEST_CASE("Device code of a task is compared with known calls of its reference") {
  Problem problem;
  TensorSpec tensor;
  tensor.name = "x";
  tensor.shape = {Expression::Parse("n", {"n"}).value()};
  problem.inputs = {tensor};
  tensor.name = "y";
  problem.outputs = {tensor};
  problem.task.emplace();
  ProblemTarget target;
  target.check_shapes = {{{"n", 2}}, {{"n", 3}}};
  CHECK(SimulatedCases(problem, target)[0].not_compared ==
        "the values of the reference's calls are not known");
  PythonTask::Call call;
  call.axes = {{"n", 2}};
  call.inputs = {BytesOf(std::vector<float>{1, 2})};
  call.outputs = {BytesOf(std::vector<double>{2, 4})};
  call.tolerances = {Tolerance{.atol = 0, .rtol = 1e-3}};
  problem.task->calls = std::make_shared<const std::vector<PythonTask::Call>>(1, call);
  const std::vector<SimulatedCase> cases = SimulatedCases(problem, target);
  REQUIRE(cases.size() == 2);
  CHECK(cases[0].not_compared.empty());
  CHECK(cases[0].inputs == call.inputs);
  CHECK_FALSE(cases[1].not_compared.empty());
  const auto mismatches = [&](const std::vector<float>& got) {
    return CompareSimulated(cases[0], std::vector<std::string>{BytesOf(got)}).mismatches.size();
  };
  CHECK(mismatches({2, 4.001F}) == 0);
  CHECK(mismatches({2, 4.02F}) == 1);
}

TEST_CASE("What a workspace holds before the launches is no number") {
  const Problem problem = testing::ReadExampleProblem("row_softmax");
  const std::vector<double> expected = {0.25, 0.5, 0.25};
  SimulatedCase at = Expecting(problem, {{"rows", 1}, {"cols", 3}}, expected);
  SimulationPlan plan;
  plan.buffers.resize(at.inputs.size() + 2);
  plan.buffers.back().bytes = 9;
  SetContents(at, plan);
  float first = 0;
  REQUIRE(plan.buffers.back().content.size() == 9);
  std::memcpy(&first, plan.buffers.back().content.data(), sizeof(first));
  CHECK(std::isnan(first));
  // Where outputs are not compared, nothing is added.
  at.poison.clear();
  plan.buffers.back().content.clear();
  SetContents(at, plan);
  CHECK(plan.buffers.back().content.empty());
}

TEST_CASE("Outputs are wrong only where they are far off") {
  const Problem problem = testing::ReadExampleProblem("row_softmax");
  const std::vector<double> expected = {0.25, 0.5, 0.25};
  const SimulatedCase at = Expecting(problem, {{"rows", 1}, {"cols", 3}}, expected);
  const auto compare = [&](const std::vector<float>& got) {
    return CompareSimulated(at, std::vector<std::string>{BytesOf(got)});
  };
  const SimulatedComparison right = compare({0.25F, 0.5F, 0.25F});
  CHECK(right.mismatches.empty());
  CHECK(right.unknown.empty());

  // Beyond the tolerance of 5e-7 + 2e-5 times the value, but not by far.
  const SimulatedComparison close = compare({0.25F, 0.500011F, 0.25F});
  CHECK(close.mismatches.empty());
  CHECK(close.unknown == "output y disagrees by little at here");

  const SimulatedComparison wrong = compare({0.25F, 0.5F, 0.75F});
  REQUIRE(wrong.mismatches.size() == 1);
  CHECK(wrong.mismatches[0].finding.kind == FindingKind::kWrongValue);
  CHECK(wrong.mismatches[0].finding.count == 1);
  CHECK(wrong.mismatches[0].finding.detail ==
        "at here: y[2] is 0.75, expected 0.25; 1 of 3 elements disagree");
}

TEST_CASE("Elements that keep what was there before were not written") {
  const Problem problem = testing::ReadExampleProblem("row_softmax");
  const std::vector<double> expected = {0.25, 0.5, 0.25};
  const SimulatedCase at = Expecting(problem, {{"rows", 1}, {"cols", 3}}, expected);
  std::string got = BytesOf(std::vector<float>{0.25F, 0.5F, 0.25F});
  got.replace(4, 4, at.poison[0].substr(4, 4));
  const SimulatedComparison comparison = CompareSimulated(at, std::vector<std::string>{got});
  REQUIRE(comparison.mismatches.size() == 1);
  CHECK(comparison.mismatches[0].finding.kind == FindingKind::kNotWritten);
  CHECK(comparison.mismatches[0].finding.detail ==
        "at here: y[1] is not written; 1 of 3 elements disagree");
}

TEST_CASE("Whole numbers are exact where no real number decides about them") {
  const std::vector<int32_t> expected(100, 7);
  std::vector<int32_t> got = expected;
  got[60] = 8;
  const std::vector<std::string> outputs = {BytesOf(got)};
  const SimulatedCase counts =
      Expecting(testing::ReadExampleProblem("histogram"), {{"n", 700}, {"bins", 100}}, expected);
  CHECK(CompareSimulated(counts, outputs).mismatches.size() == 1);
  const SimulatedCase positions =
      Expecting(testing::ReadExampleProblem("argmax_rows"), {{"rows", 100}, {"cols", 9}}, expected);
  const SimulatedComparison comparison = CompareSimulated(positions, outputs);
  CHECK(comparison.mismatches.empty());
  CHECK_FALSE(comparison.unknown.empty());
}

}  // namespace
}  // namespace kernelcast::worker
