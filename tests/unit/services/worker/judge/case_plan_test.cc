#include "services/worker/judge/case_plan.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/described_task.h"

namespace kernelcast::worker::case_plan_test {
namespace {

// One input and one output of two axes; two check shapes and one bench shape.
Problem SumProblem() {
  Problem problem;
  problem.name = "sum";
  problem.axes = {{"n", 1, 64, 1}};
  TensorSpec x;
  x.name = "x";
  x.dtype = DataType::kFloat32;
  x.shape = {Expression::Parse("n", {"n"}).value()};
  x.adversarial = {Adversarial::kLarge};
  problem.inputs = {x};
  TensorSpec y = x;
  y.name = "y";
  y.adversarial.clear();
  problem.outputs = {y};
  ProblemTarget& target = problem.targets["cpu"];
  target.check_shapes = {{{"n", 3}}, {{"n", 5}}};
  target.bench_shapes = {{{"n", 100}}};
  return problem;
}

PlanRules Rules() {
  return {.target = "cpu",
          .alignment = 64,
          .guard_bytes = 1024,
          .task_cases = 5,
          .slots = [](const CasePlan::Case&) -> absl::StatusOr<int64_t> { return 4; }};
}

CasePlan Plan(const PlanRules& rules, const PythonTaskPrograms* task = nullptr) {
  SecretRandom random("shapes");
  auto plan = PlanCases(task != nullptr ? task->problem() : SumProblem(), task, MeasureOptions(),
                        rules, random);
  INFO(plan.status().ToString());
  REQUIRE(plan.ok());
  return *std::move(plan);
}

TEST_CASE("Each case has aligned places of its own with guards around its outputs") {
  const CasePlan plan = Plan(Rules());
  // Two check shapes with two distributions, six held-out ones, and the bench shape.
  CHECK(plan.check_cases.size() == 2 * 2 + 6 + 1);
  REQUIRE(plan.bench_shapes.size() == 1);
  CHECK(plan.bench_shapes[0].slots.size() == 4);
  REQUIRE(plan.cases.size() == plan.check_cases.size() + 4);
  uint64_t inputs_end = 0;
  uint64_t outputs_end = 0;
  for (const CasePlan::Case& at : plan.cases) {
    CHECK(at.inputs[0].offset >= inputs_end);
    CHECK(at.outputs[0].offset >= outputs_end + 1024);
    CHECK(at.inputs[0].offset % 64 == 0);
    CHECK(at.outputs[0].offset % 64 == 0);
    inputs_end = at.inputs[0].offset + at.inputs[0].bytes;
    outputs_end = at.outputs[0].offset + at.outputs[0].bytes + 1024;
  }
  CHECK(plan.inputs_bytes >= inputs_end);
  CHECK(plan.outputs_bytes >= outputs_end);
  CHECK(plan.cases[plan.LargestCheck().index].spec.axes == AxisValues{{"n", 100}});
}

TEST_CASE("Correctness cases that run one by one share the memory of their outputs") {
  PlanRules rules = Rules();
  rules.shares_outputs = true;
  const CasePlan plan = Plan(rules);
  uint64_t checks_end = 0;
  for (const CasePlan::CheckCase& check : plan.check_cases) {
    const CasePlan::Place& output = plan.cases[check.index].outputs[0];
    CHECK(output.offset == 1024);
    checks_end = std::max(checks_end, output.offset + output.bytes + 1024);
  }
  for (const size_t slot : plan.bench_shapes[0].slots) {
    CHECK(plan.cases[slot].outputs[0].offset >= checks_end + 1024);
  }
}

TEST_CASE("Values are drawn once for each check and for each bank of a slot, altered ones last") {
  const CasePlan plan = Plan(Rules());
  std::vector<std::pair<size_t, CasePlan::Bank>> drawn;
  REQUIRE(plan.ForEachDraw([&](size_t index, CasePlan::Bank bank) {
                drawn.emplace_back(index, bank);
                return absl::OkStatus();
              })
              .ok());
  const std::set distinct(drawn.begin(), drawn.end());
  CHECK(distinct.size() == drawn.size());
  CHECK(drawn.size() == plan.check_cases.size() + 3 * 4);
  const std::pair<size_t, CasePlan::Bank> last{plan.cases.size() - 1, CasePlan::kAltered};
  CHECK(drawn.back() == last);
  const absl::Status stopped =
      plan.ForEachDraw([](size_t, CasePlan::Bank) { return absl::CancelledError("stopped"); });
  CHECK(absl::IsCancelled(stopped));
}

TEST_CASE("A task's plan that saves memory checks the first slot, never on the other bank") {
  const auto task = testing::DescribedTask("[8, 2]", "float32", "float32");
  INFO(task.status().ToString());
  REQUIRE(task.ok());
  CHECK(Plan(Rules(), &*task).check_cases.size() == 5);
  PlanRules rules = Rules();
  rules.saves_memory = true;
  const CasePlan plan = Plan(rules, &*task);
  REQUIRE(plan.check_cases.size() == 2);
  for (const size_t i : {0, 1}) {
    CHECK(plan.check_cases[i].index == plan.bench_shapes[0].slots[0]);
    CHECK(plan.check_cases[i].shape == 0);
    CHECK(plan.check_cases[i].bank == (i == 0 ? CasePlan::kBase : CasePlan::kAltered));
  }
}

TEST_CASE("A problem without a reference for the target has no plan") {
  PlanRules rules = Rules();
  rules.target = "cuda";
  SecretRandom random("shapes");
  const Problem problem = SumProblem();
  CHECK(absl::IsFailedPrecondition(
      PlanCases(problem, nullptr, MeasureOptions(), rules, random).status()));
}

}  // namespace
}  // namespace kernelcast::worker::case_plan_test
