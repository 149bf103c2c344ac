#include "services/worker/virtual_gpu/parse/control_flow.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "services/worker/virtual_gpu/parse/parser.h"
#include "tests/unit/services/worker/virtual_gpu/bind/single_instruction.h"

namespace kernelcast::worker::virtual_gpu {
namespace {

// The instructions of `body`, without those that every kernel of these tests starts with.
struct Parsed {
  Program program;
  const Kernel* kernel = nullptr;
  int first = 0;

  explicit Parsed(const std::string& body) : program(ParseProgram(SingleKernel(body))) {
    REQUIRE(program.kernels.size() == 1);
    kernel = program.kernels[0].get();
    CHECK(kernel->not_covered == "");
    const Program empty = ParseProgram(SingleKernel(""));
    // The return and the end follow the body.
    first = static_cast<int>(empty.kernels[0]->instructions.size()) - 2;
  }
  const Instruction& at(int index) const {
    return kernel->instructions[static_cast<size_t>(first + index)];
  }
};

TEST_CASE("Both sides of a branch meet at its end") {
  const Parsed parsed(
      "setp.eq.u32 %p1, %r1, 0;\n@%p1 bra $A;\nmov.u32 %r2, 1;\nbra $E;\n$A:\n"
      "mov.u32 %r2, 2;\n$E:\nmov.u32 %r3, 3;");
  CHECK(parsed.at(1).target == parsed.first + 4);
  CHECK(parsed.at(1).reconverge == parsed.first + 5);
}

TEST_CASE("A side that ends the kernel meets the other one at the end") {
  const Parsed parsed("setp.eq.u32 %p1, %r1, 0;\n@%p1 bra $A;\nret;\n$A:\nmov.u32 %r2, 2;");
  CHECK(parsed.at(1).reconverge == -1);
}

TEST_CASE("The lanes of a loop meet after it") {
  const Parsed parsed(
      "$L:\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 9;\n@%p1 bra $L;\n"
      "mov.u32 %r2, 2;");
  CHECK(parsed.at(2).reconverge == parsed.first + 3);
}

std::string Times(int count, const std::string& line) {
  std::string all;
  for (int k = 0; k < count; ++k) all += line + "\n";
  return all;
}

bool Predicates(const std::string& skipped) {
  return Parsed("setp.eq.u32 %p1, %r1, 0;\n@%p1 bra $E;\n" + skipped + "$E:\nmov.u32 %r3, 3;")
      .at(1)
      .predicated;
}

TEST_CASE("A forward branch over a few instructions becomes a predicate") {
  const std::string load = "ld.global.u32 %r2, [%at];";
  const std::string add = "add.u32 %r2, %r2, 1;";
  CHECK(Predicates(Times(1, add)));
  CHECK(Predicates(Times(8, add)));
  CHECK_FALSE(Predicates(Times(9, add)));
  CHECK(Predicates(Times(12, load) + Times(8, add)));
  CHECK_FALSE(Predicates(Times(13, load) + Times(8, add)));
  CHECK_FALSE(Predicates("bar.sync 0;\n"));
  CHECK_FALSE(Predicates("atom.global.add.u32 %r2, [%at], 1;\n"));
  CHECK_FALSE(Predicates("@%p2 bra $E;\n" + add + "\n"));
}

TEST_CASE("A loop's branch and one without a condition do not become predicates") {
  const Parsed loop("$L:\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 9;\n@%p1 bra $L;");
  CHECK_FALSE(loop.at(2).predicated);
  const Parsed always("bra $E;\nmov.u32 %r1, 1;\n$E:\nmov.u32 %r2, 2;");
  CHECK_FALSE(always.at(0).predicated);
}

TEST_CASE("A loop knows its registers and the comparison that ends it") {
  const Parsed parsed(
      "mov.u32 %r1, 0;\n$L:\nadd.u32 %r1, %r1, 1;\nmov.u32 %r2, %r1;\n"
      "add.f32 %f1, %f1, %f1;\nsetp.lt.u32 %p1, %r1, 9;\n@%p1 bra $L;\n"
      "setp.eq.u32 %p2, %r1, 3;");
  REQUIRE(parsed.kernel->loops.size() == 1);
  const LoopInfo& loop = parsed.kernel->loops[0];
  CHECK(loop.head == parsed.first + 1);
  CHECK(loop.end == parsed.first + 5);
  CHECK(parsed.at(5).loop == 0);
  // %r1 only: %r2 is written before it is read, and %f1 is no integer.
  REQUIRE(loop.carried.size() == 1);
  CHECK(loop.carried[0] == parsed.kernel->operands[parsed.at(1).operands]);
  REQUIRE(loop.drivers.size() == 1);
  CHECK(parsed.at(4).driver == loop.drivers[0]);
  CHECK(parsed.at(6).driver == -1);
}

TEST_CASE("Comparisons behind the logic of predicates drive a loop too") {
  const Parsed parsed(
      "$L:\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 9;\n"
      "setp.lt.u32 %p2, %r1, %r2;\nand.pred %p3, %p1, %p2;\n@%p3 bra $L;");
  REQUIRE(parsed.kernel->loops.size() == 1);
  CHECK(parsed.kernel->loops[0].drivers.size() == 2);
  CHECK(parsed.at(1).driver >= 0);
  CHECK(parsed.at(2).driver >= 0);
}

TEST_CASE("A comparison of floating-point numbers drives no loop") {
  const Parsed parsed(
      "$L:\nadd.f32 %f1, %f1, %f1;\nsetp.lt.f32 %p1, %f1, 0f41000000;\n@%p1 bra $L;");
  REQUIRE(parsed.kernel->loops.size() == 1);
  CHECK(parsed.kernel->loops[0].drivers.empty());
}

TEST_CASE("Atomics know whether all lanes share their address and whether they are read") {
  const Parsed parsed(
      "ld.param.u64 %rd1, [out];\natom.global.add.u32 %r1, [%rd1], 1;\n"
      "atom.global.add.u32 %r2, [%at], 1;\nmov.u32 %r3, %r2;\n"
      "red.global.add.u32 [%rd1+4], 1;");
  CHECK(parsed.at(1).is_atomic);
  CHECK(parsed.at(1).uniform_address);
  CHECK(parsed.at(1).result_unused);
  CHECK_FALSE(parsed.at(2).uniform_address);
  CHECK_FALSE(parsed.at(2).result_unused);
  CHECK(parsed.at(4).uniform_address);
  CHECK(parsed.at(4).result_unused);
}

}  // namespace
}  // namespace kernelcast::worker::virtual_gpu
