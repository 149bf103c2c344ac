#include "services/forecaster/core/tunable_encoder.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::forecaster {
namespace {

class Encoded {
 public:
  Encoded(const TunableEncoder& encoder, const Candidate& candidate)
      : encoder_(encoder), row_(encoder.Encode(candidate)) {}
  float operator[](const std::string& name) const {
    for (size_t i = 0; i < encoder_.columns(); ++i) {
      if (encoder_.name(i) == name) return row_[i];
    }
    FAIL("no column " << name);
    return 0;
  }

 private:
  const TunableEncoder& encoder_;
  std::vector<float> row_;
};

Candidate WithTunables(std::vector<Tunable> tunables, std::vector<std::string> flags = {}) {
  Candidate candidate;
  candidate.tunables = std::move(tunables);
  candidate.flags = std::move(flags);
  return candidate;
}

TEST_CASE("Columns are templates, tunables in order and flags", "[forecaster][encoder]") {
  const PlantedProblem problem;
  const TunableEncoder& encoder = problem.context()->EncoderFor("cpu");
  std::vector<std::string> names;
  for (size_t i = 0; i < encoder.columns(); ++i) names.push_back(encoder.name(i));
  CHECK(names == std::vector<std::string>{"template=plain", "template=vector", "template=blocked",
                                          "UNROLL", "MODE=direct", "MODE=table", "MODE=split",
                                          "LANES", "BLOCK", "flag:-ffast-math"});
  using Kind = TunableEncoder::Kind;
  CHECK(encoder.kind(2) == Kind::kTemplate);
  CHECK(encoder.kind(3) == Kind::kNumber);
  CHECK(encoder.kind(4) == Kind::kValue);
  CHECK(encoder.kind(9) == Kind::kFlag);
}

TEST_CASE("A candidate's encoding has its worked values", "[forecaster][encoder]") {
  const PlantedProblem problem;
  const TunableEncoder& encoder = problem.context()->EncoderFor("cpu");
  const Encoded row(
      encoder,
      WithTunables({{"TEMPLATE", "vector"}, {"LANES", "8"}, {"UNROLL", "1"}, {"MODE", "table"}}));
  CHECK(row["template=plain"] == 0);
  CHECK(row["template=vector"] == 1);
  CHECK(row["LANES"] == Approx(std::log2(9.0)));
  CHECK(row["UNROLL"] == 1);
  CHECK(row["MODE=table"] == 1);
  CHECK(row["MODE=direct"] == 0);
  CHECK(std::isnan(row["BLOCK"]));
  CHECK(row["flag:-ffast-math"] == 0);
}

TEST_CASE("Flags are read from the candidate, not from their index", "[forecaster][encoder]") {
  const PlantedProblem problem;
  const TunableEncoder& encoder = problem.context()->EncoderFor("cpu");
  CHECK(Encoded(encoder,
                WithTunables({{"FLAGS", "0"}}, {"-O2", "-ffast-math"}))["flag:-ffast-math"] == 1);
}

TEST_CASE("Ranges are those of the space", "[forecaster][encoder]") {
  const PlantedProblem problem;
  const TunableEncoder& encoder = problem.context()->EncoderFor("cpu");
  CHECK(encoder.range(3) == Approx(std::log2(17.0) - 1));
  CHECK(encoder.range(0) == 1);
}

TEST_CASE("Values outside the space are missing", "[forecaster][encoder]") {
  const PlantedProblem problem;
  const TunableEncoder& encoder = problem.context()->EncoderFor("cpu");
  const Candidate stranger =
      WithTunables({{"TEMPLATE", "unheard"}, {"MODE", "other"}, {"LANES", "wide"}, {"EXTRA", "3"}});
  const Encoded row(encoder, stranger);
  CHECK(encoder.TemplateIndex(stranger) == -1);
  CHECK(row["template=plain"] == 0);
  CHECK(std::isnan(row["MODE=direct"]));
  CHECK(std::isnan(row["LANES"]));
}

TEST_CASE("Without a space there are no columns", "[forecaster][encoder]") {
  const TunableEncoder encoder;
  CHECK(encoder.columns() == 0);
  CHECK(encoder.Encode(WithTunables({{"TEMPLATE", "plain"}})).empty());
  CHECK(encoder.TemplateIndex(WithTunables({{"TEMPLATE", "plain"}})) == -1);
}

}  // namespace
}  // namespace kernelcast::forecaster
