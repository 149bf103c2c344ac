#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <utility>

#include "common/domain/problem.h"
#include "tests/unit/common/domain/problem_files.h"

namespace kernelcast {
namespace {

using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;

using FileMap = std::map<std::string, std::string>;

TEST_CASE("A complete problem is parsed", "[problem]") {
  const absl::StatusOr<Problem> parsed = ParseProblem(AsFiles(SmallProblem()));
  INFO(parsed.status());
  REQUIRE(parsed.ok());
  const Problem& problem = *parsed;
  CHECK(problem.name == "scale");
  CHECK(problem.title == "Scale rows");
  CHECK(problem.family == "elementwise");
  CHECK(problem.description == "y = s * x, row by row.");
  REQUIRE(problem.axes.size() == 2);
  CHECK(problem.axes[0].name == "rows");
  CHECK(problem.axes[0].held_out_low == 1);
  CHECK(problem.axes[0].held_out_high == 40);
  CHECK(problem.axes[0].multiple_of == 1);
  CHECK(problem.axes[1].multiple_of == 4);
  REQUIRE(problem.inputs.size() == 2);
  const TensorSpec& x = problem.inputs[0];
  CHECK(x.name == "x");
  CHECK(x.dtype == DataType::kFloat32);
  CHECK(x.shape[1].text() == "cols");
  REQUIRE(std::holds_alternative<Normal>(x.init));
  CHECK(std::get<Normal>(x.init).mean == 1);
  CHECK(std::get<Normal>(x.init).stddev == 2.5);
  CHECK(x.adversarial == std::vector<Adversarial>{Adversarial::kLarge, Adversarial::kZeros});
  const TensorSpec& index = problem.inputs[1];
  CHECK(index.dtype == DataType::kInt32);
  REQUIRE(std::holds_alternative<Integers>(index.init));
  CHECK(std::get<Integers>(index.init).low.text() == "0");
  CHECK(std::get<Integers>(index.init).high.text() == "rows - 1");
  CHECK(index.adversarial.empty());
  REQUIRE(problem.outputs.size() == 1);
  CHECK(problem.outputs[0].tolerance.atol == 1e-6);
  CHECK(problem.outputs[0].tolerance.rtol == 1e-5);
  CHECK(problem.outputs[0].tolerance.normwise == 0);
  CHECK(problem.oracle_source == "// oracle\n");
  REQUIRE(problem.targets.size() == 1);
  const ProblemTarget& cpu = problem.targets.at("cpu");
  CHECK(cpu.reference.file == "reference.cc");
  CHECK(cpu.reference.source == "// reference\n");
  CHECK(cpu.reference.flags == std::vector<std::string>{"-O2"});
  REQUIRE(cpu.space.has_value());
  CHECK(cpu.space->target == "cpu");
  REQUIRE(cpu.space->templates.size() == 2);
  const SpaceTemplate& plain = cpu.space->templates[0];
  CHECK(plain.name == "plain");
  CHECK(plain.description == "One loop");
  CHECK(plain.file == "plain.cc");
  CHECK(plain.source == "int plain;\n");
  REQUIRE(plain.dimensions.size() == 4);
  CHECK(plain.dimensions[0].name == "UNROLL");
  CHECK(plain.dimensions[1].values == std::vector<std::string>{"4", "8"});
  CHECK(plain.dimensions[2].values == std::vector<std::string>{"fast", "exact"});
  CHECK(plain.dimensions[3].name == "FLAGS");
  CHECK(plain.dimensions[3].values == std::vector<std::string>{"0", "1"});
  REQUIRE(plain.flag_sets.size() == 2);
  CHECK(plain.flag_sets[0].empty());
  CHECK(plain.flag_sets[1] == std::vector<std::string>{"-ffast-math", "-funroll-loops"});
  CHECK(plain.constraints.size() == 2);
  const SpaceTemplate& bare = cpu.space->templates[1];
  CHECK(bare.file == "sub/bare.cc");
  CHECK(bare.dimensions.empty());
  CHECK(bare.flag_sets.size() == 1);
  CHECK(problem.check_shapes ==
        std::vector<AxisValues>{{{"rows", 1}, {"cols", 4}}, {{"rows", 7}, {"cols", 128}}});
  CHECK(problem.bench_shapes == std::vector<AxisValues>{{{"rows", 256}, {"cols", 1024}}});
  CHECK(problem.flops->text() == "rows*cols");
  CHECK(problem.bytes->text() == "8*rows*cols");
  CHECK(problem.problem_id == ProblemId(AsFiles(SmallProblem())));
  REQUIRE(problem.files.size() == 6);
  CHECK(std::ranges::is_sorted(problem.files, {}, &ProblemFile::path));
}

TEST_CASE("Both spellings of a family are one family", "[problem]") {
  const auto family = [](const std::string& spelled) {
    const absl::StatusOr<Problem> parsed = ParseProblem(
        AsFiles(WithReplaced("problem.yaml", "family: elementwise", "family: " + spelled)));
    REQUIRE(parsed.ok());
    return parsed->family;
  };
  CHECK(family("normalisation") == "normalization");
  CHECK(family("normalization") == "normalization");
}

TEST_CASE("A device CUDA problem is parsed", "[problem][cuda]") {
  const absl::StatusOr<Problem> parsed = ParseProblem(AsFiles(SmallCudaProblem()));
  INFO(parsed.status());
  REQUIRE(parsed.ok());
  CHECK(parsed->oracle_source.empty());
  REQUIRE(parsed->targets.size() == 1);
  const ProblemTarget& cuda = parsed->targets.at("cuda");
  CHECK(cuda.kind == CandidateKind::kDeviceCuda);
  CHECK(cuda.reference.file == "reference.cu");
  CHECK(cuda.reference.source == "// reference\n");
  CHECK(cuda.reference.flags == std::vector<std::string>{"--use_fast_math"});
  CHECK(cuda.reference.workspace_bytes.empty());
  CHECK(cuda.reference.launches == std::vector<Launch>{{.kernel = "scale",
                                                        .grid = {"rows"},
                                                        .block = {"256"},
                                                        .shared_memory_bytes = "",
                                                        .arguments = {"x", "index", "y", "cols"},
                                                        .cluster = {}}});
  REQUIRE(cuda.oracle.has_value());
  CHECK(cuda.oracle->source == "// oracle\n");
  CHECK(cuda.oracle->workspace_bytes == "8*rows");
  REQUIRE(cuda.oracle->launches.size() == 2);
  CHECK(cuda.oracle->launches[0].arguments.back() == "0.5:f64");
  CHECK(cuda.oracle->launches[1] == Launch{.kernel = "exact",
                                           .grid = {"rows", "1", "2"},
                                           .block = {"32", "4"},
                                           .shared_memory_bytes = "8*cols",
                                           .arguments = {"x", "workspace", "y", "cols", "3:i32"},
                                           .cluster = {"1"}});
  CHECK(cuda.check_shapes == parsed->check_shapes);
  CHECK(cuda.bench_shapes == std::vector<AxisValues>{{{"rows", 4096}, {"cols", 4096}}});
  CHECK(parsed->bench_shapes == std::vector<AxisValues>{{{"rows", 256}, {"cols", 1024}}});
  REQUIRE(cuda.space.has_value());
  CHECK(cuda.space->templates[0].kind == CandidateKind::kDeviceCuda);
  const SpaceTemplate& rows = cuda.space->templates.at(0);
  CHECK(rows.workspace_bytes == "4*BLOCK");
  REQUIRE(rows.launches.size() == 1);
  CHECK(rows.launches[0].grid == std::vector<std::string>{"ceildiv(rows, BLOCK/32)"});
}

TEST_CASE("A target uses its own shapes or the problem's", "[problem]") {
  FileMap files = WithReplaced("problem.yaml", "    flags: [-O2]\n",
                               "    check_shapes: [{rows: 3, cols: 8}]\n");
  const absl::StatusOr<Problem> problem = ParseProblem(AsFiles(files));
  INFO(problem.status());
  REQUIRE(problem.ok());
  const ProblemTarget& cpu = problem->targets.at("cpu");
  CHECK(cpu.kind == CandidateKind::kHostNative);
  CHECK_FALSE(cpu.oracle.has_value());
  CHECK(cpu.check_shapes == std::vector<AxisValues>{{{"rows", 3}, {"cols", 8}}});
  CHECK(cpu.bench_shapes == problem->bench_shapes);
  CHECK(problem->check_shapes.size() == 2);
}

TEST_CASE("A problem may have targets of both kinds", "[problem][cuda]") {
  FileMap files = SmallCudaProblem();
  for (const auto& [path, content] : SmallProblem()) files.emplace(path, content);
  std::string& yaml = files["problem.yaml"];
  const std::string with_cpu = "oracle: oracle.cc\ntargets:\n  cpu: {reference: reference.cc}\n";
  yaml.replace(yaml.find("targets:\n"), 9, with_cpu);
  for (const char* path : {"space/cpu.yaml", "space/plain.cc", "space/sub/bare.cc"}) {
    files.erase(path);
  }
  const absl::StatusOr<Problem> problem = ParseProblem(AsFiles(files));
  INFO(problem.status());
  REQUIRE(problem.ok());
  CHECK(problem->oracle_source == "// oracle\n");
  CHECK(problem->targets.at("cpu").kind == CandidateKind::kHostNative);
  CHECK(problem->targets.at("cuda").kind == CandidateKind::kDeviceCuda);

  const size_t line = yaml.find("oracle: oracle.cc\n");
  yaml.erase(line, 18);
  CHECK_THAT(ProblemError(files),
             Equals("problem.yaml:1: missing key 'oracle', which target cpu needs"));
}

TEST_CASE("A host-native reference for target cuda has a device oracle", "[problem][cuda]") {
  FileMap files = SmallCudaProblem();
  std::string& yaml = files["problem.yaml"];
  const size_t from = yaml.find("    reference:\n");
  yaml.replace(from, yaml.find("    oracle:\n") - from,
               "    reference: reference.cu\n    flags: [-O3]\n");
  files.erase("space/cuda.yaml");
  files.erase("space/rows.cu");
  yaml.erase(yaml.find("    space: space/cuda.yaml\n"), 27);
  const absl::StatusOr<Problem> problem = ParseProblem(AsFiles(files));
  INFO(problem.status());
  REQUIRE(problem.ok());
  const ProblemTarget& cuda = problem->targets.at("cuda");
  CHECK(cuda.kind == CandidateKind::kHostNative);
  CHECK(cuda.reference.launches.empty());
  CHECK(cuda.reference.flags == std::vector<std::string>{"-O3"});
  CHECK(cuda.oracle->launches.size() == 2);
}

TEST_CASE("Keys for device code are refused for the cpu target", "[problem][cuda]") {
  CheckEdits("problem.yaml",
             {{"    reference: reference.cc\n", "    reference: {file: reference.cc}\n",
               "29: targets.cpu.reference: expected text, found a mapping"},
              {"    flags: [-O2]\n", "    oracle: oracle.cc\n",
               "30: targets.cpu: unknown key 'oracle'; allowed are reference, flags, space, "
               "check_shapes, bench_shapes"}});
  CheckEdits("space/cpu.yaml", {{"    description: One loop\n", "    launches: []\n",
                                 "6: templates[0]: unknown key 'launches'; allowed are name"}});
}

TEST_CASE("Optional keys have defaults", "[problem]") {
  FileMap files = SmallProblem();
  std::string& yaml = files["problem.yaml"];
  for (const std::string line :
       {"    adversarial: [large, zeros]\n", "    space: space/cpu.yaml\n", "    flags: [-O2]\n",
        "flops: rows*cols\n", "bytes: \"8*rows*cols\"\n", ", mean: 1, stddev: 2.5",
        "description: >\n  y = s * x,\n  row by row.\n"}) {
    const size_t at = yaml.find(line);
    REQUIRE(at != std::string::npos);
    yaml.erase(at, line.size());
  }
  files.erase("space/cpu.yaml");
  files.erase("space/plain.cc");
  files.erase("space/sub/bare.cc");
  const absl::StatusOr<Problem> problem = ParseProblem(AsFiles(files));
  INFO(problem.status());
  REQUIRE(problem.ok());
  CHECK(problem->inputs[0].adversarial ==
        std::vector<Adversarial>{Adversarial::kLarge, Adversarial::kEqualRows, Adversarial::kZeros,
                                 Adversarial::kExtreme});
  CHECK(std::get<Normal>(problem->inputs[0].init).mean == 0);
  CHECK(std::get<Normal>(problem->inputs[0].init).stddev == 1);
  CHECK_FALSE(problem->targets.at("cpu").space.has_value());
  CHECK_FALSE(problem->flops.has_value());
  CHECK(problem->description.empty());
}

TEST_CASE("Every distribution is parsed", "[problem]") {
  const auto init = [](const std::string& text) {
    const absl::StatusOr<Problem> problem = ParseProblem(AsFiles(
        WithReplaced("problem.yaml", "{distribution: normal, mean: 1, stddev: 2.5}", text)));
    INFO(problem.status());
    REQUIRE(problem.ok());
    return problem->inputs[0].init;
  };
  CHECK(std::get<Uniform>(init("{distribution: uniform, low: -1, high: +2.5}")).high == 2.5);
  CHECK(std::get<Constant>(init("{distribution: constant, value: .5}")).value == 0.5);
  CHECK(std::get<Integers>(init("{distribution: integers, low: 1, high: 4*rows}")).high.text() ==
        "4*rows");
}

TEST_CASE("An axis has its declared type or int64 by default", "[problem]") {
  const absl::StatusOr<Problem> problem = ParseProblem(AsFiles(WithReplaced(
      "problem.yaml", "rows: {held_out: [1, 40]}", "rows: {held_out: [1, 40], type: int}")));
  INFO(problem.status());
  REQUIRE(problem.ok());
  CHECK(problem->axes[0].type == ScalarType::kInt32);
  CHECK(problem->axes[1].type == ScalarType::kInt64);
  CheckEdits("problem.yaml",
             {{"rows: {held_out: [1, 40]}", "rows: {held_out: [1, 40], type: long}",
               "9: axes.rows.type: 'long' is not one of bool, int8"},
              {"rows: {held_out: [1, 40]}", "rows: {held_out: [1, 400], type: uint8}",
               "9: axes.rows.type: held_out allows 400 is not a whole number from 0 to 255"},
              {"rows: {held_out: [1, 40]}", "rows: {held_out: [1, 40], type: uint8}",
               "36: bench_shapes[0].rows: 256 is not a whole number from 0 to 255"}});
}

TEST_CASE("A bench shape may have a weight", "[problem]") {
  const auto parse = [](const std::string& shapes) {
    return ParseProblem(
        AsFiles(WithReplaced("problem.yaml", "  - {rows: 256, cols: 1024}\n", shapes)));
  };
  const auto plain = parse("  - {rows: 256, cols: 1024}\n  - {rows: 64, cols: 128}\n");
  REQUIRE(plain.ok());
  CHECK(plain->bench_weights.empty());
  CHECK(BenchWeights(plain->targets.at("cpu")) == std::vector<double>{0.5, 0.5});
  // A shape without a weight has weight 1.
  const auto weighted =
      parse("  - {rows: 256, cols: 1024, weight: 3}\n  - {rows: 64, cols: 128}\n");
  INFO(weighted.status());
  REQUIRE(weighted.ok());
  CHECK(weighted->bench_shapes == plain->bench_shapes);
  CHECK(weighted->bench_weights == std::vector<double>{3, 1});
  CHECK(BenchWeights(weighted->targets.at("cpu")) == std::vector<double>{0.75, 0.25});
  CHECK(weighted->problem_id != plain->problem_id);

  const auto refused = [](const std::string& weight) {
    return std::vector<Edit>{{"{rows: 256, cols: 1024}",
                              "{rows: 256, cols: 1024, weight: " + weight + "}",
                              "36: bench_shapes[0].weight: "}};
  };
  for (const char* weight : {"0", "0.0009", "-1", "1001", "nan", "inf", "heavy", "[1]"}) {
    INFO(weight);
    CheckEdits("problem.yaml", refused(weight));
  }
  CheckEdits("problem.yaml",
             {{"{rows: 256, cols: 1024}", "{rows: 256, cols: 1024, weight: 1001}",
               "36: bench_shapes[0].weight: '1001' is not a number from 0.001 to "
               "1000"},
              {"{rows: 7, cols: 128}", "{rows: 7, cols: 128, weight: 1}",
               "34: check_shapes[1]: unknown key 'weight'; allowed are rows, cols"}});
}

TEST_CASE("A target's own bench shapes have their own weights", "[problem]") {
  FileMap files =
      WithReplaced("problem.yaml", "{rows: 256, cols: 1024}", "{rows: 256, cols: 1024, weight: 2}");
  std::string& yaml = files["problem.yaml"];
  yaml.replace(yaml.find("    flags: [-O2]\n"), 17,
               "    flags: [-O2]\n    bench_shapes: [{rows: 8, cols: 64}, {rows: 8, cols: 32}]\n");
  const absl::StatusOr<Problem> problem = ParseProblem(AsFiles(files));
  INFO(problem.status());
  REQUIRE(problem.ok());
  CHECK(problem->bench_weights == std::vector<double>{2});
  CHECK(BenchWeights(problem->targets.at("cpu")) == std::vector<double>{0.5, 0.5});
}

TEST_CASE("An axis may be named weight, and is no weight then", "[problem]") {
  FileMap files = SmallProblem();
  for (auto& [path, content] : files) {
    for (size_t at = 0; (at = content.find("cols", at)) != std::string::npos; at += 6) {
      content.replace(at, 4, "weight");
    }
  }
  const absl::StatusOr<Problem> problem = ParseProblem(AsFiles(files));
  INFO(problem.status());
  REQUIRE(problem.ok());
  CHECK(problem->bench_shapes == std::vector<AxisValues>{{{"rows", 256}, {"weight", 1024}}});
  CHECK(problem->bench_weights.empty());
}

TEST_CASE("Integer outputs are exact by default", "[problem]") {
  FileMap files =
      WithReplaced("problem.yaml", "    tolerance: {atol: 1.0e-6, rtol: 1e-5, normwise: 0}\n", "");
  std::string& yaml = files["problem.yaml"];
  const size_t at = yaml.find("float32", yaml.find("outputs:"));
  yaml.replace(at, 7, "int64");
  const absl::StatusOr<Problem> problem = ParseProblem(AsFiles(files));
  INFO(problem.status());
  REQUIRE(problem.ok());
  CHECK(problem->outputs[0].tolerance.atol == 0);
  CHECK(problem->outputs[0].tolerance.normwise == 0);
}

TEST_CASE("Errors name file, line, field and allowed values", "[problem]") {
  CHECK_THAT(
      ProblemError(WithReplaced("problem.yaml", "dtype: float32", "dtype: float31")),
      Equals("problem.yaml:13: inputs[0].dtype: 'float31' is not one of float64, float32, float16, "
             "bfloat16, float8_e4m3, float8_e5m2, int64, int32, int8, uint8"));
  CHECK_THAT(
      ProblemError(WithReplaced("problem.yaml", "    dtype: int32", "    dytpe: int32")),
      Equals("problem.yaml:18: inputs[1]: unknown key 'dytpe'; did you mean 'dtype'? Allowed "
             "are name, dtype, shape, init, adversarial"));
  CHECK_THAT(
      ProblemError(WithReplaced("space/cpu.yaml", "UNROLL: [1, 2, 4]", "UNROLL: [1, 2, 4.5]")),
      Equals("space/cpu.yaml:8: templates[0].tunables.UNROLL[2]: '4.5' is neither a decimal "
             "integer nor an identifier"));
}

TEST_CASE("Unknown keys are refused in every mapping", "[problem]") {
  CheckEdits("problem.yaml",
             {{"schema: 1\n", "schema: 1\nversion: 2\n", "2: unknown key 'version'; allowed are"},
              {"multiple_of", "multiple",
               "10: axes.cols: unknown key 'multiple'; did you mean "
               "'multiple_of'?"},
              {"stddev", "sd", "15: inputs[0].init: unknown key 'sd'"},
              {"low: 0,", "low: 0, mean: 1,", "20: inputs[1].init: unknown key 'mean'"},
              {"    tolerance:", "    init: {}\n    tolerance:",
               "25: outputs[0]: unknown key "
               "'init'"},
              {"normwise: 0", "norm: 0, normwise: 0", "25: outputs[0].tolerance: unknown key"},
              {"    flags:", "    flag:",
               "30: targets.cpu: unknown key 'flag'; did you mean "
               "'flags'?"},
              {"{rows: 7, ", "{rows: 7, depth: 1, ", "34: check_shapes[1]: unknown key 'depth'"}});
  CheckEdits(
      "space/cpu.yaml",
      {{"target: cpu", "target: cpu\nnote: x", "3: unknown key 'note'"},
       {"    description:", "    desc: x\n    description:", "6: templates[0]: unknown key"}});
}

TEST_CASE("Missing keys are named", "[problem]") {
  CheckEdits(
      "problem.yaml",
      {{"schema: 1\n", "", "1: missing key 'schema'"},
       {"oracle: oracle.cc\n", "", "1: missing key 'oracle'"},
       {"held_out: [3, 30], ", "", "10: axes.cols: missing key 'held_out'"},
       {"    dtype: int32\n", "", "17: inputs[1]: missing key 'dtype'"},
       {"{distribution: normal, mean: 1, stddev: 2.5}", "{mean: 1}",
        "15: inputs[0].init: missing key 'distribution'"},
       {"low: 0, ", "", "20: inputs[1].init: missing key 'low'"},
       {"    tolerance: {atol: 1.0e-6, rtol: 1e-5, normwise: 0}\n", "",
        "22: outputs[0]: missing key 'tolerance'"},
       {", normwise: 0", "", "25: outputs[0].tolerance: missing key 'normwise'"},
       {"    reference: reference.cc\n", "", "29: targets.cpu: missing key 'reference'"},
       {"  - {rows: 7, cols: 128}", "  - {rows: 7}", "34: check_shapes[1]: missing key 'cols'"}});
  CheckEdits("space/cpu.yaml", {{"    file: plain.cc\n", "", "4: templates[0]: missing key 'file'"},
                                {"target: cpu\n", "", "1: missing key 'target'"}});
}

TEST_CASE("Wrong value types are refused", "[problem]") {
  CheckEdits(
      "problem.yaml",
      {{"schema: 1", "schema: 2", "1: schema: '2' is not a whole number from 1 to 1"},
       {"schema: 1", "schema: [1]", "1: schema: a list is not"},
       {"name: scale", "name: [scale]", "2: name: expected text, found a list"},
       {"name: scale", "name:", "2: name: expected text, found nothing"},
       {"title: Scale rows", "title: ''", "3: title: is empty"},
       {"family: elementwise", "family: two words", "4: family: 'two words' is not one word"},
       {"rows: {held_out: [1, 40]}", "rows: 40",
        "9: axes.rows: expected a mapping of keys to "
        "values, found '40'"},
       {"[1, 40]", "40", "9: axes.rows.held_out: expected a list, found '40'"},
       {"[1, 40]", "[1]", "9: axes.rows.held_out: 1 entries; exactly 2 are needed"},
       {"[1, 40]", "[1, x]", "9: axes.rows.held_out[1]: 'x' is not a whole number from 1 to"},
       {"shape: [rows, cols]", "shape: rows", "14: inputs[0].shape: expected a list, found 'rows'"},
       {"shape: [rows, cols]", "shape: [[rows], cols]",
        "14: inputs[0].shape[0]: expected an expression, found a list"},
       {"[large, zeros]", "large", "16: inputs[0].adversarial: expected a list, found 'large'"},
       {"targets:\n  cpu:", "targets:\n  - cpu:", "28: targets: expected a mapping"},
       {"mean: 1,", "mean: one,", "15: inputs[0].init.mean: 'one' is not a finite number"},
       {"mean: 1,", "mean: .inf,", "15: inputs[0].init.mean: '.inf' is not a finite number"},
       {"mean: 1,", "mean: nan,", "15: inputs[0].init.mean: 'nan' is not a finite number"},
       {"mean: 1,", "mean: 1e999,", "15: inputs[0].init.mean: '1e999' is not a finite number"},
       {"mean: 1,", "mean: 1e308*10,",
        "15: inputs[0].init.mean: '1e308*10' is not a finite number"},
       {"mean: 1,", "mean: 1e300,",
        "15: inputs[0].init.mean: '1e300' is not a number from -3.40282e+38 to 3.40282e+38"},
       {"{distribution: normal, mean: 1, stddev: 2.5}",
        "{distribution: uniform, low: -3e38, high: 1e39}",
        "15: inputs[0].init.high: '1e39' is not a number from -3.40282e+38 to 3.40282e+38"},
       {"{distribution: normal, mean: 1, stddev: 2.5}", "{distribution: constant, value: -1e39}",
        "15: inputs[0].init.value: '-1e39' is not a number from -3.40282e+38"},
       {"mean: 1,", "mean: 0x10,", "15: inputs[0].init.mean: '0x10' is not a finite number"},
       {"- {rows: 7, cols: 128}", "- 7", "34: check_shapes[1]: expected a mapping"},
       {"flags: [-O2]", "flags: -O2", "30: targets.cpu.flags: expected a list"},
       {"flags: [-O2]", "flags: [O2]", "30: targets.cpu.flags[0]: 'O2' is not one compiler flag"},
       {"flags: [-O2]", "flags: ['-O2 -g']", "30: targets.cpu.flags[0]: '-O2 -g' is not one"}});
}

TEST_CASE("Names are validated", "[problem]") {
  CheckEdits(
      "problem.yaml",
      {{"name: scale", "name: Scale", "2: name: 'Scale' is not a name of a-z, 0-9 and _"},
       {"name: scale", "name: ../scale", "2: name: '../scale' is not a name"},
       {"  rows: {", "  1rows: {", "9: axes: '1rows' is not a name"},
       {"  rows: {", "  min: {", "9: axes: 'min' is the name of a function"},
       {"name: x", "name: rows", "12: inputs[0].name: 'rows' is the name of an axis"},
       {"name: x", "name: workspace", "12: inputs[0].name: 'workspace' is reserved"},
       {"name: index", "name: x", "17: inputs[1].name: 'x' is the name of an earlier tensor"},
       {"name: y", "name: x", "22: outputs[0].name: 'x' is the name of an earlier tensor"},
       {"name: x", "name: a-b", "12: inputs[0].name: 'a-b' is not a name"},
       {"  cpu:", "  CPU:", "28: targets: 'CPU' is not a name of a-z, 0-9 and _"},
       {"  cpu:", "  _cpu:", "28: targets: '_cpu' is not a name"}});
  CheckEdits(
      "space/cpu.yaml",
      {{"name: bare", "name: plain", "15: templates[1].name: 'plain' is the name of an earlier"},
       {"target: cpu", "target: h100", "2: target: 'h100' is not the target 'cpu'"},
       {"UNROLL:", "FLAGS:", "8: templates[0].tunables: 'FLAGS' is reserved"},
       {"UNROLL:", "TEMPLATE:", "8: templates[0].tunables: 'TEMPLATE' is reserved"},
       {"UNROLL:", "8x:", "8: templates[0].tunables: '8x' is not a name"},
       {"[4, 8]", "[4, 4]", "9: templates[0].tunables.LANES[1]: '4' occurs twice"},
       {"[4, 8]", "[4, 08]", "9: templates[0].tunables.LANES[1]: '08' is neither"},
       {"[4, 8]", "[4, '8 ; x']", "9: templates[0].tunables.LANES[1]: '8 ; x' is neither"},
       {"- [-ffast-math, -funroll-loops]", "- []", "13: templates[0].flags[1]: repeats"}});
}

TEST_CASE("Expressions are validated at their position", "[problem]") {
  CheckEdits(
      "problem.yaml",
      {{"shape: [\"ceildiv(rows, 2)\"]", "shape: [ceildiv(rows, 2)]",
        "19: inputs[1].shape[0]: expression 'ceildiv(rows', character 13: Missing parenthesis; "
        "between brackets, an expression with a comma needs quotes"},
       {"shape: [\"ceildiv(rows, 2)\"]", "shape: [depth]",
        "19: inputs[1].shape[0]: expression 'depth', character 1: unknown name 'depth'; known "
        "names are rows, cols"},
       {"high: rows - 1", "high: rows -", "20: inputs[1].init.high: expression"},
       {"flops: rows*cols", "flops: rows*", "37: flops: expression 'rows*'"},
       {"flops: rows*cols", "flops: [rows]", "37: flops: expected an expression"}});
  CheckEdits(
      "space/cpu.yaml",
      {{"mod(LANES, UNROLL) == 0", "mod(LANES, UNROLL) = 0",
        "14: templates[0].constraints[0]: expression"},
       {"mod(LANES, UNROLL) == 0", "MODE == 0",
        "14: templates[0].constraints[0]: expression 'MODE == 0', character 1: unknown name"},
       {"mod(LANES, UNROLL) == 0", "LANES > 100",
        "14: templates[0].constraints: no point satisfies them"}});
}

TEST_CASE("Shapes must be valid for every tensor", "[problem]") {
  CheckEdits(
      "problem.yaml",
      {{"rows: 7, cols: 128", "rows: 0, cols: 128",
        "34: check_shapes[1].rows: '0' is not a whole "
        "number from 1 to 1099511627776"},
       {"rows: 7, cols: 128", "rows: -7, cols: 128", "34: check_shapes[1].rows: '-7' is not"},
       {"rows: 7, cols: 128", "rows: 7.5, cols: 128", "34: check_shapes[1].rows: '7.5' is not"},
       {"rows: 7, cols: 128", "rows: 99999999999999999999, cols: 128",
        "34: check_shapes[1].rows: "},
       {"rows: 7, cols: 128", "rows: 7, cols: 130",
        "34: check_shapes[1].cols: 130 is not a multiple of 4"},
       {"rows: 7, cols: 128", "rows: 1, cols: 4",
        "34: check_shapes[1]: cols=4, rows=1 occurs twice"},
       {"rows: 256, cols: 1024", "rows: 16777216, cols: 1024",
        "36: bench_shapes[0]: x.shape: 16777216 x 1024 is more than 8589934592 elements"},
       {"rows: 256, cols: 1024", "rows: 1099511627776, cols: 1099511627776",
        "36: bench_shapes[0]: "},
       {"rows: {held_out: [1, 40]}", "rows: {held_out: [1, 9586981]}",
        "9: axes: the held_out ranges allow cols=28, rows=9586981, at which x.shape: 9586981 x 28 "
        "is more than 268435456 elements"},
       {"shape: [\"ceildiv(rows, 2)\"]", "shape: [rows / 2]",
        "9: axes: the held_out ranges allow cols=4, rows=1, at which index.shape[0]: expression "
        "'rows / 2' is 0.5, not a whole number"},
       {"shape: [\"ceildiv(rows, 2)\"]", "shape: [cols - rows]",
        "9: axes: the held_out ranges allow cols=4, rows=40, at which index.shape[0]: expression "
        "'cols - rows' is -36"},
       {"high: rows - 1", "high: rows - 2",
        "9: axes: the held_out ranges allow cols=4, rows=1, at which index.init.high: "},
       {"high: rows - 1", "high: 2147483648", "9: axes: the held_out ranges allow"},
       {"flops: rows*cols", "flops: 5 - rows",
        "9: axes: the held_out ranges allow cols=4, rows=40, "
        "at which flops: expression '5 - rows' is -35, not a number from 0 to 1e+18"},
       {"flops: rows*cols", "flops: 1e19*rows",
        "9: axes: the held_out ranges allow cols=4, rows=1, "
        "at which flops: expression '1e19*rows' is 1e+19, not a number from 0 to 1e+18"},
       {"flops: rows*cols", "flops: rows*cols*1e308*10",
        "9: axes: the held_out ranges allow cols=4, rows=1, at which flops: expression "
        "'rows*cols*1e308*10' is inf, not a number"},
       {"flops: rows*cols", "flops: 1/(rows-7)^2",
        "34: check_shapes[1]: flops: expression '1/(rows-7)^2' is inf"},
       {"[1, 40]", "[0, 40]", "9: axes.rows.held_out[0]: '0' is not a whole number from 1 to"},
       {"[1, 40]", "[40, 1]", "9: axes.rows.held_out[1]: '1' is not a whole number from 40 to"},
       {"[3, 30], multiple_of: 4", "[5, 7], multiple_of: 4",
        "10: axes.cols.held_out: no multiple of 4 lies in [5, 7]"},
       {"multiple_of: 4", "multiple_of: 0", "10: axes.cols.multiple_of: '0' is not"},
       {"low: 0, high: rows - 1}\n", "low: 1, high: rows}\n    adversarial: [zeros]\n",
        "9: axes: the held_out ranges allow cols=4, rows=1, at which index.adversarial: zeros lie "
        "outside the values 1 to 1"}});
}

TEST_CASE("Empty lists and mappings are refused", "[problem]") {
  CheckEdits(
      "problem.yaml",
      {{"[rows, cols]", "[]", "14: inputs[0].shape: is an empty list"},
       {"check_shapes:\n  - {rows: 1, cols: 4}\n  - {rows: 7, cols: 128}\n", "check_shapes: []\n",
        "32: check_shapes: is an empty list; at least 1 entry is"},
       {"  - {rows: 256, cols: 1024}\n", "", "35: bench_shapes: expected a list, found nothing"},
       {"  cpu:\n    reference: reference.cc\n    flags: [-O2]\n    space: space/cpu.yaml\n",
        "  {}\n", "28: targets: names no target"},
       {"axes:\n  rows: {held_out: [1, 40]}\n  cols: {held_out: [3, 30], multiple_of: 4}\n",
        "axes: {}\n", "8: axes: names no axis"}});
  CheckEdits("space/cpu.yaml",
             {{"[4, 8]", "[]", "9: templates[0].tunables.LANES: is an empty list"},
              {"flags:\n      - []\n      - [-ffast-math, -funroll-loops]\n", "flags: []\n",
               "11: templates[0].flags: is an empty list"}});
}

TEST_CASE("Tolerances and distributions must be valid", "[problem]") {
  CheckEdits(
      "problem.yaml",
      {{"atol: 1.0e-6", "atol: -1",
        "25: outputs[0].tolerance.atol: '-1' is not a number from 0 to "
        "0.5"},
       {"rtol: 1e-5", "rtol: 1",
        "25: outputs[0].tolerance.rtol: '1' is not a number from 0 to 0.5"},
       {"normwise: 0", "normwise: nan",
        "25: outputs[0].tolerance.normwise: expression 'nan', character 1: unknown name"},
       {"stddev: 2.5", "stddev: -1", "15: inputs[0].init.stddev: '-1' is not a number from 0"},
       {"distribution: normal, mean: 1, stddev: 2.5", "distribution: gauss",
        "15: inputs[0].init.distribution: 'gauss' is not one of normal, uniform, "
        "log_normal, power_law, integers, zipf, constant, file, which float32 may have"},
       {"distribution: normal, mean: 1, stddev: 2.5", "distribution: uniform, low: 1, high: 1",
        "15: inputs[0].init: low must be less than high"},
       {"distribution: integers, low: 0, high: rows - 1", "distribution: normal",
        "20: inputs[1].init.distribution: 'normal' is not one of integers, zipf, constant, file, "
        "which int32"},
       {"distribution: integers, low: 0, high: rows - 1", "distribution: constant, value: 0.5",
        "20: inputs[1].init.value: '0.5' is not a whole number from -2147483648 to 2147483647"},
       {"[large, zeros]", "[large, huge]",
        "16: inputs[0].adversarial[1]: 'huge' is not one of "
        "large, equal_rows, zeros, extreme"},
       {"[large, zeros]", "[large, large]", "16: inputs[0].adversarial[1]: 'large' occurs twice"},
       {"high: rows - 1}\n", "high: rows - 1}\n    adversarial: [large]\n",
        "21: inputs[1].adversarial[0]: 'large' is not one of equal_rows, zeros, which int32"},
       {"dtype: float32", "dtype: float16",
        "13: inputs[0].dtype: 'float16' is not for target cpu, which takes float64, float32"}});
}

TEST_CASE("Broken YAML is reported with its line, including in a space", "[problem]") {
  CheckEdits("problem.yaml", {{"title: Scale rows", "title: 'Scale rows", ""},
                              {"title: Scale rows", "title: *x", "3: YAML: "},
                              {"title: Scale rows", "name: again", "3: key 'name' occurs twice"},
                              {"title: Scale rows", "title: \xff", "3: is not UTF-8"},
                              {"title: Scale rows", "title: \"a\\0b\"", "3: title: is not UTF-8"}});
  CheckEdits("space/cpu.yaml", {{"LANES: [4, 8]", "LANES: [4, 8", "10: YAML: "},
                                {"LANES: [4, 8]", "UNROLL: [4, 8]", "9: key 'UNROLL' occurs"}});
  CHECK_THAT(ProblemError(WithReplaced("space/cpu.yaml", SmallProblem()["space/cpu.yaml"], "")),
             Equals("space/cpu.yaml:1: is empty"));
  CHECK_THAT(
      ProblemError(WithReplaced("space/cpu.yaml", SmallProblem()["space/cpu.yaml"], "[a]\n")),
      StartsWith("space/cpu.yaml:1: expected a mapping"));
}

TEST_CASE("A written problem is read back unchanged", "[problem][property]") {
  std::mt19937_64 random(99);
  const auto number = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  for (int round = 0; round < 100; ++round) {
    FileMap files = SmallProblem();
    std::vector<Axis> axes;
    std::string yaml =
        "schema: 1\nname: p" + std::to_string(round) + "\ntitle: t\nfamily: f\naxes:\n";
    for (int i = 0; i < number(1, 4); ++i) {
      Axis axis;
      axis.name = "axis" + std::to_string(i);
      axis.multiple_of = number(1, 5);
      axis.held_out_low = number(1, 10);
      axis.held_out_high = axis.held_out_low + axis.multiple_of + number(0, 20);
      yaml += "  " + axis.name + ": {held_out: [" + std::to_string(axis.held_out_low) + ", " +
              std::to_string(axis.held_out_high) +
              "], multiple_of: " + std::to_string(axis.multiple_of) + "}\n";
      axes.push_back(axis);
    }
    const double mean = static_cast<double>(number(-1000, 1000)) / 64;
    const double atol = static_cast<double>(number(0, 1000)) / 4096;
    std::vector<int> factors;
    std::string shape;
    for (int i = 0; i < number(1, 3); ++i) {
      factors.push_back(static_cast<int>(number(1, 9)));
      shape += (i == 0 ? "" : ", ") + std::to_string(factors.back()) + "*axis0";
    }
    yaml += "inputs:\n  - name: x\n    dtype: float64\n    shape: [" + shape +
            "]\n    init: {distribution: normal, mean: " + std::to_string(mean) +
            "}\noutputs:\n- name: y\n  dtype: float32\n  shape: [axis0]\n  tolerance:\n    atol: " +
            std::to_string(atol) + "\n    rtol: 0\n    normwise: 0\n" +
            "oracle: oracle.cc\ntargets:\n  cpu:\n    reference: reference.cc\n"
            "    space: space/cpu.yaml\ncheck_shapes:\n";
    std::vector<AxisValues> shapes;
    for (int i = 0; i < number(1, 5); ++i) {
      AxisValues values;
      std::string line;
      for (const Axis& axis : axes) {
        values[axis.name] = axis.multiple_of * (i + 1);
        line += (line.empty() ? "" : ", ") + axis.name + ": " + std::to_string(values[axis.name]);
      }
      yaml += "  - {" + line + "}\n";
      shapes.push_back(values);
    }
    yaml += "bench_shapes: [{";
    for (const Axis& axis : axes) {
      yaml += (axis.name == "axis0" ? "" : ", ") + axis.name + ": " +
              std::to_string(axis.multiple_of * 10);
    }
    yaml += "}]\n";
    files["problem.yaml"] = yaml;
    INFO(yaml);
    const absl::StatusOr<Problem> problem = ParseProblem(AsFiles(files));
    INFO(problem.status());
    REQUIRE(problem.ok());
    REQUIRE(problem->axes.size() == axes.size());
    for (size_t i = 0; i < axes.size(); ++i) {
      REQUIRE(problem->axes[i].name == axes[i].name);
      REQUIRE(problem->axes[i].held_out_low == axes[i].held_out_low);
      REQUIRE(problem->axes[i].held_out_high == axes[i].held_out_high);
      REQUIRE(problem->axes[i].multiple_of == axes[i].multiple_of);
    }
    REQUIRE(std::get<Normal>(problem->inputs[0].init).mean == Approx(mean).margin(1e-6));
    REQUIRE(problem->outputs[0].tolerance.atol == Approx(atol).margin(1e-6));
    REQUIRE(problem->check_shapes == shapes);
    const std::vector<int64_t> dims = *TensorShape(problem->inputs[0], shapes[0]);
    REQUIRE(dims.size() == factors.size());
    for (size_t i = 0; i < dims.size(); ++i) {
      REQUIRE(dims[i] == factors[i] * shapes[0].at("axis0"));
    }
  }
}

// Truncates, duplicates and swaps bytes; only a status may come back.
TEST_CASE("A mutated problem fails cleanly", "[problem][property]") {
  std::mt19937_64 random(4);
  for (int round = 0; round < 2000; ++round) {
    FileMap files = SmallProblem();
    std::string& text = random() % 2 == 0 ? files["problem.yaml"] : files["space/cpu.yaml"];
    for (uint64_t edits = 1 + random() % 3; edits > 0 && !text.empty(); --edits) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0: text.erase(at, 1 + random() % 8); break;
        case 1: text.insert(at, text.substr(random() % text.size(), random() % 16)); break;
        case 2: text[at] = static_cast<char>(random()); break;
        default: text[at] = "[]{},:-&*!|>'\"%@`# \n\t~?"[random() % 23]; break;
      }
    }
    const absl::StatusOr<Problem> problem = ParseProblem(AsFiles(files));
    if (!problem.ok()) {
      REQUIRE(problem.status().code() == absl::StatusCode::kInvalidArgument);
      REQUIRE(problem.status().message().size() < 1000);
    }
  }
}

TEST_CASE("The example problems are parsed", "[problem]") {
  int problems = 0;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(KERNELCAST_SOURCE_DIR) / "examples" / "problems")) {
    if (!std::filesystem::exists(entry.path() / "problem.yaml")) continue;
    CAPTURE(entry.path().string());
    const absl::StatusOr<std::vector<ProblemFile>> files = ReadProblemFolder(entry.path().string());
    INFO(files.status());
    REQUIRE(files.ok());
    const absl::StatusOr<Problem> problem = ParseProblem(*files);
    INFO(problem.status());
    REQUIRE(problem.ok());
    CHECK(problem->name == entry.path().filename().string());
    for (const auto& [target, content] : problem->targets) {
      CHECK(ReferenceCandidate(*problem, target).ok());
      if (!content.space.has_value()) continue;
      for (const SpacePoint& point : EnumeratePoints(*content.space)) {
        REQUIRE(
            ValidateCandidate(CandidateFromPoint(*content.space, point, problem->problem_id)).ok());
      }
    }
    ++problems;
  }
  CHECK(problems >= 1);
}

}  // namespace
}  // namespace kernelcast
