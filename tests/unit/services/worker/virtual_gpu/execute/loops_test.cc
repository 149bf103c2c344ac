#include "services/worker/virtual_gpu/execute/loops.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/unit/services/worker/virtual_gpu/bind/single_instruction.h"

// The inference of loops: what is skipped must leave the registers and counts of an execution.

namespace kernelcast::worker::virtual_gpu {
namespace {

// Runs the loop body until %r1 reaches %r2, and counts the rounds in %r0. `step` and `compare` are
// the loop's own instructions.
std::string Counted(const std::string& start, const std::string& end, const std::string& step,
                    const std::string& compare) {
  return "mov.b32 %r1, " + start + ";\nmov.b32 %r2, " + end + ";\nmov.u32 %r0, 0;\n$L:\n" +
         "add.u32 %r0, %r0, 1;\n" + step + " %r1, %r1, %r3;\n" + compare +
         " %p1, %r1, %r2;\n@%p1 bra $L;";
}
std::string StepOf(const std::string& value) { return "mov.b32 %r3, " + value + ";\n"; }

TEST_CASE("Loops of any length end after their exact number of rounds") {
  for (const int rounds : {1, 2, 5, 6, 7, 11, 12, 20, 100, 1000, 20'000}) {
    const std::string n = std::to_string(rounds);
    struct Form {
      std::string start, end, step, compare;
    };
    const std::vector<Form> forms = {
        {"0", n, "1", "setp.lt.s32"},
        {"0", n, "1", "setp.ne.s32"},
        {"0", std::to_string(rounds - 1), "1", "setp.le.u32"},
        {n, "0", "-1", "setp.gt.s32"},
        {n, "1", "-1", "setp.ge.s32"},
        {"-" + n, "0", "1", "setp.lt.s32"},
        {"0", std::to_string(3 * rounds), "3", "setp.lt.u32"},
        // The last step goes past the end.
        {"0", std::to_string(7 * rounds - 3), "7", "setp.lt.u32"},
        {"0x80000000", std::to_string(int64_t{0x80000000} + rounds), "1", "setp.lt.u32"},
    };
    for (const Form& form : forms) {
      const std::string body =
          StepOf(form.step) + Counted(form.start, form.end, "add.u32", form.compare);
      INFO(body);
      const Ran ran = RunBody(body, 32);
      REQUIRE(ran.not_covered == "");
      CHECK(ran.results[0] == static_cast<uint64_t>(rounds));
      CHECK(ran.results[31] == static_cast<uint64_t>(rounds));
      // Four instructions per round, whether executed or inferred.
      const Ran once = RunBody(StepOf("1") + Counted("0", "1", "add.u32", "setp.lt.s32"), 32);
      CHECK(ran.counters.instructions ==
            Approx(once.counters.instructions + 4.0 * (rounds - 1)).epsilon(1e-12));
      CHECK(ran.counters.branches == Approx(rounds).epsilon(1e-12));
      CHECK((ran.counters.skipped > 0) == (rounds >= 20));
    }
  }
}

TEST_CASE("Few rounds of a long loop are executed") {
  const Ran ran = RunBody(StepOf("1") + Counted("0", "20000", "add.u32", "setp.lt.s32"), 32);
  CHECK(ran.counters.skipped > 0.99 * ran.counters.instructions);
}

TEST_CASE("Loads of inferred rounds are counted like those of executed ones") {
  const Ran ran = RunBody(
      "ld.param.u64 %rd1, [out];\nmov.u32 %r1, %laneid;\n"
      "mad.wide.u32 %rd2, %r1, 4, %rd1;\nmov.u32 %r1, 0;\nmov.u32 %r0, 0;\n$L:\n"
      "ld.global.u32 %r2, [%rd2];\nadd.s64 %rd2, %rd2, 128;\n"
      "add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 60;\n@%p1 bra $L;",
      32);
  REQUIRE(ran.not_covered == "");
  CHECK(ran.counters.skipped > 0);
  CHECK(ran.counters.load_requests[2] == Approx(60));
  CHECK(ran.counters.load_sectors[2] == Approx(240));
  CHECK(ran.counters.read_new[0] == Approx(240));
}

TEST_CASE("Lanes with different ends each make their own number of rounds") {
  const Ran ran = RunBody(
      "mov.u32 %r4, %laneid;\nmad.lo.u32 %r2, %r4, 10, 500;\nmov.u32 %r1, 0;\n"
      "mov.u32 %r0, 0;\n$L:\nadd.u32 %r0, %r0, 2;\nadd.u32 %r1, %r1, 1;\n"
      "setp.lt.u32 %p1, %r1, %r2;\n@%p1 bra $L;",
      32);
  REQUIRE(ran.not_covered == "");
  CHECK(ran.counters.skipped > 0);
  for (uint32_t lane = 0; lane < 32; ++lane) CHECK(ran.results[lane] == 2 * (500 + 10 * lane));
}

TEST_CASE("A loop of two exits ends at the nearer one") {
  const Ran ran = RunBody(
      "mov.u32 %r1, 0;\nmov.u32 %r2, 900;\nmov.u32 %r0, 0;\n$L:\n"
      "add.u32 %r0, %r0, 1;\nsub.u32 %r2, %r2, 3;\nsetp.lt.s32 %p2, %r2, 0;\n"
      "@%p2 bra $E;\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 1000;\n"
      "@%p1 bra $L;\n$E:");
  REQUIRE(ran.not_covered == "");
  CHECK(ran.counters.skipped > 0);
  CHECK(ran.results[0] == 301);
}

TEST_CASE("Steps that change are executed, not inferred") {
  // The step grows by one in each round: 1 + 2 + ... + 100 is 5050.
  const Ran ran = RunBody(
      "mov.u32 %r1, 0;\nmov.u32 %r2, 0;\nmov.u32 %r0, 0;\n$L:\n"
      "add.u32 %r2, %r2, 1;\nadd.u32 %r1, %r1, %r2;\nadd.u32 %r0, %r0, 1;\n"
      "setp.lt.u32 %p1, %r1, 5050;\n@%p1 bra $L;");
  REQUIRE(ran.not_covered == "");
  CHECK(ran.counters.skipped == 0);
  CHECK(ran.results[0] == 100);
}

TEST_CASE("An inner loop is inferred in each round of the outer one") {
  const Ran ran = RunBody(
      "mov.u32 %r1, 0;\nmov.u32 %r0, 0;\n$O:\nmov.u32 %r2, 0;\n$L:\n"
      "add.u32 %r0, %r0, 1;\nadd.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, 50;\n"
      "@%p1 bra $L;\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p2, %r1, 40;\n"
      "@%p2 bra $O;");
  REQUIRE(ran.not_covered == "");
  CHECK(ran.counters.skipped > 0);
  CHECK(ran.results[0] == 2000);
  CHECK(ran.counters.branches == Approx(2040));
}

TEST_CASE("A loop without a known end is given up") {
  const Ran ran = RunBody(
      "$L:\nld.volatile.global.u32 %r1, [%at+8];\nsetp.eq.u32 %p1, %r1, 0;\n"
      "@%p1 bra $L;\nmov.u32 %r0, 1;");
  CHECK(ran.not_covered == "a loop that waits for something that never happens");
}

}  // namespace
}  // namespace kernelcast::worker::virtual_gpu
