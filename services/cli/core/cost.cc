#include "services/cli/core/cost.h"

#include <algorithm>
#include <cmath>

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

std::string CostText(const SearchCost& cost) {
  std::string parts = cost.devices ? absl::StrCat(FormatMoney(*cost.devices), " devices") : "";
  if (cost.tokens) {
    absl::StrAppend(&parts, parts.empty() ? "" : ", ", FormatMoney(*cost.tokens), " tokens");
  }
  std::string text = absl::StrCat(FormatMoney(cost.total()), " (", parts, ")");
  if (parts.empty()) text = FormatMoney(cost.total());
  if (cost.avoided.value_or(0) > 0) {
    absl::StrAppend(&text, ", about ", FormatMoney(*cost.avoided), " avoided by pruning");
  }
  if (!cost.devices) text += ", device time has no price";
  if (cost.unpriced_tokens > 0) {
    absl::StrAppend(&text, ", ", FormatCount(cost.unpriced_tokens), " tokens have no price");
  }
  return text;
}

}  // namespace kernelcast::cli
