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

}  // namespace
}  // namespace kernelcast::worker::virtual_gpu
