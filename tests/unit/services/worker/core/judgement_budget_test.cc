#include "services/worker/core/judgement_budget.h"

#include <catch2/catch.hpp>
#include <vector>

namespace kernelcast::worker::judgement_budget_test {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

TEST_CASE("A candidate's calls may take a fixed time and what the reference needs") {
  MeasureOptions options;
  options.max_judgement_ns = 30 * kSecondNs;
  const std::vector<int64_t> quick = {1000, 2000};
  JudgementBudget budget(options, MeasureLevel::kScreen, {quick, quick});
  CHECK(budget.limit_ns() >= 30 * kSecondNs);
  CHECK(budget.limit_ns() < 31 * kSecondNs);

  for (int call = 0; call < 33; ++call) budget.Spend(900'000'000);
  CHECK_FALSE(budget.exceeded());
  CHECK(budget.left_ns() < kSecondNs);
  budget.Spend(900'000'000);
  CHECK(budget.exceeded());
  CHECK(budget.Exceeded().stage == "judgement");
  CHECK(budget.Exceeded().limit_ns == budget.limit_ns());
}

TEST_CASE("A slow reference may be judged as a candidate") {
  const MeasureOptions options;
  // Sixteen rounds of three kinds, each with two calls on three slots, and all that comes before.
  const std::vector<int64_t> check(30, 2 * kSecondNs);
  const std::vector<int64_t> bench = {kSecondNs, 2 * kSecondNs};
  const JudgementBudget budget(options, MeasureLevel::kScreen, {check, bench});
  CHECK(budget.limit_ns() > 30 * 2 * kSecondNs + 16 * 3 * 6 * 3 * kSecondNs);
}

TEST_CASE("Each process of a final figure has the time of a screening") {
  const MeasureOptions options;
  const std::vector<int64_t> times = {1'000'000};
  const JudgementBudget screen(options, MeasureLevel::kScreen, {times, times});
  const JudgementBudget final(options, MeasureLevel::kFinal, {times, times});
  CHECK(final.limit_ns() == options.final.runners * screen.limit_ns());
}

TEST_CASE("Budgets of absurd references do not overflow") {
  const MeasureOptions options;
  const std::vector<int64_t> times(100, INT64_MAX / 10'000);
  CHECK(JudgementBudget(options, MeasureLevel::kFinal, {times, times}).limit_ns() > 0);
}

}  // namespace
}  // namespace kernelcast::worker::judgement_budget_test
