#ifndef KERNELCAST_SERVICES_CLI_CORE_COST_H_
#define KERNELCAST_SERVICES_CLI_CORE_COST_H_

#include <cstdint>
#include <optional>
#include <string>

#include "common/domain/model_answer.h"

namespace kernelcast::cli {

// Prices, all in the same currency. Not set: unknown.
struct Prices {
  std::optional<double> device_hour;
  // Per million tokens.
  std::optional<double> input_tokens;
  std::optional<double> cached_input_tokens;  // not set: as other input tokens
  std::optional<double> output_tokens;

  // Whether there is any price.
  bool given() const { return device_hour || input_tokens || cached_input_tokens || output_tokens; }
};

// The cost of a search so far.
struct SearchUsage {
  double device_seconds = 0;  // with preparation and confirmations
  double avoided_device_seconds = 0;
  double token_cost = 0;       // as endpoints with prices report it
  TokenUsage unpriced_tokens;  // of the other requests
};

// In the currency of the prices. Not set: there is no price.
struct SearchCost {
  std::optional<double> devices;
  std::optional<double> tokens;
  std::optional<double> avoided;  // estimated
  uint64_t unpriced_tokens = 0;   // not included, because nothing says what they cost

  double total() const { return devices.value_or(0) + tokens.value_or(0); }
};

// Not set if no price is given.
std::optional<SearchCost> CostOf(const Prices& prices, const SearchUsage& usage);

// "0.80 devices, 0.44 tokens, about 2.10 avoided by pruning". Says what has no price.
std::string CostDetails(const SearchCost& cost);
// The same after the total: "1.24: 0.80 devices, ...".
std::string CostText(const SearchCost& cost);

// "1,234.56", "0.0123".
std::string FormatMoney(double amount);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_COST_H_
