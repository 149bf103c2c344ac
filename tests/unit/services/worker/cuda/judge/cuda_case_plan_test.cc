#include "services/worker/cuda/judge/cuda_case_plan.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/support/described_task.h"

namespace kernelcast::worker {
namespace {

constexpr int64_t kElements = int64_t{1} << 31;
constexpr double kTensorBytes = 4.0 * kElements;

// One input and one output of 2^31 elements, of float32 and float16.
PythonTaskPrograms LargeTask() {
  auto task =
      testing::DescribedTask(absl::StrCat("[", kElements / 2, ", 2]"), "float32", "float16");
  INFO(task.status().ToString());
  REQUIRE(task.ok());
  return *std::move(task);
}

CudaCasePlan Plan(const PythonTaskPrograms& task, double device_bytes) {
  SecretRandom random("shapes");
  auto plan = PlanCudaCases(task.problem(), &task, CudaMeasureOptions(),
                            static_cast<uint64_t>(device_bytes), random);
  REQUIRE(plan.ok());
  return *std::move(plan);
}

TEST_CASE("A task's checks have values of their own where the device has room for them") {
  const PythonTaskPrograms task = LargeTask();
  // Five checks and a bench shape, whose inputs are kept four times, whose outputs are held for
  // both sides, and whose expected outputs, as float32, are kept three times. The processes of both
  // sides have an input and an output each.
  const double bytes = (5 + 4 + 2) * kTensorBytes + (6 + 1) * kTensorBytes + (5 + 3) * kTensorBytes;
  const CudaCasePlan plan = Plan(task, 2 * bytes);
  CHECK(plan.MemoryBytes(task.problem()) == bytes);
  CHECK_FALSE(plan.saves_memory);
  CHECK(plan.check_cases.size() == 5);
  CHECK(plan.cases.size() == 6);
  for (const CasePlan::CheckCase& check : plan.check_cases) CHECK_FALSE(check.shape);
}

TEST_CASE("A task's checks share the memory of the bench shape where they need half the device") {
  const PythonTaskPrograms task = LargeTask();
  const CudaCasePlan plan = Plan(task, 49 * kTensorBytes);
  CHECK(plan.saves_memory);
  CHECK(plan.MemoryBytes(task.problem()) ==
        (4 + 2) * kTensorBytes + (1 + 1) * kTensorBytes + 3 * kTensorBytes);
  REQUIRE(plan.cases.size() == 1);
  CHECK(plan.inputs_bytes == static_cast<uint64_t>(kTensorBytes));
  REQUIRE(plan.check_cases.size() == 2);
  for (const size_t i : {CasePlan::kBase, CasePlan::kAltered}) {
    CHECK(plan.check_cases[i].index == 0);
    CHECK(plan.check_cases[i].shape == 0);
    CHECK(plan.check_cases[i].bank == i);
  }
}

TEST_CASE("A task draws altered inputs as a whole where the device has room for them") {
  const PythonTaskPrograms task = LargeTask();
  CHECK(Plan(task, 49 * kTensorBytes).draws_altered);
  const CudaCasePlan small = Plan(task, 10.5 * kTensorBytes);
  CHECK_FALSE(small.draws_altered);
  CHECK(small.MemoryBytes(task.problem()) == 10 * kTensorBytes);
}

}  // namespace
}  // namespace kernelcast::worker
