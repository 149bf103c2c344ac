// Values and tolerances of tensors in problem.yaml.

#include "common/domain/tensor_parser.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/domain/problem.h"
#include "tests/unit/common/domain/problem_files.h"

namespace kernelcast {
namespace {

using Catch::Contains;
using FileMap = std::map<std::string, std::string>;

constexpr char kFloats[] = "{distribution: normal, mean: 1, stddev: 2.5}";
constexpr char kIntegers[] = "{distribution: integers, low: 0, high: rows - 1}";
constexpr char kTolerance[] = "{atol: 1.0e-6, rtol: 1e-5, normwise: 0}";

// The small problem with one text replaced and a file added.
FileMap With(const std::string& from, const std::string& to, const std::string& path = "",
             const std::string& content = "") {
  FileMap files = SmallProblem();
  std::string& yaml = files["problem.yaml"];
  const size_t at = yaml.find(from);
  REQUIRE(at != std::string::npos);
  yaml.replace(at, from.size(), to);
  if (std::string(kFloats) == from && to.find("file") != std::string::npos) {
    const std::string adversarial = "    adversarial: [large, zeros]\n";
    yaml.erase(yaml.find(adversarial), adversarial.size());
  }
  if (!path.empty()) files[path] = content;
  return files;
}

Problem Parsed(const FileMap& files) {
  absl::StatusOr<Problem> problem = ParseProblem(AsFiles(files));
  INFO(problem.status());
  REQUIRE(problem.ok());
  return *std::move(problem);
}

std::string ErrorOf(const FileMap& files) {
  const absl::StatusOr<Problem> problem = ParseProblem(AsFiles(files));
  CHECK(problem.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(problem.status().message());
}

TEST_CASE("Skewed distributions have their parameters", "[problem]") {
  const Problem log_normal = Parsed(With(kFloats, "{distribution: log_normal, mean: -1}"));
  CHECK(std::get<LogNormal>(log_normal.inputs[0].init).mean == -1);
  CHECK(std::get<LogNormal>(log_normal.inputs[0].init).stddev == 1);
  const Problem power_law =
      Parsed(With(kFloats, "{distribution: power_law, exponent: 1.5, low: 0.5, high: 1e4}"));
  CHECK(std::get<PowerLaw>(power_law.inputs[0].init).high == 1e4);
  const Problem zipf =
      Parsed(With(kIntegers, "{distribution: zipf, exponent: 1.2, low: 0, high: rows - 1}"));
  CHECK(std::get<Zipf>(zipf.inputs[1].init).exponent == 1.2);
  CHECK(std::get<Zipf>(zipf.inputs[1].init).high.text() == "rows - 1");
}

TEST_CASE("Bad distribution parameters are reported", "[problem]") {
  for (const auto& [init, message] : std::vector<std::pair<std::string, std::string>>{
           {"{distribution: power_law, exponent: 1, low: 0, high: 1}",
            "15: inputs[0].init.low: '0' is not a number from"},
           {"{distribution: power_law, exponent: 1, low: 2, high: 1}",
            "15: inputs[0].init: low must be less than high"},
           {"{distribution: power_law, low: 1, high: 2}",
            "15: inputs[0].init: missing key 'exponent'"},
           {"{distribution: log_normal, mean: 1e6}",
            "15: inputs[0].init.mean: '1e6' is not a number from -300 to 300"},
           {"{distribution: log_normal, sigma: 1}", "15: inputs[0].init: unknown key 'sigma'"},
           {"{distribution: zipf, exponent: 0, low: 0, high: 3}",
            "15: inputs[0].init.exponent: '0' is not a number from 0.01 to 20"},
           {"{distribution: zipf, exponent: 1, low: 0, high: -rows}",
            "9: axes: the held_out ranges allow cols=4, rows=1, at which x.init.high: expression "
            "'-rows' is -1, not a whole number from 0 to 16777216"}}) {
    CAPTURE(init);
    CHECK_THAT(ErrorOf(With(kFloats, init)), Catch::StartsWith("problem.yaml:" + message));
  }
  CHECK_THAT(ErrorOf(With(kIntegers, "{distribution: log_normal}")),
             Contains("'log_normal' is not one of integers, zipf, constant, file, which int32"));
}

TEST_CASE("Real values may be quantised", "[problem]") {
  const Problem problem = Parsed(
      With(kFloats, "{distribution: uniform, low: -1, high: 1, step: 0.125, precision: float16}"));
  CHECK(problem.inputs[0].quantisation.step == 0.125);
  CHECK(problem.inputs[0].quantisation.precision == DataType::kFloat16);
  CHECK_THAT(ErrorOf(With(kFloats, "{distribution: normal, step: -1}")),
             Contains("15: inputs[0].init.step: '-1' is not a number from"));
  CHECK_THAT(ErrorOf(With(kFloats, "{distribution: normal, precision: float64}")),
             Contains("'float64' is not one of float16, bfloat16, float8_e4m3, float8_e5m2, which "
                      "are narrower than float32"));
  CHECK_THAT(ErrorOf(With(kFloats, "{distribution: constant, value: 1, step: 1}")),
             Contains("unknown key 'step'"));
}

TEST_CASE("Values may come from a file of the problem", "[problem]") {
  const std::string two(8, 'a');
  const Problem problem =
      Parsed(With(kFloats, "{distribution: file, file: data/x.bin}", "data/x.bin", two));
  const auto& values = std::get<FileValues>(problem.inputs[0].init);
  CHECK(values.path == "data/x.bin");
  CHECK(*values.elements == two);
  CHECK(values.random_start);
  // The file is part of the problem and its id.
  CHECK(std::ranges::any_of(problem.files,
                            [](const ProblemFile& file) { return file.path == "data/x.bin"; }));
  CHECK(problem.problem_id != Parsed(With(kFloats, "{distribution: file, file: data/x.bin}",
                                          "data/x.bin", std::string(8, 'b')))
                                  .problem_id);
  // No adversarial values by default: the file defines the values.
  CHECK(problem.inputs[0].adversarial.empty());
}

TEST_CASE("A value file must exist inside the folder and be large enough", "[problem]") {
  const std::string init = "{distribution: file, file: x.bin}";
  CHECK_THAT(ErrorOf(With(kFloats, init)),
             Contains("15: inputs[0].init.file: file 'x.bin': is missing"));
  CHECK_THAT(ErrorOf(With(kFloats, "{distribution: file, file: ../x.bin}")),
             Contains("path '../x.bin' leaves the problem's folder"));
  CHECK_THAT(ErrorOf(With(kFloats, "{distribution: file, file: /etc/passwd}")),
             Contains("is absolute"));
  CHECK_THAT(ErrorOf(With(kFloats, init, "x.bin", "abc")),
             Contains("file 'x.bin' has 3 bytes, not a multiple of the 4 of float32"));
  CHECK_THAT(ErrorOf(With(kFloats, init, "x.bin", "")), Contains("holds no element"));
  CHECK_THAT(
      ErrorOf(With(kFloats, "{distribution: file, file: x.bin, start: first}", "x.bin", "abcd")),
      Contains("x.init.file: 'x.bin' holds 1 elements, and the tensor has 4; with 'start: random' "
               "the values repeat"));
  CHECK_THAT(
      ErrorOf(With(kFloats, "{distribution: file, file: x.bin, start: last}", "x.bin", "abcd")),
      Contains("15: inputs[0].init.start: 'last' is not one of random, first"));
  CHECK_THAT(ErrorOf(With(kFloats, "{distribution: file, file: x.npy}", "x.npy", "abcd")),
             Contains("file 'x.npy' is not a .npy file that can be read"));
  FileMap hostile = With(kFloats, init, "x.bin", "abcd");
  std::string& yaml = hostile["problem.yaml"];
  yaml.insert(yaml.find("  - name: index"), "    adversarial: [zeros]\n");
  CHECK_THAT(ErrorOf(hostile), Contains("an input from a file has the file's values only"));
  const FileMap large =
      With(kFloats, init, "x.bin", std::string(static_cast<size_t>(kMaxProblemBytes), 'a'));
  CHECK_THAT(ErrorOf(large), Contains("bytes in all"));
}

TEST_CASE("A tolerance may depend on the shape", "[problem]") {
  const Problem problem = Parsed(
      With(kTolerance,
           "{atol: \"1e-7*sqrt(cols)\", rtol: \"cols > 100 ? 2e-5 : 1e-5\", normwise: 1e-6}"));
  const auto at = [&](int64_t cols) {
    const absl::StatusOr<Tolerance> tolerance =
        ToleranceAt(problem.outputs[0], {{"rows", 1}, {"cols", cols}});
    REQUIRE(tolerance.ok());
    return *tolerance;
  };
  CHECK(at(4).atol == Approx(2e-7));
  CHECK(at(4).rtol == 1e-5);
  CHECK(at(1024).atol == Approx(3.2e-6));
  CHECK(at(1024).rtol == 2e-5);
  CHECK(at(1024).normwise == 1e-6);
}

TEST_CASE("A tolerance must be valid at every shape", "[problem]") {
  // At a held-out corner, a check shape and a bench shape in turn.
  CHECK_THAT(ErrorOf(With(kTolerance, "{atol: \"rows - 2\", rtol: 0, normwise: 0}")),
             Contains("problem.yaml:9: axes: the held_out ranges allow cols=4, rows=1, at which "
                      "y.tolerance.atol: expression 'rows - 2' is -1, not a number from 0 to 0.5"));
  CHECK_THAT(ErrorOf(With(kTolerance, "{atol: 0, rtol: \"cols/250\", normwise: 0}")),
             Contains("problem.yaml:34: check_shapes[1]: y.tolerance.rtol: expression 'cols/250' "
                      "is 0.512, not a number from 0 to 0.5"));
  CHECK_THAT(ErrorOf(With(kTolerance, "{atol: 0, rtol: 0, normwise: \"cols/1024\"}")),
             Contains("problem.yaml:36: bench_shapes[0]: y.tolerance.normwise: expression "
                      "'cols/1024' is 1, not a number"));
  CHECK_THAT(
      ErrorOf(With(kTolerance, "{atol: depth, rtol: 0, normwise: 0}")),
      Contains("25: outputs[0].tolerance.atol: expression 'depth', character 1: unknown name "
               "'depth'; known names are rows, cols"));
}

}  // namespace
}  // namespace kernelcast
