#include "common/domain/decision.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

namespace kernelcast {
namespace {

const std::vector<DecisionReason> kReasons = {
    DecisionReason::kLowConfidence, DecisionReason::kPromising,  DecisionReason::kAudit,
    DecisionReason::kNoForecast,    DecisionReason::kRequested,  DecisionReason::kBootstrap,
    DecisionReason::kUnpromising,   DecisionReason::kBudgetPace, DecisionReason::kLikelyFailure,
    DecisionReason::kCompileError,  DecisionReason::kDuplicate,  DecisionReason::kBudget,
    DecisionReason::kCancelled,     DecisionReason::kUnavailable};

TEST_CASE("Every reason has a unique name", "[decision]") {
  std::set<std::string> names;
  for (const DecisionReason reason : kReasons) {
    CHECK(names.insert(std::string(Name(reason))).second);
  }
  CHECK_FALSE(names.contains("unknown"));
  CHECK(Name(DecisionReason::kLowConfidence) == "low_confidence");
  CHECK(Name(DecisionReason::kLikelyFailure) == "likely_failure");
}

TEST_CASE("A reason belongs to one decision kind", "[decision]") {
  for (size_t i = 0; i < kReasons.size(); ++i) {
    CAPTURE(std::string(Name(kReasons[i])));
    const DecisionKind expected = i < 6   ? DecisionKind::kMeasure
                                  : i < 9 ? DecisionKind::kPrune
                                          : DecisionKind::kReject;
    CHECK(KindOf(kReasons[i]) == expected);
  }
  CHECK(Name(DecisionKind::kMeasure) == "measure");
  CHECK(Name(DecisionKind::kPrune) == "prune");
  CHECK(Name(DecisionKind::kReject) == "reject");
}

}  // namespace
}  // namespace kernelcast
