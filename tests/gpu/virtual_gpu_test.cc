// Compares the virtual GPU's counts with the hardware's counts of the same launches.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "services/worker/cuda/target/cuda_target.h"
#include "tests/gpu/gpu_fixture.h"

namespace kernelcast::testing {
namespace {

class Comparison {
 public:
  Comparison(const std::string& name, const Candidate& candidate) {
    auto compiled = CopyFixture().target().Compile({CopyFixture().problem(), &candidate},
                                                   worker::CancelToken());
    REQUIRE(compiled.ok());
    const auto* success = std::get_if<worker::CompileSuccess>(&compiled->result);
    REQUIRE(success != nullptr);
    REQUIRE(success->facts.simulations.size() == 1);
    const ShapeSimulation& simulation = success->facts.simulations[0];
    REQUIRE(simulation.launches.size() == 1);
    REQUIRE(simulation.launches[0].not_covered.empty());
    facts_ = simulation.launches[0].values;
    names_ = (*FindSimulationSchema(simulation.schema))->names;
    const worker::Profile profile = CopyFixture().Profile(candidate);
    INFO(profile.unavailable_reason);
    REQUIRE(profile.shapes.size() == 1);
    counters_ = profile.shapes[0].counters;
    std::printf("%s: kernel %.1f us, estimated %.1f us; instructions %.4g, issue slots %.4g\n",
                name.c_str(), Counter("kernel_ns") / 1e3, Fact("estimated_ns") / 1e3,
                Counter("instructions"), Fact("issue_slots"));
    for (const auto& [counter, value] : counters_) {
      std::printf("  %s %.6g\n", counter.c_str(), value);
    }
  }

  double Fact(std::string_view name) const {
    const auto at = std::find(names_.begin(), names_.end(), name);
    REQUIRE(at != names_.end());
    return facts_.at(static_cast<size_t>(at - names_.begin()));
  }
  // Requests or sectors of all widths.
  double Requests(const std::string& access) const {
    double sum = 0;
    for (const char* width : {"1", "2", "4", "8", "16"}) sum += Fact(access + "_requests_" + width);
    return sum;
  }
  double Sectors(const std::string& access) const {
    double sum = 0;
    for (const char* width : {"1", "2", "4", "8", "16"}) {
      sum += Fact(access + "_requests_" + width) * Fact(access + "_sectors_" + width);
    }
    return sum;
  }
  double Counter(const std::string& name) const {
    const auto found = counters_.find(name);
    INFO(name);
    REQUIRE(found != counters_.end());
    return found->second;
  }
  void CheckGlobal() const {
    CHECK(Requests("load") == Approx(Counter("global_load_requests")).epsilon(0.01));
    CHECK(Sectors("load") == Approx(Counter("global_load_sectors")).epsilon(0.01));
    CHECK(Requests("store") == Approx(Counter("global_store_requests")).epsilon(0.01));
    CHECK(Sectors("store") == Approx(Counter("global_store_sectors")).epsilon(0.01));
    // Machine instructions are estimated from PTX.
    CHECK(Fact("issue_slots") < 2 * Counter("instructions"));
    CHECK(Fact("issue_slots") > 0.4 * Counter("instructions"));
    CHECK(Fact("estimated_ns") < 2.5 * Counter("kernel_ns"));
    CHECK(Fact("estimated_ns") > 0.4 * Counter("kernel_ns"));
  }

 private:
  std::vector<double> facts_;
  std::span<const std::string_view> names_;
  std::map<std::string, double> counters_;
};

Candidate WithGrid(const std::string& body, const char* grid, const char* block) {
  Launch launch;
  launch.kernel = "copy";
  launch.grid = {grid};
  launch.block = {block};
  launch.arguments = {"x", "y", "n"};
  return CopyFixture().MakeCandidate(body, {}, {launch});
}

TEST_CASE("A coalesced copy has the sector counts of the hardware") {
  KERNELCAST_NEEDS_COUNTERS();
  Comparison("copy", ReferenceCandidate(CopyFixture().problem(), kCudaTargetName).value())
      .CheckGlobal();
}

TEST_CASE("Vectors of four have the sector counts of the hardware") {
  KERNELCAST_NEEDS_COUNTERS();
  Comparison(
      "vectors",
      WithGrid("extern \"C\" __global__ void copy(const float4* x, float4* y, long long n) {\n"
               "  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
               "  if (4 * i + 3 < n) y[i] = x[i];\n"
               "}\n",
               "ceildiv(n, 1024)", "256"))
      .CheckGlobal();
}

TEST_CASE("A strided copy has the sector counts of the hardware") {
  KERNELCAST_NEEDS_COUNTERS();
  Comparison("stride",
             WithGrid("extern \"C\" __global__ void copy(const float* x, float* y, long long n) {\n"
                      "  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
                      "  const long long at = i % (n / 8) * 8 + i / (n / 8);\n"
                      "  if (at < n) y[at] = x[at];\n"
                      "}\n",
                      "ceildiv(n, 256)", "256"))
      .CheckGlobal();
}

TEST_CASE("A long loop with inferred iterations has the counts of the hardware") {
  KERNELCAST_NEEDS_COUNTERS();
  Comparison("loop",
             WithGrid("extern \"C\" __global__ void copy(const float* x, float* y, long long n) {\n"
                      "  const long long all = (long long)gridDim.x * blockDim.x;\n"
                      "  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
                      "#pragma unroll 1\n"
                      "  for (; i < n; i += all) y[i] = x[i];\n"
                      "}\n",
                      "264", "512"))
      .CheckGlobal();
}

TEST_CASE("Padded and unpadded shared-memory tiles have the wavefront counts of the hardware") {
  KERNELCAST_NEEDS_COUNTERS();
  for (const char* pitch : {"32", "33"}) {
    const Comparison both(
        std::string("pitch ") + pitch,
        WithGrid(
            std::string("#define PITCH ") + pitch +
                "\nextern \"C\" __global__ void copy(const float* x, float* y, long long n) {\n"
                "  __shared__ float tile[32][PITCH];\n"
                "  const int column = threadIdx.x % 32, row = threadIdx.x / 32;\n"
                "  const long long from = (long long)blockIdx.x * 1024;\n"
                "  if (from + threadIdx.x < n) tile[row][column] = x[from + threadIdx.x];\n"
                "  __syncthreads();\n"
                "  const long long to = from + column * 32 + row;\n"
                "  if (to < n) y[to] = tile[column][row];\n"
                "}\n",
            "ceildiv(n, 1024)", "1024"));
    both.CheckGlobal();
    for (const std::string kind : {"shared_load", "shared_store"}) {
      INFO(kind);
      const double simulated =
          both.Fact((kind + "_requests").c_str()) * both.Fact((kind + "_wavefronts").c_str());
      const double counted = both.Counter((kind + "_wavefronts").c_str());
      // The hardware also counts those that found the data pipe busy with other accesses: up to one
      // per request.
      CHECK(counted > 0.99 * simulated);
      CHECK(counted < simulated + both.Fact((kind + "_requests").c_str()));
      std::printf("%s wavefronts: %.4g simulated, %.4g counted\n", kind.c_str(), simulated,
                  counted);
    }
  }
}

}  // namespace
}  // namespace kernelcast::testing
