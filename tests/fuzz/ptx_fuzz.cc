// libFuzzer harness for the virtual GPU. An input is PTX; each of its kernels is launched with as
// many arguments as it has, alternating buffers and numbers.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "services/worker/virtual_gpu/estimate/estimate.h"
#include "services/worker/virtual_gpu/estimate/launch_facts.h"
#include "services/worker/virtual_gpu/execute/simulator.h"
#include "services/worker/virtual_gpu/parse/parser.h"

namespace kernelcast::worker::virtual_gpu {
namespace {

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "violated: %s\n", what);
  std::abort();
}

void TryOne(std::string_view text) {
  ProgramLimits program_limits;
  program_limits.instructions = 2000;
  program_limits.slots = 500;
  const Program program = ParseProgram(text, program_limits);
  std::vector<BufferSpec> buffers(3, {.bytes = 1 << 16});
  buffers[0].values = BufferSpec::Values::kNormal;
  buffers[1].type = ElementType::kInt32;
  buffers[1].values = BufferSpec::Values::kIntegers;
  buffers[1].second = 1000;
  SimulationLimits limits;
  limits.launch_steps = 300;
  limits.total_steps = 600;
  limits.max_launches = 3;
  std::vector<LaunchSpec> launches;
  for (const auto& kernel : program.kernels) {
    if (launches.size() == 3) break;
    LaunchSpec launch;
    launch.kernel = kernel->name;
    launch.grid = {2, 1, 1};
    launch.block = {40, 1, 1};
    launch.dynamic_shared_bytes = 512;
    for (size_t k = 0; k < kernel->parameters.size(); ++k) {
      const bool is_buffer = kernel->parameters[k].bytes == 8 && k < buffers.size();
      launch.arguments.push_back(
          {.is_buffer = is_buffer, .buffer = static_cast<int>(k % 3), .bits = 64});
    }
    launches.push_back(launch);
  }
  const auto counts = Simulate(program, buffers, launches, limits);
  Require(counts.size() == launches.size(), "one result for each launch");
  for (const LaunchCheck& check : Check(program, buffers, launches, limits)) {
    Require(check.findings.size() <= 32, "findings within their limit");
    Require(check.steps <= limits.launch_steps, "steps of a check within their limit");
    for (const LaunchFinding& finding : check.findings) {
      Require(finding.count > 0 && finding.detail.size() <= 512, "a finding with a count");
    }
  }
  const auto estimates =
      Estimate(AllGpuModels()[0], buffers, counts, std::vector<LaunchResources>(launches.size()));
  for (size_t k = 0; k < counts.size(); ++k) {
    Require(counts[k].steps <= limits.launch_steps, "steps within their limit");
    if (!counts[k].not_covered.empty()) continue;
    for (const double fact : LaunchFacts(counts[k], estimates[k])) {
      Require(std::isfinite(fact), "facts are finite");
    }
  }
}

}  // namespace
}  // namespace kernelcast::worker::virtual_gpu

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kernelcast::worker::virtual_gpu::TryOne({reinterpret_cast<const char*>(data), size});
  return 0;
}
