#include "services/worker/virtual_gpu/execute/warp_runner.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/unit/services/worker/virtual_gpu/bind/single_instruction.h"

// Divergence, reconvergence and barriers.

namespace kernelcast::worker::virtual_gpu {
namespace {

// %p1 holds in lanes below `lanes`.
std::string Below(int lanes) {
  return "mov.u32 %r1, %laneid;\nsetp.lt.u32 %p1, %r1, " + std::to_string(lanes) + ";\n";
}
const std::string kSides =
    "@%p1 bra $A;\nmov.u32 %r2, 2;\nmov.u32 %r3, 3;\nbra $E;\n"
    "$A:\nmov.u32 %r2, 1;\n$E:\n";

TEST_CASE("A branch that splits a warp executes both sides, each with its lanes") {
  const Ran both = RunBody(Below(10) + kSides + "mov.u32 %r0, %r2;", 32);
  const Ran taken = RunBody(Below(32) + kSides + "mov.u32 %r0, %r2;", 32);
  const Ran other = RunBody(Below(0) + kSides + "mov.u32 %r0, %r2;", 32);
  REQUIRE(both.not_covered == "");
  CHECK(both.counters.divergent_branches == 1);
  CHECK(taken.counters.divergent_branches == 0);
  CHECK(other.counters.divergent_branches == 0);
  // One side has one instruction, the other one three.
  CHECK(other.counters.instructions == taken.counters.instructions + 2);
  CHECK(both.counters.instructions == taken.counters.instructions + 3);
  CHECK(both.counters.lanes == taken.counters.lanes - 32 + 10 * 1 + 22 * 3);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    CHECK(both.results[lane] == (lane < 10 ? 1U : 2U));
    CHECK(taken.results[lane] == 1);
    CHECK(other.results[lane] == 2);
  }
}

TEST_CASE("Lanes meet again after a branch") {
  const Ran ran = RunBody(Below(10) + kSides + "activemask.b32 %r0;", 32);
  CHECK(ran.results[0] == 0xffffffff);
  CHECK(ran.results[31] == 0xffffffff);
}

TEST_CASE("Lanes within a side see only themselves") {
  const Ran ran =
      RunBody(Below(10) + "mov.u32 %r0, 0;\n@!%p1 bra $E;\nactivemask.b32 %r0;\n$E:", 32);
  CHECK(ran.results[0] == 0x3ff);
  CHECK(ran.results[10] == 0);
}

TEST_CASE("Nested branches meet from the inside out") {
  const Ran ran = RunBody(Below(16) +
                              "setp.lt.u32 %p2, %r1, 4;\nmov.u32 %r0, 0;\n@!%p1 bra $OUTER;\n"
                              "@!%p2 bra $INNER;\nactivemask.b32 %r2;\nadd.u32 %r0, %r0, %r2;\n"
                              "$INNER:\nactivemask.b32 %r2;\nadd.u32 %r0, %r0, %r2;\n"
                              "$OUTER:\nactivemask.b32 %r2;\nadd.u32 %r0, %r0, %r2;",
                          32);
  REQUIRE(ran.not_covered == "");
  CHECK(ran.counters.divergent_branches == 2);
  const uint64_t all = 0xffffffff;
  CHECK(ran.results[0] == ((0xf + 0xffff + all) & 0xffffffff));
  CHECK(ran.results[4] == ((0xffff + all) & 0xffffffff));
  CHECK(ran.results[16] == all);
}

TEST_CASE("Lanes that leave a loop wait for the others at its end") {
  const Ran ran = RunBody(
      "mov.u32 %r1, %laneid;\nmov.u32 %r2, 0;\n$L:\nadd.u32 %r2, %r2, 1;\n"
      "setp.le.u32 %p1, %r2, %r1;\n@%p1 bra $L;\nactivemask.b32 %r3;\n"
      "popc.b32 %r3, %r3;\nmad.lo.u32 %r0, %r3, 1000, %r2;",
      32);
  REQUIRE(ran.not_covered == "");
  CHECK(ran.counters.divergent_branches == 31);
  for (uint32_t lane = 0; lane < 32; ++lane) CHECK(ran.results[lane] == 32'000 + lane + 1);
}

TEST_CASE("Loads behind short branches wait together, behind long ones one after the other") {
  // Each load reads a line of its own: its latency counts in full.
  const auto loads = [](const std::string& more) {
    std::string body = "mov.u32 %r0, 0;\nsetp.ne.u32 %p1, %r0, 0;\n";
    for (int k = 0; k < 2; ++k) {
      const std::string to = "%r" + std::to_string(k + 1);
      const std::string end = "$E" + std::to_string(k);
      body += "@%p1 bra " + end + ";\nld.global.u32 " + to + ", [%at+" + std::to_string(128 * k) +
              "];\nadd.u32 %r0, %r0, " + to + ";\n" + more + end + ":\n";
    }
    return RunBody(body, 32);
  };
  std::string longer;
  for (int k = 0; k < 10; ++k) longer += "add.u32 %r9, %r9, 1;\n";
  const Ran together = loads("");
  const Ran one_by_one = loads(longer);
  REQUIRE(together.not_covered == "");
  REQUIRE(one_by_one.not_covered == "");
  CHECK(together.cycles < 1000);
  CHECK(one_by_one.cycles > 1600);
}

TEST_CASE("Predicated instructions wait for their predicate") {
  const Ran ran = RunBody(
      "ld.global.u32 %r1, [%at];\nsetp.ne.u32 %p1, %r1, 0;\nmov.u32 %r0, 1;\n"
      "@%p1 bra $E;\nld.global.u32 %r0, [%at+128];\n$E:",
      32);
  REQUIRE(ran.not_covered == "");
  CHECK(ran.cycles > 1600);
}

TEST_CASE("A guarded instruction changes only lanes whose guard holds") {
  const Ran ran = RunBody(Below(10) + "mov.u32 %r0, 1;\n@%p1 mov.u32 %r0, 2;", 32);
  CHECK(ran.results[9] == 2);
  CHECK(ran.results[10] == 1);
  CHECK(ran.counters.divergent_branches == 0);
}

TEST_CASE("Lanes that end do not take part in what follows") {
  const Ran ran = RunBody(Below(10) + "@%p1 exit;\nactivemask.b32 %r0;", 32);
  CHECK(ran.results[0] == 0);
  CHECK(ran.results[10] == 0xfffffc00);
}

TEST_CASE("A barrier opens when every warp has arrived") {
  // Each warp adds to a counter before the barrier and reads it afterwards.
  const std::string body =
      "mov.u32 %r1, %laneid;\nsetp.eq.u32 %p1, %r1, 0;\n"
      "@%p1 red.shared.add.u32 [sh], 1;\nbar.sync 0;\nld.shared.u32 %r0, [sh];";
  for (const int warps : {1, 2, 5, 32}) {
    const Ran ran = RunBody(body, 32 * warps);
    REQUIRE(ran.not_covered == "");
    CHECK(ran.counters.barriers == warps);
    for (const uint64_t result : ran.results) CHECK(result == static_cast<uint64_t>(warps));
  }
}

TEST_CASE("Warps that have ended do not hold up a barrier") {
  const Ran ran = RunBody(
      "mov.u32 %r1, %tid.x;\nsetp.ge.u32 %p1, %r1, 32;\nmov.u32 %r0, 4;\n"
      "@%p1 bra $E;\nbar.sync 0;\nmov.u32 %r0, 5;\n$E:",
      96);
  REQUIRE(ran.not_covered == "");
  CHECK(ran.counters.barriers == 1);
  CHECK(ran.results[0] == 5);
  CHECK(ran.results[95] == 4);
}

TEST_CASE("A barrier costs more the more warps take part") {
  const auto cost = [](int warps) {
    const std::string start = "mov.u32 %r0, 7;\nbar.sync 0;\n";
    return RunBody(start + "bar.sync 0;\n", 32 * warps).cycles - RunBody(start, 32 * warps).cycles;
  };
  // Its issue, its latency and its part per warp.
  CHECK(cost(1) == Approx(1 + 10 + 1.9));
  CHECK(cost(8) == Approx(1 + 10 + 8 * 1.9));
  CHECK(cost(32) == Approx(1 + 10 + 32 * 1.9));
}

TEST_CASE("A dependent instruction starts when its sources are ready") {
  // 100 sums of latency 4, on each other or on their own.
  std::string chain = "mov.f32 %f0, 0f3F800000;\n";
  std::string own = chain;
  for (int k = 0; k < 100; ++k) {
    chain += "add.f32 %f0, %f0, %f0;\n";
    own += "add.f32 %f" + std::to_string(1 + k % 8) + ", %f0, %f0;\n";
  }
  const double more = RunBody(chain).cycles - RunBody(own).cycles;
  CHECK(more > 250);
  CHECK(more < 410);
}

}  // namespace
}  // namespace kernelcast::worker::virtual_gpu
