#include "common/convert/finite_numbers.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>

#include "kernelcast/v1/orchestrator.pb.h"

namespace kernelcast {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST_CASE("A number that is not finite is named with its field and value, at any depth") {
  v1::ExportRecord record;
  CHECK(CheckFiniteNumbers(record).ok());
  v1::MeasuredOk& ok = *record.mutable_evaluation()->mutable_measured()->mutable_ok();
  ok.mutable_speedup()->set_value(1.7e308);
  ok.add_shapes();
  v1::ShapeTiming& shape = *ok.add_shapes();
  (*shape.mutable_profile()->mutable_counters())["cycles"] = -0.0;
  record.mutable_facts()->add_values(5e-324);
  record.mutable_facts()->add_values(2);
  CHECK(CheckFiniteNumbers(record).ok());

  const auto message = [&record] { return std::string(CheckFiniteNumbers(record).message()); };
  record.mutable_facts()->set_values(1, -kInfinity);
  CHECK(message() == "facts.values[1]: -inf is not a finite number");
  record.mutable_facts()->set_values(1, 2);
  (*shape.mutable_profile()->mutable_counters())["cycles"] = kInfinity;
  CHECK(message() ==
        "evaluation.measured.ok.shapes[1].profile.counters[0].value: inf is not a finite number");
  shape.clear_profile();
  shape.mutable_candidate()->set_median_ns(std::nan(""));
  CHECK(message() ==
        "evaluation.measured.ok.shapes[1].candidate.median_ns: nan is not a finite number");
}

TEST_CASE("What a kernel yielded may be anything") {
  v1::ExportRecord record;
  v1::WrongResult& wrong = *record.mutable_evaluation()->mutable_measured()->mutable_wrong_result();
  wrong.set_got(std::nan(""));
  wrong.set_expected(-kInfinity);
  wrong.set_normwise_error(kInfinity);
  CHECK(CheckFiniteNumbers(record).ok());
  record.mutable_evaluation()->mutable_forecast()->set_failure_probability(kInfinity);
  CHECK_FALSE(CheckFiniteNumbers(record).ok());
}

}  // namespace
}  // namespace kernelcast
