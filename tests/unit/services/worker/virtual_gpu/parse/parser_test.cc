#include "services/worker/virtual_gpu/parse/parser.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "tests/unit/services/worker/virtual_gpu/bind/single_instruction.h"

namespace kernelcast::worker::virtual_gpu {
namespace {

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
  std::string kernel = SingleKernel("mov.u32 %r1, 3;\nmov.u32 %r2, 7;\n" + call +
                                    "mov.u32 %r2, 5;\n" + call + "st.global.u32 [%at], %r1;");
  kernel = function + kernel.substr(kernel.find(".visible"));
  CHECK(RunKernel(kernel).results[0] == 7);
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
    CHECK(RunBody(text).results[0] == result);
  }
}

}  // namespace
}  // namespace kernelcast::worker::virtual_gpu
