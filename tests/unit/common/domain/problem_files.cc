#include "tests/unit/common/domain/problem_files.h"

#include <catch2/catch.hpp>

namespace kernelcast {

std::map<std::string, std::string> SmallProblem() {
  return {
      {"problem.yaml",
       "schema: 1\n"                                                   // 1
       "name: scale\n"                                                 // 2
       "title: Scale rows\n"                                           // 3
       "family: elementwise\n"                                         // 4
       "description: >\n"                                              // 5
       "  y = s * x,\n"                                                // 6
       "  row by row.\n"                                               // 7
       "axes:\n"                                                       // 8
       "  rows: {held_out: [1, 40]}\n"                                 // 9
       "  cols: {held_out: [3, 30], multiple_of: 4}\n"                 // 10
       "inputs:\n"                                                     // 11
       "  - name: x\n"                                                 // 12
       "    dtype: float32\n"                                          // 13
       "    shape: [rows, cols]\n"                                     // 14
       "    init: {distribution: normal, mean: 1, stddev: 2.5}\n"      // 15
       "    adversarial: [large, zeros]\n"                             // 16
       "  - name: index\n"                                             // 17
       "    dtype: int32\n"                                            // 18
       "    shape: [\"ceildiv(rows, 2)\"]\n"                           // 19
       "    init: {distribution: integers, low: 0, high: rows - 1}\n"  // 20
       "outputs:\n"                                                    // 21
       "  - name: y\n"                                                 // 22
       "    dtype: float32\n"                                          // 23
       "    shape: [rows, cols]\n"                                     // 24
       "    tolerance: {atol: 1.0e-6, rtol: 1e-5, normwise: 0}\n"      // 25
       "oracle: oracle.cc\n"                                           // 26
       "targets:\n"                                                    // 27
       "  cpu:\n"                                                      // 28
       "    reference: reference.cc\n"                                 // 29
       "    flags: [-O2]\n"                                            // 30
       "    space: space/cpu.yaml\n"                                   // 31
       "check_shapes:\n"                                               // 32
       "  - {rows: 1, cols: 4}\n"                                      // 33
       "  - {rows: 7, cols: 128}\n"                                    // 34
       "bench_shapes:\n"                                               // 35
       "  - {rows: 256, cols: 1024}\n"                                 // 36
       "flops: rows*cols\n"                                            // 37
       "bytes: \"8*rows*cols\"\n"},                                    // 38
      {"oracle.cc", "// oracle\n"},
      {"reference.cc", "// reference\n"},
      {"space/cpu.yaml",
       "schema: 1\n"                                                                     // 1
       "target: cpu\n"                                                                   // 2
       "templates:\n"                                                                    // 3
       "  - name: plain\n"                                                               // 4
       "    file: plain.cc\n"                                                            // 5
       "    description: One loop\n"                                                     // 6
       "    tunables:\n"                                                                 // 7
       "      UNROLL: [1, 2, 4]\n"                                                       // 8
       "      LANES: [4, 8]\n"                                                           // 9
       "      MODE: [fast, exact]\n"                                                     // 10
       "    flags:\n"                                                                    // 11
       "      - []\n"                                                                    // 12
       "      - [-ffast-math, -funroll-loops]\n"                                         // 13
       "    constraints: [\"mod(LANES, UNROLL) == 0\", \"UNROLL < 4 || LANES == 8\"]\n"  // 14
       "  - name: bare\n"                                                                // 15
       "    file: sub/bare.cc\n"},                                                       // 16
      {"space/plain.cc", "int plain;\n"},
      {"space/sub/bare.cc", "int bare;\n"},
  };
}

std::map<std::string, std::string> SmallCudaProblem() {
  std::map<std::string, std::string> files = SmallProblem();
  std::string yaml = files["problem.yaml"];
  const size_t from = yaml.find("oracle: oracle.cc");
  const size_t to = yaml.find("check_shapes:");
  yaml.replace(from, to - from,
               "targets:\n"                                                // 26
               "  cuda:\n"                                                 // 27
               "    reference:\n"                                          // 28
               "      file: reference.cu\n"                                // 29
               "      flags: [--use_fast_math]\n"                          // 30
               "      launches:\n"                                         // 31
               "        - kernel: scale\n"                                 // 32
               "          grid: [rows]\n"                                  // 33
               "          block: [256]\n"                                  // 34
               "          arguments: [x, index, y, cols]\n"                // 35
               "    oracle:\n"                                             // 36
               "      file: oracle.cu\n"                                   // 37
               "      workspace_bytes: 8*rows\n"                           // 38
               "      launches:\n"                                         // 39
               "        - kernel: factors\n"                               // 40
               "          grid: [\"ceildiv(rows, 128)\"]\n"                // 41
               "          block: [128]\n"                                  // 42
               "          arguments: [index, workspace, rows, 0.5:f64]\n"  // 43
               "        - kernel: exact\n"                                 // 44
               "          grid: [rows, 1, 2]\n"                            // 45
               "          block: [32, 4]\n"                                // 46
               "          cluster: [1]\n"                                  // 47
               "          shared_memory_bytes: 8*cols\n"                   // 48
               "          arguments: [x, workspace, y, cols, 3:i32]\n"     // 49
               "    bench_shapes:\n"                                       // 50
               "      - {rows: 4096, cols: 4096}\n"                        // 51
               "    space: space/cuda.yaml\n");                            // 52
  return {
      {"problem.yaml", yaml},
      {"reference.cu", "// reference\n"},
      {"oracle.cu", "// oracle\n"},
      {"space/cuda.yaml",
       "schema: 1\n"                                                          // 1
       "target: cuda\n"                                                       // 2
       "templates:\n"                                                         // 3
       "  - name: rows\n"                                                     // 4
       "    file: rows.cu\n"                                                  // 5
       "    tunables:\n"                                                      // 6
       "      BLOCK: [128, 256]\n"                                            // 7
       "      LOADS: [plain, cached]\n"                                       // 8
       "    workspace_bytes: 4*BLOCK\n"                                       // 9
       "    launches:\n"                                                      // 10
       "      - kernel: scale_rows\n"                                         // 11
       "        grid: [\"ceildiv(rows, BLOCK/32)\"]\n"                        // 12
       "        block: [BLOCK]\n"                                             // 13
       "        arguments: [x, index, y, workspace, rows, cols, -1:i64]\n"},  // 14
      {"space/rows.cu", "// rows\n"},
  };
}

std::map<std::string, std::string> SmallTritonProblem() {
  std::map<std::string, std::string> files = SmallCudaProblem();
  files.erase("space/rows.cu");
  files["space/rows.py"] = "# rows\n";
  files["space/cuda.yaml"] =
      "schema: 1\n"                                                                   // 1
      "target: cuda\n"                                                                // 2
      "templates:\n"                                                                  // 3
      "  - name: rows\n"                                                              // 4
      "    file: rows.py\n"                                                           // 5
      "    tunables:\n"                                                               // 6
      "      BLOCK: [256, 512]\n"                                                     // 7
      "      WARPS: [2, 4, 8]\n"                                                      // 8
      "    constraints: [\"BLOCK >= 64*WARPS\"]\n"                                    // 9
      "    launches:\n"                                                               // 10
      "      - kernel: scale_rows\n"                                                  // 11
      "        grid: [rows]\n"                                                        // 12
      "        arguments: [x, index, y, cols]\n"                                      // 13
      "        constexprs: {BLOCK: BLOCK, EVEN: \"mod(cols, BLOCK)\", FAST: true}\n"  // 14
      "        num_warps: WARPS\n"                                                    // 15
      "        num_stages: 3\n";                                                      // 16
  return files;
}

std::vector<ProblemFile> AsFiles(const std::map<std::string, std::string>& files) {
  std::vector<ProblemFile> list;
  for (const auto& [path, content] : files) list.push_back({path, content});
  return list;
}

std::map<std::string, std::string> WithReplaced(const std::string& path, const std::string& from,
                                                const std::string& to,
                                                std::map<std::string, std::string> files) {
  const size_t at = files[path].find(from);
  INFO(path << " holds " << from);
  REQUIRE(at != std::string::npos);
  files[path].replace(at, from.size(), to);
  return files;
}

std::string ProblemError(const std::map<std::string, std::string>& files) {
  const absl::StatusOr<Problem> problem = ParseProblem(AsFiles(files));
  REQUIRE_FALSE(problem.ok());
  CHECK(problem.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(problem.status().message());
}

void CheckEdits(const std::string& path, const std::vector<Edit>& edits,
                const std::map<std::string, std::string>& files) {
  for (const Edit& edit : edits) {
    CAPTURE(edit.from, edit.to);
    CHECK_THAT(ProblemError(WithReplaced(path, edit.from, edit.to, files)),
               Catch::Matchers::StartsWith(path + ":" + edit.message));
  }
}

}  // namespace kernelcast
