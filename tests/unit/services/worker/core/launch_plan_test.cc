#include "services/worker/core/launch_plan.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace kernelcast::worker {
namespace {

using Catch::Matchers::Equals;

Problem LaunchProblem() {
  Problem problem;
  problem.axes = {{"rows", 3, 50, 1}, {"cols", 16, 100, 16}};
  problem.inputs.resize(2);
  problem.inputs[0].name = "x";
  problem.inputs[1].name = "w";
  problem.outputs.resize(1);
  problem.outputs[0].name = "y";
  return problem;
}

struct Program {
  std::vector<Launch> launches = {
      {.kernel = "partial",
       .grid = {"ceildiv(rows, 4)", "SPLIT"},
       .block = {"BLOCK"},
       .shared_memory_bytes = "8*BLOCK",
       .arguments = {"x", "workspace", "rows", "3:i32"},
       .cluster = {}},
      {.kernel = "finish",
       .grid = {"rows"},
       .block = {"32", "2"},
       .shared_memory_bytes = "",
       .arguments = {"workspace", "w", "y", "0.5:f32", "-2.25:f64", "-1:i64"},
       .cluster = {}}};
  std::string workspace_bytes = "4*rows*SPLIT";
  std::vector<Tunable> tunables = {{"BLOCK", "128"}, {"SPLIT", "3"}, {"MODE", "fast"}};
};

absl::StatusOr<LaunchPlan> Plan(const Program& program,
                                const AxisValues& axes = {{"rows", 10}, {"cols", 32}}) {
  return PlanLaunches(LaunchProblem(), program.launches, program.workspace_bytes, program.tunables,
                      axes);
}

template <class T>
T Value(const KernelArgument& argument) {
  REQUIRE(argument.kind == KernelArgument::Kind::kScalar);
  REQUIRE(argument.bytes == sizeof(T));
  T value;
  std::memcpy(&value, argument.bits.data(), sizeof(T));
  return value;
}

TEST_CASE("An axis is passed as its type, by default int64", "[launch_plan]") {
  Problem problem = LaunchProblem();
  problem.axes[0].type = ScalarType::kInt32;
  problem.axes[1].type = ScalarType::kFloat32;
  const Launch launch{.kernel = "k",
                      .grid = {"1"},
                      .block = {"1"},
                      .shared_memory_bytes = "",
                      .arguments = {"rows", "cols", "rows:int64", "cols:uint8"},
                      .cluster = {}};
  const absl::StatusOr<LaunchPlan> plan =
      PlanLaunches(problem, {launch}, "", {}, {{"rows", 10}, {"cols", 32}});
  INFO(plan.status());
  REQUIRE(plan.ok());
  const std::vector<KernelArgument>& arguments = plan->launches[0].arguments;
  CHECK(Value<int32_t>(arguments[0]) == 10);
  CHECK(Value<float>(arguments[1]) == 32.0f);
  CHECK(Value<int64_t>(arguments[2]) == 10);
  CHECK(Value<uint8_t>(arguments[3]) == 32);
}

TEST_CASE("Arguments may be expressions over axes and tunables", "[launch_plan]") {
  Program program;
  program.launches[0].arguments = {"rows*cols/BLOCK:double", "-rows:int16", "1/3:half",
                                   "workspace + 4*SPLIT", "rows > cols ? 1 : 0 : bool"};
  const absl::StatusOr<LaunchPlan> plan = Plan(program);
  INFO(plan.status());
  REQUIRE(plan.ok());
  const std::vector<KernelArgument>& arguments = plan->launches[0].arguments;
  CHECK(Value<double>(arguments[0]) == 2.5);
  CHECK(Value<int16_t>(arguments[1]) == -10);
  CHECK(Value<uint16_t>(arguments[2]) == 0x3555);
  CHECK(arguments[3].kind == KernelArgument::Kind::kWorkspace);
  CHECK(arguments[3].offset == 12);
  CHECK(arguments[3].bytes == 8);
  CHECK(Value<uint8_t>(arguments[4]) == 0);
}

TEST_CASE("A plan has its worked values", "[launch_plan]") {
  const absl::StatusOr<LaunchPlan> plan = Plan(Program());
  INFO(plan.status());
  REQUIRE(plan.ok());
  CHECK(plan->workspace_bytes == 120);
  REQUIRE(plan->launches.size() == 2);

  const PlannedLaunch& partial = plan->launches[0];
  CHECK(partial.kernel == "partial");
  CHECK(partial.grid[0] == 3);
  CHECK(partial.grid[1] == 3);
  CHECK(partial.grid[2] == 1);
  CHECK(partial.block[0] == 128);
  CHECK(partial.cluster[0] == 1);
  CHECK(partial.shared_memory_bytes == 1024);
  REQUIRE(partial.arguments.size() == 4);
  CHECK(partial.arguments[0].kind == KernelArgument::Kind::kTensor);
  CHECK(partial.arguments[0].tensor == 0);
  CHECK(partial.arguments[0].bytes == 8);
  CHECK(partial.arguments[1].kind == KernelArgument::Kind::kWorkspace);
  CHECK(partial.arguments[1].bytes == 8);
  CHECK(Value<int64_t>(partial.arguments[2]) == 10);
  CHECK(Value<int32_t>(partial.arguments[3]) == 3);

  const PlannedLaunch& finish = plan->launches[1];
  CHECK(finish.grid[0] == 10);
  CHECK(finish.block[1] == 2);
  CHECK(finish.shared_memory_bytes == 0);
  REQUIRE(finish.arguments.size() == 6);
  CHECK(finish.arguments[1].tensor == 1);
  // Outputs follow the inputs.
  CHECK(finish.arguments[2].tensor == 2);
  CHECK(Value<float>(finish.arguments[3]) == 0.5f);
  CHECK(Value<double>(finish.arguments[4]) == -2.25);
  CHECK(Value<int64_t>(finish.arguments[5]) == -1);
}

TEST_CASE("Planning errors are reported with their position", "[launch_plan]") {
  const std::vector<std::pair<std::function<void(Program&)>, std::string>> cases = {
      {[](Program& p) { p.launches.clear(); }, "launches: at least one is needed"},
      {[](Program& p) { p.launches.assign(65, p.launches[0]); },
       "launches: 65 entries; at most 64 are allowed"},
      {[](Program& p) { p.launches[1].kernel = "a::b"; },
       "launches[1].kernel: 'a::b' is not the name of a kernel"},
      {[](Program& p) { p.launches[1].grid[0] = "rows - 10"; },
       "launches[1].grid[0]: expression 'rows - 10' is 0, not a whole number from 1 to 2147483647"},
      {[](Program& p) { p.tunables[0].value = "1056"; },
       "launches[0].block[0]: expression 'BLOCK' is 1056, not a whole number from 1 to 1024"},
      {[](Program& p) { p.launches[0].block.push_back("16"); },
       "launches[0].block: 2048 threads; at most 1024 are allowed"},
      {[](Program& p) { p.launches[0].block[0] = "MODE"; },
       "launches[0].block[0]: expression 'MODE', character 1: unknown name 'MODE'; known names are "
       "BLOCK, SPLIT, cols, rows"},
      {[](Program& p) { p.launches[0].shared_memory_bytes = "228*1024"; },
       "launches[0].shared_memory_bytes: expression '228*1024' is 233472, not a whole number from "
       "0 to 232448"},
      {[](Program& p) { p.workspace_bytes = "1e10"; },
       "workspace_bytes: expression '1e10' is 10000000000, not a whole number from 0 to "
       "4294967296"},
      {[](Program& p) { p.workspace_bytes.clear(); },
       "launches[0].arguments[1]: 'workspace' needs workspace_bytes"},
      {[](Program& p) { p.launches[0].arguments.assign(65, "x"); },
       "launches[0].arguments: 65 entries; at most 64 are allowed"},
      {[](Program& p) { p.launches[0].arguments[0] = "z"; },
       "launches[0].arguments[0]: 'z' is not one of x, w, y, rows, cols, workspace, or an "
       "expression with a type such as 3:int or 0.5:float"},
      {[](Program& p) { p.launches[0].arguments[0] = "BLOCK"; },
       "launches[0].arguments[0]: 'BLOCK' is not one of x, w, y, rows, cols, workspace, or an "
       "expression with a type such as 3:int or 0.5:float"},
      {[](Program& p) { p.launches[0].arguments[3] = "rows - 11:uint32"; },
       "launches[0].arguments[3]: 'rows - 11': -1 is not a whole number from 0 to 4294967295, "
       "which uint32 can hold"},
      {[](Program& p) { p.launches[0].arguments[1] = "workspace + 4*rows*SPLIT + 1"; },
       "launches[0].arguments[1]: offset into the workspace of 120 bytes: expression "
       "'4*rows*SPLIT + 1' is 121, not a whole number from 0 to 120"},
  };
  for (const auto& [change, message] : cases) {
    Program program;
    change(program);
    const absl::Status status = Plan(program).status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK_THAT(std::string(status.message()), Equals(message));
  }
}

TEST_CASE("Plans are checked at every shape of the problem", "[launch_plan]") {
  const Problem problem = LaunchProblem();
  ProblemTarget target;
  target.check_shapes = {{{"rows", 4}, {"cols", 16}}};
  target.bench_shapes = {{{"rows", 40}, {"cols", 64}}};
  Program program;
  const auto check = [&] {
    return std::string(
        CheckPlans(problem, target, program.launches, program.workspace_bytes, program.tunables)
            .message());
  };
  CHECK(check().empty());

  program.launches[1].grid[0] = "rows - 4";
  CHECK(check() ==
        "launches[1].grid[0]: expression 'rows - 4' is 0, not a whole number from 1 to 2147483647; "
        "at cols=16, rows=4");
  program.launches[1].grid[0] = "40 - rows + (rows < 40)";
  CHECK_THAT(check(), Catch::EndsWith("; at cols=64, rows=40"));
  // Only the held-out ranges go that far.
  program.launches[1].grid[0] = "50 - rows";
  CHECK_THAT(check(), Catch::EndsWith("; at cols=16, rows=50"));
}

TEST_CASE("Every device CUDA example has plans at all its shapes", "[launch_plan][cuda]") {
  int programs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(KERNELCAST_SOURCE_DIR) / "examples" / "problems")) {
    if (!std::filesystem::exists(entry.path() / "problem.yaml")) continue;
    CAPTURE(entry.path().string());
    const auto files = ReadProblemFolder(entry.path().string());
    REQUIRE(files.ok());
    const auto problem = ParseProblem(*files);
    REQUIRE(problem.ok());
    for (const auto& [name, target] : problem->targets) {
      if (target.kind != CandidateKind::kDeviceCuda) continue;
      const auto check = [&](const std::vector<Launch>& launches, const std::string& workspace,
                             const std::vector<Tunable>& tunables) {
        const absl::Status status = CheckPlans(*problem, target, launches, workspace, tunables);
        INFO(status);
        CHECK(status.ok());
        ++programs;
      };
      check(target.reference.launches, target.reference.workspace_bytes, {});
      REQUIRE(target.oracle.has_value());
      check(target.oracle->launches, target.oracle->workspace_bytes, {});
      if (!target.space.has_value()) continue;
      for (const SpacePoint& point : EnumeratePoints(*target.space)) {
        const Candidate candidate = CandidateFromPoint(*target.space, point, problem->problem_id);
        CAPTURE(candidate.source.substr(0, candidate.source.find("#line")));
        check(candidate.launches, candidate.workspace_bytes, candidate.tunables);
      }
    }
  }
  CHECK(programs > 100);
}

TEST_CASE("A launch whose condition is 0 is left out", "[launch_plan]") {
  Program program;
  program.launches[0].when = "mod(cols, 32) == 0 && SPLIT > 2";
  const auto both = Plan(program);
  REQUIRE(both.ok());
  CHECK(both->launches.size() == 2);
  const auto one = Plan(program, {{"rows", 10}, {"cols", 16}});
  REQUIRE(one.ok());
  REQUIRE(one->launches.size() == 1);
  CHECK(one->launches[0].kernel == "finish");
  CHECK(one->launches[0].index == 1);
  program.launches[1].when = "0";
  CHECK(Plan(program, {{"rows", 10}, {"cols", 16}}).status().message() ==
        "launches: no launch runs; 'when' is 0 for every one");
  program.launches[0].when = "colls";
  CHECK(std::string(Plan(program).status().message()).find("launches[0].when: ") == 0);
}

}  // namespace
}  // namespace kernelcast::worker
