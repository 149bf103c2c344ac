#include "common/domain/label.h"

#include <catch2/catch.hpp>

namespace kernelcast::label_test {
namespace {

TEST_CASE("The truth of a label is the verdict of its measurement") {
  MeasuredOk ok;
  ok.speedup = {2, 1.9, 2.1, 0.95};
  CHECK(std::get<Ratio>(*TruthOf(ok)).value == 2);
  for (const MeasureOutcome& failure : {MeasureOutcome(WrongResult()), MeasureOutcome(Crash()),
                                        MeasureOutcome(Timeout()), MeasureOutcome(Exploit())}) {
    INFO(OutcomeName(failure));
    const std::optional<Truth> truth = TruthOf(failure);
    REQUIRE(truth);
    CHECK(OutcomeName(*truth) == OutcomeName(failure));
  }
  CHECK_FALSE(TruthOf(EnvironmentUnstable()));
  CHECK_FALSE(TruthOf(Passed()));
}

TEST_CASE("Outcomes use the names of the metrics") {
  CHECK(OutcomeName(Truth(Ratio{2, 1.9, 2.1, 0.95})) == "ok");
  CHECK(OutcomeName(Truth(FailureKind::kWrongResult)) == "wrong_result");
  CHECK(OutcomeName(Truth(FailureKind::kTimeout)) == "timeout");
}

}  // namespace
}  // namespace kernelcast::label_test
