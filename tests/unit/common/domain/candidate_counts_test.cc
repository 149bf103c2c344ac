#include "common/domain/candidate_counts.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <map>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

namespace kernelcast {
namespace {

using enum DecisionReason;
constexpr auto kRefused = EvaluationOutcome::kRefused;
constexpr auto kPruned = EvaluationOutcome::kPruned;
constexpr auto kUnstable = EvaluationOutcome::kUnstable;
constexpr auto kFailed = EvaluationOutcome::kFailed;
constexpr auto kOk = EvaluationOutcome::kOk;

void CheckInvariants(const CandidateCounts& counts) {
  CHECK(counts.considered == counts.live + counts.decided());
  CHECK(counts.measured == counts.bootstrap + counts.selected + counts.deferred + counts.promoted +
                               counts.audited + counts.requested + counts.unforecast);
  CHECK(counts.compile_errors <= counts.rejected);
  CHECK(counts.unstable <= counts.measured);
  CHECK(counts.failures <= counts.measured + counts.compile_errors);
  CHECK(counts.proposed >= counts.considered + counts.duplicates + counts.reused);
}

TEST_CASE("A candidate that is pruned and then selected counts only as selected", "[counts]") {
  CandidateCounts counts;
  CountedCandidate candidate;
  candidate.Accept(counts);
  CHECK(counts.live == 1);
  candidate.Settle(kBudgetPace, kPruned, counts);
  CHECK(counts.pruned == 1);
  candidate.Accept(counts);
  CHECK(counts.pruned == 0);
  candidate.Settle(kSelected, kOk, counts);
  CHECK(counts.proposed == 2);
  CHECK(counts.considered == 1);
  CHECK(counts.measured == 1);
  CHECK(counts.selected == 1);
  CHECK(counts.pruned == 0);
  CheckInvariants(counts);
}

TEST_CASE("Duplicates and reused results are evaluations, not candidates", "[counts]") {
  CandidateCounts counts;
  CountedCandidate candidate;
  candidate.Accept(counts);
  candidate.Accept(counts);
  candidate.Settle(kDuplicate, kRefused, counts);
  CHECK(counts.live == 1);
  candidate.Settle(kLowConfidence, kFailed, counts);
  candidate.Accept(counts);
  candidate.Settle(kReused, kFailed, counts);
  CHECK(counts.proposed == 3);
  CHECK(counts.considered == 1);
  CHECK(counts.duplicates == 1);
  CHECK(counts.reused == 1);
  CHECK(counts.deferred == 1);
  CHECK(counts.failures == 1);
  CHECK(counts.rejected == 0);
  CHECK(counts.DeferRate() == 1);
  CheckInvariants(counts);
}

TEST_CASE("A model that declines defers", "[counts]") {
  CandidateCounts counts;
  CountedCandidate candidate;
  candidate.Accept(counts);
  candidate.Settle(kDeclined, kOk, counts);
  CHECK(counts.deferred == 1);
  CandidateCounts outage;
  CountedCandidate other;
  other.Accept(outage);
  other.Settle(kNoForecast, kOk, outage);
  CHECK(outage.deferred == 0);
  CHECK(outage.unforecast == 1);
}

// A random settled evaluation.
std::pair<DecisionReason, EvaluationOutcome> AnyOutcome(std::mt19937& random) {
  const DecisionReason reason = kAllDecisionReasons[random() % std::size(kAllDecisionReasons)];
  switch (KindOf(reason)) {
    case DecisionKind::kPrune: return {reason, kPruned};
    case DecisionKind::kReject:
      return {reason, reason == kCompileError ? EvaluationOutcome::kCompileError : kRefused};
    case DecisionKind::kMeasure: break;
  }
  constexpr EvaluationOutcome kOutcomes[] = {kOk, kFailed, kUnstable, kRefused};
  return {reason, kOutcomes[random() % std::size(kOutcomes)]};
}

TEST_CASE("Candidates are counted once for every order of evaluations", "[counts]") {
  std::mt19937 random(7);
  for (int stream = 0; stream < 200; ++stream) {
    CandidateCounts counts;
    std::vector<CountedCandidate> candidates(8);
    std::map<size_t, int> live;
    std::map<size_t, std::vector<std::pair<DecisionReason, EvaluationOutcome>>> settled;
    for (int step = 0; step < 60; ++step) {
      const size_t i = random() % candidates.size();
      if (live[i] == 0 || random() % 3 == 0) {
        candidates[i].Accept(counts);
        ++live[i];
      } else {
        auto [reason, outcome] = AnyOutcome(random);
        const bool measured = std::any_of(settled[i].begin(), settled[i].end(),
                                          [](const auto& one) { return one.second >= kUnstable; });
        if ((reason == kDuplicate && live[i] < 2) || (reason == kReused && !measured)) {
          std::tie(reason, outcome) = std::pair(kLowConfidence, kOk);
        }
        candidates[i].Settle(reason, outcome, counts);
        settled[i].emplace_back(reason, outcome);
        --live[i];
      }
      CheckInvariants(counts);
    }
    // The same, computed only from each candidate's evaluations.
    uint64_t measured = 0, pruned = 0, deferred = 0;
    for (const auto& [i, evaluations] : settled) {
      if (live[i] > 0) continue;
      auto stands = evaluations.end();
      for (auto each = evaluations.begin(); each != evaluations.end(); ++each) {
        const Route route = RouteOf(each->first);
        if (route == Route::kDuplicate || route == Route::kReused) continue;
        if (stands == evaluations.end() || each->second > stands->second) stands = each;
      }
      REQUIRE(stands != evaluations.end());
      measured += stands->second >= kUnstable ? 1 : 0;
      pruned += stands->second == kPruned ? 1 : 0;
      deferred += stands->second >= kUnstable && RouteOf(stands->first) == Route::kDeferred ? 1 : 0;
    }
    CHECK(counts.measured == measured);
    CHECK(counts.pruned == pruned);
    CHECK(counts.deferred == deferred);
  }
}

}  // namespace
}  // namespace kernelcast
