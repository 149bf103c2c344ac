#include "services/worker/virtual_gpu/bind/instructions.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/unit/services/worker/virtual_gpu/bind/single_instruction.h"

// Worked values for every row of the table of instructions, from the PTX ISA. integer_test.cc has
// the edges of integer arithmetic.

namespace kernelcast::worker::virtual_gpu {
namespace {

using Expectation = std::function<void(const Ran&)>;

// The same bits in all threads.
Expectation Is(uint64_t bits) {
  return [bits](const Ran& ran) {
    for (const uint64_t result : ran.results) CHECK(result == bits);
  };
}
Expectation IsF(float value) { return Is(std::bit_cast<uint32_t>(value)); }
Expectation IsD(double value) { return Is(std::bit_cast<uint64_t>(value)); }
float FloatOf(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }
double DoubleOf(uint64_t bits) { return std::bit_cast<double>(bits); }
Expectation IsNaN() {
  return [](const Ran& ran) { CHECK(std::isnan(FloatOf(ran.results.at(0)))); };
}
Expectation IsNaN64() {
  return [](const Ran& ran) { CHECK(std::isnan(DoubleOf(ran.results.at(0)))); };
}
// Within the error of the hardware's approximations.
Expectation Near(double value) {
  return [value](const Ran& ran) {
    CHECK(double{FloatOf(ran.results.at(0))} == Approx(value).epsilon(1e-6));
  };
}
// A function of the lane; 32 threads run.
struct Lanes {
  std::function<uint64_t(uint32_t)> value;
};

struct Row {
  std::string ptx;
  Expectation expected;
  int threads = 1;

  Row(std::string text, uint64_t bits) : ptx(std::move(text)), expected(Is(bits)) {}
  Row(std::string text, Expectation expectation, int thread_count = 1)
      : ptx(std::move(text)), expected(std::move(expectation)), threads(thread_count) {}
  Row(std::string text, const Lanes& lanes)
      : ptx(std::move(text)),
        expected([value = lanes.value](const Ran& ran) {
          REQUIRE(ran.results.size() == 32);
          for (uint32_t lane = 0; lane < 32; ++lane) {
            INFO("lane " << lane);
            CHECK(ran.results[lane] == value(lane));
          }
        }),
        threads(32) {}
};

struct Group {
  std::string_view instruction;
  std::vector<Row> rows;
};

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr uint64_t kTrue = 1;
constexpr uint64_t kFalse = 0;
constexpr uint64_t kNoBit = 0xffffffff;

// Floating-point constants of PTX.
std::string F(float value) {
  char text[16];
  std::snprintf(text, sizeof(text), "0f%08X", std::bit_cast<uint32_t>(value));
  return text;
}
std::string D(double value) {
  char text[24];
  std::snprintf(text, sizeof(text), "0d%016llX",
                static_cast<unsigned long long>(std::bit_cast<uint64_t>(value)));
  return text;
}
const std::string kNaN = "0f7FFFFFFF";
const std::string kNaN64 = "0d7FF8000000000000";
const std::string kLargest = "0f7F7FFFFF";
const std::string kLeast = "0f00000001";  // 2^-149

// Instructions with one floating-point result of up to three sources.
std::string Op(const std::string& opcode, const std::string& a, const std::string& b = "",
               const std::string& c = "") {
  const bool wide = opcode.ends_with("f64");
  return opcode + (wide ? " %d0, " : " %f0, ") + a + (b.empty() ? "" : ", " + b) +
         (c.empty() ? "" : ", " + c) + ";";
}

const std::string kLane = "mov.u32 %r1, %laneid;\n";
// %p1 holds in even lanes.
const std::string kEven = kLane + "and.b32 %r2, %r1, 1;\nsetp.eq.u32 %p1, %r2, 0;\n";
// Bytes 0x01ff0510 and 0x0301060f.
const std::string kBytes = "mov.u32 %r1, 0x01ff0510;\nmov.u32 %r2, 0x0301060f;\n";
// Shorts 1, -2 and 5, 1.
const std::string kShorts = "mov.u32 %r1, 0x0001fffe;\nmov.u32 %r2, 0x00050001;\n";
// Halves 2, 1 and 0.5, -3.
const std::string kHalves = "mov.u32 %r1, 0x40003c00;\nmov.u32 %r2, 0x3800c200;\n";

// Checks that nothing but time passes.
Row Leaves(const std::string& statement) { return {"mov.u32 %r0, 7;\n" + statement, uint64_t{7}}; }

const std::vector<Group>& Arithmetic() {
  static const std::vector<Group> groups = {
      {"add",
       {{"add.s32 %r0, 2147483647, 1;", 0x80000000},
        {"add.u64 %rd0, -1, 2;", 1},
        {"mov.b16 %h1, 0xffff;\nadd.u16 %h0, %h1, 2;", 1},
        {"add.sat.s32 %r0, 2147483647, 5;", 0x7fffffff},
        {"add.sat.s32 %r0, -2147483648, -5;", 0x80000000},
        {Op("add.rn.f32", F(1), F(0x1p-24F)), IsF(1)},
        {Op("add.rp.f32", F(1), F(0x1p-24F)), IsF(1 + 0x1p-23F)},
        {Op("add.rm.f32", F(-1), F(-0x1p-30F)), IsF(-1 - 0x1p-23F)},
        {Op("add.rz.f32", F(-1), F(-0x1p-30F)), IsF(-1)},
        {Op("add.f32", kLargest, kLargest), IsF(kInfinity)},
        {Op("add.rz.f32", kLargest, kLargest), IsF(std::numeric_limits<float>::max())},
        {Op("add.f32", F(kInfinity), F(-kInfinity)), IsNaN()},
        {Op("add.f32", F(1), kNaN), IsNaN()},
        {Op("add.f32", kLeast, kLeast), IsF(0x1p-148F)},
        {Op("add.sat.f32", F(0.75F), F(0.75F)), IsF(1)},
        {Op("add.sat.f32", F(-2), F(1)), IsF(0)},
        {Op("add.sat.f32", F(1), kNaN), IsF(0)},
        {Op("add.f64", D(1), D(0x1p-53)), IsD(1)},
        {Op("add.rp.f64", D(1), D(0x1p-53)), IsD(1 + 0x1p-52)},
        // 2048 + 1 rounds to even in half precision, and 256 + 1 in bfloat16.
        {"mov.b16 %h1, 0x6800;\nmov.b16 %h2, 0x3c00;\nadd.f16 %h0, %h1, %h2;", 0x6800},
        {"mov.b16 %h1, 0x4380;\nmov.b16 %h2, 0x3f80;\nadd.bf16 %h0, %h1, %h2;", 0x4380},
        {kHalves + "add.f16x2 %r0, %r1, %r2;", 0x4100c000},
        {kShorts + "add.s16x2 %r0, %r1, %r2;", 0x0006ffff},
        {"add.cc.u32 %r1, -1, 1;\naddc.u32 %r0, 0, 0;", 1}}},
      {"sub",
       {{"sub.s32 %r0, -2147483648, 1;", 0x7fffffff},
        {"sub.u64 %rd0, 0, 1;", ~uint64_t{0}},
        {"sub.sat.s32 %r0, -2147483648, 1;", 0x80000000},
        {Op("sub.f32", F(1), F(0x1p-25F)), IsF(1)},
        {Op("sub.rz.f32", F(1), F(0x1p-30F)), IsF(1 - 0x1p-24F)},
        {Op("sub.f32", F(kInfinity), F(kInfinity)), IsNaN()},
        {Op("sub.f64", D(0.5), D(2)), IsD(-1.5)},
        {kHalves + "sub.f16x2 %r0, %r1, %r2;", 0x3e004400},
        {kShorts + "sub.s16x2 %r0, %r1, %r2;", 0xfffcfffd},
        {"sub.cc.u32 %r1, 0, 1;\nsubc.u32 %r0, 5, 2;", 2}}},
      {"mul",
       {{"mul.lo.u32 %r0, 0x10001, 0x10001;", 0x00020001},
        {"mul.hi.u32 %r0, -1, -1;", 0xfffffffe},
        {"mul.hi.s32 %r0, -1, -1;", 0},
        {"mul.hi.s32 %r0, -2147483648, 2;", 0xffffffff},
        {"mul.wide.u32 %rd0, -1, -1;", 0xfffffffe00000001},
        {"mul.wide.s32 %rd0, -1, 5;", static_cast<uint64_t>(-5)},
        {"mov.b16 %h1, 0x8000;\nmul.wide.s16 %r0, %h1, 2;", 0xffff0000},
        {"mov.b16 %h1, 0x8000;\nmul.wide.u16 %r0, %h1, 2;", 0x00010000},
        {"mul.hi.u64 %rd0, -1, -1;", 0xfffffffffffffffe},
        {"mul.lo.s64 %rd0, -3, 7;", static_cast<uint64_t>(-21)},
        {Op("mul.f32", F(0), F(kInfinity)), IsNaN()},
        {Op("mul.f32", F(-0.0F), F(5)), IsF(-0.0F)},
        {Op("mul.rp.f32", kLeast, F(0.25F)), IsF(0x1p-149F)},
        {Op("mul.rn.f32", kLeast, F(0.25F)), IsF(0)},
        {Op("mul.sat.f32", F(-1), F(1)), IsF(0)},
        {Op("mul.f64", D(3), D(-0.5)), IsD(-1.5)},
        {kHalves + "mul.f16x2 %r0, %r1, %r2;", 0x3c00c200}}},
      {"mad",
       {{"mad.lo.s32 %r0, -3, 7, 100;", 79},
        {"mad.hi.u32 %r0, -1, -1, 1;", 0xffffffff},
        {"mad.hi.sat.s32 %r0, 0x40000000, 16, 2147483647;", 0x7fffffff},
        {"mad.hi.s32 %r0, 0x40000000, 16, 2147483647;", 0x80000003},
        {"mad.wide.u32 %rd0, -1, 2, 3;", 0x200000001},
        {"mad.wide.s32 %rd0, -1, 2, 3;", 1},
        {"mad.lo.u64 %rd0, -1, -1, 1;", 2},
        {Op("mad.rn.f32", F(3), F(-0.5F), F(1)), IsF(-0.5F)},
        {"mad.lo.cc.u32 %r1, -1, -1, -1;\nmadc.hi.u32 %r0, -1, -1, 0;", 0xffffffff}}},
      {"fma",
       {{Op("fma.rn.f32", F(3), F(-0.5F), F(1)), IsF(-0.5F)},
        // The exact product is 1 - 2^-46: only a fused sum keeps the difference.
        {Op("fma.rn.f32", F(1 + 0x1p-23F), F(1 - 0x1p-23F), F(-1)), IsF(-0x1p-46F)},
        {Op("fma.rn.f64", D(1 + 0x1p-52), D(1 - 0x1p-52), D(-1)), IsD(-0x1p-104)},
        {Op("fma.rp.f32", F(1), F(1), F(0x1p-30F)), IsF(1 + 0x1p-23F)},
        {Op("fma.rn.f32", F(0), F(kInfinity), F(1)), IsNaN()},
        {Op("fma.rn.sat.f32", F(2), F(2), F(2)), IsF(1)},
        // 2 * 0.5 + 2 and 1 * -3 + 1, clamped from below.
        {kHalves + "fma.rn.f16x2 %r0, %r1, %r2, %r1;", 0x4200c000},
        {kHalves + "fma.rn.relu.f16x2 %r0, %r1, %r2, %r1;", 0x42000000}}},
      {"min",
       {{"min.s32 %r0, -1, 1;", 0xffffffff},
        {"min.u32 %r0, -1, 1;", 1},
        {"min.s64 %rd0, -5, -4;", static_cast<uint64_t>(-5)},
        {"min.s32.relu %r0, -5, 3;", 0},
        {Op("min.f32", F(1), kNaN), IsF(1)},
        {Op("min.NaN.f32", F(1), kNaN), IsNaN()},
        {Op("min.f32", kNaN, kNaN), IsNaN()},
        {Op("min.f64", D(-2), D(1)), IsD(-2)},
        {Op("min.xorsign.abs.f32", F(-3), F(2)), IsF(-2)},
        {Op("min.xorsign.abs.f32", F(-3), F(-2)), IsF(2)},
        {Op("min.NaN.xorsign.abs.f32", F(1), kNaN), IsNaN()},
        {kHalves + "min.f16x2 %r0, %r1, %r2;", 0x3800c200},
        {kShorts + "min.s16x2 %r0, %r1, %r2;", 0x0001fffe},
        {kShorts + "min.s16x2.relu %r0, %r1, %r2;", 0x00010000},
        {kShorts + "min.u16x2 %r0, %r1, %r2;", 0x00010001}}},
      {"max",
       {{"max.s32 %r0, -1, 1;", 1},
        {"max.u32 %r0, -1, 1;", 0xffffffff},
        {"max.s32.relu %r0, -5, -3;", 0},
        {Op("max.f32", kNaN, F(-1)), IsF(-1)},
        {Op("max.xorsign.abs.f32", F(-3), F(2)), IsF(-3)},
        {Op("max.xorsign.abs.f32", F(3), F(2)), IsF(3)},
        {Op("max.NaN.f32", kNaN, F(-1)), IsNaN()},
        {Op("max.f32", F(-kInfinity), F(-1)), IsF(-1)},
        {kHalves + "max.f16x2 %r0, %r1, %r2;", 0x40003c00},
        {kShorts + "max.s16x2 %r0, %r1, %r2;", 0x00050001}}},
      {"neg",
       {{"neg.s32 %r0, 5;", 0xfffffffb},
        {"neg.s32 %r0, -2147483648;", 0x80000000},
        {"neg.s64 %rd0, 1;", ~uint64_t{0}},
        {Op("neg.f32", F(0)), IsF(-0.0F)},
        {Op("neg.f64", D(-2)), IsD(2)},
        {kHalves + "neg.f16x2 %r0, %r1;", 0xc000bc00}}},
      {"abs",
       {{"abs.s32 %r0, -5;", 5},
        {"abs.s32 %r0, -2147483648;", 0x80000000},
        {"abs.s64 %rd0, -1;", 1},
        {Op("abs.f32", F(-0.0F)), IsF(0)},
        {Op("abs.f32", F(-kInfinity)), IsF(kInfinity)},
        {kHalves + "abs.f16x2 %r0, %r2;", 0x38004200}}},
      {"rem",
       {{"rem.s32 %r0, -7, 3;", 0xffffffff},
        {"rem.s32 %r0, 7, -3;", 1},
        {"rem.u32 %r0, 7, 3;", 1},
        {"rem.s32 %r0, -2147483648, -1;", 0},
        {"rem.u64 %rd0, -1, 10;", 5}}},
      {"sad",
       {{"sad.s32 %r0, -5, 7, 1;", 13},
        {"sad.u32 %r0, 1, -1, 0;", 0xfffffffe},
        {"sad.s32 %r0, 7, -5, -13;", 0xffffffff}}},
      {"addc",
       {{"add.cc.u32 %r1, -1, 1;\naddc.u32 %r0, 5, 6;", 12},
        {"add.cc.u32 %r1, 1, 1;\naddc.u32 %r0, 5, 6;", 11},
        {"add.cc.u32 %r1, -1, 1;\naddc.cc.u32 %r2, -1, 0;\naddc.u32 %r0, 0, 0;", 1},
        {"add.cc.u64 %rd1, -1, 1;\naddc.u64 %rd0, 5, 6;", 12}}},
      {"subc",
       {{"sub.cc.u32 %r1, 0, 1;\nsubc.u32 %r0, 9, 4;", 4},
        {"sub.cc.u32 %r1, 1, 1;\nsubc.u32 %r0, 9, 4;", 5},
        {"sub.cc.u32 %r1, 0, 1;\nsubc.cc.u32 %r2, 0, 0;\nsubc.u32 %r0, 9, 4;", 4}}},
      {"madc",
       // (2^32 - 1)^2 + 2^32 - 1 is 2^64 - 2^32: its halves are 0 and -1.
       {{"mad.lo.cc.u32 %r1, -1, -1, -1;\nmadc.hi.u32 %r0, -1, -1, 0;", 0xffffffff},
        {"mad.lo.cc.u32 %r1, 2, 3, 4;\nmadc.lo.u32 %r0, 2, 3, 4;", 10}}},
      {"dp2a",
       {{"dp2a.lo.u32.u32 %r0, 0x04030201, 0xff020304, 1;", 0x0201 * 4 + 0x0403 * 3 + 1},
        {"dp2a.hi.u32.u32 %r0, 0x04030201, 0xff020304, 1;", 0x0201 * 2 + 0x0403 * 255 + 1},
        {"dp2a.hi.s32.s32 %r0, 0x0001ffff, 0xff020304, 0;", 0xfffffffd}}},
      {"dp4a",
       {{"dp4a.u32.u32 %r0, 0x04030201, 0xff020304, 10;", 4 + 6 + 6 + 4 * 255 + 10},
        {"dp4a.s32.s32 %r0, 0x04030201, 0xff020304, 10;", 4 + 6 + 6 - 4 + 10},
        {"dp4a.u32.s32 %r0, 0xff000000, 0xff000000, 0;", static_cast<uint32_t>(-255)}}},
      {"vadd2",
       {{kBytes + "vadd2.u32.u32.u32 %r0, %r1, %r2, 0;", 0x05000b1f},
        {kShorts + "vadd2.s32.s32.s32.sat %r0, %r1, 0x7fff8000, 0;", 0x7fff8000}}},
      {"vadd4",
       {{kBytes + "vadd4.u32.u32.u32 %r0, %r1, %r2, 0;", 0x04000b1f},
        {kBytes + "vadd4.u32.u32.u32.sat %r0, %r1, %r2, 0;", 0x04ff0b1f}}},
      {"vsub2", {{kBytes + "vsub2.s32.u32.u32 %r0, %r1, %r2, 0;", 0xfefeff01}}},
      {"vsub4", {{kBytes + "vsub4.s32.u32.u32 %r0, %r1, %r2, 0;", 0xfefeff01}}},
      {"vabsdiff2", {{kBytes + "vabsdiff2.u32.u32.u32.add %r0, %r1, %r2, 0;", 0x0102 + 0xff}}},
      {"vabsdiff4",
       {{kBytes + "vabsdiff4.u32.u32.u32 %r0, %r1, %r2, 0;", 0x02fe0101},
        {kBytes + "vabsdiff4.u32.u32.u32.add %r0, %r1, %r2, 1;", 2 + 254 + 1 + 1 + 1}}},
      {"vavrg2", {{kShorts + "vavrg2.s32.s32.s32 %r0, %r1, %r2, 0;", 0x0003ffff}}},
      // Averages of 1 and 3, 255 and 1, 5 and 6, 16 and 15 round up.
      {"vavrg4", {{kBytes + "vavrg4.u32.u32.u32 %r0, %r1, %r2, 0;", 0x02800610}}},
      {"vmin2", {{kShorts + "vmin2.s32.s32.s32 %r0, %r1, %r2, 0;", 0x0001fffe}}},
      {"vmin4", {{kBytes + "vmin4.u32.u32.u32 %r0, %r1, %r2, 0;", 0x0101050f}}},
      {"vmax2", {{kShorts + "vmax2.u32.u32.u32 %r0, %r1, %r2, 0;", 0x0005fffe}}},
      {"vmax4", {{kBytes + "vmax4.s32.s32.s32 %r0, %r1, %r2, 0;", 0x03010610}}},
  };
  return groups;
}

const std::vector<Group>& FloatingPoint() {
  static const std::vector<Group> groups = {
      {"div",
       {{"div.s32 %r0, -7, 2;", 0xfffffffd},
        {"div.u32 %r0, -1, 2;", 0x7fffffff},
        {"div.s32 %r0, -2147483648, -1;", 0x80000000},
        {"div.u64 %rd0, -1, 10;", 0x1999999999999999},
        {Op("div.rn.f32", F(1), F(3)), IsF(1.0F / 3)},
        {Op("div.rm.f32", F(1), F(3)), IsF(0x1.555554p-2F)},
        {Op("div.rp.f32", F(1), F(3)), IsF(0x1.555556p-2F)},
        {Op("div.rn.f32", F(1), F(-0.0F)), IsF(-kInfinity)},
        {Op("div.rn.f32", F(0), F(0)), IsNaN()},
        {Op("div.full.f32", F(6), F(4)), Near(1.5)},
        {Op("div.rn.f64", D(1), D(3)), IsD(1.0 / 3)}}},
      {"copysign",
       {{Op("copysign.f32", F(-1), F(3)), IsF(-3)},
        {Op("copysign.f32", F(1), F(-3)), IsF(3)},
        {Op("copysign.f32", F(-0.0F), F(kInfinity)), IsF(-kInfinity)},
        {Op("copysign.f64", D(-1), D(2)), IsD(-2)}}},
      {"testp",
       {{"testp.finite.f32 %p0, " + kLargest + ";", kTrue},
        {"testp.finite.f32 %p0, " + F(kInfinity) + ";", kFalse},
        {"testp.infinite.f32 %p0, " + F(-kInfinity) + ";", kTrue},
        {"testp.number.f32 %p0, " + F(kInfinity) + ";", kTrue},
        {"testp.notanumber.f32 %p0, " + kNaN + ";", kTrue},
        {"testp.notanumber.f64 %p0, " + D(0) + ";", kFalse},
        {"testp.normal.f32 %p0, " + kLeast + ";", kFalse},
        {"testp.subnormal.f32 %p0, " + kLeast + ";", kTrue},
        {"testp.subnormal.f32 %p0, " + F(0) + ";", kFalse}}},
      {"rcp",
       {{Op("rcp.rn.f32", F(3)), IsF(1.0F / 3)},
        {Op("rcp.rp.f32", F(3)), IsF(0x1.555556p-2F)},
        {Op("rcp.approx.ftz.f32", F(-0.0F)), IsF(-kInfinity)},
        {Op("rcp.rn.f64", D(4)), IsD(0.25)}}},
      {"sqrt",
       {{Op("sqrt.rn.f32", F(2)), IsF(0x1.6a09e6p+0F)},
        {Op("sqrt.rp.f32", F(2)), IsF(0x1.6a09e8p+0F)},
        {Op("sqrt.rn.f32", F(-1)), IsNaN()},
        {Op("sqrt.rn.f32", F(-0.0F)), IsF(-0.0F)},
        {Op("sqrt.rn.f64", D(2)), IsD(0x1.6a09e667f3bcdp+0)}}},
      {"rsqrt",
       {{Op("rsqrt.approx.f32", F(16)), Near(0.25)},
        {Op("rsqrt.approx.f32", F(0)), IsF(kInfinity)},
        {Op("rsqrt.approx.f32", F(-4)), IsNaN()},
        {Op("rsqrt.approx.f64", D(-4)), IsNaN64()}}},
      {"ex2",
       {{Op("ex2.approx.f32", F(-3)), Near(0.125)},
        {Op("ex2.approx.f32", F(128)), IsF(kInfinity)},
        {Op("ex2.approx.f32", F(-kInfinity)), IsF(0)},
        {kHalves + "ex2.approx.f16x2 %r0, %r1;", 0x44004000}}},
      {"lg2",
       {{Op("lg2.approx.f32", F(8)), Near(3)},
        {Op("lg2.approx.f32", F(0)), IsF(-kInfinity)},
        {Op("lg2.approx.f32", F(-1)), IsNaN()}}},
      {"sin",
       {{Op("sin.approx.f32", F(0.5F)), Near(0.479425538604203)},
        {Op("sin.approx.f32", F(-0.0F)), IsF(-0.0F)},
        {Op("sin.approx.f32", kNaN), IsNaN()}}},
      {"cos",
       {{Op("cos.approx.f32", F(0.5F)), Near(0.8775825618903728)},
        {Op("cos.approx.f32", F(0)), IsF(1)}}},
      {"tanh",
       {{Op("tanh.approx.f32", F(0.5F)), Near(0.46211715726000976)},
        {Op("tanh.approx.f32", F(kInfinity)), IsF(1)},
        {Op("tanh.approx.f32", F(-kInfinity)), IsF(-1)}}},
  };
  return groups;
}

const std::vector<Group>& Bits() {
  static const std::vector<Group> groups = {
      {"and",
       {{"and.b32 %r0, 0xf0f0f0f0, 0xff00ff00;", 0xf000f000},
        {"and.b64 %rd0, -1, 0xf000000000000001;", 0xf000000000000001},
        {"setp.eq.u32 %p1, 1, 1;\nsetp.eq.u32 %p2, 1, 2;\nand.pred %p0, %p1, !%p2;", kTrue},
        {"setp.eq.u32 %p1, 1, 1;\nsetp.eq.u32 %p2, 1, 2;\nand.pred %p0, %p1, %p2;", kFalse}}},
      {"or",
       {{"or.b32 %r0, 0xf0f0f0f0, 0xff00ff00;", 0xfff0fff0},
        {"setp.eq.u32 %p1, 1, 1;\nsetp.eq.u32 %p2, 1, 2;\nor.pred %p0, %p2, %p1;", kTrue}}},
      {"xor",
       {{"xor.b32 %r0, 0xf0f0f0f0, 0xff00ff00;", 0x0ff00ff0},
        {"setp.eq.u32 %p1, 1, 1;\nxor.pred %p0, %p1, %p1;", kFalse}}},
      {"not",
       {{"not.b32 %r0, 0xf0f0f0f0;", 0x0f0f0f0f},
        {"mov.b16 %h1, 0xff00;\nnot.b16 %h0, %h1;", 0x00ff},
        {"setp.eq.u32 %p1, 1, 2;\nnot.pred %p0, %p1;", kTrue}}},
      {"cnot", {{"cnot.b32 %r0, 0;", 1}, {"cnot.b32 %r0, 5;", 0}, {"cnot.b64 %rd0, 0;", 1}}},
      {"brev", {{"brev.b32 %r0, 1;", 0x80000000}, {"brev.b64 %rd0, 0x3;", 0xc000000000000000}}},
      {"shl",
       {{"shl.b32 %r0, 1, 31;", 0x80000000},
        {"shl.b32 %r0, 1, 32;", 0},
        {"shl.b32 %r0, -1, 4294967295;", 0},
        {"shl.b64 %rd0, 1, 63;", 0x8000000000000000},
        {"shl.b64 %rd0, 1, 64;", 0},
        {"mov.b16 %h1, 1;\nshl.b16 %h0, %h1, 16;", 0}}},
      {"shr",
       {{"shr.u32 %r0, -1, 31;", 1},
        {"shr.u32 %r0, -1, 32;", 0},
        {"shr.s32 %r0, -2, 1;", 0xffffffff},
        {"shr.s32 %r0, -2147483648, 40;", 0xffffffff},
        {"shr.s32 %r0, 2147483647, 40;", 0},
        {"shr.b32 %r0, -1, 4;", 0x0fffffff},
        {"shr.s64 %rd0, -4, 1;", static_cast<uint64_t>(-2)},
        {"mov.b16 %h1, 0x8000;\nshr.s16 %h0, %h1, 4;", 0xf800}}},
      {"shf",
       {{"shf.l.wrap.b32 %r0, 0x80000001, 0x12345678, 4;", 0x23456788},
        {"shf.l.clamp.b32 %r0, 0x80000001, 0x12345678, 40;", 0x80000001},
        {"shf.l.wrap.b32 %r0, 0x80000001, 0x12345678, 32;", 0x12345678},
        {"shf.r.wrap.b32 %r0, 0x80000001, 0x12345678, 4;", 0x88000000},
        {"shf.r.clamp.b32 %r0, 0x80000001, 0x12345678, 33;", 0x12345678},
        {"shf.r.wrap.b32 %r0, 0x80000001, 0x12345678, 32;", 0x80000001}}},
      {"popc",
       {{"popc.b32 %r0, 0xf0f00001;", 9}, {"popc.b64 %r0, -1;", 64}, {"popc.b32 %r0, 0;", 0}}},
      {"clz",
       {{"clz.b32 %r0, 1;", 31}, {"clz.b32 %r0, 0;", 32}, {"clz.b64 %r0, 0x100000000;", 31}}},
      {"bfind",
       {{"bfind.u32 %r0, 0x00f0;", 7},
        {"bfind.u32 %r0, 0;", kNoBit},
        {"bfind.s32 %r0, -1;", kNoBit},
        {"bfind.s32 %r0, -256;", 7},
        {"bfind.shiftamt.u32 %r0, 0x00f0;", 24},
        {"bfind.u64 %r0, 0x100000000;", 32}}},
      {"bfe",
       {{"bfe.u32 %r0, 0x12345678, 8, 8;", 0x56},
        {"bfe.s32 %r0, 0x0000f000, 8, 8;", 0xfffffff0},
        {"bfe.u32 %r0, -1, 28, 8;", 0xf},
        {"bfe.s32 %r0, 0x80000000, 28, 8;", 0xfffffff8},
        {"bfe.u32 %r0, -1, 32, 8;", 0},
        {"bfe.u32 %r0, -1, 0, 0;", 0},
        {"bfe.s32 %r0, -1, 0, 0;", 0},
        {"bfe.u64 %rd0, 0x123456789abcdef0, 32, 16;", 0x5678}}},
      {"bfi",
       {{"bfi.b32 %r0, 0xff, 0x12345678, 8, 4;", 0x12345f78},
        {"bfi.b32 %r0, 0xff, 0x12345678, 28, 8;", 0xf2345678},
        {"bfi.b32 %r0, 0xff, 0x12345678, 40, 8;", 0x12345678},
        {"bfi.b32 %r0, 0xff, 0x12345678, 0, 0;", 0x12345678},
        {"bfi.b64 %rd0, -1, 0, 60, 8;", 0xf000000000000000}}},
      {"bmsk",
       {{"bmsk.clamp.b32 %r0, 4, 8;", 0x00000ff0},
        {"bmsk.clamp.b32 %r0, 40, 8;", 0},
        {"bmsk.clamp.b32 %r0, 28, 40;", 0xf0000000},
        {"bmsk.wrap.b32 %r0, 36, 33;", 0x00000010}}},
      {"szext",
       {{"szext.clamp.s32 %r0, 0x00000080, 8;", 0xffffff80},
        {"szext.clamp.u32 %r0, 0x12345680, 8;", 0x80},
        {"szext.clamp.s32 %r0, 0x12345680, 40;", 0x12345680},
        {"szext.clamp.u32 %r0, -1, 0;", 0},
        {"szext.wrap.u32 %r0, -1, 33;", 1}}},
      {"fns",
       {{"fns.b32 %r0, 0xb4, 0, 1;", 2},
        {"fns.b32 %r0, 0xb4, 0, 3;", 5},
        {"fns.b32 %r0, 0xb4, 7, -2;", 5},
        {"fns.b32 %r0, 0xb4, 2, 0;", 2},
        {"fns.b32 %r0, 0xb4, 3, 0;", kNoBit},
        {"fns.b32 %r0, 0xb4, 0, 9;", kNoBit}}},
      {"prmt",
       {{"prmt.b32 %r0, 0x33221100, 0x77665544, 0x3210;", 0x33221100},
        {"prmt.b32 %r0, 0x33221100, 0x77665544, 0x7531;", 0x77553311},
        {"prmt.b32 %r0, 0x80007f01, 0, 0xba98;", 0xff000000}}},
      {"lop3",
       {{"lop3.b32 %r0, 0xf0f0f0f0, 0xcccccccc, 0xaaaaaaaa, 0x80;", 0x80808080},
        {"lop3.b32 %r0, 0xf0f0f0f0, 0xcccccccc, 0xaaaaaaaa, 0xfe;", 0xfefefefe},
        {"lop3.b32 %r0, 0xf0f0f0f0, 0xcccccccc, 0xaaaaaaaa, 0x96;", 0x96969696},
        {"lop3.b32 %r0, 0xf0f0f0f0, 0xcccccccc, 0xaaaaaaaa, 0xd8;", 0xd8d8d8d8}}},
  };
  return groups;
}

const std::vector<Group>& Values() {
  static const std::vector<Group> groups = {
      {"setp",
       {{"setp.lt.s32 %p0, -1, 1;", kTrue},
        {"setp.lt.u32 %p0, -1, 1;", kFalse},
        {"setp.lo.u32 %p0, 1, -1;", kTrue},
        {"setp.hs.u64 %p0, -1, -1;", kTrue},
        {"setp.eq.b16 %p0, 5, 5;", kTrue},
        {"setp.eq.f32 %p0, " + F(0) + ", " + F(-0.0F) + ";", kTrue},
        {"setp.eq.f32 %p0, " + kNaN + ", " + kNaN + ";", kFalse},
        {"setp.equ.f32 %p0, " + kNaN + ", " + kNaN + ";", kTrue},
        {"setp.ne.f32 %p0, " + kNaN + ", " + F(1) + ";", kFalse},
        {"setp.neu.f32 %p0, " + kNaN + ", " + F(1) + ";", kTrue},
        {"setp.num.f32 %p0, " + F(1) + ", " + kNaN + ";", kFalse},
        {"setp.nan.f64 %p0, " + D(1) + ", " + kNaN64 + ";", kTrue},
        {"setp.ge.f64 %p0, " + D(1) + ", " + D(1) + ";", kTrue},
        {"setp.eq.u32 %p1, 1, 2;\nsetp.lt.and.s32 %p0, 1, 2, !%p1;", kTrue},
        {"setp.eq.u32 %p1, 1, 2;\nsetp.lt.and.s32 %p0, 1, 2, %p1;", kFalse},
        {"setp.lt.s32 %p1|%p0, 1, 2;", kFalse},
        {kHalves + "setp.gt.f16x2 %p0|%p1, %r2, %r1;", kFalse},
        {kHalves + "setp.gt.f16x2 %p1|%p0, %r1, %r2;", kTrue}}},
      {"set",
       {{"set.lt.u32.s32 %r0, -1, 1;", 0xffffffff},
        {"set.lt.u32.u32 %r0, -1, 1;", 0},
        {"set.lt.f32.f32 %f0, " + F(1) + ", " + F(2) + ";", IsF(1)},
        {"set.gt.u32.f32 %r0, " + F(1) + ", " + kNaN + ";", 0},
        {"set.gtu.u32.f32 %r0, " + F(1) + ", " + kNaN + ";", 0xffffffff},
        {kHalves + "set.gt.f16x2.f16x2 %r0, %r1, %r2;", 0x3c003c00},
        {"set.gt.u32.bf16x2 %r0, 0x40003f80, 0x3f803f80;", 0xffff0000}}},
      {"selp",
       {{"setp.eq.u32 %p1, 1, 1;\nselp.u32 %r0, 5, 6, %p1;", 5},
        {"setp.eq.u32 %p1, 1, 2;\nselp.b64 %rd0, 5, 6, %p1;", 6},
        {"setp.eq.u32 %p1, 1, 2;\nselp.f32 %f0, " + F(5) + ", " + F(6) + ", !%p1;", IsF(5)}}},
      {"mov",
       {{"mov.u32 %r0, 0xdeadbeef;", 0xdeadbeef},
        {"mov.u32 %r0, %ntid.x;", Is(32), 32},
        {"mov.u32 %r0, %tid.x;", Lanes{[](uint32_t lane) { return lane; }}},
        {"mov.u32 %r0, %lanemask_lt;", Lanes{[](uint32_t lane) { return (1U << lane) - 1; }}},
        {"mov.b64 %rd0, {1, 2};", 0x200000001},
        {"mov.b64 %rd1, 0x123456789abcdef0;\nmov.b64 {%r1, %r0}, %rd1;", 0x12345678},
        {"mov.b32 %r1, 0x12345678;\nmov.b32 {%h0, %h1}, %r1;", 0x5678},
        {"mov.b64 %rd1, 0x123456789abcdef0;\nmov.b64 {_, %r0}, %rd1;", 0x12345678},
        {"setp.eq.u32 %p1, 1, 2;\nmov.pred %p0, !%p1;", kTrue},
        {"mov.pred %p0, 1;", kTrue},
        {"mov.u32 %r0, sh;", 0}}},
      // Shared memory starts at 0; its generic address is that of a window.
      {"cvta",
       {{"mov.u64 %rd1, 20;\ncvta.shared.u64 %rd0, %rd1;", kSharedWindow + 20},
        {"mov.u64 %rd1, 20;\ncvta.shared.u64 %rd2, %rd1;\ncvta.to.shared.u64 %rd0, %rd2;", 20},
        {"mov.u64 %rd1, 20;\ncvta.local.u64 %rd2, %rd1;\ncvta.to.local.u64 %rd0, %rd2;", 20},
        {"cvta.to.global.u64 %rd1, %at;\nsub.u64 %rd0, %rd1, %at;", 0}}},
      {"isspacep",
       {{"mov.u64 %rd1, 20;\ncvta.shared.u64 %rd2, %rd1;\nisspacep.shared %p0, %rd2;", kTrue},
        {"mov.u64 %rd1, 20;\ncvta.shared.u64 %rd2, %rd1;\nisspacep.global %p0, %rd2;", kFalse},
        {"isspacep.global %p0, %at;", kTrue},
        {"isspacep.local %p0, %at;", kFalse}}},
      {"createpolicy", {Leaves("createpolicy.fractional.L2::evict_first.b64 %rd1, 0f3F800000;")}},
      {"cvt",
       {{"cvt.rni.s32.f32 %r0, " + F(2.5F) + ";", 2},
        {"cvt.rni.s32.f32 %r0, " + F(3.5F) + ";", 4},
        {"cvt.rzi.s32.f32 %r0, " + F(-1.9F) + ";", 0xffffffff},
        {"cvt.rmi.s32.f32 %r0, " + F(-1.1F) + ";", 0xfffffffe},
        {"cvt.rpi.s32.f32 %r0, " + F(1.1F) + ";", 2},
        {"cvt.rzi.s32.f32 %r0, " + F(3e9F) + ";", 0x7fffffff},
        {"cvt.rzi.s32.f32 %r0, " + F(-3e9F) + ";", 0x80000000},
        {"cvt.rzi.u32.f32 %r0, " + F(-1) + ";", 0},
        {"cvt.rzi.u32.f32 %r0, " + F(kInfinity) + ";", 0xffffffff},
        {"cvt.rzi.s32.f32 %r0, " + kNaN + ";", 0},
        {"cvt.rzi.s64.f64 %rd0, " + D(-5.5) + ";", static_cast<uint64_t>(-5)},
        {"cvt.rzi.u64.f64 %rd0, " + D(0x1p63) + ";", 0x8000000000000000},
        {"cvt.rni.f32.f32 %f0, " + F(2.5F) + ";", IsF(2)},
        {"cvt.rmi.f32.f32 %f0, " + F(-0.5F) + ";", IsF(-1)},
        {"cvt.sat.f32.f32 %f0, " + F(2) + ";", IsF(1)},
        {"cvt.sat.f32.f32 %f0, " + kNaN + ";", IsF(0)},
        {"cvt.rzi.s64.f32 %rd0, " + kNaN + ";", 0x8000000000000000},
        {"cvt.rzi.u32.f64 %r0, " + kNaN64 + ";", 0x80000000},
        {"cvt.u32.u8 %r0, 0x1ff;", 0xff},
        {"mov.b32 %r1, 300;\ncvt.sat.s8.s32 %r0, %r1;", 127},
        {"mov.b32 %r1, -300;\ncvt.sat.s8.s32 %r0, %r1;", 0xffffff80},
        {"mov.b32 %r1, -300;\ncvt.sat.u8.s32 %r0, %r1;", 0},
        {"mov.b64 %rd1, -1;\ncvt.sat.s32.u64 %r0, %rd1;", 0x7fffffff},
        {"mov.b64 %rd1, -5;\ncvt.sat.s32.s64 %r0, %rd1;", 0xfffffffb},
        {"mov.b32 %r1, 0x80;\ncvt.s32.s8 %r0, %r1;", 0xffffff80},
        {"mov.b32 %r1, 0x80;\ncvt.s64.s32 %rd0, %r1;", 0x80},
        {"mov.b32 %r1, -1;\ncvt.s64.s32 %rd0, %r1;", ~uint64_t{0}},
        {"mov.b32 %r1, -1;\ncvt.u64.u32 %rd0, %r1;", 0xffffffff},
        {"mov.b64 %rd1, -1;\ncvt.u16.u64 %h0, %rd1;", 0xffff},
        {"cvt.rn.f32.s32 %f0, 16777217;", IsF(16777216)},
        {"cvt.rp.f32.s32 %f0, 16777217;", IsF(16777218)},
        {"cvt.rz.f32.s32 %f0, -16777217;", IsF(-16777216)},
        {"mov.u64 %rd1, -1;\ncvt.rn.f32.u64 %f0, %rd1;", IsF(0x1p64F)},
        {"mov.u64 %rd1, -1;\ncvt.rz.f32.u64 %f0, %rd1;", IsF(0x1.fffffep63F)},
        {"cvt.rn.f64.s32 %d0, -3;", IsD(-3)},
        {"cvt.rn.f32.f64 %f0, " + D(0.1) + ";", IsF(0.1F)},
        {"cvt.rp.f32.f64 %f0, " + D(1 + 0x1p-40) + ";", IsF(1 + 0x1p-23F)},
        {"cvt.f64.f32 %d0, " + F(0.1F) + ";", IsD(double{0.1F})},
        // In half precision, 1 + 2^-11 is halfway to the next number, and 65520 to infinity.
        {"cvt.rn.f16.f32 %h0, " + F(1 + 0x1p-11F) + ";", 0x3c00},
        {"cvt.rp.f16.f32 %h0, " + F(1 + 0x1p-11F) + ";", 0x3c01},
        {"cvt.rn.f16.f32 %h0, " + F(65520) + ";", 0x7c00},
        {"cvt.rz.f16.f32 %h0, " + F(65520) + ";", 0x7bff},
        {"cvt.rn.f16.f32 %h0, " + F(0x1p-24F) + ";", 0x0001},
        {"cvt.rn.f16.f32 %h0, " + F(0x1p-25F) + ";", 0x0000},
        {"cvt.rn.relu.f16.f32 %h0, " + F(-1) + ";", 0x0000},
        {"mov.b16 %h1, 0x8001;\ncvt.f32.f16 %f0, %h1;", IsF(-0x1p-24F)},
        {"mov.b16 %h1, 0xfc00;\ncvt.f32.f16 %f0, %h1;", IsF(-kInfinity)},
        {"cvt.rn.bf16.f32 %h0, " + F(1 + 0x1p-8F) + ";", 0x3f80},
        {"cvt.rn.bf16.f32 %h0, " + F(1 + 0x1.8p-7F) + ";", 0x3f82},
        {"mov.b16 %h1, 0x3f81;\ncvt.f32.bf16 %f0, %h1;", IsF(1 + 0x1p-7F)},
        {"cvt.rn.f16x2.f32 %r0, " + F(2) + ", " + F(-1) + ";", 0x4000bc00},
        {"cvt.rn.bf16x2.f32 %r0, " + F(2) + ", " + F(-1) + ";", 0x4000bf80},
        {"cvt.rn.satfinite.e4m3x2.f32 %h0, " + F(1000) + ", " + F(-1) + ";", 0x7eb8},
        {"cvt.rn.satfinite.e5m2x2.f32 %h0, " + F(1e9F) + ", " + F(1) + ";", 0x7b3c},
        {"mov.b16 %h1, 0x7eb8;\ncvt.rn.f16x2.e4m3x2 %r0, %h1;", 0x5f00bc00},
        {"mov.b16 %h1, 0x7b3c;\ncvt.rn.f16x2.e5m2x2 %r0, %h1;", 0x7b003c00},
        {kHalves + "cvt.rn.satfinite.e4m3x2.f16x2 %h0, %r1;", 0x4038},
        {kHalves + "cvt.rn.satfinite.e5m2x2.f16x2 %h0, %r2;", 0x38c2}}},
  };
  return groups;
}

uint32_t PairsOf(uint32_t lane) { return 3U << (lane & ~1U); }

const std::vector<Group>& BetweenLanes() {
  static const std::vector<Group> groups = {
      {"shfl",
       {{kLane + "shfl.sync.bfly.b32 %r0, %r1, 1, 31, -1;",
         Lanes{[](uint32_t lane) { return lane ^ 1; }}},
        {kLane + "shfl.sync.up.b32 %r0, %r1, 2, 0, -1;",
         Lanes{[](uint32_t lane) { return lane < 2 ? lane : lane - 2; }}},
        {kLane + "shfl.sync.down.b32 %r0, %r1, 2, 31, -1;",
         Lanes{[](uint32_t lane) { return lane > 29 ? lane : lane + 2; }}},
        {kLane + "shfl.sync.idx.b32 %r0, %r1, 5, 31, -1;", Is(5), 32},
        // Segments of eight lanes: 0x1800 is their mask, 7 the last lane in one.
        {kLane + "shfl.sync.idx.b32 %r0, %r1, 5, 0x181f, -1;",
         Lanes{[](uint32_t lane) { return (lane & ~7U) + 5; }}},
        {kLane + "shfl.sync.down.b32 %r0, %r1, 2, 0x181f, -1;",
         Lanes{[](uint32_t lane) { return lane % 8 > 5 ? lane : lane + 2; }}},
        {kLane + "shfl.sync.down.b32 %r2|%p0, %r1, 2, 31, -1;",
         Lanes{[](uint32_t lane) { return lane > 29 ? kFalse : kTrue; }}}}},
      {"vote",
       {{kEven + "vote.sync.ballot.b32 %r0, %p1, -1;", Is(0x55555555), 32},
        {kEven + "vote.sync.ballot.b32 %r0, !%p1, -1;", Is(0xaaaaaaaa), 32},
        {kEven + "vote.sync.all.pred %p0, %p1, -1;", Is(kFalse), 32},
        {kEven + "vote.sync.any.pred %p0, %p1, -1;", Is(kTrue), 32},
        {kEven + "vote.sync.uni.pred %p0, %p1, -1;", Is(kFalse), 32},
        // Each half of the warp is a group of its own.
        {kLane + "setp.lt.u32 %p2, %r1, 16;\nselp.b32 %r2, 0xffff, 0xffff0000, %p2;\n"
                 "setp.eq.u32 %p1, %r1, 17;\nvote.sync.ballot.b32 %r0, %p1, %r2;",
         Lanes{[](uint32_t lane) { return lane < 16 ? 0U : 1U << 17; }}},
        {kLane + "setp.lt.u32 %p2, %r1, 16;\nselp.b32 %r2, 0xffff, 0xffff0000, %p2;\n"
                 "vote.sync.all.pred %p0, %p2, %r2;",
         Lanes{[](uint32_t lane) { return lane < 16 ? kTrue : kFalse; }}},
        // Only even lanes execute it.
        {kEven + "mov.pred %p0, 0;\n@%p1 vote.sync.all.pred %p0, %p1, 0x55555555;",
         Lanes{[](uint32_t lane) { return lane % 2 == 0 ? kTrue : kFalse; }}}}},
      {"match",
       {{kLane + "shr.u32 %r2, %r1, 1;\nmatch.any.sync.b32 %r0, %r2, -1;",
         Lanes{[](uint32_t lane) { return PairsOf(lane); }}},
        {kLane + "match.all.sync.b32 %r0|%p1, %r1, -1;", Is(0), 32},
        {"match.all.sync.b32 %r0|%p1, 5, -1;", Is(0xffffffff), 32},
        {"match.all.sync.b64 %r1|%p0, 5, -1;", Is(kTrue), 32}}},
      {"redux",
       {{kLane + "redux.sync.add.s32 %r0, %r1, -1;", Is(31 * 32 / 2), 32},
        {kLane + "sub.s32 %r1, %r1, 7;\nredux.sync.min.s32 %r0, %r1, -1;", Is(0xfffffff9), 32},
        {kLane + "sub.s32 %r1, %r1, 7;\nredux.sync.min.u32 %r0, %r1, -1;", Is(0), 32},
        {kLane + "sub.s32 %r1, %r1, 7;\nredux.sync.max.s32 %r0, %r1, -1;", Is(24), 32},
        {kLane + "sub.s32 %r1, %r1, 7;\nredux.sync.max.u32 %r0, %r1, -1;", Is(0xffffffff), 32},
        {kLane + "or.b32 %r1, %r1, 64;\nredux.sync.and.b32 %r0, %r1, -1;", Is(64), 32},
        {kLane + "redux.sync.or.b32 %r0, %r1, -1;", Is(31), 32},
        {kLane + "redux.sync.xor.b32 %r0, %r1, -1;", Is(0), 32}}},
      {"activemask",
       {{"activemask.b32 %r0;", Is(0xffffffff), 32},
        {"activemask.b32 %r0;", Is(0xff), 8},
        {kEven + "mov.u32 %r0, 0;\n@!%p1 activemask.b32 %r0;",
         Lanes{[](uint32_t lane) { return lane % 2 == 0 ? uint64_t{0} : 0xaaaaaaaa; }}}}},
      {"elect",
       {{"elect.sync %r0|%p1, -1;", Is(0), 32},
        {"elect.sync _|%p0, -1;", Lanes{[](uint32_t lane) { return lane == 0 ? kTrue : kFalse; }}},
        {kEven + "mov.pred %p0, 0;\n@!%p1 elect.sync _|%p0, 0xaaaaaaaa;",
         Lanes{[](uint32_t lane) { return lane == 1 ? kTrue : kFalse; }}}}},
  };
  return groups;
}

// 40 of 64 threads have %p1.
const std::string kForty = "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 40;\n";
// Warp 1 writes and warp 0 reads after the barrier.
std::string Handover(const std::string& barrier) {
  return "mov.u32 %r1, %tid.x;\nsetp.ge.u32 %p1, %r1, 32;\n@%p1 st.shared.u32 [sh], 9;\n" +
         barrier + "\nld.shared.u32 %r0, [sh];";
}

const std::vector<Group>& Synchronisation() {
  static const std::vector<Group> groups = {
      {"bar",
       {{Handover("bar.sync 0;"), Is(9), 64},
        Leaves("bar.warp.sync -1;"),
        {kForty + "bar.red.popc.u32 %r0, 0, %p1;", Is(40), 64},
        {kForty + "bar.red.popc.u32 %r0, 0, !%p1;", Is(24), 64},
        {kForty + "bar.red.and.pred %p0, 0, %p1;", Is(kFalse), 64},
        {kForty + "bar.red.or.pred %p0, 0, %p1;", Is(kTrue), 64},
        {"bar.sync 0;\nmov.u32 %r0, 7;", [](const Ran& ran) { CHECK(ran.counters.barriers == 2); },
         64}}},
      {"barrier",
       {{Handover("barrier.sync.aligned 0;"), Is(9), 64},
        {kForty + "barrier.cta.red.popc.aligned.u32 %r0, 0, %p1;", Is(40), 64}}},
      {"membar", {Leaves("membar.gl;"), Leaves("membar.cta;")}},
      {"fence", {Leaves("fence.acq_rel.gpu;"), Leaves("fence.proxy.async;")}},
      // Arrivals are not tracked, and every wait succeeds.
      {"mbarrier",
       {{"mbarrier.init.shared.b64 [sh], 1;\nmbarrier.arrive.shared.b64 %rd1, [sh];\n"
         "mbarrier.try_wait.parity.shared.b64 %p0, [sh], 0;",
         kTrue},
        Leaves("mbarrier.inval.shared.b64 [sh];")}},
      {"nanosleep", {Leaves("nanosleep.u32 20;")}},
      {"setmaxnreg", {Leaves("setmaxnreg.inc.sync.aligned.u32 64;")}},
      {"griddepcontrol", {Leaves("griddepcontrol.wait;")}},
  };
  return groups;
}

// An atomic on the word 5 in shared memory: the old value, and what it leaves.
std::vector<Row> AtomicRows(const std::string& operation, const std::string& operands,
                            const std::string& before, uint32_t after) {
  const std::string start = "st.shared.u32 [sh], " + before + ";\n";
  return {{start + "mov.u32 %r2, " + before + ";\natom.shared." + operation + " %r1, [sh], " +
               operands + ";\nxor.b32 %r0, %r1, %r2;",
           uint64_t{0}},
          {start + "atom.shared." + operation + " %r1, [sh], " + operands +
               ";\nld.shared.u32 %r0, [sh];",
           uint64_t{after}}};
}
std::vector<Row> AllAtomics() {
  std::vector<Row> rows;
  const auto add = [&](const std::string& operation, const std::string& operands,
                       const std::string& before, uint32_t after) {
    for (Row& row : AtomicRows(operation, operands, before, after)) rows.push_back(std::move(row));
  };
  add("add.u32", "3", "5", 8);
  add("add.u32", "3", "0xffffffff", 2);
  add("min.s32", "-3", "5", 0xfffffffd);
  add("min.u32", "-3", "5", 5);
  add("max.s32", "-3", "5", 5);
  add("max.u32", "-3", "5", 0xfffffffd);
  add("and.b32", "6", "5", 4);
  add("or.b32", "6", "5", 7);
  add("xor.b32", "6", "5", 3);
  add("exch.b32", "6", "5", 6);
  add("cas.b32", "5, 9", "5", 9);
  add("cas.b32", "6, 9", "5", 5);
  add("inc.u32", "5", "4", 5);
  add("inc.u32", "5", "5", 0);
  add("inc.u32", "5", "7", 0);
  add("dec.u32", "5", "4", 3);
  add("dec.u32", "5", "0", 5);
  add("dec.u32", "5", "9", 5);
  add("add.f32", "0f3F800000", "0f3F000000", std::bit_cast<uint32_t>(1.5F));
  // 1 and 2 plus -3 and 0.5.
  add("add.noftz.f16x2", "0x40003c00", "0x3800c200", 0x4100c000);
  add("add.noftz.bf16x2", "0x40003f80", "0x3f00c040", 0x4020c000);
  // Lanes at one address add one after the other: each sees another number.
  rows.emplace_back("atom.shared.add.u32 %r0, [sh], 1;", Lanes{[](uint32_t lane) { return lane; }});
  rows.emplace_back("atom.global.add.u64 %rd0, [%at+8], 1;\natom.global.add.u64 %rd0, [%at+8], 1;",
                    uint64_t{1});
  rows.emplace_back(
      "st.global.f64 [%at+8], 0d3FE0000000000000;\n"
      "atom.global.add.f64 %d1, [%at+8], 0d3FF0000000000000;\n"
      "ld.global.f64 %d0, [%at+8];",
      IsD(1.5));
  return rows;
}

const std::string kCopy =
    "st.global.u64 [%at+128], 0x1122334455667788;\n"
    "st.shared.u64 [sh], -1;\n";
const std::string kCopied =
    "cp.async.commit_group;\ncp.async.wait_group 0;\n"
    "ld.shared.u64 %rd0, [sh];";

const std::vector<Group>& Memory() {
  const std::string word = "st.shared.u32 [sh+4], 0x89abcdef;\n";
  static const std::vector<Group> groups = {
      {"ld",
       {{word + "ld.shared.u32 %r0, [sh+4];", 0x89abcdef},
        {word + "ld.shared.s8 %r0, [sh+7];", 0xffffff89},
        {word + "ld.shared.u8 %r0, [sh+7];", 0x89},
        {word + "ld.shared.s16 %r0, [sh+6];", 0x89ab},
        {word + "ld.shared.s32 %rd0, [sh+4];", 0xffffffff89abcdef},
        {word + "ld.shared.u64 %rd0, [sh];", 0x89abcdef00000000},
        {word + "ld.shared.v2.u32 {%r1, %r0}, [sh];", 0x89abcdef},
        {word + "mov.u32 %r1, sh;\nld.shared.u32 %r0, [%r1+4];", 0x89abcdef},
        {word + "mov.u64 %rd1, 4;\ncvta.shared.u64 %rd2, %rd1;\nld.u32 %r0, [%rd2];", 0x89abcdef},
        {"ld.global.u32 %r0, [%at+8];", 0},
        // Outside the buffer.
        {"ld.global.u32 %r0, [%at+4096];", 0},
        {"st.local.u32 [lo+8], 6;\nld.local.u32 %r0, [lo+8];", 6},
        {"ld.param.u64 %rd1, [out];\nsub.u64 %rd0, %at, %rd1;", 0}}},
      {"ldu", {{"st.global.u32 [%at+8], 6;\nldu.global.u32 %r0, [%at+8];", 6}}},
      {"st",
       {{"st.shared.u8 [sh+1], 0x1ff;\nld.shared.u32 %r0, [sh];", 0xff00},
        {"st.shared.v2.u32 [sh], {1, 2};\nld.shared.u64 %rd0, [sh];", 0x200000001},
        {"st.global.u16 [%at+8], 0x12345;\nld.global.u32 %r0, [%at+8];", 0x2345},
        // The last lane of one store remains.
        {kLane + "st.shared.u32 [sh], %r1;\nld.shared.u32 %r0, [sh];", Is(31), 32},
        {kLane + "st.local.u32 [lo], %r1;\nld.local.u32 %r0, [lo];",
         Lanes{[](uint32_t lane) { return lane; }}}}},
      {"atom", AllAtomics()},
      {"red",
       {{"st.shared.u32 [sh], 5;\nred.shared.add.u32 [sh], 3;\nld.shared.u32 %r0, [sh];", 8},
        {"red.shared.add.u32 [sh], 1;\nld.shared.u32 %r0, [sh];", Is(32), 32},
        {kLane + "red.shared.max.u32 [sh], %r1;\nld.shared.u32 %r0, [sh];", Is(31), 32}}},
      {"cp",
       {{kCopy + "cp.async.ca.shared.global [sh], [%at+128], 8;\n" + kCopied, 0x1122334455667788},
        {kCopy + "cp.async.ca.shared.global [sh], [%at+128], 4;\n" + kCopied, 0xffffffff55667788},
        // Fewer bytes from the source: the rest becomes zero.
        {kCopy + "cp.async.ca.shared.global [sh], [%at+128], 8, 4;\n" + kCopied, 0x55667788},
        {kCopy + "cp.async.ca.shared.global [sh], [%at+128], 8;\ncp.async.wait_all;\n"
                 "ld.shared.u32 %r0, [sh+4];",
         0x11223344}}},
      {"prefetch", {Leaves("prefetch.global.L2 [%at];")}},
      {"prefetchu", {Leaves("prefetchu.L1 [%at];")}},
      {"discard", {Leaves("discard.global.L2 [%at], 128;")}},
      {"applypriority", {Leaves("applypriority.global.L2::evict_normal [%at], 128;")}},
  };
  return groups;
}

// Products count their operations; their results are 0.
Expectation Multiplies(MatrixType type, double flops) {
  return [type, flops](const Ran& ran) {
    CHECK(ran.counters.matrix[static_cast<size_t>(type)] == 1);
    CHECK(ran.counters.matrix_flops[static_cast<size_t>(type)] == flops);
    for (const uint64_t result : ran.results) CHECK(result == 0);
  };
}
// Eight rows of 16 bytes per matrix, without conflicts.
const std::string kRows = kLane + "mul.lo.u32 %r2, %r1, 16;\nand.b32 %r2, %r2, 63;\n";

const std::vector<Group>& Matrices() {
  static const std::vector<Group> groups = {
      {"mma",
       {{"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, "
         "{%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f4, %f5, %f6, %f7};",
         Multiplies(MatrixType::kHalf, 2.0 * 16 * 8 * 16), 32},
        {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0, %f1, %f2, %f3}, "
         "{%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f4, %f5, %f6, %f7};",
         Multiplies(MatrixType::kTf32, 2.0 * 16 * 8 * 8), 32},
        {"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r0, %r7, %r8, %r9}, "
         "{%r1, %r2, %r3, %r4}, {%r5, %r6}, {%r10, %r11, %r12, %r13};",
         Multiplies(MatrixType::kInteger8, 2.0 * 16 * 8 * 32), 32},
        {"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%f0, %f1, %f2, %f3}, "
         "{%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f4, %f5, %f6, %f7};",
         Multiplies(MatrixType::kFloat8, 2.0 * 16 * 8 * 32), 32}}},
      {"wgmma",
       {{"wgmma.fence.sync.aligned;\n"
         "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd1, %rd2, 1, "
         "1, 1, 0, 0;\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;",
         // Each of four warps does a quarter.
         [](const Ran& ran) {
           const auto half = static_cast<size_t>(MatrixType::kHalf);
           CHECK(ran.counters.matrix[half] == 4);
           CHECK(ran.counters.matrix_group_flops == 2.0 * 64 * 8 * 16);
         },
         128}}},
      {"wmma",
       {{"mov.u64 %rd1, 0;\nwmma.load.a.sync.aligned.row.m16n16k16.shared.f16 "
         "{%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [sh], 16;",
         // 16 rows of 32 bytes in shared memory.
         [](const Ran& ran) { CHECK(ran.counters.shared_bytes == 512); }, 32},
        {"wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, "
         "%f7}, {%r1, %r1, %r1, %r1, %r1, %r1, %r1, %r1}, {%r1, %r1, %r1, %r1, %r1, %r1, %r1, "
         "%r1}, {%f8, %f8, %f8, %f8, %f8, %f8, %f8, %f8};",
         Multiplies(MatrixType::kHalf, 2.0 * 16 * 16 * 16), 32}}},
      {"ldmatrix",
       {{kRows + "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r3, %r4, %r5}, [%r2];",
         [](const Ran& ran) {
           CHECK(ran.counters.shared_load_requests == 1);
           CHECK(ran.counters.shared_load_ideal == 4);
           CHECK(ran.counters.shared_load_wavefronts == 4);
         },
         32}}},
      {"stmatrix",
       {{kRows + "mov.u32 %r0, 0;\nstmatrix.sync.aligned.m8n8.x2.shared.b16 [%r2], {%r1, %r3};",
         [](const Ran& ran) {
           CHECK(ran.counters.shared_store_requests == 1);
           CHECK(ran.counters.shared_store_wavefronts == 2);
         },
         32}}},
  };
  return groups;
}

// Resolved by the parser.
const std::vector<Group>& ControlFlow() {
  static const std::vector<Group> groups = {
      {"bra",
       {{"mov.u32 %r0, 1;\nbra $E;\nmov.u32 %r0, 2;\n$E:", 1},
        {kEven + "mov.u32 %r0, 1;\n@%p1 bra $E;\nmov.u32 %r0, 2;\n$E:",
         Lanes{[](uint32_t lane) { return lane % 2 == 0 ? 1U : 2U; }}}}},
      {"ret", {{"mov.u32 %r0, 1;\nst.global.u32 [%at], %r0;\nret;\nmov.u32 %r0, 2;", 1}}},
      {"exit",
       {{kEven + "mov.u32 %r0, 1;\nst.global.u32 [%at], %r0;\n@%p1 exit;\nmov.u32 %r0, 2;",
         Lanes{[](uint32_t lane) { return lane % 2 == 0 ? 1U : 2U; }}}}},
      {"trap", {{"mov.u32 %r0, 1;\nst.global.u32 [%at], %r0;\ntrap;\nmov.u32 %r0, 2;", 1}}},
  };
  return groups;
}

std::vector<const Group*> AllGroups() {
  std::vector<const Group*> all;
  for (const auto* groups : {&Arithmetic(), &FloatingPoint(), &Bits(), &Values(), &BetweenLanes(),
                             &Synchronisation(), &Memory(), &Matrices(), &ControlFlow()}) {
    for (const Group& group : *groups) all.push_back(&group);
  }
  return all;
}

TEST_CASE("Every instruction has its worked values") {
  for (const Group* group : AllGroups()) {
    for (const Row& row : group->rows) {
      INFO(row.ptx);
      const Ran ran = RunBody(row.ptx, row.threads);
      CHECK(ran.not_covered == "");
      if (ran.not_covered.empty()) row.expected(ran);
    }
  }
}

TEST_CASE("Every row of the table of instructions has worked values") {
  std::set<std::string_view> tested;
  for (const Group* group : AllGroups()) {
    INFO(group->instruction);
    CHECK_FALSE(group->rows.empty());
    CHECK(tested.insert(group->instruction).second);
    // A row executes its instruction.
    const std::string opcode = std::string(group->instruction);
    for (const Row& row : group->rows) {
      INFO(row.ptx);
      bool found = false;
      for (size_t at = row.ptx.find(opcode); at != std::string::npos;
           at = row.ptx.find(opcode, at + 1)) {
        const bool starts = at == 0 || row.ptx[at - 1] == '\n' || row.ptx[at - 1] == ' ';
        const char next = row.ptx[at + opcode.size()];
        found = found || (starts && (next == '.' || next == ' ' || next == ';'));
      }
      CHECK(found);
    }
  }
  for (const InstructionEntry& entry : Instructions()) {
    INFO(entry.name);
    CHECK(tested.count(entry.name) == 1);
  }
}

}  // namespace
}  // namespace kernelcast::worker::virtual_gpu
