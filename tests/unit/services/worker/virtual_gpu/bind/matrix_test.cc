#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>

#include "tests/unit/services/worker/virtual_gpu/bind/single_instruction.h"

namespace kernelcast::worker::virtual_gpu {
namespace {

// A matrix of 8 x 8 elements of 16 bits in shared memory, with element (row, column) equal to
// 16 * row + column; `body` leaves a word per lane in %r9.
std::string MatrixKernel(const std::string& body) {
  return ".version 8.0\n.target sm_90\n.address_size 64\n"
         ".visible .entry k(.param .u64 k_0)\n{\n"
         ".reg .b32 %r<16>;\n.reg .b64 %rd<4>;\n"
         ".shared .align 16 .b8 tile[128];\n"
         "mov.u32 %r1, %tid.x;\n"
         "mov.u32 %r2, tile;\n"
         "shl.b32 %r3, %r1, 2;\n"
         "add.u32 %r3, %r2, %r3;\n"  // the lane's word
         "shr.u32 %r4, %r1, 2;\n"
         "shl.b32 %r4, %r4, 4;\n"
         "and.b32 %r5, %r1, 3;\n"
         "shl.b32 %r5, %r5, 1;\n"
         "add.u32 %r4, %r4, %r5;\n"  // 16 * row + column
         "shl.b32 %r5, %r4, 16;\n"
         "add.u32 %r5, %r5, 65536;\n"
         "or.b32 %r4, %r4, %r5;\n"  // and the next one
         "and.b32 %r6, %r1, 7;\n"
         "shl.b32 %r6, %r6, 4;\n"
         "add.u32 %r6, %r2, %r6;\n" +  // a row
         body +
         "ld.param.u64 %rd1, [k_0];\n"
         "mul.wide.u32 %rd2, %r1, 256;\n"
         "add.u64 %rd1, %rd1, %rd2;\n"
         "st.global.u32 [%rd1], %r9;\nret;\n}\n";
}

uint64_t Element(int row, int column) { return static_cast<uint64_t>(16 * row + column); }

TEST_CASE("ldmatrix gives each lane two elements of a row, or of a column", "[unit]") {
  const std::string fill = "st.shared.b32 [%r3], %r4;\nbar.sync 0;\n";
  const Ran plain = RunKernel(
      MatrixKernel(fill + "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r9}, [%r6];\n"), 32);
  const Ran turned = RunKernel(
      MatrixKernel(fill + "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r9}, [%r6];\n"), 32);
  REQUIRE(plain.not_covered.empty());
  REQUIRE(turned.not_covered.empty());
  for (int lane = 0; lane < 32; ++lane) {
    const int row = lane / 4;
    const int column = 2 * (lane % 4);
    INFO(lane);
    CHECK(plain.results[static_cast<size_t>(lane)] ==
          (Element(row, column) | Element(row, column + 1) << 16));
    CHECK(turned.results[static_cast<size_t>(lane)] ==
          (Element(column, row) | Element(column + 1, row) << 16));
  }
}

TEST_CASE("stmatrix writes what ldmatrix would read", "[unit]") {
  const std::string load = "bar.sync 0;\nld.shared.b32 %r9, [%r3];\n";
  const Ran plain = RunKernel(
      MatrixKernel("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r6], {%r4};\n" + load), 32);
  const Ran turned = RunKernel(
      MatrixKernel("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%r6], {%r4};\n" + load), 32);
  REQUIRE(plain.not_covered.empty());
  REQUIRE(turned.not_covered.empty());
  for (int lane = 0; lane < 32; ++lane) {
    const int row = lane / 4;
    const int column = 2 * (lane % 4);
    INFO(lane);
    CHECK(plain.results[static_cast<size_t>(lane)] ==
          (Element(row, column) | Element(row, column + 1) << 16));
    CHECK(turned.results[static_cast<size_t>(lane)] ==
          (Element(column, row) | Element(column + 1, row) << 16));
  }
}

double RealOf(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }

// A product whose factors are 0 except for one column of A, which holds the number of the lane that
// has it, and the same row of B, which holds its columns. The lane's first and second result are
// left in %f0 and %f1.
std::string ProductOf(const std::string& opcode, const std::string& number,
                      const std::string& factors) {
  return "mov.u32 %r1, %tid.x;\nand.b32 %r2, %r1, 3;\nshr.u32 %r3, %r1, 2;\n"
         "setp.eq.u32 %p1, %r2, 1;\n"
         "selp.u32 %r4, %r1, 0, %p1;\nselp.u32 %r5, %r3, 0, %p1;\n"
         "mov.f32 %f9, 0f00000000;\nmov.u32 %r9, 0;\n" +
         number + opcode + factors + "\nst.global.f32 [%at], %f0;\nst.global.f32 [%at+4], %f1;\n";
}

TEST_CASE("mma multiplies the matrices that its lanes hold", "[unit]") {
  const std::string halves =
      "cvt.rn.f16.u32 %h1, %r4;\ncvt.rn.f16.u32 %h2, %r5;\nmov.u16 %h3, 0;\n"
      "mov.b32 %r4, {%h1, %h3};\nmov.b32 %r5, {%h2, %h3};\n";
  const std::string brains =
      "cvt.rn.f32.u32 %f5, %r4;\ncvt.rn.f32.u32 %f6, %r5;\n"
      "cvt.rn.bf16x2.f32 %r4, %f9, %f5;\ncvt.rn.bf16x2.f32 %r5, %f9, %f6;\n";
  const std::string singles =
      "cvt.rn.f32.u32 %f5, %r4;\ncvt.rn.f32.u32 %f6, %r5;\n"
      "mov.b32 %r4, %f5;\nmov.b32 %r5, %f6;\n";
  const std::string four =
      " {%f0, %f1, %f2, %f3}, {%r4, %r9, %r9, %r9}, {%r5, %r9}, {%f9, %f9, %f9, %f9};";
  const std::string kinds[][2] = {{"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", halves},
                                  {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", brains},
                                  {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", singles}};
  for (const auto& [opcode, number] : kinds) {
    INFO(opcode);
    const Ran ran = CheckKernel(SingleKernel(ProductOf(opcode, number, four)), 32);
    REQUIRE(ran.inexact.empty());
    for (uint64_t lane = 0; lane < 32; ++lane) {
      const uint64_t holder = 4 * (lane / 4) + 1;
      const uint64_t column = 2 * (lane % 4);
      CHECK(RealOf(ran.results[lane]) == static_cast<double>(holder * column));
      CHECK(RealOf(ran.results[lane] >> 32) == static_cast<double>(holder * (column + 1)));
    }
  }
}

TEST_CASE("wmma multiplies tiles of memory", "[unit]") {
  // A holds its positions, B is the unit matrix, and both are in shared memory.
  const std::string fill =
      ".shared .align 16 .b8 a[512];\n.shared .align 16 .b8 b[512];\n"
      "mov.u32 %r1, %tid.x;\nmov.u32 %r5, a;\nmov.u32 %r6, b;\n"
      "NEXT:\nshr.u32 %r2, %r1, 4;\nand.b32 %r3, %r1, 15;\nsetp.eq.u32 %p1, %r2, %r3;\n"
      "selp.u32 %r4, 1, 0, %p1;\ncvt.rn.f16.u32 %h1, %r1;\ncvt.rn.f16.u32 %h2, %r4;\n"
      "shl.b32 %r7, %r1, 1;\nadd.u32 %r8, %r5, %r7;\nadd.u32 %r9, %r6, %r7;\n"
      "st.shared.u16 [%r8], %h1;\nst.shared.u16 [%r9], %h2;\n"
      "add.u32 %r1, %r1, 32;\nsetp.lt.u32 %p2, %r1, 256;\n@%p2 bra NEXT;\nbar.sync 0;\n";
  const std::string eight = "{%x0, %x1, %x2, %x3, %x4, %x5, %x6, %x7}";
  const std::string more = ".reg .b32 %x<8>;\n.reg .b32 %y<8>;\n.reg .f32 %z<8>;\n";
  const auto named = [&](char letter) {
    std::string registers = eight;
    std::replace(registers.begin(), registers.end(), 'x', letter);
    return registers;
  };
  for (const std::string layout : {"row", "col"}) {
    INFO(layout);
    std::string zeros;
    for (char k = '0'; k < '8'; ++k) zeros += std::string("mov.f32 %z") + k + ", 0f00000000;\n";
    const Ran ran =
        CheckKernel(SingleKernel(more + fill + zeros + "mov.u32 %r10, 16;\nmov.u32 %r11, 64;\n" +
                                 "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 " + named('x') +
                                 ", [%r5], %r10;\nwmma.load.b.sync.aligned." + layout +
                                 ".m16n16k16.shared.f16 " + named('y') + ", [%r6], %r10;\n" +
                                 "wmma.mma.sync.aligned.row." + layout + ".m16n16k16.f32.f32 " +
                                 named('z') + ", " + named('x') + ", " + named('y') + ", " +
                                 named('z') + ";\n" + "ld.param.u64 %rd1, [out];\n" +
                                 "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd1], " +
                                 named('z') + ", %r11;\n"),
                    32);
    REQUIRE(ran.inexact.empty());
    for (uint64_t row = 0; row < 16; ++row) {
      CHECK(RealOf(ran.results[row]) == static_cast<double>(16 * row));
      CHECK(RealOf(ran.results[row] >> 32) == static_cast<double>(16 * row + 1));
    }
  }
}

TEST_CASE("A check says which matrix products it does not compute", "[unit]") {
  const Ran ran = CheckKernel(
      SingleKernel(
          "mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.xor.popc {%r1, %r2, %r3, %r4}, "
          "{%r5, %r6}, {%r7}, {%r1, %r2, %r3, %r4};"),
      32);
  CHECK(ran.inexact == "matrix products of this type");
}

}  // namespace
}  // namespace kernelcast::worker::virtual_gpu
