// A search whose kernels an endpoint writes, with the real services on the device.

#include <catch2/catch.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/e2e/program.h"
#include "tests/fakes/llm_endpoint/llm_endpoint.h"
#include "tests/fakes/llm_endpoint/scripted_author.h"
#include "tests/gpu/gpu_fixture.h"

namespace kernelcast::testing {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;

std::string DeviceKernel(const std::string& body) {
  return absl::StrCat(
      "Less waiting for divisions.\n\n```cuda\n"
      "extern \"C\" __global__ void fast_map(const float* x, float* y, long long n) {\n"
      "  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
      "  if (i >= n) return;\n",
      body,
      "}\n```\n```json\n"
      "{\"launches\": [{\"kernel\": \"fast_map\", \"grid\": [\"ceildiv(n, 128)\"], "
      "\"block\": [\"128\"], \"arguments\": [\"x\", \"y\", \"n\"]}]}\n```\n");
}

std::string GoodDeviceKernel(int unroll) {
  return DeviceKernel(absl::StrCat(
      "  const float from = x[i];\n  float v = 0;\n#pragma unroll ", unroll,
      "\n  for (int step = 0; step < 256; ++step) v = v * 0.99f + __fdividef(from, 2.0f + v * v);\n"
      "  y[i] = v;\n"));
}

TEST_CASE("A model writes device code, is told what was wrong, and gets there") {
  KERNELCAST_NEEDS_GPU();
  const TemporaryFolder home("gpu-generator");
  ScriptedAuthor author([](int number) {
    switch (number) {
      case 1: return DeviceKernel("  y[i] = broken_name;\n");
      case 2: return DeviceKernel("  y[i] = x[i];\n");
      case 3: return DeviceKernel("  y[i] = x[i + (1ll << 40)];\n");
      default: return GoodDeviceKernel(1 << (number - 3));
    }
  });
  FakeEndpointOptions options;
  options.answers = author.Source();
  const auto endpoint = FakeLlmEndpoint::Start(std::move(options)).value();
  const Outcome outcome = Program(home, {"search",
                                         SourcePath("tests/gpu/candidates/cuda_map"),
                                         "--target",
                                         "cuda",
                                         "--json",
                                         "--state-dir",
                                         home.File("state"),
                                         "--no-report",
                                         "--generator",
                                         "llm",
                                         "--llm",
                                         endpoint->url(),
                                         "--forecaster",
                                         "embedded",
                                         "--measure-everything",
                                         "--generator-requests",
                                         "6",
                                         "--in-flight",
                                         "1",
                                         "--generator-in-flight",
                                         "1"})
                              .Wait(240);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const json summary = json::parse(outcome.out);
  INFO(summary.dump(1));
  CHECK(summary["best"]["speedup"]["value"].get<double>() > 1.2);
  CHECK(summary["counts"]["generation"]["written"] == 6);
  const std::vector<std::string> prompts = author.prompts();
  REQUIRE(prompts.size() == 6);
  CHECK_THAT(prompts[0], Contains("__global__") && Contains("ceildiv(n, 256)"));
  CHECK_THAT(prompts[1], Contains("Does not compile") && Contains("broken_name"));
  CHECK_THAT(prompts[2], Contains("Wrong result in output 'y'"));
  CHECK_THAT(prompts[3], Contains("CUDA_ERROR_ILLEGAL_ADDRESS"));
  CHECK_THAT(prompts[4], Contains("times as fast as the reference") && Contains("#pragma unroll"));
  std::printf("best %.3f\n", summary["best"]["speedup"]["value"].get<double>());
}

}  // namespace
}  // namespace kernelcast::testing
