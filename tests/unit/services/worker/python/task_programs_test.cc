#include "services/worker/python/task_programs.h"

#include <catch2/catch.hpp>

#include "tests/support/described_task.h"

namespace kernelcast::worker {
namespace {

TEST_CASE("The tensors of a task have a bounded number of elements") {
  const auto most = testing::DescribedTask("[131072, 65536]", "float16", "float16");
  REQUIRE(most.ok());
  CHECK(most->MostCallBytes() == uint64_t{4} << 33);
  const auto more = testing::DescribedTask("[131072, 65537]", "float16", "float16");
  CHECK(absl::IsFailedPrecondition(more.status()));
  CHECK(more.status().message() ==
        "the task has input0 of shape [131072,65537]; tensors have 1 to 8589934592 elements");
  CHECK_FALSE(testing::DescribedTask("[0]", "float16", "float16").ok());
}

}  // namespace
}  // namespace kernelcast::worker
