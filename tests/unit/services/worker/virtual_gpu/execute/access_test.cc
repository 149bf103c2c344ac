#include "services/worker/virtual_gpu/execute/access.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "services/worker/virtual_gpu/execute/footprint.h"
#include "tests/unit/services/worker/virtual_gpu/bind/single_instruction.h"

// The rules of coalescing, of the banks of shared memory, and of what was touched before.

namespace kernelcast::worker::virtual_gpu {
namespace {

// One load per lane, at `offset` + lane * `stride`.
Counters Loaded(const std::string& type, int stride, int offset, int lanes = 32) {
  const std::string target = type == "v4.u32"   ? "{%r1, %r2, %r3, %r4}"
                             : type == "v2.u32" ? "{%r1, %r2}"
                             : type == "u64"    ? "%rd5"
                             : type == "u8"     ? "%r1"
                                                : "%r1";
  const Ran ran =
      RunBody("ld.param.u64 %rd1, [out];\nmov.u32 %r5, %laneid;\nmad.wide.u32 %rd2, %r5, " +
                  std::to_string(stride) + ", %rd1;\nld.global." + type + " " + target +
                  ", [%rd2+" + std::to_string(offset) + "];",
              lanes);
  CHECK(ran.not_covered == "");
  return ran.counters;
}

TEST_CASE("A load takes the sectors and lines that its lanes touch") {
  struct Rule {
    std::string type;
    int width = 0;  // index of the counters
    int stride = 0;
    int offset = 0;
    double sectors = 0;
    double lines = 0;
  };
  const std::vector<Rule> rules = {
      {"u32", 2, 4, 0, 4, 1},                                    // one line
      {"u32", 2, 4, 4, 5, 2},                                    // the same, shifted by a word
      {"u32", 2, 4, 32, 4, 2},                                   // shifted by a sector
      {"u32", 2, 0, 0, 1, 1},                                    // all lanes at one word
      {"u32", 2, 8, 0, 8, 2},                                    // every other word
      {"u32", 2, 32, 0, 32, 8},                                  // one word per sector
      {"u32", 2, 128, 0, 32, 32},                                // one word per line
      {"u8", 0, 1, 0, 1, 1},                                     // bytes of one sector
      {"u8", 0, 1, 31, 2, 1},                                    // bytes of two
      {"u64", 3, 8, 0, 8, 2},                                    // words of eight bytes
      {"v2.u32", 3, 8, 0, 8, 2},                                 // and pairs
      {"v4.u32", 4, 16, 0, 16, 4}, {"v4.u32", 4, 32, 0, 32, 8},  // half of each sector
  };
  for (const Rule& rule : rules) {
    INFO(rule.type << ", stride " << rule.stride << ", offset " << rule.offset);
    const Counters c = Loaded(rule.type, rule.stride, rule.offset);
    const auto width = static_cast<size_t>(rule.width);
    CHECK(c.load_requests[width] == 1);
    CHECK(c.load_sectors[width] == rule.sectors);
    CHECK(c.global_lines == rule.lines);
  }
}

TEST_CASE("Lanes that are not active touch nothing") {
  CHECK(Loaded("u32", 4, 0, 8).load_sectors[2] == 1);
  CHECK(Loaded("u32", 4, 0, 9).load_sectors[2] == 2);
  CHECK(Loaded("u32", 4, 0, 9).load_bytes == 36);
}

TEST_CASE("A store to one word by all lanes is one sector") {
  const Counters c =
      RunBody("ld.param.u64 %rd1, [out];\nmov.u32 %r1, 5;\nst.global.u32 [%rd1], %r1;", 32)
          .counters;
  CHECK(c.store_requests[2] == 1);
  CHECK(c.store_sectors[2] == 1);
  CHECK(c.store_bytes == 128);
}

TEST_CASE("An access that crosses a sector touches both") {
  Lines lines;
  lines.Add(28, 8);
  CHECK(lines.count() == 1);
  CHECK(lines.sectors(0) == 0b0011);
  lines.Add(124, 8);
  CHECK(lines.count() == 2);
  CHECK(lines.sectors(0) == 0b1011);
  CHECK(lines.sectors(1) == 0b0001);
  CHECK(lines.all_sectors() == 4);
}

int Wavefronts(int bytes, const std::function<int(int)>& address_of, int lanes = 32) {
  std::vector<uint64_t> addresses;
  for (int lane = 0; lane < lanes; ++lane) {
    addresses.push_back(static_cast<uint64_t>(address_of(lane)));
  }
  return SharedWavefronts(addresses, bytes);
}

TEST_CASE("Words of one bank are served one after the other") {
  const auto strided = [](int stride) { return [stride](int lane) { return stride * lane; }; };
  CHECK(Wavefronts(4, strided(4)) == 1);
  CHECK(Wavefronts(4, strided(8)) == 2);
  CHECK(Wavefronts(4, strided(12)) == 1);  // odd strides in words have no conflicts
  CHECK(Wavefronts(4, strided(16)) == 4);
  CHECK(Wavefronts(4, strided(64)) == 16);
  CHECK(Wavefronts(4, strided(128)) == 32);
  CHECK(Wavefronts(4, strided(132)) == 1);  // a padded row
  CHECK(Wavefronts(4, strided(128), 5) == 5);
}

TEST_CASE("Lanes at one word are served together") {
  CHECK(Wavefronts(4, [](int) { return 400; }) == 1);
  CHECK(Wavefronts(4, [](int lane) { return lane < 16 ? 0 : 128; }) == 2);
  CHECK(Wavefronts(4, [](int lane) { return lane % 2 * 4; }) == 1);
  // Bytes and shorts of one word too.
  CHECK(Wavefronts(1, [](int lane) { return lane; }) == 1);
  CHECK(Wavefronts(2, [](int lane) { return 2 * lane; }) == 1);
  CHECK(Wavefronts(1, [](int lane) { return 128 * lane; }) == 32);
}

TEST_CASE("Any order of the banks is free of conflicts") {
  CHECK(Wavefronts(4, [](int lane) { return 4 * (31 - lane); }) == 1);
  CHECK(Wavefronts(4, [](int lane) { return 4 * (lane ^ 21); }) == 1);
  CHECK(Wavefronts(4, [](int lane) { return 128 * lane + 4 * lane; }) == 1);
}

TEST_CASE("Wide accesses are served by half and quarter of a warp") {
  CHECK(Wavefronts(8, [](int lane) { return 8 * lane; }) == 2);
  CHECK(Wavefronts(8, [](int) { return 0; }) == 2);
  CHECK(Wavefronts(8, [](int lane) { return 16 * lane; }) == 4);
  CHECK(Wavefronts(8, [](int lane) { return 128 * lane; }) == 32);
  CHECK(Wavefronts(16, [](int lane) { return 16 * lane; }) == 4);
  CHECK(Wavefronts(16, [](int lane) { return 32 * lane; }) == 8);
  CHECK(Wavefronts(16, [](int lane) { return 128 * lane; }) == 32);
  CHECK(Wavefronts(
            16, [](int lane) { return 16 * lane; }, 8) == 1);
}

TEST_CASE("Without conflicts a wavefront serves 128 bytes") {
  CHECK(IdealWavefronts(32, 4) == 1);
  CHECK(IdealWavefronts(32, 8) == 2);
  CHECK(IdealWavefronts(32, 16) == 4);
  CHECK(IdealWavefronts(1, 4) == 1);
  CHECK(IdealWavefronts(8, 16) == 1);
}

TEST_CASE("Widths from one to sixteen bytes have counters of their own") {
  CHECK(WidthIndex(1) == 0);
  CHECK(WidthIndex(2) == 1);
  CHECK(WidthIndex(4) == 2);
  CHECK(WidthIndex(8) == 3);
  CHECK(WidthIndex(16) == 4);
}

TEST_CASE("A footprint tells sectors and halves of a line that are new") {
  Footprint footprint;
  Footprint::Touched touched = footprint.Touch(7, 0b0001, 1);
  CHECK(touched.fresh == 1);
  CHECK(touched.halves == 1);
  touched = footprint.Touch(7, 0b0011, 2);
  CHECK(touched.fresh == 1);
  CHECK(touched.halves == 0);
  CHECK(touched.since == 1);
  touched = footprint.Touch(7, 0b1111, 3);
  CHECK(touched.fresh == 2);
  CHECK(touched.halves == 1);
  CHECK(footprint.Touch(7, 0b1111, 4).fresh == 0);
  CHECK(footprint.lines() == 1);
  footprint.Clear();
  CHECK(footprint.lines() == 0);
  CHECK(footprint.Touch(7, 0b1111).fresh == 4);
}

TEST_CASE("A full footprint counts new lines as new each time") {
  Footprint footprint(8, 2);
  for (uint64_t line = 0; line < 100; ++line) footprint.Touch(line, 1);
  CHECK(footprint.lines() == 4);
  CHECK(footprint.Touch(0, 1).fresh == 0);
  CHECK(footprint.Touch(99, 1).fresh == 1);
  CHECK(footprint.Touch(99, 1).fresh == 1);
}

TEST_CASE("The most contended address is the one with the largest sum") {
  AddressCounts counts;
  CHECK(counts.largest() == 0);
  counts.Add(16, 2);
  counts.Add(32, 3);
  counts.Add(16, 2);
  CHECK(counts.largest() == 4);
  counts.Clear();
  CHECK(counts.largest() == 0);
}

}  // namespace
}  // namespace kernelcast::worker::virtual_gpu
