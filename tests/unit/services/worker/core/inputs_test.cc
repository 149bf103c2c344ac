#include "services/worker/core/inputs.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace kernelcast::worker {
namespace {

Expression Parse(const std::string& text) { return Expression::Parse(text, {"n", "m"}).value(); }

TensorSpec Input(InitDistribution init, DataType dtype = DataType::kFloat32) {
  TensorSpec tensor;
  tensor.name = std::string(1, 'x');
  tensor.dtype = dtype;
  tensor.shape = {Parse("n"), Parse("m")};
  tensor.init = std::move(init);
  tensor.adversarial = {Adversarial::kLarge, Adversarial::kEqualRows, Adversarial::kZeros,
                        Adversarial::kExtreme};
  return tensor;
}

template <class T>
std::vector<T> Draw(const TensorSpec& tensor, const CaseSpec& spec, uint64_t seed = 1) {
  TensorLayout layout{tensor.dtype, {spec.axes.at("n"), spec.axes.at("m")}};
  std::vector<T> values(static_cast<size_t>(layout.elements()));
  Random random(seed);
  REQUIRE(FillInput(tensor, layout, spec, random, std::as_writable_bytes(std::span(values))).ok());
  return values;
}

CaseSpec Declared(int64_t n = 200, int64_t m = 100) {
  CaseSpec spec;
  spec.axes = {{"m", m}, {"n", n}};
  return spec;
}

double MeanOf(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) {
    sum += value;
  }
  return sum / static_cast<double>(values.size());
}

double DeviationOf(const std::vector<float>& values) {
  const double mean = MeanOf(values);
  double sum = 0;
  for (const float value : values) {
    sum += (value - mean) * (value - mean);
  }
  return std::sqrt(sum / static_cast<double>(values.size()));
}

TEST_CASE("Declared distributions have their declared moments and ranges") {
  const auto normal = Draw<float>(Input(Normal{3, 2}), Declared());
  CHECK(MeanOf(normal) == Approx(3).epsilon(0.02));
  CHECK(DeviationOf(normal) == Approx(2).epsilon(0.02));
  const auto uniform = Draw<float>(Input(Uniform{-1, 4}), Declared());
  CHECK(*std::min_element(uniform.begin(), uniform.end()) >= -1);
  CHECK(*std::max_element(uniform.begin(), uniform.end()) <= 4);
  CHECK(MeanOf(uniform) == Approx(1.5).epsilon(0.03));
  const auto constant = Draw<float>(Input(Constant{2.5}), Declared());
  CHECK(std::all_of(constant.begin(), constant.end(), [](float v) { return v == 2.5f; }));
  const auto integers = Draw<int32_t>(Input(Integers{Parse("0"), Parse("m - 1")}, DataType::kInt32),
                                      Declared(300, 7));
  const std::set<int32_t> distinct(integers.begin(), integers.end());
  CHECK(distinct == std::set<int32_t>{0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("The same seed draws the same values and another seed draws others") {
  const TensorSpec tensor = Input(Normal{0, 1});
  CHECK(Draw<float>(tensor, Declared(), 5) == Draw<float>(tensor, Declared(), 5));
  CHECK(Draw<float>(tensor, Declared(), 5) != Draw<float>(tensor, Declared(), 6));
}

TEST_CASE("Adversarial distributions have their named properties") {
  const TensorSpec tensor = Input(Normal{0, 1});
  CaseSpec spec = Declared();
  spec.adversarial = Adversarial::kLarge;
  CHECK(DeviationOf(Draw<float>(tensor, spec)) == Approx(1000).epsilon(0.03));
  spec.adversarial = Adversarial::kEqualRows;
  const auto rows = Draw<float>(tensor, spec);
  std::set<float> distinct;
  for (size_t row = 0; row < 200; ++row) {
    distinct.insert(rows[row * 100]);
    CHECK(std::all_of(rows.begin() + static_cast<ptrdiff_t>(row * 100),
                      rows.begin() + static_cast<ptrdiff_t>((row + 1) * 100),
                      [&](float v) { return v == rows[row * 100]; }));
  }
  CHECK(distinct.size() > 190);
  spec.adversarial = Adversarial::kZeros;
  const auto zeros = Draw<float>(tensor, spec);
  CHECK(std::count(zeros.begin(), zeros.end(), 0.0f) > 9000);
  CHECK(std::count(zeros.begin(), zeros.end(), 0.0f) < 11000);
  spec.adversarial = Adversarial::kExtreme;
  const auto extreme = Draw<float>(tensor, spec);
  const auto large =
      std::count_if(extreme.begin(), extreme.end(), [](float v) { return std::abs(v) == 1e4f; });
  CHECK(large > 0);
  CHECK(large < 200);
  // Even a single element can be extreme.
  spec.axes = {{"m", 1}, {"n", 1}};
  CHECK(std::abs(Draw<float>(tensor, spec)[0]) == 1e4f);
}

TEST_CASE("A tensor that does not list a distribution keeps its declared one") {
  TensorSpec tensor = Input(Normal{0, 1});
  tensor.adversarial = {Adversarial::kZeros};
  CaseSpec spec = Declared();
  spec.adversarial = Adversarial::kLarge;
  CHECK(DeviationOf(Draw<float>(tensor, spec)) == Approx(1).epsilon(0.03));
}

TEST_CASE("Integers stay within their declared range") {
  TensorSpec tensor = Input(Integers{Parse("0"), Parse("9")}, DataType::kInt64);
  CaseSpec spec = Declared();
  for (const auto distribution :
       {Adversarial::kLarge, Adversarial::kExtreme, Adversarial::kZeros, Adversarial::kEqualRows}) {
    spec.adversarial = distribution;
    const auto values = Draw<int64_t>(tensor, spec);
    CHECK(*std::min_element(values.begin(), values.end()) >= 0);
    CHECK(*std::max_element(values.begin(), values.end()) <= 9);
  }
}

TEST_CASE("A range that is empty for some sizes is an error, not a crash") {
  const TensorSpec tensor = Input(Integers{Parse("0"), Parse("m - 2")}, DataType::kInt32);
  const TensorLayout layout{DataType::kInt32, {2, 1}};
  std::vector<int32_t> values(2);
  Random random(1);
  CHECK(absl::IsInvalidArgument(FillInput(tensor, layout, Declared(2, 1), random,
                                          std::as_writable_bytes(std::span(values)))));
}

// The target has its own shapes; the problem's are not used.
ProblemTarget MakeTarget() {
  ProblemTarget target;
  target.check_shapes = {{{"m", 3}, {"n", 16}}, {{"m", 1}, {"n", 32}}};
  target.bench_shapes = {{{"m", 512}, {"n", 64}}};
  return target;
}

Problem MakeProblem() {
  Problem problem;
  problem.axes = {{"m", 2, 50, 1}, {"n", 16, 64, 16}};
  problem.inputs = {Input(Normal{0, 1})};
  problem.check_shapes = {{{"m", 4}, {"n", 48}}};
  problem.bench_shapes = {{{"m", 256}, {"n", 64}}};
  return problem;
}

TEST_CASE("Every check shape gets every distribution, and held-out shapes are added") {
  const Problem problem = MakeProblem();
  const MeasureOptions options;
  SecretRandom random(SecretKey{9}, "shapes");
  const std::vector<CaseSpec> cases = CorrectnessCases(problem, MakeTarget(), options, random);
  CHECK(std::ssize(cases) == 2 * 5 + options.held_out_shapes + 1);
  std::map<std::string, int> by_distribution;
  for (const CaseSpec& spec : cases) {
    ++by_distribution[spec.distribution()];
    if (spec.held_out) {
      CHECK(spec.axes.at("m") >= 2);
      CHECK(spec.axes.at("m") <= 50);
      CHECK(spec.axes.at("n") % 16 == 0);
      CHECK(spec.axes.at("n") >= 16);
      CHECK(spec.axes.at("n") <= 64);
    }
  }
  CHECK(by_distribution["declared"] == 3);
  CHECK(by_distribution["equal_rows"] == 2);
  CHECK(by_distribution["held_out"] >= 2);
  CHECK(std::count_if(cases.begin(), cases.end(), [](const CaseSpec& spec) {
          return !spec.held_out && spec.axes.at("m") == 512;
        }) == 1);
}

TEST_CASE("Held-out sizes are odd, even, multiples, powers of two and their neighbours") {
  Problem problem = MakeProblem();
  problem.axes = {{"m", 1, 500, 1}, {"n", 16, 512, 16}};
  const MeasureOptions options;
  SecretRandom random(SecretKey{12}, "shapes");
  constexpr int kDraws = 50;
  std::map<std::string, int> draws_with;
  for (int draw = 0; draw < kDraws; ++draw) {
    std::map<std::string, bool> has;
    for (const CaseSpec& spec : CorrectnessCases(problem, MakeTarget(), options, random)) {
      if (!spec.held_out) continue;
      const auto m = static_cast<uint64_t>(spec.axes.at("m"));
      CHECK(m >= 1);
      CHECK(m <= 500);
      CHECK(spec.axes.at("n") % 16 == 0);
      has["odd"] |= m % 2 == 1;
      has["even"] |= m % 2 == 0;
      has["multiple of 4"] |= m % 4 == 0;
      has["power"] |= m > 1 && std::has_single_bit(m);
      has["below"] |= std::has_single_bit(m + 1);
      has["above"] |= m > 2 && std::has_single_bit(m - 1);
      has["not a multiple of 4"] |= m % 4 != 0;
    }
    for (const auto& [kind, drawn] : has) draws_with[kind] += drawn ? 1 : 0;
  }
  CHECK(draws_with.size() == 7);
  for (const auto& [kind, draws] : draws_with) {
    INFO(kind);
    CHECK(draws == kDraws);
  }
}

TEST_CASE("A problem with few checks uses at least five seeds") {
  Problem problem = MakeProblem();
  problem.inputs[0].adversarial.clear();
  ProblemTarget target = MakeTarget();
  target.check_shapes.resize(1);
  MeasureOptions options;
  options.held_out_shapes = 0;
  SecretRandom random(SecretKey{10}, "shapes");
  CHECK(std::ssize(CorrectnessCases(problem, target, options, random)) == options.min_seeds);
}

TEST_CASE("A held-out range of one value gives that value") {
  Problem problem = MakeProblem();
  problem.axes = {{"m", 4, 4, 1}, {"n", 16, 16, 16}};
  const MeasureOptions options;
  SecretRandom random(SecretKey{11}, "shapes");
  for (const CaseSpec& spec : CorrectnessCases(problem, MakeTarget(), options, random)) {
    if (spec.held_out) {
      CHECK(spec.axes.at("m") == 4);
      CHECK(spec.axes.at("n") == 16);
    }
  }
}

TensorSpec FileInput(const std::vector<float>& values, bool random_start) {
  FileValues file;
  file.elements = std::make_shared<const std::string>(reinterpret_cast<const char*>(values.data()),
                                                      values.size() * sizeof(float));
  file.random_start = random_start;
  return Input(file);
}

// With the shape m=2, n=3.
std::vector<MeasurementNote> NotesFor(std::vector<TensorSpec> inputs) {
  Problem problem;
  problem.inputs = std::move(inputs);
  ProblemTarget target;
  target.bench_shapes = {Declared(3, 2).axes};
  return InputNotes(problem, target);
}

TEST_CASE("Elements of a file are never mixed with those of another draw") {
  const std::vector<TensorSpec> tensors = {FileInput(std::vector<float>(8), true),
                                           Input(Normal{0, 1})};
  std::vector<std::string> inputs(2, std::string(1024, 'a'));
  const std::vector<std::string> other(2, std::string(1024, 'b'));
  Random random(1);
  AlterInputs(tensors, other, random, inputs);
  CHECK(inputs[0] == std::string(1024, 'a'));
  CHECK(inputs[1] != std::string(1024, 'a'));
}

TEST_CASE("Only declared distributions that vary can be altered") {
  Problem problem;
  problem.inputs = {Input(Constant{0.5}), FileInput(std::vector<float>(8), true)};
  CHECK_FALSE(CanAlter(problem));
  problem.inputs.push_back(Input(Normal{0, 1}));
  CHECK(CanAlter(problem));
  // The code of a task may make anything true of all elements together.
  problem.task.emplace();
  CHECK_FALSE(CanAlter(problem));
}

TEST_CASE("Constants and files are scaled, except whole numbers") {
  CaseSpec spec = Declared(2, 4);
  spec.factor = 0.75;
  CHECK(Draw<float>(Input(Constant{0.5}), spec)[0] == 0.375f);
  CHECK(Draw<double>(Input(Constant{0.5}, DataType::kFloat64), spec)[3] == 0.375);
  CHECK(Draw<uint16_t>(Input(Constant{0.5}, DataType::kBfloat16), spec)[0] == 0x3ec0);
  CHECK(Draw<float>(Input(Constant{2}), spec)[0] == 2);
  CHECK(Draw<int32_t>(Input(Constant{3}, DataType::kInt32), spec)[0] == 3);
  const std::vector<float> values = {0.5, 1, 2, 4, 8, 16, 32, -64};
  CHECK(Draw<float>(FileInput(values, false), spec)[7] == -48);
  const float infinite = -std::numeric_limits<float>::infinity();
  const std::vector<float> mask = {0, infinite, 0, 0, infinite, infinite, 0, 0};
  CHECK(Draw<float>(FileInput(mask, false), spec) == mask);
}

TEST_CASE("Draws are scaled where the inputs would be the same otherwise") {
  SecretRandom random(SecretKey{1}, "values");
  Problem problem;
  problem.inputs = {Input(Constant{0.5})};
  std::vector<double> factors;
  for (int i = 0; i < 64; ++i) factors.push_back(InputFactor(problem, random));
  const auto [least, most] = std::ranges::minmax(factors);
  CHECK(least >= 0.5);
  CHECK(most < 1);
  // No answer is within a fifth of both.
  CHECK(most > 1.6 * least);
  std::ranges::sort(factors);
  CHECK(std::ranges::adjacent_find(factors) == factors.end());
  problem.inputs.push_back(Input(Normal{0, 1}));
  CHECK(InputFactor(problem, random) == 1);
}

TEST_CASE("Results say what their inputs allow") {
  using Notes = std::vector<MeasurementNote>;
  CHECK(NotesFor({Input(Normal{0, 1})}).empty());
  CHECK(NotesFor({Input(Constant{1})}) == Notes{MeasurementNote::kInputsNeverChange});
  CHECK(NotesFor({Input(Constant{0.5})}) == Notes{MeasurementNote::kInputsOnlyScaled});
  CHECK(NotesFor({Input(Constant{0.5}), Input(Normal{0, 1})}).empty());
  const TensorSpec bits = Input(Integers{Parse("0"), Parse("1")}, DataType::kInt32);
  CHECK(NotesFor({bits, Input(Constant{0.5})}) == Notes{MeasurementNote::kFewInputValues});
  const TensorSpec many = Input(Integers{Parse("0"), Parse("99")}, DataType::kInt32);
  CHECK(NotesFor({many}).empty());
  CHECK(NotesFor({FileInput(std::vector<float>(8), true)}) ==
        Notes{MeasurementNote::kFewInputValues});
  CHECK(NotesFor({FileInput({0.5, 1, 2, 3, 4, 5}, false)}) ==
        Notes{MeasurementNote::kInputsOnlyScaled});
}

}  // namespace
}  // namespace kernelcast::worker
