#include "common/domain/launch_geometry.h"

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace kernelcast {
namespace {

using Catch::Matchers::Equals;

Launch SomeLaunch() {
  return {.kernel = "k",
          .grid = {"ceildiv(rows, ROWS)", "2"},
          .block = {"32", "WARPS"},
          .shared_memory_bytes = "4 * 32 * WARPS",
          .arguments = {},
          .cluster = {"1", "2"}};
}

const AxisValues& Axes() {
  static const AxisValues& axes = *new AxisValues{{"rows", 1000}, {"cols", 77}};
  return axes;
}

Variables SomeVariables() { return LaunchVariables({{"ROWS", "8"}, {"WARPS", "4"}}, Axes()); }

TEST_CASE("Launch geometry has its worked values", "[launch]") {
  const absl::StatusOr<LaunchGeometry> geometry =
      EvaluateGeometry(SomeLaunch(), SomeVariables(), "launch");
  INFO(geometry.status());
  REQUIRE(geometry.ok());
  CHECK(geometry->grid[0] == 125);
  CHECK(geometry->grid[1] == 2);
  CHECK(geometry->grid[2] == 1);
  CHECK(geometry->block[0] == 32);
  CHECK(geometry->block[1] == 4);
  CHECK(geometry->block[2] == 1);
  CHECK(geometry->cluster[0] == 1);
  CHECK(geometry->cluster[1] == 2);
  CHECK(geometry->shared_memory_bytes == 512);
  CHECK(geometry->grid_blocks() == 250);
  CHECK(geometry->block_threads() == 128);
}

TEST_CASE("A launch without cluster and shared memory defaults to ones and zero", "[launch]") {
  Launch launch = SomeLaunch();
  launch.cluster.clear();
  launch.shared_memory_bytes.clear();
  const absl::StatusOr<LaunchGeometry> geometry =
      EvaluateGeometry(launch, SomeVariables(), "launch");
  REQUIRE(geometry.ok());
  CHECK(geometry->cluster[1] == 1);
  CHECK(geometry->shared_memory_bytes == 0);
}

TEST_CASE("Non-integer tunables are not variables and axes come first", "[launch]") {
  const Variables variables =
      LaunchVariables({{"MODE", "fast"}, {"N", "-3"}, {"rows", "1"}}, Axes());
  CHECK(variables == Variables{{"N", -3}, {"cols", 77}, {"rows", 1000}});
}

TEST_CASE("Each exceeded CUDA limit is reported with field, value and limit", "[launch]") {
  const std::vector<std::pair<std::function<void(Launch&)>, std::string>> cases = {
      {[](Launch& l) { l.grid[0] = "2147483648"; },
       "launch.grid[0]: expression '2147483648' is 2147483648, not a whole number from 1 to "
       "2147483647"},
      {[](Launch& l) { l.grid[1] = "65536"; },
       "launch.grid[1]: expression '65536' is 65536, not a whole number from 1 to 65535"},
      {[](Launch& l) {
         l.grid = {"1", "2", "70000"};
       },
       "launch.grid[2]: expression '70000' is 70000, not a whole number from 1 to 65535"},
      {[](Launch& l) { l.grid[0] = "rows - 1000"; },
       "launch.grid[0]: expression 'rows - 1000' is 0, not a whole number from 1 to 2147483647"},
      {[](Launch& l) { l.grid[0] = "rows / 3"; },
       "launch.grid[0]: expression 'rows / 3' is 333.33333333333331, not a whole number from 1 to "
       "2147483647"},
      {[](Launch& l) { l.grid[0] = "depth"; },
       "launch.grid[0]: expression 'depth', character 1: unknown name 'depth'; known names are "
       "ROWS, WARPS, cols, rows"},
      {[](Launch& l) { l.grid.assign(4, "1"); }, "launch.grid: 4 entries; at most 3 are allowed"},
      {[](Launch& l) { l.block[0] = "1025"; },
       "launch.block[0]: expression '1025' is 1025, not a whole number from 1 to 1024"},
      {[](Launch& l) {
         l.block = {"1", "1", "65"};
       },
       "launch.block[2]: expression '65' is 65, not a whole number from 1 to 64"},
      {[](Launch& l) { l.block[0] = "257"; },
       "launch.block: 1028 threads; at most 1024 are allowed"},
      {[](Launch& l) { l.shared_memory_bytes = "232449"; },
       "launch.shared_memory_bytes: expression '232449' is 232449, not a whole number from 0 to "
       "232448"},
      {[](Launch& l) { l.cluster[0] = "17"; },
       "launch.cluster[0]: expression '17' is 17, not a whole number from 1 to 16"},
      {[](Launch& l) {
         l.cluster = {"5", "2", "2"};
       },
       "launch.cluster: 20 blocks; at most 16 are allowed"},
      {[](Launch& l) { l.cluster[0] = "2"; },
       "launch.grid[0]: 125 is not a multiple of the cluster's 2"},
  };
  for (const auto& [change, message] : cases) {
    Launch launch = SomeLaunch();
    change(launch);
    const absl::Status status = EvaluateGeometry(launch, SomeVariables(), "launch").status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK_THAT(std::string(status.message()), Equals(message));
  }
}

TEST_CASE("Values at the CUDA limits are accepted", "[launch]") {
  Launch launch = SomeLaunch();
  launch.grid = {"2147483647", "65535", "65535"};
  launch.block = {"16", "1", "64"};
  launch.cluster.clear();
  launch.shared_memory_bytes = "232448";
  const absl::StatusOr<LaunchGeometry> geometry =
      EvaluateGeometry(launch, SomeVariables(), "launch");
  INFO(geometry.status());
  REQUIRE(geometry.ok());
  CHECK(geometry->grid_blocks() == int64_t{2147483647} * 65535 * 65535);
  CHECK(geometry->block_threads() == 1024);
}

TEST_CASE("The workspace is limited to four gibibytes", "[launch]") {
  CHECK(*EvaluateWorkspaceBytes("", SomeVariables()) == 0);
  CHECK(*EvaluateWorkspaceBytes("4*rows*WARPS", SomeVariables()) == 16000);
  CHECK(*EvaluateWorkspaceBytes("4*1024^3", SomeVariables()) == int64_t{1} << 32);
  CHECK(std::string(EvaluateWorkspaceBytes("4*1024^3 + 1", SomeVariables()).status().message()) ==
        "workspace_bytes: expression '4*1024^3 + 1' is 4294967297, not a whole number from 0 to "
        "4294967296");
  CHECK_FALSE(EvaluateWorkspaceBytes("-1", SomeVariables()).ok());
}

TEST_CASE("A launch without a shape reports its shape-independent limits", "[launch]") {
  const std::vector<Tunable> tunables = {{"ROWS", "8"}, {"WARPS", "4"}};
  ShapelessLaunch known = WithoutShape(SomeLaunch(), tunables);
  CHECK(known.block_threads == 128);
  CHECK(known.shared_memory_bytes == 512);

  Launch launch = SomeLaunch();
  launch.shared_memory_bytes = "4*cols";
  known = WithoutShape(launch, tunables);
  CHECK(known.block_threads == 128);
  CHECK_FALSE(known.shared_memory_bytes.has_value());

  launch.shared_memory_bytes.clear();
  launch.block = {"min(cols, 256)"};
  known = WithoutShape(launch, tunables);
  CHECK_FALSE(known.block_threads.has_value());
  CHECK(known.shared_memory_bytes == 0);
}

}  // namespace
}  // namespace kernelcast
