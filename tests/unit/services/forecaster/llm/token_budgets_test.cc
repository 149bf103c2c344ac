#include "services/forecaster/llm/token_budgets.h"

#include <catch2/catch.hpp>
#include <string>

namespace kernelcast::forecaster {
namespace {

ForecastCall CallOf(const std::string& search_id, uint64_t max_search_tokens) {
  ForecastCall call;
  call.search_id = search_id;
  call.max_search_tokens = max_search_tokens;
  return call;
}

TEST_CASE("Reserved tokens count until the actual use is known") {
  TokenBudgets budgets(1000);
  const auto first = budgets.Reserve("p", CallOf("s", 0), 800);
  REQUIRE(first.ok());
  CHECK(absl::IsResourceExhausted(budgets.Reserve("p", CallOf("s", 0), 300).status()));
  CHECK(budgets.Reserve("other", CallOf("s", 0), 300).ok());
  budgets.Charge(*first, 600);
  CHECK(budgets.Reserve("p", CallOf("s", 0), 300).ok());
}

TEST_CASE("A spent budget is named and takes nothing from the others") {
  TokenBudgets budgets(1000);
  const auto refused = budgets.Reserve("p", CallOf("s", 100), 200);
  CHECK(refused.status().message() == "the 100 tokens for this search are spent");
  const auto whole = budgets.Reserve("p", CallOf("t", 1000), 1000);
  REQUIRE(whole.ok());
  CHECK(whole->accounts.size() == 2);
  CHECK(budgets.Reserve("p", CallOf("u", 0), 1).status().message() ==
        "the 1000 tokens for this problem are spent");
}

TEST_CASE("Budgets without a limit are not counted") {
  TokenBudgets budgets(0);
  const auto reserved = budgets.Reserve("p", CallOf("s", 0), 1'000'000);
  REQUIRE(reserved.ok());
  CHECK(reserved->accounts.empty());
}

}  // namespace
}  // namespace kernelcast::forecaster
