#include "services/cli/core/cost.h"

#include <catch2/catch.hpp>

namespace kernelcast::cli {
namespace {

// Half an hour of devices, a quarter of an hour avoided, and a million tokens without a price.
SearchUsage HalfAnHour() {
  SearchUsage usage;
  usage.device_seconds = 1800;
  usage.avoided_device_seconds = 900;
  usage.token_cost = 0.5;
  usage.unpriced_tokens = {600'000, 200'000, 400'000, 0};
  return usage;
}

TEST_CASE("Without a price there is no cost") {
  CHECK_FALSE(Prices().given());
  CHECK_FALSE(CostOf(Prices(), HalfAnHour()));
}

TEST_CASE("The cost is that of all device time and of all tokens") {
  const Prices prices = {
      .device_hour = 4, .input_tokens = 2, .cached_input_tokens = 0.5, .output_tokens = 10};
  const SearchCost cost = CostOf(prices, HalfAnHour()).value();
  CHECK(cost.devices == Approx(2));
  // 0.5 as reported + 0.4 M * 2 + 0.2 M * 0.5 + 0.4 M * 10.
  CHECK(cost.tokens == Approx(5.4));
  CHECK(cost.total() == Approx(7.4));
  CHECK(cost.avoided == Approx(1));
  CHECK(cost.unpriced_tokens == 0);
  CHECK(CostText(cost) == "7.40: 2.00 devices, 5.40 tokens, about 1.00 avoided by pruning");
}

TEST_CASE("Cached input tokens cost as much as others where they have no price") {
  Prices prices;
  prices.input_tokens = 2;
  prices.output_tokens = 0;
  CHECK(CostOf(prices, HalfAnHour())->tokens == Approx(0.5 + 1.2));
}

TEST_CASE("The cost lists what has no price") {
  Prices prices;
  prices.device_hour = 4;
  CHECK(CostText(CostOf(prices, HalfAnHour()).value()) ==
        "2.50: 2.00 devices, 0.50 tokens, about 1.00 avoided by pruning, 1,000,000 tokens have no "
        "price");
  SearchUsage devices = HalfAnHour();
  devices.token_cost = 0;
  devices.unpriced_tokens = {};
  CHECK(CostText(CostOf(prices, devices).value()) ==
        "2.00: 2.00 devices, about 1.00 avoided by pruning");
  prices = {};
  prices.output_tokens = 10;
  CHECK(CostText(CostOf(prices, HalfAnHour()).value()) ==
        "4.50: 4.50 tokens, device time has no price, 600,000 tokens have no price");
}

TEST_CASE("Amounts have two decimals or two digits") {
  CHECK(FormatMoney(0) == "0");
  CHECK(FormatMoney(0.0123) == "0.012");
  CHECK(FormatMoney(1) == "1.00");
  CHECK(FormatMoney(1234.567) == "1,234.57");
  CHECK(FormatMoney(9.05) == "9.05");
}

}  // namespace
}  // namespace kernelcast::cli
