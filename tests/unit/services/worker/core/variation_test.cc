#include "services/worker/core/variation.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "services/worker/core/narrow_float.h"
#include "services/worker/core/random.h"

namespace kernelcast::worker {
namespace {

using Values = std::vector<double>;

VariationSums SumsOf(const Values& expected, const Values& got) {
  VariationSums sums;
  for (size_t i = 0; i < expected.size(); ++i) sums.Add(expected[i], got[i]);
  return sums;
}

std::optional<double> Follow(const Values& expected, const Values& got,
                             DataType dtype = DataType::kFloat32, double noise = 0) {
  return Unexplained(SumsOf(expected, got), dtype, noise, VariationRule::kFollow);
}

Values Rounded(const Values& values, double precision) {
  Values rounded;
  for (const double value : values) {
    const double unit = std::exp2(std::floor(std::log2(std::abs(value)))) * precision;
    rounded.push_back(value == 0 ? 0 : std::round(value / unit) * unit);
  }
  return rounded;
}

Values Shifted(Values values, double by) {
  for (double& value : values) value += by;
  return values;
}

Values Filled(size_t count, double value) { return Values(count, value); }

double Mean(const Values& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Rows of outputs whose values are small, or close to each other.
std::map<std::string, Values> FlatOutputs() {
  constexpr int kRows = 8;
  constexpr int kColumns = 1000;
  Random random(7);
  std::map<std::string, Values> outputs;
  for (int row = 0; row < kRows; ++row) {
    Values scores;
    double sum = 0;
    for (int i = 0; i < kColumns; ++i) {
      scores.push_back(random.Uniform());
      sum += std::exp(scores.back());
    }
    double running = 0;
    for (const double score : scores) {
      outputs["softmax"].push_back(std::exp(score) / sum);
      outputs["log_softmax"].push_back(score - std::log(sum));
      outputs["means_of_large_vectors"].push_back(0.5 + 3e-4 * (score - 0.5));
      outputs["saturated_sigmoid"].push_back(1 / (1 + std::exp(-8 - 2 * score)));
      outputs["normalised"].push_back(1e-4 * (score - 0.5));
      running += 1e-7 * score;
      outputs["cumulative"].push_back(running);
      outputs["sparse"].push_back(score > 0.98 ? 1e-3 * score : 0);
      outputs["outlier"].push_back(outputs["outlier"].empty() ? 1e6 : score);
    }
  }
  return outputs;
}

TEST_CASE("Answers that do not follow the expected values are refused where all are close") {
  for (const auto& [name, expected] : FlatOutputs()) {
    INFO(name);
    const size_t count = expected.size();
    Values row_repeated;
    for (size_t i = 0; i < count; ++i) row_repeated.push_back(expected[i % 1000]);
    Random random(3);
    Values input;
    for (size_t i = 0; i < count; ++i) input.push_back(random.Uniform());
    CHECK(Follow(expected, Filled(count, 0)).has_value());
    CHECK(Follow(expected, Filled(count, 1)).has_value());
    CHECK(Follow(expected, Filled(count, Mean(expected))).has_value());
    CHECK(Follow(expected, Filled(count, expected[count / 2])).has_value());
    if (name == "outlier") continue;  // of the rest the rule sees nothing
    CHECK(Follow(expected, input).has_value());
    if (name != "cumulative") CHECK(Follow(expected, row_repeated).has_value());
  }
}

TEST_CASE(
    "Answers of less precision are accepted, and what all are off by is the format's concern") {
  for (const auto& [name, expected] : FlatOutputs()) {
    INFO(name);
    CHECK_FALSE(Follow(expected, expected));
    CHECK_FALSE(Follow(expected, Rounded(expected, 0x1p-23)));
    CHECK_FALSE(Follow(expected, Shifted(expected, 1e-3 * std::abs(Mean(expected)))));
    if (name == "means_of_large_vectors" || name == "saturated_sigmoid") continue;
    CHECK_FALSE(Follow(expected, Rounded(expected, 0x1p-10)));
    CHECK_FALSE(Follow(expected, Rounded(expected, 0x1p-7)));
    if (name != "log_softmax") CHECK_FALSE(Follow(expected, Rounded(expected, 0x1p-3)));
  }
}

TEST_CASE("Nothing is refused where rounding explains the variation of the expected values") {
  Random random(5);
  Values noise;
  Values other;
  Values half;
  for (int i = 0; i < 1000; ++i) {
    noise.push_back(1e-9 * (random.Uniform() - 0.5));
    other.push_back(1e-5 * (random.Uniform() - 0.5));
    half.push_back(0.5 + 1e-4 * random.Uniform());
  }
  // Zero except for rounding: other inputs of the same precision change all of it.
  CHECK_FALSE(Follow(noise, other, DataType::kFloat32, 1.4));
  CHECK_FALSE(Follow(noise, Filled(1000, 0), DataType::kFloat32, 1.4));
  // Constant in truth.
  CHECK_FALSE(Follow(Filled(1000, 3), Filled(1000, 3)));
  CHECK_FALSE(Follow(Filled(1000, 0), other));
  // The type cannot tell the values apart.
  CHECK_FALSE(Follow(half, Filled(1000, 0.5), DataType::kBfloat16));
  CHECK_FALSE(Follow(half, Filled(1000, 0.5), DataType::kFloat16));
  CHECK(Follow(half, Filled(1000, 0.5), DataType::kFloat32).has_value());
  // Nobody knows what rounding does.
  CHECK_FALSE(Unexplained(SumsOf(half, Filled(1000, 0)), DataType::kFloat32, std::nullopt,
                          VariationRule::kFollow));
  // Integers are exact.
  CHECK_FALSE(Follow({1, 2, 3, 4, 5, 6}, Filled(6, 0), DataType::kInt32));
}

TEST_CASE("Narrow types may round as much as they do") {
  Random random(9);
  Values expected;
  for (int i = 0; i < 4096; ++i) expected.push_back(1e-3 * (random.Uniform() - 0.5));
  for (const DataType dtype : {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8E5m2}) {
    INFO(Name(dtype));
    Values got;
    for (const double value : expected) {
      // Scaled, as quantised outputs are.
      got.push_back(DecodeNarrow(dtype, EncodeNarrow(dtype, 1024 * value)) / 1024);
    }
    CHECK_FALSE(Follow(expected, got, dtype));
    if (dtype != DataType::kFloat8E5m2) CHECK(Follow(expected, Filled(4096, 0), dtype).has_value());
  }
}

TEST_CASE("A task that accepts several answers accepts all but constant ones") {
  Random random(11);
  Values expected;
  Values permuted;
  for (int i = 0; i < 500; ++i) expected.push_back(random.Uniform());
  permuted.assign(expected.rbegin(), expected.rend());
  const auto unexplained = [&](const Values& got) {
    return Unexplained(SumsOf(expected, got), DataType::kFloat32, 0, VariationRule::kNotConstant);
  };
  CHECK_FALSE(unexplained(permuted));
  CHECK(unexplained(Filled(500, 0.5)).has_value());
  CHECK(unexplained(Filled(500, 0)).has_value());
}

TEST_CASE("Outputs of one element are judged over several draws") {
  const Values losses = {10.4012, 10.3987, 10.4003, 10.3991, 10.4008, 10.3996};
  const auto judge = [&](const std::function<double(double)>& answer, size_t draws) {
    VariationCheck check;
    std::optional<double> found;
    for (size_t i = 0; i < draws; ++i) {
      found = check.Judge({.axes = {}, .distribution = "declared", .output = 0, .id = i},
                          SumsOf({losses[i]}, {answer(losses[i])}), DataType::kFloat32, 1e-6,
                          VariationRule::kFollow);
      if (i + 1 < draws) CHECK_FALSE(found);
    }
    return found;
  };
  CHECK(judge([](double) { return 10.4; }, 5).has_value());
  CHECK_FALSE(judge([](double) { return 10.4; }, 4));
  CHECK_FALSE(judge([](double loss) { return loss * (1 + 1e-6); }, 6));
  // The same draw again tells nothing.
  VariationCheck check;
  for (int i = 0; i < 10; ++i) {
    CHECK_FALSE(check.Judge({.axes = {}, .distribution = "declared", .output = 0, .id = 1},
                            SumsOf({losses[0]}, {10.4}), DataType::kFloat32, 0,
                            VariationRule::kFollow));
  }
}

TEST_CASE("The text of the rule names both rules") {
  const std::string text = VariationText(0.984, "kernelbench: every element within 0.01");
  CHECK(text.starts_with("kernelcast: "));
  CHECK_THAT(text, Catch::Contains("0.98") && Catch::Contains("0.3") &&
                       Catch::Contains("kernelbench: every element within 0.01"));
  CHECK_THAT(VariationText(1, ""), !Catch::Contains("format"));
}

}  // namespace
}  // namespace kernelcast::worker
