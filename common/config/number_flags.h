#ifndef KERNELCAST_COMMON_CONFIG_NUMBER_FLAGS_H_
#define KERNELCAST_COMMON_CONFIG_NUMBER_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>

namespace kernelcast {

// Validators for options that are numbers. CLI11 itself lets NaN through CLI::Range, and whole
// numbers that are negative or too large wrap or saturate.

// A finite number from `low` to `high`.
CLI::Validator NumberFrom(double low, double high = std::numeric_limits<double>::max());

// A whole number in decimal digits from `low` to `high`.
CLI::Validator WholeNumberFrom(uint64_t low, uint64_t high = std::numeric_limits<uint64_t>::max());

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_CONFIG_NUMBER_FLAGS_H_
