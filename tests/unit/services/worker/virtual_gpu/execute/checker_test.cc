#include "services/worker/virtual_gpu/execute/checker.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "services/worker/virtual_gpu/execute/simulator.h"
#include "services/worker/virtual_gpu/parse/parser.h"

namespace kernelcast::worker::virtual_gpu {
namespace {

// Compiled by NVRTC from faults.cu.
const Program& Faults() {
  static const Program program = ParseProgram(
      ReadFile(KERNELCAST_SOURCE_DIR "/tests/unit/services/worker/virtual_gpu/execute/faults.ptx")
          .value());
  return program;
}

struct CheckedRun {
  uint32_t blocks = 1;
  uint32_t threads = 256;
  int32_t n = 8;
  int64_t out_bytes = 4000;
  int64_t in_bytes = 16'000;
  int64_t shared_bytes = 0;
};

LaunchCheck Checked(const std::string& kernel, const CheckedRun& run = {}) {
  LaunchSpec launch;
  launch.kernel = kernel;
  launch.grid = {run.blocks, 1, 1};
  launch.block = {run.threads, 1, 1};
  launch.dynamic_shared_bytes = run.shared_bytes;
  launch.arguments = {{.is_buffer = true, .buffer = 0},
                      {.is_buffer = true, .buffer = 1},
                      {.bits = static_cast<uint32_t>(run.n), .bytes = 4}};
  const std::vector<BufferSpec> buffers = {
      {.bytes = run.out_bytes, .initialised = false, .name = "out"},
      {.bytes = run.in_bytes, .values = BufferSpec::Values::kNormal, .second = 1, .name = "in"}};
  const auto checks =
      Check(Faults(), buffers, std::vector<LaunchSpec>{launch}, CheckLimits(kCheckSteps));
  REQUIRE(checks.size() == 1);
  INFO(kernel);
  CHECK(checks[0].not_checked == "");
  CHECK(checks[0].complete);
  return checks[0];
}

void CheckOnly(Fault fault, const std::string& kernel, const std::string& text,
               const CheckedRun& run = {}) {
  INFO(kernel);
  const LaunchCheck check = Checked(kernel, run);
  REQUIRE_FALSE(check.findings.empty());
  bool found = false;
  for (const LaunchFinding& finding : check.findings) {
    INFO(finding.detail);
    CHECK(finding.fault == fault);
    CHECK(finding.count > 0);
    CHECK(finding.line > 0);
    found = found || finding.detail.find(text) != std::string::npos;
  }
  INFO(check.findings.front().detail);
  CHECK(found);
}

TEST_CASE("The parser covers every kernel with a fault") {
  for (const auto& kernel : Faults().kernels) {
    INFO(kernel->name);
    CHECK(kernel->not_covered == "");
  }
}

TEST_CASE("Kernels without a fault have no findings") {
  for (const char* kernel : {"sum_with_barrier", "tile_kept", "tiles_in_turn", "same_value_for_all",
                             "counted_by_atomics", "copy_in_stages"}) {
    INFO(kernel);
    CHECK(Checked(kernel).findings.empty());
  }
  CHECK(Checked("bytes_of_a_word", {.threads = 128}).findings.empty());
  CHECK(Checked("mask_right", {.threads = 64}).findings.empty());
  CHECK(Checked("just_enough", {.blocks = 4, .n = 1000, .in_bytes = 4000}).findings.empty());
}

TEST_CASE("A missing barrier is a race with both sides reported") {
  CheckOnly(Fault::kSharedRace, "sum_without_barrier",
            "writes shared byte 128 that thread 0 reads at PTX line");
  CheckOnly(Fault::kSharedRace, "tile_overwritten", "with no barrier between");
}

TEST_CASE("Lanes that store different values to one address race within one instruction") {
  CheckOnly(Fault::kSharedRace, "lanes_collide", "with another value, in one instruction",
            {.threads = 128});
}

TEST_CASE("A copy is visible after its wait and a block barrier") {
  CheckOnly(Fault::kSharedRace, "copy_without_wait", "still copies to");
  const LaunchCheck check = Checked("copy_without_barrier");
  CHECK(std::any_of(check.findings.begin(), check.findings.end(), [](const LaunchFinding& f) {
    return f.fault == Fault::kSharedRace && f.detail.find("ld.shared") == 0;
  }));
}

TEST_CASE("Out-of-bounds accesses name the tensor and the distance") {
  CheckOnly(Fault::kGlobalOutOfBounds, "one_too_many", "at byte 4000 of in, which has 4000",
            {.blocks = 4, .n = 1000, .in_bytes = 4000});
  CheckOnly(Fault::kGlobalOutOfBounds, "before_the_start", "at byte -4 of in");
  CheckOnly(Fault::kSharedOutOfBounds, "beyond_shared", "at shared byte 1024; the block has 1024",
            {.shared_bytes = 1024});
}

TEST_CASE("A vector access must be aligned") {
  CheckOnly(Fault::kMisaligned, "misaligned_vector", "accesses 16 bytes at 0x", {.n = 1});
}

TEST_CASE("Memory must be written before it is read") {
  CheckOnly(Fault::kSharedUninitialised, "shared_not_written", "no thread of the block has written",
            {.threads = 64});
  CheckOnly(Fault::kSharedUninitialised, "count_not_zeroed", "updates shared byte 0");
  CheckOnly(Fault::kLocalUninitialised, "local_not_written", "reads local byte 32");
  CheckOnly(Fault::kGlobalUninitialised, "adds_to_output",
            "updates out, to which nothing has been written");
}

TEST_CASE("Masks name the executing lanes and no other live ones") {
  CheckOnly(Fault::kWrongMask, "mask_names_absent", "but lane 20 does not",
            {.threads = 64, .n = 20});
  CheckOnly(Fault::kWrongMask, "mask_leaves_out", "with mask 0xffff, which leaves it out",
            {.threads = 64});
}

TEST_CASE("A barrier that half a warp skips is found") {
  CheckOnly(Fault::kMissedBarrier, "divergent_barrier", "lane 20 of its warp took another way",
            {.threads = 64, .n = 20});
}

TEST_CASE("Findings are deterministic") {
  const LaunchCheck first = Checked("tile_overwritten");
  const LaunchCheck second = Checked("tile_overwritten");
  REQUIRE(first.findings.size() == second.findings.size());
  for (size_t k = 0; k < first.findings.size(); ++k) {
    CHECK(first.findings[k].detail == second.findings[k].detail);
    CHECK(first.findings[k].count == second.findings[k].count);
  }
}

TEST_CASE("A launch after an incomplete one is not checked") {
  LaunchSpec launch;
  launch.kernel = "just_enough";
  launch.grid = {1000, 1, 1};
  launch.block = {256, 1, 1};
  launch.arguments = {{.is_buffer = true, .buffer = 0},
                      {.is_buffer = true, .buffer = 1},
                      {.bits = 256'000, .bytes = 4}};
  const std::vector<BufferSpec> buffers(2, {.bytes = 1 << 20});
  const auto checks =
      Check(Faults(), buffers, std::vector<LaunchSpec>{launch, launch}, CheckLimits(30'000));
  REQUIRE(checks.size() == 2);
  CHECK_FALSE(checks[0].complete);
  CHECK(checks[0].inexact() == "more steps than the limit");
  CHECK(checks[0].blocks > 1);
  CHECK(checks[0].findings.empty());
  CHECK(checks[1].not_checked == "an earlier launch was not executed to its end");
}

// Every thread of both blocks stores %r2 to the first word of the output.
LaunchCheck StoreFromTwoBlocks(const std::string& value, const std::string& before = "") {
  const Program program = ParseProgram(
      ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out)\n{\n"
      ".reg .b32 %r<4>;\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [out];\n" +
      before + "mov.u32 %r2, " + value + ";\nst.global.u32 [%rd1], %r2;\nret;\n}\n");
  LaunchSpec launch;
  launch.kernel = "k";
  launch.grid = {2, 1, 1};
  launch.block = {32, 1, 1};
  launch.arguments = {{.is_buffer = true, .buffer = 0}};
  const std::vector<BufferSpec> buffers = {{.bytes = 4,
                                            .initialised = false,
                                            .is_output = true,
                                            .name = "y",
                                            .content = "\x7f\x7f\x7f\x7f"}};
  const auto checks =
      Check(program, buffers, std::vector<LaunchSpec>{launch}, CheckLimits(kCheckSteps));
  CHECK(checks[0].complete);
  return checks[0];
}

TEST_CASE("Blocks that write different values to an output race") {
  const LaunchCheck race = StoreFromTwoBlocks("%ctaid.x");
  REQUIRE(race.findings.size() == 1);
  CHECK(race.findings[0].fault == Fault::kGlobalRace);
  CHECK(race.findings[0].detail.find("writes 4 bytes at byte 0 of y, where another block wrote "
                                     "another value") != std::string::npos);
  CHECK(StoreFromTwoBlocks("7").findings.empty());
  CHECK(StoreFromTwoBlocks("%ctaid.x", "membar.gl;\n").findings.empty());
}

TEST_CASE("A check works on the bytes that it is given, and keeps what is written") {
  LaunchSpec launch;
  launch.kernel = "just_enough";
  launch.grid = {4, 1, 1};
  launch.block = {256, 1, 1};
  launch.arguments = {{.is_buffer = true, .buffer = 0},
                      {.is_buffer = true, .buffer = 1},
                      {.bits = 1000, .bytes = 4}};
  std::string in;
  for (int i = 0; i < 1000; ++i) {
    const auto value = static_cast<float>(i);
    in.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  const std::vector<BufferSpec> buffers = {
      {.bytes = 4004, .initialised = false, .content = std::string(4004, '\x7f')},
      {.bytes = 4000, .content = in}};
  GlobalMemory memory(buffers, Faults());
  const auto checks =
      Check(Faults(), buffers, std::vector<LaunchSpec>{launch}, CheckLimits(kCheckSteps), memory);
  CHECK(checks[0].inexact() == "");
  CHECK(memory.Content(0).substr(0, 4000) == in);
  CHECK(memory.Content(0).substr(4000) == "\x7f\x7f\x7f\x7f");
}

}  // namespace
}  // namespace kernelcast::worker::virtual_gpu
