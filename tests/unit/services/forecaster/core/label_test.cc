#include "services/forecaster/core/label.h"

#include <catch2/catch.hpp>
#include <limits>
#include <string>

#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::forecaster {
namespace {

using Catch::Matchers::StartsWith;

TEST_CASE("A complete label is valid, with or without facts", "[forecaster][label]") {
  const PlantedProblem problem;
  CHECK(ValidateLabel(problem.MakeLabel(3)).ok());
  CHECK(ValidateLabel(problem.MakeFailure(3, FailureKind::kCrash)).ok());
  Label bare = problem.MakeLabel(3);
  bare.facts = {};
  bare.reference_facts = {};
  CHECK(ValidateLabel(bare).ok());
}

TEST_CASE("A malformed label is refused with its field", "[forecaster][label]") {
  const PlantedProblem problem;
  const auto message = [&](auto&& spoil) {
    Label label = problem.MakeLabel(0);
    spoil(label);
    const absl::Status status = ValidateLabel(label);
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  CHECK_THAT(message([](Label& l) { l.label_id.clear(); }), StartsWith("label_id:"));
  CHECK_THAT(message([](Label& l) { l.label_id = std::string(129, 'x'); }),
             StartsWith("label_id:"));
  CHECK_THAT(message([](Label& l) { l.facts.values.pop_back(); }), StartsWith("facts:"));
  CHECK_THAT(message([](Label& l) { l.reference_facts.schema = "x"; }),
             StartsWith("reference_facts:"));
  CHECK_THAT(message([](Label& l) { l.truth = Ratio{0, 0, 0, 0}; }), StartsWith("speedup.value:"));
  CHECK_THAT(message([](Label& l) {
               l.truth = Ratio{std::numeric_limits<double>::infinity(), 1, 1, 0.95};
             }),
             StartsWith("speedup.value:"));
  CHECK_THAT(message([](Label& l) { l.propensity = 0; }), StartsWith("propensity:"));
  CHECK_THAT(message([](Label& l) { l.propensity = 1.5; }), StartsWith("propensity:"));
}

}  // namespace
}  // namespace kernelcast::forecaster
