#include "tests/support/doubling_problem.h"

#include <filesystem>
#include <fstream>

namespace kernelcast::testing {

std::string DoublingKernel(const std::string& repeats) {
  // The barrier keeps the compiler from merging the loops.
  return "#include <kernelcast/candidate.h>\n"
         "extern \"C\" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* "
         "outputs, int32_t, void*) {\n"
         "  const float* x = kc_data<float>(inputs[0]);\n"
         "  float* y = kc_data<float>(outputs[0]);\n"
         "  const int64_t n = inputs[0].shape[0];\n"
         "  const int repeats = " +
         repeats +
         ";\n"
         "  for (int r = 0; r < repeats; ++r) {\n"
         "    for (int64_t i = 0; i < n; ++i) y[i] = 2 * x[i];\n"
         "    asm volatile(\"\" ::: \"memory\");\n"
         "  }\n"
         "  return 0;\n}\n";
}

std::string WriteProblem(const TemporaryFolder& home, const DoublingProblem& problem) {
  const std::string folder = home.File("problems/" + problem.name);
  std::map<std::string, std::string> files = {
      {"problem.yaml", "schema: 1\nname: " + problem.name +
                           "\ntitle: Twice a vector\nfamily: " + problem.family + R"(
axes:
  n: {held_out: [1, 100]}
inputs:
  - {name: x, dtype: float32, shape: [n], init: {distribution: normal, mean: 0, stddev: 1}}
outputs:
  - {name: y, dtype: float32, shape: [n], tolerance: {atol: 0, rtol: 1.0e-6, normwise: 1.0e-6}}
oracle: oracle.cc
targets:
  cpu: {reference: reference.cc, space: space/cpu.yaml}
check_shapes: [{n: 7}]
bench_shapes: [{n: 16384}]
held_out_bench_shapes: [{n: 16000}]
)"},
      {"oracle.cc", R"(#include <kernelcast/candidate.h>
extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  double* y = kc_data<double>(outputs[0]);
  for (int64_t i = 0; i < inputs[0].shape[0]; ++i) y[i] = 2.0 * x[i];
  return 0;
}
)"},
      {"reference.cc", DoublingKernel(problem.reference_repeats)},
      {"space/cpu.yaml", "schema: 1\ntarget: cpu\ntemplates:\n" + problem.templates}};
  for (const auto& [name, source] : problem.kernels) files["space/" + name] = source;
  for (const auto& [path, content] : files) {
    const std::filesystem::path file = std::filesystem::path(folder) / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << content;
  }
  return folder;
}

}  // namespace kernelcast::testing
