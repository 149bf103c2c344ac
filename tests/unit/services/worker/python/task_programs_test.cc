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

TEST_CASE("A description may have the values of small calls") {
  const Problem problem = ParseProblem({{"definition.json",
                                         R"({"name": "twice", "axes": {"n": {"type": "var"}},
                         "inputs": {"x": {"shape": ["n"], "dtype": "float16"}},
                         "outputs": {"y": {"shape": ["n"], "dtype": "float16"}},
                         "reference": "def run(x):\n    return 2 * x\n"})"},
                                        {"workload.jsonl", R"({"axes": {"n": 2}, "inputs": {}})"}})
                              .value();
  const auto calls_of = [&](const std::string& calls) {
    const auto read = PythonTaskPrograms::Read(
        problem, absl::StrCat(R"({"cases": [{"case": {}, "inputs": [{"name": "x",
                                  "dtype": "float16", "shape": [2]}],
                                  "outputs": [{"name": "y", "dtype": "float16", "shape": [2]}]}],
                                  "calls": )",
                              calls, "}"));
    REQUIRE(read.ok());
    return read->launches().problem.task->calls;
  };
  const std::string outputs = R"("outputs": ["AAAAAAAA8D8AAAAAAAAAQA=="])";
  const auto calls = calls_of(R"([{"case": 0, "inputs": ["ADgAPA=="], )" + outputs + "}]");
  REQUIRE(calls != nullptr);
  REQUIRE(calls->size() == 1);
  CHECK(calls->front().axes.at("n") == 2);
  CHECK(calls->front().axes.at("x_shape_0") == 2);
  CHECK(calls->front().inputs == std::vector<std::string>{std::string("\0\x38\0\x3c", 4)});
  CHECK(calls->front().outputs[0].size() == 16);
  CHECK(calls->front().tolerances[0].atol == 1e-2);
  // The process that describes runs the task's code.
  CHECK(calls_of("7") == nullptr);
  CHECK(calls_of(R"([{"case": 1, "inputs": ["ADgAPA=="], )" + outputs + "}]") == nullptr);
  CHECK(calls_of(R"([{"case": 0, "inputs": ["ADgA"], )" + outputs + "}]") == nullptr);
  CHECK(calls_of(R"([{"case": 0, "inputs": [], )" + outputs + "}]") == nullptr);
}

}  // namespace
}  // namespace kernelcast::worker
