#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "services/worker/virtual_gpu/estimate/estimate.h"
#include "services/worker/virtual_gpu/execute/simulator.h"
#include "services/worker/virtual_gpu/parse/parser.h"

// Compares the virtual GPU with H200 times of kernels that each spend their time on one mechanism.

namespace kernelcast::worker::virtual_gpu {
namespace {

struct Compared {
  std::string name;
  double log2_ratio = 0;  // of estimate to measurement
};

std::vector<Compared> CompareAll() {
  const Program program = ParseProgram(
      ReadFile(KERNELCAST_SOURCE_DIR "/tests/bench/gpu/constants/mechanisms.ptx").value());
  std::istringstream lines(
      ReadFile(KERNELCAST_SOURCE_DIR "/data/measured/nvidia-h200/mechanisms.jsonl").value());
  const GpuModel* gpu = FindGpuModel("NVIDIA H200", "sm_90a");
  std::vector<Compared> compared;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json record = nlohmann::json::parse(line);
    LaunchSpec launch;
    launch.kernel = record.at("kernel");
    // Follows a chain of indices that no buffer of the virtual GPU holds.
    if (launch.kernel == "chain_load") continue;
    launch.grid = {record.at("blocks"), 1, 1};
    launch.block = {record.at("threads"), 1, 1};
    for (int k = 0; k < 3; ++k) launch.arguments.push_back({.is_buffer = true, .buffer = k});
    for (const char* scalar : {"n", "s"}) {
      launch.arguments.push_back({.bits = record.at(scalar).get<uint32_t>(), .bytes = 4});
    }
    std::vector<BufferSpec> buffers(2, {.bytes = (int64_t{1} << 28) + 4096,
                                        .values = BufferSpec::Values::kConstant,
                                        .first = 0.5});
    buffers.push_back({.bytes = 1 << 26, .type = ElementType::kInt32});
    LaunchResources resources;
    resources.registers = record.at("registers");
    resources.shared_bytes = program.Find(launch.kernel)->shared_bytes;
    resources.stack_bytes = record.at("local_bytes");
    const auto counts = Simulate(program, buffers, std::vector<LaunchSpec>{launch});
    const auto estimates = Estimate(*gpu, buffers, counts, std::vector<LaunchResources>{resources});
    const std::string name = launch.kernel + " " + std::to_string(launch.grid[0]) + " x " +
                             std::to_string(launch.block[0]) + ", s " +
                             std::to_string(record.at("s").get<int>());
    INFO(name);
    CHECK(counts[0].not_covered == "");
    compared.push_back(
        {name, std::log2(estimates[0].total_ns / 1e3 / record.at("us").get<double>())});
  }
  return compared;
}

TEST_CASE("Each mechanism costs about its measured H200 time") {
  const std::vector<Compared> compared = CompareAll();
  REQUIRE(compared.size() > 90);
  double squares = 0;
  int within = 0;
  for (const Compared& one : compared) {
    INFO(one.name << ": " << std::exp2(one.log2_ratio) << " of what was measured");
    CHECK(std::abs(one.log2_ratio) < 1.6);
    squares += one.log2_ratio * one.log2_ratio;
    within += std::abs(one.log2_ratio) < 1 ? 1 : 0;
  }
  CHECK(std::sqrt(squares / static_cast<double>(compared.size())) < 0.4);
  CHECK(within >= 0.95 * static_cast<double>(compared.size()));
}

}  // namespace
}  // namespace kernelcast::worker::virtual_gpu
