#include "common/domain/held_out_problem.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/common/domain/problem_files.h"

namespace kernelcast {
namespace {

std::string WithPart(std::string text, const std::string& part, const std::string& with) {
  const size_t at = text.find(part);
  REQUIRE(at != std::string::npos);
  return text.replace(at, part.size(), with);
}

Problem ProblemWith(std::map<std::string, std::string> files, const std::string& part = "",
                    const std::string& with = "") {
  if (!part.empty()) files["problem.yaml"] = WithPart(files["problem.yaml"], part, with);
  absl::StatusOr<Problem> problem = ParseProblem(AsFiles(files));
  INFO(problem.status().ToString());
  REQUIRE(problem.ok());
  return *std::move(problem);
}

constexpr const char* kDeclared =
    "held_out_bench_shapes:\n  - {rows: 192, cols: 1000}\n  - {rows: 300, cols: 1500}\nflops:";

TEST_CASE("The held-out problem is timed at the declared shapes and differs in nothing else") {
  const Problem problem = ProblemWith(SmallProblem(), "flops:", kDeclared);
  CHECK(problem.bench_shapes == std::vector<AxisValues>{{{"cols", 1024}, {"rows", 256}}});
  const std::optional<Problem> held_out = HeldOutProblem(problem, "cpu", "s1");
  REQUIRE(held_out);
  CHECK(held_out->problem_id != problem.problem_id);
  const ProblemTarget& target = held_out->targets.at("cpu");
  CHECK(target.bench_shapes ==
        std::vector<AxisValues>{{{"cols", 1000}, {"rows", 192}}, {{"cols", 1500}, {"rows", 300}}});
  CHECK(target.check_shapes == problem.check_shapes);
  CHECK(target.reference.source == problem.targets.at("cpu").reference.source);
  CHECK(target.reference.flags == problem.targets.at("cpu").reference.flags);
  CHECK(target.space->templates.size() == 2);
  CHECK(held_out->name == problem.name);
  CHECK(held_out->description == problem.description);
  CHECK(held_out->inputs.size() == problem.inputs.size());
  CHECK(held_out->outputs[0].tolerance.atol == problem.outputs[0].tolerance.atol);
  CHECK(held_out->flops->text() == problem.flops->text());
  // It does not depend on the seed, and has no held-out shapes of its own.
  CHECK(HeldOutProblem(problem, "cpu", "s2")->problem_id == held_out->problem_id);
  CHECK_FALSE(HeldOutProblem(*held_out, "cpu", "s1"));
  CHECK_FALSE(HeldOutProblem(problem, "cuda", "s1"));
}

TEST_CASE("Held-out bench shapes have weights, and drawn ones that of their bench shape") {
  std::map<std::string, std::string> files = SmallProblem();
  files["problem.yaml"] =
      WithPart(files["problem.yaml"], "rows: {held_out: [1, 40]}", "rows: {held_out: [1, 400]}");
  files["problem.yaml"] =
      WithPart(files["problem.yaml"], "  - {rows: 256, cols: 1024}\n",
               "  - {rows: 256, cols: 1024, weight: 0.25}\n  - {rows: 16, cols: 128, weight: 8}\n");
  const Problem drawn_from = ProblemWith(files);
  const ProblemTarget drawn = HeldOutProblem(drawn_from, "cpu", "s1")->targets.at("cpu");
  REQUIRE(drawn.bench_weights.size() == drawn.bench_shapes.size());
  for (size_t i = 0; i < drawn.bench_shapes.size(); ++i) {
    CHECK(drawn.bench_weights[i] == (drawn.bench_shapes[i].at("cols") == 1024 ? 0.25 : 8));
  }
  const Problem declared = ProblemWith(files, "flops:",
                                       "held_out_bench_shapes:\n  - {rows: 192, cols: 1000, "
                                       "weight: 3}\n  - {rows: 300, cols: 1500}\nflops:");
  CHECK(BenchWeights(HeldOutProblem(declared, "cpu", "")->targets.at("cpu")) ==
        std::vector<double>{0.75, 0.25});
}

TEST_CASE("A target's own held-out shapes replace the problem's") {
  std::map<std::string, std::string> files = SmallProblem();
  files["problem.yaml"] =
      WithPart(files["problem.yaml"], "    flags: [-O2]\n",
               "    flags: [-O2]\n    held_out_bench_shapes: [{rows: 100, cols: 512}]\n");
  const Problem problem = ProblemWith(files, "flops:", kDeclared);
  CHECK(HeldOutProblem(problem, "cpu", "")->targets.at("cpu").bench_shapes ==
        std::vector<AxisValues>{{{"cols", 512}, {"rows", 100}}});
}

TEST_CASE("Held-out bench shapes must be legal and differ from the bench shapes") {
  const auto error = [](const std::string& shapes) {
    std::map<std::string, std::string> files = SmallProblem();
    files["problem.yaml"] = WithPart(files["problem.yaml"],
                                     "flops:", "held_out_bench_shapes: [" + shapes + "]\nflops:");
    return std::string(ParseProblem(AsFiles(files)).status().message());
  };
  CHECK_THAT(error("{rows: 256, cols: 1024}"),
             Catch::Contains("held_out_bench_shapes[0]: cols=1024, rows=256 is a bench shape"));
  CHECK_THAT(error("{rows: 256, cols: 1023}"), Catch::Contains("is not a multiple of 4"));
  CHECK_THAT(error("{rows: 256}"), Catch::Contains("held_out_bench_shapes[0]"));
  CHECK_THAT(error(""), Catch::Contains("held_out_bench_shapes"));
}

TEST_CASE("Shapes are drawn near the bench shape where the axes' ranges allow it") {
  // rows may be from 1 to 400, and cols is outside its range.
  const Problem problem =
      ProblemWith(SmallProblem(), "rows: {held_out: [1, 40]}", "rows: {held_out: [1, 400]}");
  std::set<std::string> ids;
  for (const char* seed : {"s1", "s2", "s3", "s4"}) {
    const std::optional<Problem> held_out = HeldOutProblem(problem, "cpu", seed);
    REQUIRE(held_out);
    CHECK(HeldOutProblem(problem, "cpu", seed)->problem_id == held_out->problem_id);
    ids.insert(held_out->problem_id);
    std::vector<AxisValues> shapes = held_out->targets.at("cpu").bench_shapes;
    CHECK(shapes.size() == kDrawnHeldOutShapes);
    for (const AxisValues& shape : shapes) {
      CHECK(shape.at("cols") == 1024);
      CHECK(shape.at("rows") != 256);
      CHECK(shape.at("rows") >= 128);
      CHECK(shape.at("rows") <= 400);
    }
    std::ranges::sort(shapes);
    CHECK(std::ranges::adjacent_find(shapes) == shapes.end());
  }
  CHECK(ids.size() == 4);
}

TEST_CASE("Drawn sizes are multiples of what the axis demands") {
  const Problem problem = ProblemWith(SmallProblem(), "cols: {held_out: [3, 30], multiple_of: 4}",
                                      "cols: {held_out: [3, 1040], multiple_of: 4}");
  const std::optional<Problem> held_out = HeldOutProblem(problem, "cpu", "s1");
  REQUIRE(held_out);
  for (const AxisValues& shape : held_out->targets.at("cpu").bench_shapes) {
    CHECK(shape.at("cols") % 4 == 0);
    CHECK(shape.at("cols") >= 512);
    CHECK(shape.at("cols") <= 1040);
  }
}

TEST_CASE("Without a seed no shape is drawn") {
  const Problem problem =
      ProblemWith(SmallProblem(), "rows: {held_out: [1, 40]}", "rows: {held_out: [1, 400]}");
  CHECK(HeldOutProblem(problem, "cpu", "s1"));
  CHECK_FALSE(HeldOutProblem(problem, "cpu", ""));
}

TEST_CASE("No shape is drawn where every bench size is outside its range") {
  CHECK_FALSE(HeldOutProblem(ProblemWith(SmallProblem()), "cpu", "s1"));
}

// A flashinfer-bench task with the axes m and n, of which a workload has 64 and 100.
struct Task {
  std::string axes =
      R"("m": {"type": "var"}, "n": {"type": "var"}, "k": {"type": "const", "value": 4})";
  std::string constraints = "[]";
  std::string dtype = "float32";
  std::string sizes = R"("m": 64, "n": 100)";
  std::string input = R"({"type": "random"})";

  Problem Parse() const {
    const std::string definition = R"({"name": "twice", "axes": {)" + axes +
                                   R"(}, "constraints": )" + constraints +
                                   R"(, "inputs": {"x": {"shape": ["m", "n", "k"], "dtype": ")" +
                                   dtype + R"("}, "scale": {"shape": null, "dtype": "float32"}},
  "outputs": {"y": {"shape": ["m", "n", "k"], "dtype": "float32"}},
  "reference": "def run(x, scale):\n    return scale * x\n"})";
    const std::string workload = R"({"axes": {)" + sizes + R"(}, "inputs": {"x": )" + input +
                                 R"(, "scale": {"type": "scalar", "value": 0.5}}})" + "\n";
    absl::StatusOr<Problem> problem =
        ParseProblem({{"twice.json", definition}, {"twice.jsonl", workload}});
    INFO(problem.status().ToString());
    REQUIRE(problem.ok());
    return *std::move(problem);
  }
};

TEST_CASE("Workloads of a flashinfer-bench task are drawn between half and twice their sizes") {
  const Problem problem = Task().Parse();
  std::set<std::string> ids;
  for (const char* seed : {"s1", "s2", "s3", "s4"}) {
    const std::optional<Problem> held_out = HeldOutProblem(problem, "cuda", seed);
    REQUIRE(held_out);
    CHECK(HeldOutProblem(problem, "cuda", seed)->problem_id == held_out->problem_id);
    ids.insert(held_out->problem_id);
    CHECK(held_out->task->source == problem.task->source);
    CHECK_THAT(held_out->task->details, Catch::Contains(R"("value":0.5)"));
    const ProblemTarget& target = held_out->targets.at("cuda");
    CHECK(target.bench_shapes.size() == kDrawnHeldOutShapes);
    CHECK(target.check_shapes == target.bench_shapes);
    for (const AxisValues& shape : target.bench_shapes) {
      CHECK(shape.size() == 2);
      CHECK(shape != problem.bench_shapes.front());
      CHECK((shape.at("m") >= 32 && shape.at("m") <= 128));
      CHECK((shape.at("n") >= 50 && shape.at("n") <= 200));
    }
  }
  CHECK(ids.size() == 4);
  CHECK_FALSE(HeldOutProblem(problem, "cuda", ""));
}

TEST_CASE("Drawn workloads satisfy the constraints of the definition") {
  Task task;
  task.constraints = R"(["n == m + 36", "m >= 60", "k == 4"])";
  const std::optional<Problem> held_out = HeldOutProblem(task.Parse(), "cpu", "s1");
  REQUIRE(held_out);
  for (const AxisValues& shape : held_out->targets.at("cpu").bench_shapes) {
    CHECK(shape.at("n") == shape.at("m") + 36);
    CHECK(shape.at("m") >= 60);
  }
  // One axis may define the next, in any order.
  task.axes += R"(, "p": {"type": "var"})";
  task.sizes += R"(, "p": 200)";
  task.constraints = R"(["p == 2 * n", "n == m + 36"])";
  const std::optional<Problem> chained = HeldOutProblem(task.Parse(), "cpu", "s1");
  REQUIRE(chained);
  for (const AxisValues& shape : chained->targets.at("cpu").bench_shapes) {
    CHECK(shape.at("p") == 2 * (shape.at("m") + 36));
  }
}

TEST_CASE("No workload is drawn where its sizes or values may be illegal") {
  const auto drawn = [](const Task& task) {
    return HeldOutProblem(task.Parse(), "cpu", "s1").has_value();
  };
  REQUIRE(drawn({}));
  for (const char* constraints :
       {R"(["n == x.shape[0]"])", R"(["m % 8 == 0"])", R"(["m // 2 == 32"])", R"(["m ** 2 > 0"])",
        R"(["1 <= m <= 100"])", R"(["m ^ 1 == 65"])", R"([7])", R"({"m": 1})",
        // These do not hold in the task's own workload, or never.
        R"(["n == m + 1"])", R"(["m == n", "n == m + 1"])", R"(["m > 1e9"])"}) {
    CAPTURE(constraints);
    Task task;
    task.constraints = constraints;
    CHECK_FALSE(drawn(task));
  }
  // Values that may depend on the sizes.
  Task indices;
  indices.dtype = "int32";
  CHECK_FALSE(drawn(indices));
  Task scalar;
  scalar.input = R"({"type": "scalar", "value": 7})";
  CHECK_FALSE(drawn(scalar));
  Task constant;
  constant.axes = R"("m": {"type": "const", "value": 64}, "n": {"type": "const", "value": 100},
                     "k": {"type": "const", "value": 4})";
  CHECK_FALSE(drawn(constant));
}

}  // namespace
}  // namespace kernelcast
