#include "services/worker/core/control_flow.h"

#include <catch2/catch.hpp>
#include <vector>

namespace kernelcast::worker {
namespace {

FlowStep Next() { return {}; }
FlowStep Branch(size_t target) { return {{target}, true, true}; }
FlowStep Jump(size_t target) { return {{target}, false, true}; }
FlowStep Return() { return {{}, false, false}; }

TEST_CASE("A function without backward branches has no loop") {
  CHECK(FindLoops({}).loops.empty());
  const std::vector<FlowStep> straight = {Next(), Branch(3), Next(), Return()};
  const LoopNest nest = FindLoops(straight);
  CHECK(nest.loops.empty());
  CHECK(nest.max_depth == 0);
}

TEST_CASE("Nested loops have depths and the one without children is inner") {
  const std::vector<FlowStep> nested = {
      Next(),     // 0
      Next(),     // 1: head of the outer loop
      Next(),     // 2: head of the inner loop
      Branch(2),  // 3
      Branch(1),  // 4
      Return(),   // 5
  };
  const LoopNest nest = FindLoops(nested);
  REQUIRE(nest.loops.size() == 2);
  CHECK(nest.loops[0].head == 1);
  CHECK_FALSE(nest.loops[0].inner);
  CHECK(nest.loops[1].instructions == std::vector<size_t>{2, 3});
  CHECK(nest.loops[1].inner);
  CHECK(nest.max_depth == 2);
  CHECK(nest.depth == std::vector<int>{0, 1, 2, 2, 1, 0});
  CHECK(nest.inner == std::vector<bool>{false, false, true, true, false, false});
}

TEST_CASE("A loop entered in its middle is not a loop") {
  // 2 and 3 reach each other, but neither dominates the other.
  const std::vector<FlowStep> irreducible = {Branch(3), Next(), Next(), Branch(2), Return()};
  CHECK(FindLoops(irreducible).loops.empty());
}

TEST_CASE("A jump past a loop's end belongs to the loop only if it returns") {
  const std::vector<FlowStep> with_exit = {Next(), Branch(3), Jump(0), Return()};
  const LoopNest nest = FindLoops(with_exit);
  REQUIRE(nest.loops.size() == 1);
  CHECK(nest.loops[0].instructions == std::vector<size_t>{0, 1, 2});
}

}  // namespace
}  // namespace kernelcast::worker
