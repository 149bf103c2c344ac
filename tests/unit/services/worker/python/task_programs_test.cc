#include "services/worker/python/task_programs.h"

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"

namespace kernelcast::worker {
namespace {

// A task with one input and one output of this shape.
absl::StatusOr<PythonTaskPrograms> Read(const std::string& shape) {
  const auto problem = ParseProblem({{"task.py",
                                      "class Model(nn.Module):\n    pass\n"
                                      "def get_inputs():\n    pass\n"
                                      "def get_init_inputs():\n    pass\n"}});
  INFO(problem.status().ToString());
  REQUIRE(problem.ok());
  const std::string tensor = absl::StrCat(R"([{"dtype": "float16", "shape": )", shape, "}]");
  return PythonTaskPrograms::Read(
      *problem, absl::StrCat(R"({"cases": [{"case": {}, "written": [], "single": true, "inputs": )",
                             tensor, R"(, "outputs": )", tensor, "}]}"));
}

TEST_CASE("The tensors of a task have a bounded number of elements") {
  const auto most = Read("[131072, 65536]");
  REQUIRE(most.ok());
  CHECK(most->MostCallBytes() == uint64_t{4} << 33);
  const auto more = Read("[131072, 65537]");
  CHECK(absl::IsFailedPrecondition(more.status()));
  CHECK(more.status().message() ==
        "the task has input0 of shape [131072,65537]; tensors have 1 to 8589934592 elements");
  CHECK_FALSE(Read("[0]").ok());
}

}  // namespace
}  // namespace kernelcast::worker
