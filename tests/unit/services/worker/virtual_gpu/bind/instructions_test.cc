#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "services/worker/virtual_gpu/execute/simulator.h"
#include "services/worker/virtual_gpu/parse/parser.h"

// Tests the results of single instructions with PTX that stores them.

namespace kernelcast::worker::virtual_gpu {
namespace {

constexpr uint64_t kOut = 0;

std::string Kernel(const std::string& body) {
  return ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out)\n{\n"
         ".reg .pred %p<10>;\n.reg .b16 %h<10>;\n.reg .b32 %r<20>;\n.reg .b64 %rd<20>;\n"
         ".reg .f32 %f<10>;\n.reg .f64 %d<10>;\nld.param.u64 %rd0, [out];\n" +
         body + "\nret;\n}\n";
}

// The first eight bytes stored by the kernel.
uint64_t Result(const std::string& ptx) {
  const Program program = ParseProgram(ptx);
  REQUIRE(program.kernels.size() == 1);
  CHECK(program.kernels[0]->not_covered == "");
  LaunchSpec launch;
  launch.kernel = "k";
  launch.arguments = {{.is_buffer = true, .buffer = 0}};
  GlobalMemory memory(std::vector<BufferSpec>{{.bytes = 64}}, program);
  const auto counts = Simulate(program, std::vector<LaunchSpec>{launch}, {}, memory);
  CHECK(counts[0].not_covered == "");
  return memory.Read(GlobalMemory::AddressOf(0) + kOut, 8);
}
uint32_t Word(const std::string& body) {
  INFO(body);
  return static_cast<uint32_t>(Result(Kernel(body + "\nst.global.u32 [%rd0], %r0;")));
}
float Float(const std::string& body) {
  INFO(body);
  return std::bit_cast<float>(
      static_cast<uint32_t>(Result(Kernel(body + "\nst.global.f32 [%rd0], %f0;"))));
}

TEST_CASE("copysign takes the sign of its first operand") {
  CHECK(Float("copysign.f32 %f0, 0fBF800000, 0f40400000;") == -3);
  CHECK(Float("copysign.f32 %f0, 0f3F800000, 0fC0400000;") == 3);
  CHECK(std::bit_cast<double>(
            Result(Kernel("copysign.f64 %d0, 0dBFF0000000000000, 0d4000000000000000;\n"
                          "st.global.f64 [%rd0], %d0;"))) == -2);
}

TEST_CASE("Carries pass from one word to the next") {
  const std::string both = "mov.u32 %r2, -1;\nmov.u32 %r3, 1;\n";
  CHECK(Word(both + "add.cc.u32 %r1, %r2, %r3;\naddc.u32 %r0, 5, 6;") == 12);
  CHECK(Word(both + "add.cc.u32 %r1, %r3, %r3;\naddc.u32 %r0, 5, 6;") == 11);
  CHECK(Word(both + "sub.cc.u32 %r1, %r3, %r2;\nsubc.u32 %r0, 9, 4;") == 4);
  CHECK(Word(both + "mad.lo.cc.u32 %r1, %r2, %r2, %r2;\nmadc.hi.u32 %r0, %r2, %r2, 0;") ==
        0xffffffff);
}

TEST_CASE("Dot products of bytes and halves have their worked values") {
  const std::string sources = "mov.u32 %r1, 0x04030201;\nmov.u32 %r2, 0xff020304;\n";
  CHECK(Word(sources + "dp4a.u32.u32 %r0, %r1, %r2, 10;") == 4 + 6 + 6 + 4 * 255 + 10);
  CHECK(Word(sources + "dp4a.s32.s32 %r0, %r1, %r2, 10;") == 4 + 6 + 6 - 4 + 10);
  CHECK(Word(sources + "dp2a.lo.u32.u32 %r0, %r1, %r2, 1;") == 0x0201 * 4 + 0x0403 * 3 + 1);
  CHECK(Word(sources + "dp2a.hi.u32.u32 %r0, %r1, %r2, 1;") == 0x0201 * 2 + 0x0403 * 255 + 1);
}

TEST_CASE("Video instructions work on the parts of a word") {
  const std::string sources = "mov.u32 %r1, 0x01ff0510;\nmov.u32 %r2, 0x0301060f;\n";
  CHECK(Word(sources + "vabsdiff4.u32.u32.u32 %r0, %r1, %r2, 0;") == 0x02fe0101);
  CHECK(Word(sources + "vabsdiff4.u32.u32.u32.add %r0, %r1, %r2, 1;") == 2 + 254 + 1 + 1 + 1);
  CHECK(Word(sources + "vabsdiff2.u32.u32.u32.add %r0, %r1, %r2, 0;") == 0x0102 + 0xff);
}

TEST_CASE("Pairs of short integers have their worked values") {
  CHECK(Word("mov.u32 %r1, 0x0001fffe;\nmov.u32 %r2, 0x00050001;\nadd.s16x2 %r0, %r1, %r2;") ==
        0x0006ffff);
  CHECK(Word("mov.u32 %r1, 0x0001fffe;\nmov.u32 %r2, 0x00050001;\nmin.s16x2 %r0, %r1, %r2;") ==
        0x0001fffe);
  CHECK(Word("mov.u32 %r1, 0x0001fffe;\nmov.u32 %r2, 0x00050001;\nmin.u16x2 %r0, %r1, %r2;") ==
        0x00010001);
  CHECK(Word("mov.u32 %r1, 0x0001fffe;\nmov.u32 %r2, 0x00050001;\nmin.s16x2.relu %r0, %r1, %r2;") ==
        0x00010000);
}

TEST_CASE("Rounding follows the instruction") {
  CHECK(Float("div.rm.f32 %f0, 0f3F800000, 0f40400000;") <
        Float("div.rp.f32 %f0, 0f3F800000, 0f40400000;"));
  // 1 + 2^-30 lies between two numbers.
  CHECK(Float("add.rm.f32 %f0, 0f3F800000, 0f30800000;") == 1);
  CHECK(Float("add.rp.f32 %f0, 0f3F800000, 0f30800000;") == std::nextafter(1.0F, 2.0F));
  CHECK(Float("add.rz.f32 %f0, 0fBF800000, 0fB0800000;") == -1);
  CHECK(Float("mov.u32 %r1, 16777217;\ncvt.rn.f32.u32 %f0, %r1;") == 16777216);
  CHECK(Float("mov.u32 %r1, 16777217;\ncvt.rp.f32.u32 %f0, %r1;") == 16777218);
}

TEST_CASE("Results are clamped where the instruction says so") {
  CHECK(Float("add.sat.f32 %f0, 0f3F800000, 0f3F800000;") == 1);
  CHECK(Float("mul.sat.f32 %f0, 0fBF800000, 0f3F800000;") == 0);
  CHECK(Word("max.s32.relu %r0, -5, -3;") == 0);
  CHECK(Word("add.sat.s32 %r0, 2147483647, 5;") == 0x7fffffff);
}

TEST_CASE("set turns a comparison into a number for each half of a pair") {
  CHECK(Float("set.lt.f32.f32 %f0, 0f3F800000, 0f40000000;") == 1);
  CHECK(Word("set.gt.u32.f32 %r0, 0f3F800000, 0f40000000;") == 0);
  // Halves 2 and 1 against 1 and 1.
  CHECK(Word("mov.u32 %r1, 0x40003c00;\nmov.u32 %r2, 0x3c003c00;\n"
             "set.gt.f16x2.f16x2 %r0, %r1, %r2;") == 0x3c000000);
  CHECK(Word("mov.u32 %r1, 0x40003f80;\nmov.u32 %r2, 0x3f803f80;\n"
             "set.gt.u32.bf16x2 %r0, %r1, %r2;") == 0xffff0000);
}

TEST_CASE("The n-th set bit is counted from a base") {
  CHECK(Word("fns.b32 %r0, 0xb4, 0, 1;") == 2);
  CHECK(Word("fns.b32 %r0, 0xb4, 0, 3;") == 5);
  CHECK(Word("fns.b32 %r0, 0xb4, 7, -2;") == 5);
  CHECK(Word("fns.b32 %r0, 0xb4, 0, 9;") == 0xffffffff);
}

TEST_CASE("A device function is inlined with its own labels and registers") {
  const std::string function =
      ".version 9.0\n.target sm_90\n.address_size 64\n"
      ".func (.param .b32 result) larger(.param .b32 a, .param .b32 b)\n{\n"
      ".reg .b32 %r<4>;\n.reg .pred %p<2>;\nld.param.u32 %r1, [a];\nld.param.u32 %r2, [b];\n"
      "setp.gt.u32 %p1, %r1, %r2;\n@%p1 bra $L_end;\nst.param.b32 [result+0], %r2;\nret;\n"
      "$L_end:\nst.param.b32 [result+0], %r1;\nret;\n}\n";
  const std::string call =
      "{\n.param .b32 p0;\n.param .b32 p1;\n.param .b32 back;\nst.param.b32 [p0+0], %r1;\n"
      "st.param.b32 [p1+0], %r2;\ncall.uni (back), larger, (p0, p1);\nld.param.b32 %r1, "
      "[back+0];\n}\n";
  std::string kernel = Kernel("mov.u32 %r1, 3;\nmov.u32 %r2, 7;\n" + call + "mov.u32 %r2, 5;\n" +
                              call + "st.global.u32 [%rd0], %r1;");
  kernel = function + kernel.substr(kernel.find(".visible"));
  CHECK(static_cast<uint32_t>(Result(kernel)) == 7);
}

TEST_CASE("A recursive function is not covered") {
  const Program program = ParseProgram(
      ".func f()\n{\ncall.uni f, ();\nret;\n}\n.entry k()\n{\ncall.uni f, ();\nret;\n}\n");
  REQUIRE(program.kernels.size() == 1);
  CHECK(program.kernels[0]->not_covered == "calls nested too deep");
}

TEST_CASE("A branch table jumps to the label at its index") {
  const std::string body =
      "mov.u32 %r1, INDEX;\n$T: .branchtargets $L0, $L1, $L2;\nbrx.idx %r1, $T;\n"
      "$L0:\nmov.u32 %r0, 10;\nbra $E;\n$L1:\nmov.u32 %r0, 11;\nbra $E;\n$L2:\nmov.u32 %r0, 12;\n"
      "$E:";
  for (const auto& [index, result] :
       {std::pair("0", 10U), std::pair("1", 11U), std::pair("2", 12U)}) {
    std::string text = body;
    text.replace(text.find("INDEX"), 5, index);
    CHECK(Word(text) == result);
  }
}

}  // namespace
}  // namespace kernelcast::worker::virtual_gpu
