#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/unit/services/worker/virtual_gpu/bind/single_instruction.h"

// Integer instructions at the edges of their types. The expected values are computed with 128 bits
// and reduced modulo the width.

namespace kernelcast::worker::virtual_gpu {
namespace {

using Wide = __int128;
using Operands3 = std::array<uint64_t, 3>;

struct Type {
  std::string name;  // "s32"
  std::string kind;  // of its registers
  int bits = 0;
  bool is_signed = false;

  Wide Value(uint64_t pattern) const {
    const auto low = static_cast<Wide>(pattern) & ((Wide{1} << bits) - 1);
    return is_signed && (low >> (bits - 1) & 1) != 0 ? low - (Wide{1} << bits) : low;
  }
  uint64_t Pattern(Wide value) const {
    return static_cast<uint64_t>(value & ((Wide{1} << bits) - 1));
  }
};

const std::vector<Type> kTypes = {{"u16", "h", 16, false},  {"s16", "h", 16, true},
                                  {"u32", "r", 32, false},  {"s32", "r", 32, true},
                                  {"u64", "rd", 64, false}, {"s64", "rd", 64, true}};

// All pairs, or triples with a few third values, of numbers at the edges of a type.
std::vector<Operands3> Edges(const Type& type) {
  const Wide top = Wide{1} << (type.bits - 1);
  const std::vector<Wide> values = {0,       1,   2,       3,           7,          100,
                                    top - 1, top, top + 1, 2 * top - 2, 2 * top - 1};
  std::vector<Operands3> all;
  for (size_t a = 0; a < values.size(); ++a) {
    for (size_t b = 0; b < values.size(); ++b) {
      all.push_back({type.Pattern(values[a]), type.Pattern(values[b]),
                     type.Pattern(values[(a + 3 * b) % values.size()])});
    }
  }
  return all;
}

// Executes `opcode` for all edges and compares with `expected`, whose arguments are exact values.
void Compare(const std::string& opcode, const Type& type, size_t sources,
             const std::function<Wide(Wide, Wide, Wide)>& expected, const Type& result) {
  INFO(opcode);
  const std::vector<Operands3> operands = Edges(type);
  std::vector<std::string> registers = {result.kind};
  for (size_t k = 0; k < sources; ++k) {
    registers.push_back(k == 2 ? result.kind : type.kind);
  }
  const std::vector<uint64_t> results = RunOn(opcode, registers, operands);
  REQUIRE(results.size() == operands.size());
  for (size_t k = 0; k < operands.size(); ++k) {
    const auto& [a, b, c] = operands[k];
    // The third source has the type of the result, and its register holds the operand's low bits.
    const Wide value = expected(type.Value(a), type.Value(b), result.Value(c));
    if (results[k] == result.Pattern(value)) continue;
    INFO("operands " << a << ", " << b << ", " << c);
    CHECK(results[k] == result.Pattern(value));
  }
  SUCCEED();
}
void Compare(const std::string& opcode, const Type& type, size_t sources,
             const std::function<Wide(Wide, Wide, Wide)>& expected) {
  Compare(opcode, type, sources, expected, type);
}

TEST_CASE("Sums, differences and products wrap at the width of their type") {
  for (const Type& type : kTypes) {
    Compare("add." + type.name, type, 2, [](Wide a, Wide b, Wide) { return a + b; });
    Compare("sub." + type.name, type, 2, [](Wide a, Wide b, Wide) { return a - b; });
    Compare("mul.lo." + type.name, type, 2, [](Wide a, Wide b, Wide) {
      return static_cast<Wide>(static_cast<unsigned __int128>(a) *
                               static_cast<unsigned __int128>(b));
    });
    Compare("mad.lo." + type.name, type, 3, [](Wide a, Wide b, Wide c) {
      return static_cast<Wide>(static_cast<unsigned __int128>(a) *
                                   static_cast<unsigned __int128>(b) +
                               static_cast<unsigned __int128>(c));
    });
  }
}

TEST_CASE("The high half of a product is that of the exact product") {
  for (const Type& type : kTypes) {
    // The exact product of two unsigned longs needs all 128 bits.
    const auto high = [&](Wide a, Wide b) {
      return type.bits == 64 && !type.is_signed
                 ? static_cast<Wide>(
                       static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b) >> 64)
                 : a * b >> type.bits;
    };
    Compare("mul.hi." + type.name, type, 2, [&](Wide a, Wide b, Wide) { return high(a, b); });
    Compare("mad.hi." + type.name, type, 3, [&](Wide a, Wide b, Wide c) { return high(a, b) + c; });
  }
}

TEST_CASE("Wide products are exact") {
  for (size_t k = 0; k < 4; ++k) {
    const Type& type = kTypes[k];
    const Type& wide = kTypes[k + 2];
    Compare(
        "mul.wide." + type.name, type, 2, [](Wide a, Wide b, Wide) { return a * b; }, wide);
    Compare(
        "mad.wide." + type.name, type, 3, [](Wide a, Wide b, Wide c) { return a * b + c; }, wide);
  }
}

TEST_CASE("Quotients round towards zero, and a division by zero gives all ones") {
  for (const Type& type : kTypes) {
    Compare("div." + type.name, type, 2,
            [](Wide a, Wide b, Wide) { return b == 0 ? Wide{-1} : a / b; });
    Compare("rem." + type.name, type, 2, [](Wide a, Wide b, Wide) { return b == 0 ? a : a % b; });
  }
}

TEST_CASE("The smaller and the larger number depend on the sign") {
  for (const Type& type : kTypes) {
    Compare("min." + type.name, type, 2, [](Wide a, Wide b, Wide) { return a < b ? a : b; });
    Compare("max." + type.name, type, 2, [](Wide a, Wide b, Wide) { return a < b ? b : a; });
    Compare("sad." + type.name, type, 3,
            [](Wide a, Wide b, Wide c) { return c + (a < b ? b - a : a - b); });
  }
}

TEST_CASE("Negation and absolute value of the least number are that number") {
  for (const Type& type : kTypes) {
    if (!type.is_signed) continue;
    Compare("neg." + type.name, type, 1, [](Wide a, Wide, Wide) { return -a; });
    Compare("abs." + type.name, type, 1, [](Wide a, Wide, Wide) { return a < 0 ? -a : a; });
  }
}

TEST_CASE("Saturating sums stop at the ends of their type") {
  const Type& type = kTypes[3];
  const auto clamp = [](Wide value) {
    return value > INT32_MAX ? Wide{INT32_MAX} : value < INT32_MIN ? Wide{INT32_MIN} : value;
  };
  Compare("add.sat.s32", type, 2, [&](Wide a, Wide b, Wide) { return clamp(a + b); });
  Compare("sub.sat.s32", type, 2, [&](Wide a, Wide b, Wide) { return clamp(a - b); });
}

TEST_CASE("Comparisons follow the sign of their type") {
  const Type predicate = {"pred", "p", 1, false};
  const Type word = kTypes[2];
  for (const Type& type : kTypes) {
    const std::vector<std::pair<std::string, std::function<bool(Wide, Wide)>>> comparisons = {
        {"eq", [](Wide a, Wide b) { return a == b; }},
        {"ne", [](Wide a, Wide b) { return a != b; }},
        {"lt", [](Wide a, Wide b) { return a < b; }},
        {"le", [](Wide a, Wide b) { return a <= b; }},
        {"gt", [](Wide a, Wide b) { return a > b; }},
        {"ge", [](Wide a, Wide b) { return a >= b; }}};
    for (const auto& comparison : comparisons) {
      const std::string& name = comparison.first;
      const auto& holds = comparison.second;  // lambdas of clang 14 capture no binding
      Compare(
          "setp." + name + "." + type.name, type, 2,
          [&](Wide a, Wide b, Wide) { return holds(a, b) ? 1 : 0; }, predicate);
      Compare(
          "set." + name + ".u32." + type.name, type, 2,
          [&](Wide a, Wide b, Wide) { return holds(a, b) ? -1 : 0; }, word);
    }
  }
}

TEST_CASE("Shifts beyond the width fill with zeros, or with the sign") {
  for (const Type& type : kTypes) {
    const auto bits = static_cast<uint64_t>(type.bits);
    std::vector<Operands3> operands;
    for (const Operands3& edge : Edges(type)) {
      for (const uint64_t by : {uint64_t{0}, uint64_t{1}, bits - 1, bits, bits + 1, uint64_t{255},
                                uint64_t{0x80000000}, uint64_t{0xffffffff}}) {
        if (edge[1] == 0) operands.push_back({edge[0], by, 0});
      }
    }
    const std::vector<uint64_t> right =
        RunOn("shr." + type.name, {type.kind, type.kind, "r"}, operands);
    const std::vector<uint64_t> left =
        RunOn("shl.b" + std::to_string(type.bits), {type.kind, type.kind, "r"}, operands);
    REQUIRE(right.size() == operands.size());
    REQUIRE(left.size() == operands.size());
    for (size_t k = 0; k < operands.size(); ++k) {
      const uint64_t by = operands[k][1] < 64 ? operands[k][1] : 64;
      INFO(type.name << " " << operands[k][0] << " by " << operands[k][1]);
      CHECK(right[k] == type.Pattern(type.Value(operands[k][0]) >> by));
      CHECK(left[k] ==
            type.Pattern(static_cast<Wide>(static_cast<unsigned __int128>(operands[k][0]) << by)));
    }
  }
}

// The bits from `at`, as many as `count`, read one by one; beyond the width is the sign or 0.
Wide Extract(const Type& type, uint64_t a, uint64_t at, uint64_t count) {
  const auto bits = static_cast<uint64_t>(type.bits);
  if (count == 0) return 0;
  const uint64_t top = at + count - 1 < bits ? at + count - 1 : bits - 1;
  const bool sign = type.is_signed && (a >> top & 1) != 0;
  Wide result = 0;
  for (uint64_t k = 0; k < bits; ++k) {
    const bool bit = k < count && at + k < bits ? (a >> (at + k) & 1) != 0 : sign;
    if (bit) result |= Wide{1} << k;
  }
  return result;
}

TEST_CASE("Extracted bits are extended by the sign of the field") {
  for (size_t t = 2; t < kTypes.size(); ++t) {
    const Type& type = kTypes[t];
    std::vector<Operands3> operands;
    for (const uint64_t a : {uint64_t{0x80000000f0f0a5a5}, uint64_t{0x7fffffff8765432f}}) {
      for (uint64_t at = 0; at <= 66; at += 6) {
        for (const uint64_t count : {0, 1, 5, 31, 32, 63, 64, 255}) {
          operands.push_back({type.Pattern(static_cast<Wide>(a)), at, count});
        }
      }
    }
    const std::vector<uint64_t> results =
        RunOn("bfe." + type.name, {type.kind, type.kind, "r", "r"}, operands);
    REQUIRE(results.size() == operands.size());
    for (size_t k = 0; k < operands.size(); ++k) {
      const auto& [a, at, count] = operands[k];
      INFO(type.name << " " << a << " at " << at << ", " << count);
      CHECK(results[k] == type.Pattern(Extract(type, a, at, count)));
    }
  }
}

}  // namespace
}  // namespace kernelcast::worker::virtual_gpu
