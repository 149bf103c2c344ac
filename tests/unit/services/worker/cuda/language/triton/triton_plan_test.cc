#include "services/worker/cuda/language/triton/triton_plan.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "services/worker/core/launch_plan.h"

namespace kernelcast::worker {
namespace {

Problem MakeProblem() {
  Problem problem;
  problem.problem_id = "p_0";
  problem.axes = {{.name = "rows", .held_out_low = 1, .held_out_high = 40},
                  {.name = "cols", .held_out_low = 1, .held_out_high = 600},
                  {.name = "wide", .held_out_low = 64, .held_out_high = 640, .multiple_of = 64}};
  TensorSpec x;
  x.name = "x";
  x.dtype = DataType::kBfloat16;
  problem.inputs = {x};
  TensorSpec y;
  y.name = "y";
  problem.outputs = {y};
  ProblemTarget target;
  target.check_shapes = {{{"rows", 3}, {"cols", 5}, {"wide", 64}}};
  target.bench_shapes = {{{"rows", 8192}, {"cols", 4096}, {"wide", 128}}};
  problem.targets.emplace("cuda", target);
  return problem;
}

Candidate MakeCandidate(std::vector<std::string> arguments,
                        std::vector<Constexpr> constexprs = {}) {
  Candidate candidate;
  candidate.kind = CandidateKind::kDeviceTriton;
  Launch& launch = candidate.launches.emplace_back();
  launch.kernel = "k";
  launch.grid = {"rows"};
  launch.arguments = std::move(arguments);
  launch.constexprs = std::move(constexprs);
  return candidate;
}

absl::StatusOr<TritonPlan> Plan(const Candidate& candidate) {
  const Problem problem = MakeProblem();
  return PlanTriton(problem, problem.targets.at("cuda"), candidate);
}

TEST_CASE("Tensors are typed addresses of multiples of 16, axes 32-bit integers", "[unit]") {
  const auto plan = Plan(MakeCandidate({"x", "y", "wide", "rows*cols:int64", "0.5:float"}));
  REQUIRE(plan.ok());
  const std::vector<TritonParameter>& parameters = plan->variants.front().parameters;
  REQUIRE(parameters.size() == 5);
  CHECK(parameters[0] == TritonParameter{"*bf16", true, false});
  CHECK(parameters[1] == TritonParameter{"*fp32", true, false});
  CHECK(parameters[2] == TritonParameter{"i32", true, false});  // a multiple of 64
  CHECK(parameters[3] == TritonParameter{"i64", true, false});  // at the bench shape
  CHECK(parameters[4] == TritonParameter{"fp32", false, false});
  CHECK(plan->launches.front().arguments ==
        std::vector<std::string>{"x", "y", "wide:int32", "rows*cols:int64", "0.5:float"});
}

TEST_CASE("What is a multiple of 16 at bench shapes only has a variant without it", "[unit]") {
  const auto plan = Plan(MakeCandidate({"x", "y", "cols"}));
  REQUIRE(plan.ok());
  REQUIRE(plan->variants.size() == 2);
  CHECK(plan->variants[0].parameters[2].divisible_by_16);
  CHECK(!plan->variants[1].parameters[2].divisible_by_16);
  CHECK(plan->launches[0].when == "mod(cols,16)==0");
  CHECK(plan->launches[1].when == "(mod(cols,16)==0)==0");

  // At each shape exactly one of them is launched.
  const auto launches = ResolveLaunches(*plan, {{"a", 128, 0, 5}, {"b", 128, 64, 5}});
  REQUIRE(launches.ok());
  for (const auto& [cols, kernel] : {std::pair(4096, "a"), std::pair(5, "b"), std::pair(16, "a")}) {
    const auto made =
        PlanLaunches(MakeProblem(), *launches, "", {}, {{"rows", 3}, {"cols", cols}, {"wide", 64}});
    REQUIRE(made.ok());
    REQUIRE(made->launches.size() == 1);
    CHECK(made->launches[0].kernel == kernel);
    CHECK(made->launches[0].arguments.size() == 5);
  }
}

TEST_CASE("Integers that are always 1 disappear", "[unit]") {
  const auto plan = Plan(MakeCandidate({"x", "1:int", "16:int", "7:int64"}));
  REQUIRE(plan.ok());
  REQUIRE(plan->variants.size() == 1);
  const std::vector<TritonParameter>& parameters = plan->variants[0].parameters;
  CHECK(parameters[1] == TritonParameter{"i32", false, true});
  CHECK(parameters[2] == TritonParameter{"i32", true, false});
  CHECK(parameters[3] == TritonParameter{"i64", false, false});
  CHECK(plan->launches[0].arguments == std::vector<std::string>{"x", "16:int", "7:int64"});
  CHECK(plan->launches[0].when.empty());
}

TEST_CASE("Constants are integers, real numbers, truth values, types and texts", "[unit]") {
  Candidate candidate = MakeCandidate({"x"}, {{"A", "2*T"},
                                              {"B", "0.5"},
                                              {"C", "true"},
                                              {"D", "tl.float16"},
                                              {"E", "'relu'"},
                                              {"F", "none"},
                                              {"G", "1.0"}});
  candidate.tunables = {{"T", "64"}};
  const auto plan = Plan(candidate);
  REQUIRE(plan.ok());
  using Kind = TritonConstant::Kind;
  CHECK(plan->variants[0].constants == std::vector<TritonConstant>{{"A", Kind::kInteger, "128"},
                                                                   {"B", Kind::kReal, "0.5"},
                                                                   {"C", Kind::kBoolean, "true"},
                                                                   {"D", Kind::kType, "float16"},
                                                                   {"E", Kind::kText, "relu"},
                                                                   {"F", Kind::kNone, ""},
                                                                   {"G", Kind::kReal, "1.0"}});
}

TEST_CASE("A constant may depend on one axis, over all its values", "[unit]") {
  const auto plan = Plan(MakeCandidate({"x", "y", "rows"}, {{"BLOCK", "next_power_of_2(cols)"}}));
  REQUIRE(plan.ok());
  // 1, 2, ... 1024 for held-out shapes, and 4096 at the bench shape, where rows is a multiple
  // of 16.
  CHECK(plan->launches.size() == 13);
  CHECK(plan->launches[0].when == "(next_power_of_2(cols))==1");
  const std::vector<TritonKernelFacts> compiled(plan->variants.size(), {"k", 128, 0, 5});
  const auto launches = ResolveLaunches(*plan, compiled);
  REQUIRE(launches.ok());
  for (const int64_t cols : {1, 2, 3, 513, 600, 4096}) {
    INFO(cols);
    const auto made =
        PlanLaunches(MakeProblem(), *launches, "", {}, {{"rows", 7}, {"cols", cols}, {"wide", 64}});
    REQUIRE(made.ok());
    CHECK(made->launches.size() == 1);
  }
}

TEST_CASE("Launches that cannot be planned name the field", "[unit]") {
  const auto message = [](const Candidate& candidate) {
    const auto plan = Plan(candidate);
    REQUIRE(absl::IsInvalidArgument(plan.status()));
    return std::string(plan.status().message());
  };
  CHECK(message(MakeCandidate({"x", "1:float16"}))
            .find("launches[0].arguments[1]: '1:float16' has "
                  "a type that a Triton kernel cannot take") == 0);
  CHECK(message(MakeCandidate({"x"}, {{"B", "rows*cols"}})).find("depends on several axes") !=
        std::string::npos);
  CHECK(message(MakeCandidate({"x"}, {{"B", "relu"}})).find("write a text in single quotes") !=
        std::string::npos);
  CHECK(message(MakeCandidate({"x"}, {{"B", "cols"}})).find("more than 16 values over axis cols") !=
        std::string::npos);
}

TEST_CASE("A kernel with other parameters than planned is refused", "[unit]") {
  const auto plan = Plan(MakeCandidate({"x", "y"}));
  REQUIRE(plan.ok());
  CHECK(ResolveLaunches(*plan, {{"k", 128, 0, 2}}).ok());
  CHECK(ResolveLaunches(*plan, {{"k", 128, 0, 4}}).ok());
  CHECK(!ResolveLaunches(*plan, {{"k", 128, 0, 1}}).ok());
  CHECK(!ResolveLaunches(*plan, {{"k", 128, 0, 5}}).ok());
}

}  // namespace
}  // namespace kernelcast::worker
