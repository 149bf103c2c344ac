#include "services/cli/core/cost.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/cli/core/text.h"

namespace kernelcast::cli {

std::optional<SearchCost> CostOf(const Prices& prices, const SearchUsage& usage) {
  if (!prices.given()) return std::nullopt;
  SearchCost cost;
  if (prices.device_hour) {
    cost.devices = usage.device_seconds / 3600 * *prices.device_hour;
    cost.avoided = usage.avoided_device_seconds / 3600 * *prices.device_hour;
  }
  if (usage.token_cost > 0) cost.tokens = usage.token_cost;
  const auto add = [&](uint64_t tokens, const std::optional<double>& price) {
    if (price) {
      cost.tokens = cost.tokens.value_or(0) + static_cast<double>(tokens) * *price / 1e6;
    } else {
      cost.unpriced_tokens += tokens;
    }
  };
  const TokenUsage& tokens = usage.unpriced_tokens;
  const uint64_t cached = std::min(tokens.cached_input_tokens, tokens.input_tokens);
  add(tokens.input_tokens - cached, prices.input_tokens);
  add(cached, prices.cached_input_tokens ? prices.cached_input_tokens : prices.input_tokens);
  add(tokens.output_tokens, prices.output_tokens);
  return cost;
}

std::string FormatMoney(double amount) {
  if (!std::isfinite(amount)) return "-";
  if (amount == 0) return "0";
  if (amount < 1) return FormatSignificant(amount, 2);
  const auto cents = static_cast<uint64_t>(std::llround(std::min(amount, 1e15) * 100));
  const uint64_t part = cents % 100;
  return absl::StrCat(FormatCount(cents / 100), part < 10 ? ".0" : ".", part);
}

std::string CostDetails(const SearchCost& cost) {
  std::vector<std::string> parts;
  if (cost.devices) parts.push_back(FormatMoney(*cost.devices) + " devices");
  if (cost.tokens) parts.push_back(FormatMoney(*cost.tokens) + " tokens");
  if (cost.avoided.value_or(0) > 0) {
    parts.push_back(absl::StrCat("about ", FormatMoney(*cost.avoided), " avoided by pruning"));
  }
  if (!cost.devices) parts.push_back("device time has no price");
  if (cost.unpriced_tokens > 0) {
    parts.push_back(absl::StrCat(FormatCount(cost.unpriced_tokens), " tokens have no price"));
  }
  return Join(parts, ", ");
}

std::string CostText(const SearchCost& cost) {
  return absl::StrCat(FormatMoney(cost.total()), ": ", CostDetails(cost));
}

}  // namespace kernelcast::cli
