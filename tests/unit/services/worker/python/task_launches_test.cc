#include "services/worker/python/task_launches.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "services/worker/core/launch_plan.h"
#include "services/worker/python/task_programs.h"

namespace kernelcast::worker {
namespace {

using Kind = TaskLaunches::Tensor::Kind;

absl::StatusOr<PythonTaskPrograms> Read(const std::string& described) {
  const Problem problem = ParseProblem({{"task.py",
                                         "class Model(nn.Module):\n    pass\n"
                                         "def get_inputs():\n    pass\n"
                                         "def get_init_inputs():\n    pass\n"}})
                              .value();
  return PythonTaskPrograms::Read(problem, described);
}

std::vector<std::string> NamesOf(const std::vector<TensorSpec>& tensors) {
  std::vector<std::string> names;
  for (const TensorSpec& tensor : tensors) names.push_back(tensor.name);
  return names;
}

constexpr const char* kDescribed = R"({
  "cases": [{
    "case": {}, "written": [1], "single": true,
    "inputs": [
      {"dtype": "float16", "shape": [4, 6], "strides": [1, 4], "name": "x"},
      {"name": "data", "tuple": [
        {"dtype": "float32", "shape": [3]},
        {"dict": [["q", {"dtype": "int64", "shape": []}], [7, {"value": 5}]]},
        {"value": true}, {"value": 0.5}, {"value": "text"}, {"value": null}]},
      {"value": 12, "name": "n"}],
    "outputs": [{"dtype": "float32", "shape": [4]}]}],
  "weights": [
    {"name": "linear.weight", "dtype": "float32", "shape": [5, 3]},
    {"name": "strange", "dtype": "complex64", "shape": [5]},
    {"name": "seen", "dtype": "int64", "shape": []}]})";

TEST_CASE("Launches of a task name its tensors, weights and sizes as PyTorch does") {
  const auto task = Read(kDescribed);
  INFO(task.status().ToString());
  REQUIRE(task.ok());
  const TaskLaunches& launches = task->launches();
  CHECK(NamesOf(launches.problem.inputs) ==
        std::vector<std::string>{"x", "data_0", "data_1_q", "model_linear_weight", "model_seen"});
  CHECK(NamesOf(launches.problem.outputs) == std::vector<std::string>{"output0"});
  CHECK(launches.tensors[3].kind == Kind::kWeight);
  CHECK(launches.tensors[5].kind == Kind::kOutput);
  CHECK(task->cases()[0].written == std::vector<size_t>{1});
  const AxisValues& sizes = launches.sizes.at(0);
  for (const auto& [name, value] : AxisValues{{"x_shape_0", 4},
                                              {"x_shape_1", 6},
                                              {"x_stride_0", 1},
                                              {"x_stride_1", 4},
                                              {"x_numel", 24},
                                              {"data_0_shape_0", 3},
                                              {"data_1_q_numel", 1},
                                              {"data_1_7", 5},
                                              {"data_2", 1},
                                              {"n", 12},
                                              {"model_linear_weight_shape_0", 5},
                                              {"model_linear_weight_shape_1", 3},
                                              {"output0_shape_0", 4}}) {
    INFO(name);
    CHECK(sizes.contains(name));
    if (sizes.contains(name)) CHECK(sizes.at(name) == value);
  }
  CHECK_FALSE(sizes.contains("data_0_stride_0"));
  CHECK_FALSE(sizes.contains("data_3"));
  // Weights begin at multiples of 512 bytes. What device code cannot have is left out.
  REQUIRE(task->weights().size() == 2);
  CHECK(task->weights()[1].offset == 512);
  CHECK(task->weights_bytes() == 1024);
}

TEST_CASE("Launches of a task have plans at its cases, and errors list what they may name") {
  const auto task = Read(kDescribed);
  REQUIRE(task.ok());
  const Problem& problem = task->launches().problem;
  const ProblemTarget& target = problem.targets.at("cuda");
  REQUIRE(ShapesToPlan(problem, target).size() == 2);
  Launch launch{.kernel = "k",
                .grid = {"ceildiv(x_shape_0 * n, 8)"},
                .block = {"32"},
                .shared_memory_bytes = "",
                .arguments = {"x", "model_linear_weight", "output0", "x_numel", "data_2:int"},
                .cluster = {}};
  CHECK(CheckPlans(problem, target, {launch}, "", {}).ok());
  const auto plan = PlanLaunches(problem, {launch}, "", {}, target.bench_shapes.front());
  REQUIRE(plan.ok());
  CHECK(plan->launches[0].grid[0] == 6);
  CHECK(plan->launches[0].arguments[1].tensor == 3);
  CHECK(plan->launches[0].arguments[2].tensor == 5);
  launch.arguments = {"y"};
  const absl::Status unknown = CheckPlans(problem, target, {launch}, "", {});
  CHECK_THAT(std::string(unknown.message()),
             Catch::Contains("'y' is not one of x, data_0, data_1_q, model_linear_weight") &&
                 Catch::Contains("output0") && Catch::Contains("x_shape_0"));
}

std::string CaseOf(const std::string& shape, const std::string& dtype, const std::string& more) {
  return R"({"case": {}, "written": [], "single": true, "inputs": [
    {"dtype": "float32", "shape": )" +
         shape + R"(, "name": "x"}, {"dtype": ")" + dtype + R"(", "shape": [2], "name": "y"})" +
         more + R"(], "outputs": [{"dtype": "float32", "shape": )" + shape + "}]}";
}

TEST_CASE("Launches of a task may only name what all of its cases have") {
  Problem problem = ParseProblem({{"task.yml",
                                   "files:\n  - {name: reference.py, source: reference.py}\n"
                                   "tests:\n  - {size: 8, seed: 1}\nbenchmarks:\n"
                                   "  - {size: 64, seed: 1}\n"},
                                  {"reference.py",
                                   "def generate_input(size, seed):\n    pass\n"
                                   "def ref_kernel(data):\n    pass\n"
                                   "def check_implementation(data, output):\n    pass\n"}})
                        .value();
  const auto task = PythonTaskPrograms::Read(
      problem, R"({"cases": [)" + CaseOf("[8]", "float32", "") + "," +
                   CaseOf("[8, 8]", "float16", R"(, {"value": 3, "name": "n"})") + "]}");
  INFO(task.status().ToString());
  REQUIRE(task.ok());
  const TaskLaunches& launches = task->launches();
  CHECK(NamesOf(launches.problem.inputs) == std::vector<std::string>{"x"});
  CHECK(launches.sizes[1].at("x_numel") == 64);
  CHECK(launches.sizes[1].at("size") == 64);
  CHECK(launches.sizes[1].contains("x_shape_0"));
  CHECK_FALSE(launches.sizes[1].contains("x_shape_1"));
  CHECK_FALSE(launches.sizes[1].contains("n"));
  // Its axes have the listed values only.
  CHECK(std::ranges::all_of(launches.problem.axes, [](const Axis& axis) {
    return axis.held_out_high < axis.held_out_low;
  }));
}

TEST_CASE("A damaged description of what a reference changes is refused") {
  std::string described = kDescribed;
  described.replace(described.find("\"written\": [1]"), 14, "\"written\": [9]");
  CHECK(absl::IsFailedPrecondition(Read(described).status()));
}

}  // namespace
}  // namespace kernelcast::worker
