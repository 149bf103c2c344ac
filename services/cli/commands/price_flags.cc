#include "services/cli/commands/price_flags.h"

#include "common/config/number_flags.h"

namespace kernelcast::cli {
namespace {

constexpr double kMaxPrice = 1e9;

}  // namespace

void AddPriceFlags(CLI::App& app, Prices& prices) {
  app.add_option("--device-price", prices.device_hour,
                 "Price of one device per hour; shows what the search costs")
      ->check(NumberFrom(0, kMaxPrice))
      ->type_name("PER_HOUR")
      ->envname("KERNELCAST_DEVICE_PRICE");
  app.add_option("--input-token-price", prices.input_tokens,
                 "Price of a million input tokens, where the endpoint's configuration has none")
      ->check(NumberFrom(0, kMaxPrice))
      ->type_name("PER_MILLION")
      ->envname("KERNELCAST_INPUT_TOKEN_PRICE");
  app.add_option("--cached-token-price", prices.cached_input_tokens,
                 "Price of a million cached input tokens [as other input tokens]")
      ->check(NumberFrom(0, kMaxPrice))
      ->type_name("PER_MILLION")
      ->envname("KERNELCAST_CACHED_TOKEN_PRICE");
  app.add_option("--output-token-price", prices.output_tokens,
                 "Price of a million output tokens, where the endpoint's configuration has none")
      ->check(NumberFrom(0, kMaxPrice))
      ->type_name("PER_MILLION")
      ->envname("KERNELCAST_OUTPUT_TOKEN_PRICE");
}

}  // namespace kernelcast::cli
