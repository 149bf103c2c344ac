#include "services/worker/virtual_gpu/execute/simulator.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "common/domain/facts.h"
#include "services/worker/virtual_gpu/estimate/estimate.h"
#include "services/worker/virtual_gpu/estimate/launch_facts.h"
#include "services/worker/virtual_gpu/parse/parser.h"

namespace kernelcast::worker::virtual_gpu {
namespace {

// Compiled by NVRTC from kernels.cu.
const Program& Kernels() {
  static const Program program = ParseProgram(
      ReadFile(KERNELCAST_SOURCE_DIR "/tests/unit/services/worker/virtual_gpu/execute/kernels.ptx")
          .value());
  return program;
}

LaunchArgument Buffer(int index) { return {.is_buffer = true, .buffer = index}; }
LaunchArgument Number(int32_t value) { return {.bits = static_cast<uint32_t>(value), .bytes = 4}; }

struct Run {
  std::array<uint32_t, 3> grid = {1, 1, 1};
  std::array<uint32_t, 3> block = {1, 1, 1};
  std::vector<LaunchArgument> arguments = {};
  std::vector<BufferSpec> buffers = std::vector<BufferSpec>(3, {.bytes = 1 << 20});
  SimulationLimits limits = {};
};

LaunchCounts Counted(const std::string& kernel, const Run& run) {
  LaunchSpec launch;
  launch.kernel = kernel;
  launch.grid = run.grid;
  launch.block = run.block;
  launch.arguments = run.arguments;
  const auto counts = Simulate(Kernels(), run.buffers, std::vector<LaunchSpec>{launch}, run.limits);
  REQUIRE(counts.size() == 1);
  return counts[0];
}

Counters CountersOf(const std::string& kernel, const Run& run) {
  const LaunchCounts counts = Counted(kernel, run);
  INFO(kernel);
  CHECK(counts.not_covered == "");
  return counts.counters;
}

double Of(const Counters& counters, Kind kind) { return counters.kind[static_cast<size_t>(kind)]; }

TEST_CASE("The parser covers every kernel of the file") {
  CHECK(Kernels().kernels.size() == 15);
  for (const auto& kernel : Kernels().kernels) {
    INFO(kernel->name);
    CHECK(kernel->not_covered == "");
  }
}

TEST_CASE("A coalesced copy takes four sectors per warp each way") {
  const Counters c = CountersOf("copy", {.grid = {100, 1, 1},
                                         .block = {256, 1, 1},
                                         .arguments = {Buffer(0), Buffer(1), Number(25'600)}});
  CHECK(c.load_requests[2] == 800);
  CHECK(c.load_sectors[2] == 3200);
  CHECK(c.store_requests[2] == 800);
  CHECK(c.store_sectors[2] == 3200);
  CHECK(c.load_bytes == 102'400);
  CHECK(c.divergent_branches == 0);
  CHECK(c.lanes == 32 * c.instructions);
}

TEST_CASE("The partial last block of a copy is counted exactly") {
  // 25,000 of 25,600 threads have an element: the last two blocks have 40 of 512.
  const Counters c = CountersOf("copy", {.grid = {98, 1, 1},
                                         .block = {256, 1, 1},
                                         .arguments = {Buffer(0), Buffer(1), Number(25'000)}});
  // 97 full blocks and 168 elements: 5 full warps and one of 8 lanes.
  CHECK(c.load_bytes == 4 * 25'000);
  CHECK(c.load_sectors[2] == 97 * 32 + 21);
  CHECK(c.load_requests[2] == 97 * 8 + 6);
}

TEST_CASE("A stride of eight floats takes one sector per lane") {
  const Counters c = CountersOf(
      "copy_strided",
      {.grid = {16, 1, 1}, .block = {128, 1, 1}, .arguments = {Buffer(0), Buffer(1), Number(8)}});
  CHECK(c.load_requests[2] == 64);
  CHECK(c.load_sectors[2] == 64 * 32);
  CHECK(c.store_sectors[2] == 64 * 4);
}

TEST_CASE("Vectors of four floats take sixteen sectors per request") {
  const Counters c =
      CountersOf("copy_vectors",
                 {.grid = {16, 1, 1}, .block = {64, 1, 1}, .arguments = {Buffer(0), Buffer(1)}});
  CHECK(c.load_requests[4] == 32);
  CHECK(c.load_sectors[4] == 512);
  CHECK(c.store_requests[4] == 32);
  CHECK(c.store_sectors[4] == 512);
}

TEST_CASE("An unpadded tile has 32 conflicts per load and a padded one has none") {
  const Run run{
      .grid = {8, 8, 1}, .block = {32, 32, 1}, .arguments = {Buffer(0), Buffer(1), Number(256)}};
  const Counters plain = CountersOf("transpose_plain", run);
  const Counters padded = CountersOf("transpose_padded", run);
  const double warps = 64 * 32;
  CHECK(plain.shared_load_requests == warps);
  CHECK(plain.shared_load_wavefronts == 32 * warps);
  CHECK(plain.shared_store_wavefronts == warps);
  CHECK(padded.shared_load_wavefronts == warps);
  CHECK(padded.shared_store_wavefronts == warps);
  for (const Counters& c : {plain, padded}) {
    CHECK(c.load_sectors[2] == 4 * warps);
    CHECK(c.store_sectors[2] == 4 * warps);
    CHECK(c.barriers == warps);
  }
}

TEST_CASE("A warp sum is five shuffles and one lane's store") {
  const Counters c = CountersOf(
      "warp_sum", {.grid = {10, 1, 1}, .block = {32, 1, 1}, .arguments = {Buffer(0), Buffer(1)}});
  CHECK(Of(c, Kind::kShuffle) == 50);
  CHECK(c.flops32 == 10 * 5 * 32);
  CHECK(c.store_bytes == 40);
  CHECK(c.store_sectors[2] == 10);
}

TEST_CASE("A block sum has a barrier per step and few active lanes at its end") {
  const Counters c = CountersOf(
      "block_sum", {.grid = {4, 1, 1}, .block = {256, 1, 1}, .arguments = {Buffer(0), Buffer(1)}});
  // Eight warps, one barrier before the loop and eight in it.
  CHECK(c.barriers == 4 * 8 * 9);
  // Warps that add: 4, 2, 1, 1, 1, 1, 1, 1; plus the one that reads the result.
  CHECK(c.shared_load_requests == 4 * (2 * 12 + 1));
  CHECK(c.shared_store_requests == 4 * (8 + 12));
  CHECK(c.shared_load_wavefronts == c.shared_load_requests);
}

TEST_CASE("A block computes the sum of a buffer") {
  // Filled with a constant, and read again by the kernel that copies.
  std::vector<BufferSpec> buffers(2, {.bytes = 4096});
  buffers[0] = {.bytes = 4096,
                .type = ElementType::kInt32,
                .values = BufferSpec::Values::kConstant,
                .first = 3};
  const Program& program = Kernels();
  LaunchSpec sum{.kernel = "block_sum", .block = {256, 1, 1}, .arguments = {Buffer(0), Buffer(1)}};
  // Lane 0 then makes as many iterations as the sum: 768 columns in steps of 32.
  const auto counts = Simulate(program, buffers, std::vector<LaunchSpec>{sum});
  REQUIRE(counts[0].not_covered == "");
  // Another launch that gathers through the sum would read element 768.
  LaunchSpec gather{
      .kernel = "gather", .block = {1, 1, 1}, .arguments = {Buffer(0), Buffer(1), Buffer(1)}};
  const auto both = Simulate(program, buffers, std::vector<LaunchSpec>{sum, gather});
  CHECK(both[1].counters.read_new[0] == 1);
  CHECK(both[1].counters.stray_sectors == 0);
}

TEST_CASE("Atomics on one address serialise across the warp, on different ones they do not") {
  const Run run{.grid = {50, 1, 1}, .block = {64, 1, 1}, .arguments = {Buffer(0)}};
  const LaunchCounts one = Counted("count_one", run);
  const LaunchCounts own = Counted("count_own", run);
  CHECK(own.counters.global_atomics == 50 * 64);
  CHECK(own.counters.global_atomic_requests == 100);
  CHECK(own.counters.global_atomic_depth == 100);
  // Two lines of 32 counters, each used once by each block.
  CHECK(own.hottest_global == 50);
  CHECK(one.counters.global_atomic_requests == 100);
  // ptxas aggregates per warp; PTX has every lane add.
  CHECK(one.counters.global_atomic_depth == 32 * 100);
  CHECK(one.hottest_global == 100);
}

TEST_CASE("A tiled product loads, multiplies and waits once per depth step") {
  const int n = 256;
  const int k = 512;
  const Counters c =
      CountersOf("matmul", {.grid = {16, 16, 1},
                            .block = {16, 16, 1},
                            .arguments = {Buffer(0), Buffer(1), Buffer(2), Number(n), Number(k)}});
  const double warps = 256 * 8;
  const double steps = k / 16;
  CHECK(c.flops32 == Approx(2.0 * n * n * k));
  CHECK(c.barriers == Approx(warps * steps * 2));
  // Two rows of 16 floats per warp: 2 x 2 sectors for each of both matrices.
  CHECK(c.load_requests[2] == Approx(warps * steps * 2));
  CHECK(c.load_sectors[2] == Approx(warps * steps * 2 * 4));
  CHECK(c.shared_load_wavefronts == Approx(c.shared_load_requests));
  CHECK(c.store_sectors[2] == warps * 4);
  // Most of the loop was inferred.
  CHECK(c.skipped > 0.5 * c.instructions);
}

TEST_CASE("A tensor tile has the operations of its shape") {
  const Counters c =
      CountersOf("tensor_tile", {.grid = {7, 1, 1},
                                 .block = {32, 1, 1},
                                 .arguments = {Buffer(0), Buffer(1), Buffer(2), Number(40)}});
  const auto half = static_cast<size_t>(MatrixType::kHalf);
  CHECK(c.matrix[half] == Approx(7 * 40));
  CHECK(c.matrix_flops[half] == Approx(7 * 40 * 2.0 * 16 * 8 * 16));
  CHECK(c.async_copies == Approx(7 * 40));
  CHECK(c.async_bytes == Approx(7 * 40 * 512));
  CHECK(c.async_sectors == Approx(7 * 40 * 16));
  CHECK(Of(c, Kind::kMatrixLoad) == Approx(7 * 40));
  // Consecutive rows of 16 bytes: four matrices, four wavefronts.
  CHECK(c.shared_load_wavefronts == Approx(7 * 40 * 4));
}

TEST_CASE("Lanes that leave a loop early wait at its end") {
  const Counters c =
      CountersOf("uneven", {.block = {32, 1, 1}, .arguments = {Buffer(0), Number(0x3f000000)}});
  // Lane i multiplies and adds i + 1 times.
  CHECK(c.flops32 == 2 * (32 * 33 / 2));
  CHECK(c.divergent_branches == 31);
  // All of them store together.
  CHECK(c.store_requests[2] == 1);
  CHECK(c.store_sectors[2] == 4);
}

TEST_CASE("A long loop's counts are inferred exactly from its first iterations") {
  const Run run{.grid = {4, 1, 1},
                .block = {32, 1, 1},
                .arguments = {Buffer(0), Buffer(1), Number(20'000)},
                .buffers = std::vector<BufferSpec>(3, {.bytes = 4 * 4 * 20'000})};
  const LaunchCounts counts = Counted("row_sums", run);
  REQUIRE(counts.not_covered == "");
  const Counters& c = counts.counters;
  CHECK(c.load_requests[2] == Approx(4 * 625));
  CHECK(c.load_sectors[2] == Approx(4 * 2500));
  CHECK(c.read_new[0] == Approx(4 * 2500));
  CHECK(c.flops32 == Approx(4 * 20'000));
  CHECK(counts.steps < 4 * 625);
}

TEST_CASE("Indices loaded from a buffer decide the read addresses") {
  Run run{.grid = {64, 1, 1}, .block = {128, 1, 1}, .arguments = {Buffer(0), Buffer(1), Buffer(2)}};
  run.buffers[1].type = ElementType::kInt32;
  run.buffers[1].values = BufferSpec::Values::kConstant;
  const Counters same = CountersOf("gather", run);
  run.buffers[1].values = BufferSpec::Values::kIntegers;
  run.buffers[1].second = (1 << 18) - 1;
  const Counters random = CountersOf("gather", run);
  // Half of the requests are for the indices, four sectors each.
  CHECK(same.load_sectors[2] == 256 * 4 + 256);
  CHECK(random.load_sectors[2] > 256 * 4 + 256 * 30);
  CHECK(random.stray_sectors == 0);
}

TEST_CASE("A kernel that waits for another block is not covered and says so") {
  const LaunchCounts counts =
      Counted("wait", {.grid = {8, 1, 1}, .block = {32, 1, 1}, .arguments = {Buffer(0)}});
  CHECK(counts.not_covered == "a loop that waits for something that never happens");
  CHECK(counts.steps < 60'000);
}

TEST_CASE("An uncovered launch does not affect the others") {
  const Program program = ParseProgram(
      ".version 8.0\n.target sm_80\n.address_size 64\n"
      ".visible .entry bad()\n{\n.reg .b32 %r<3>;\nfrobnicate.b32 %r1, %r2;\nret;\n}\n"
      ".visible .entry good(.param .u64 p)\n{\n.reg .b64 %rd<3>;\n.reg .b32 %r<2>;\n"
      "ld.param.u64 %rd1, [p];\nmov.u32 %r1, 7;\nst.global.u32 [%rd1], %r1;\nret;\n}\n");
  const std::vector<LaunchSpec> launches = {
      {.kernel = "bad", .block = {32, 1, 1}},
      {.kernel = "good", .block = {32, 1, 1}, .arguments = {Buffer(0)}},
      {.kernel = "missing", .block = {32, 1, 1}}};
  const auto counts = Simulate(program, std::vector<BufferSpec>{{.bytes = 64}}, launches);
  REQUIRE(counts.size() == 3);
  CHECK(counts[0].not_covered == "frobnicate.b32: not known");
  CHECK(counts[1].not_covered == "");
  CHECK(counts[1].counters.store_sectors[2] == 1);
  CHECK(counts[2].not_covered == "no such kernel in the PTX");
}

// A block takes its number from a counter, publishes a word and reads the previous block's word, or
// reads first.
std::string Chain(bool publishes_first) {
  const std::string publish = "st.volatile.global.u32 [%rd4+4], 1;\n";
  const std::string wait =
      "setp.eq.u32 %p1, %r1, 0;\n@%p1 bra $DONE;\n"
      "$POLL:\nld.volatile.global.u32 %r2, [%rd4];\nsetp.eq.u32 %p2, %r2, 0;\n@%p2 bra $POLL;\n"
      "$DONE:\n";
  return ".version 8.0\n.target sm_80\n.address_size 64\n"
         ".visible .entry chain(.param .u64 p)\n{\n.reg .pred %p<3>;\n.reg .b32 %r<3>;\n"
         ".reg .b64 %rd<5>;\nld.param.u64 %rd1, [p];\natom.global.add.u32 %r1, [%rd1], 1;\n"
         "mul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd3, %rd1, 128;\nadd.u64 %rd4, %rd3, %rd2;\n" +
         (publishes_first ? publish + wait : wait + publish) + "ret;\n}\n";
}

TEST_CASE("Blocks that wait for earlier ones take longer the more run at once") {
  const std::vector<BufferSpec> buffers = {{.bytes = 1 << 20}};
  const auto run = [&](const std::string& text, uint32_t blocks, Waits expected) {
    const Program program = ParseProgram(text);
    const std::vector<LaunchSpec> launches = {
        {.kernel = "chain", .grid = {blocks, 1, 1}, .arguments = {Buffer(0)}}};
    const auto counts = Simulate(program, buffers, launches);
    CHECK(counts[0].not_covered == "");
    CHECK(counts[0].waits == expected);
    const GpuModel* gpu = FindGpuModel("NVIDIA H200", "sm_90a");
    return Estimate(*gpu, buffers, counts, std::vector<LaunchResources>{{}})[0]
        .ns[static_cast<size_t>(Resource::kLatency)];
  };
  // In sequence, about half a microsecond each.
  const double chain = run(Chain(false), 4096, Waits::kBeforePublishing);
  CHECK(chain > 4096 * 400);
  CHECK(chain < 4096 * 700);
  // Looking back over many published words finds a result after a few steps.
  const double look_back = run(Chain(true), 4096, Waits::kAfterPublishing);
  CHECK(look_back < chain / 20);
  CHECK(look_back > 3 * run(Chain(true), 32, Waits::kAfterPublishing));
}

TEST_CASE("A counter that blocks share is not waited for") {
  const Program program = ParseProgram(
      ".version 8.0\n.target sm_80\n.address_size 64\n"
      ".visible .entry count(.param .u64 p)\n{\n.reg .b32 %r<3>;\n.reg .b64 %rd<3>;\n"
      "ld.param.u64 %rd1, [p];\natom.global.add.u32 %r1, [%rd1], 1;\n"
      "mul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd2, %rd1, %rd2;\n"
      "st.volatile.global.u32 [%rd2+128], %r1;\nld.volatile.global.u32 %r2, [%rd2+128];\n"
      "st.global.u32 [%rd2+256], %r2;\nret;\n}\n");
  const auto counts = Simulate(
      program, std::vector<BufferSpec>{{.bytes = 1 << 20}},
      std::vector<LaunchSpec>{{.kernel = "count", .grid = {64, 1, 1}, .arguments = {Buffer(0)}}});
  CHECK(counts[0].not_covered == "");
  CHECK(counts[0].waits == Waits::kNever);
}

// Each of `rounds` rounds reads its own lines twice.
std::string ReadsTwice(int lines) {
  std::string twice;
  for (int pass = 0; pass < 2; ++pass) {
    for (int k = 0; k < lines; ++k) {
      twice +=
          "ld.global.f32 %f1, [%rd3+" + std::to_string(128 * k) + "];\nadd.f32 %f2, %f2, %f1;\n";
    }
  }
  return ".version 8.0\n.target sm_80\n.address_size 64\n"
         ".visible .entry twice(.param .u64 p, .param .u64 q, .param .u32 rounds)\n{\n"
         ".reg .pred %p<2>;\n.reg .b32 %r<4>;\n.reg .f32 %f<3>;\n.reg .b64 %rd<6>;\n"
         "ld.param.u64 %rd1, [p];\nld.param.u64 %rd5, [q];\nld.param.u32 %r2, [rounds];\n"
         "mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd3, %rd1, %rd2;\n"
         "mov.f32 %f2, 0f00000000;\nmov.u32 %r3, 0;\n$ROUND:\n" +
         twice + "add.u64 %rd3, %rd3, " + std::to_string(128 * lines) +
         ";\nadd.u32 %r3, %r3, 1;\nsetp.lt.u32 %p1, %r3, %r2;\n@%p1 bra $ROUND;\n"
         "st.global.f32 [%rd5], %f2;\nret;\n}\n";
}

TEST_CASE("Recently read data stay in the first-level cache whatever was read before") {
  const std::vector<BufferSpec> buffers = {{.bytes = 1 << 27}, {.bytes = 1 << 20}};
  const auto cycles = [&](int lines, int rounds) {
    const auto counts =
        Simulate(ParseProgram(ReadsTwice(lines)), buffers,
                 std::vector<LaunchSpec>{{.kernel = "twice",
                                          .grid = {132, 1, 1},
                                          .block = {32, 1, 1},
                                          .arguments = {Buffer(0), Buffer(1), Number(rounds)}}});
    CHECK(counts[0].not_covered == "");
    return counts[0].block_cycles;
  };
  // 2 MB in total; each round reads 256 bytes twice.
  const double few = cycles(2, 16) / 16;
  const double many = cycles(2, 8192) / 8192;
  CHECK(many < 1.1 * few);
}

TEST_CASE("Reducing barriers give all threads the same result") {
  // Threads below 40 of 96 count, all are below 96, and one is 95.
  const Program program = ParseProgram(
      ".version 8.0\n.target sm_80\n.address_size 64\n"
      ".visible .entry k(.param .u64 p)\n{\n.reg .pred %p<7>;\n.reg .b32 %r<8>;\n"
      ".reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\n"
      "setp.lt.u32 %p1, %r1, 40;\nbar.red.popc.u32 %r2, 0, %p1;\n"
      "barrier.cta.red.popc.aligned.u32 %r3, 0, !%p1;\n"
      "setp.lt.u32 %p2, %r1, 96;\nbar.red.and.pred %p3, 0, %p2;\nbar.red.and.pred %p4, 0, %p1;\n"
      "setp.eq.u32 %p5, %r1, 95;\nbarrier.red.or.pred %p6, 0, %p5;\n"
      "selp.u32 %r4, 1, 0, %p3;\nselp.u32 %r5, 1, 0, %p4;\nselp.u32 %r6, 1, 0, %p6;\n"
      "st.global.v2.u32 [%rd1], {%r2, %r3};\nst.global.v2.u32 [%rd1+8], {%r4, %r5};\n"
      "st.global.u32 [%rd1+16], %r6;\nret;\n}\n");
  const std::vector<BufferSpec> buffers = {{.bytes = 64}};
  GlobalMemory memory(buffers, program);
  const auto counts = Simulate(
      program,
      std::vector<LaunchSpec>{{.kernel = "k", .block = {96, 1, 1}, .arguments = {Buffer(0)}}}, {},
      memory);
  CHECK(counts[0].not_covered == "");
  CHECK(counts[0].counters.barriers == 3 * 5);
  std::vector<uint64_t> results;
  for (uint64_t k = 0; k < 5; ++k) {
    results.push_back(memory.Read(GlobalMemory::AddressOf(0) + 4 * k, 4));
  }
  CHECK(results == std::vector<uint64_t>{40, 56, 1, 0, 1});
}

TEST_CASE("A kernel without registers runs") {
  const Program program = ParseProgram(".visible .entry k()\n{\nbar.sync 0;\nret;\n}\n");
  const auto counts = Simulate(program, std::vector<BufferSpec>(),
                               std::vector<LaunchSpec>{{.kernel = "k", .block = {64, 1, 1}}});
  CHECK(counts[0].not_covered == "");
  CHECK(counts[0].counters.barriers == 2);
}

TEST_CASE("Launch facts are those that the schema names") {
  const LaunchCounts counts =
      Counted("copy", {.grid = {100, 1, 1},
                       .block = {256, 1, 1},
                       .arguments = {Buffer(0), Buffer(1), Number(25'600)}});
  const GpuModel* gpu = FindGpuModel("NVIDIA H200", "sm_90a");
  REQUIRE(gpu != nullptr);
  const std::vector<BufferSpec> buffers(3, {.bytes = 1 << 20});
  const auto estimates = Estimate(*gpu, buffers, std::vector<LaunchCounts>{counts},
                                  std::vector<LaunchResources>{{.registers = 16}});
  const std::vector<double> facts = LaunchFacts(counts, estimates[0]);
  const auto& names = (*FindSimulationSchema(kCudaSimulationSchemaId))->names;
  REQUIRE(facts.size() == names.size());
  const auto fact = [&](std::string_view name) {
    return facts.at(
        static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin()));
  };
  CHECK(fact("blocks") == 100);
  CHECK(fact("block_warps") == 8);
  CHECK(fact("resident_blocks") == 8);
  CHECK(fact("load_requests_4") == 800);
  CHECK(fact("load_sectors_4") == 4);
  CHECK(fact("load_efficiency") == 1);
  CHECK(fact("unique_bytes") == 204'800);
  CHECK(fact("shared_load_requests") == 0);
  CHECK(fact("estimated_ns") == estimates[0].total_ns);
}

TEST_CASE("Narrow numbers round-trip") {
  for (int bits = 0; bits < 0x7c00; ++bits) {
    CHECK(ToHalf(FromHalf(static_cast<uint16_t>(bits))) == bits);
  }
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<uint8_t>(code);
    if ((code & 0x7f) < 0x7f) CHECK(ToFloat8(FromFloat8(byte, false), false) == code);
    if ((code & 0x7f) < 0x7c) CHECK(ToFloat8(FromFloat8(byte, true), true) == code);
  }
  CHECK(FromFloat8(ToFloat8(1000, false), false) == 448);
  CHECK(FromHalf(ToHalf(0.333F)) == Approx(0.333F).epsilon(0.001));
}

}  // namespace
}  // namespace kernelcast::worker::virtual_gpu
