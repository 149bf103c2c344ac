#include "common/config/number_flags.h"

#include <charconv>
#include <sstream>
#include <string>
#include <system_error>
#include <type_traits>

namespace kernelcast {
namespace {

template <class Number>
std::string Text(Number number) {
  std::ostringstream text;
  text << number;
  return text.str();
}

// "from 0 on" where there is no upper bound to speak of.
template <class Number>
std::string RangeText(Number low, Number high) {
  if (high == std::numeric_limits<Number>::max()) return "from " + Text(low) + " on";
  return "from " + Text(low) + " to " + Text(high);
}

// On one line, and cut.
std::string Shown(const std::string& text) {
  std::string shown = "'";
  for (const char c : text.substr(0, 60)) shown += c >= ' ' && c <= '~' ? c : '?';
  return shown + (text.size() > 60 ? "...'" : "'");
}

// As that of CLI::Range, which scripts/configuration.py reads from --help.
template <class Number>
std::string Description(Number low, Number high) {
  if (high == std::numeric_limits<Number>::max()) return "";
  const std::string type = std::is_integral_v<Number> ? "INT" : "FLOAT";
  return type + " in [" + Text(low) + " - " + Text(high) + "]";
}

template <class Number>
CLI::Validator InRange(Number low, Number high, const std::string& kind) {
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        // CLI11 takes a whole number that begins with 0 for octal or hexadecimal.
        const bool other_base = std::is_integral_v<Number> && text.size() > 1 && text[0] == '0';
        Number value{};
        const char* const end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, value);
        // False for NaN, and for infinity as `high` is finite.
        if (error == std::errc() && stop == end && !other_base && value >= low && value <= high) {
          return "";
        }
        return Shown(text) + " is not " + kind + " " + RangeText(low, high);
      },
      Description(low, high));
}

}  // namespace

CLI::Validator NumberFrom(double low, double high) { return InRange(low, high, "a number"); }

CLI::Validator WholeNumberFrom(uint64_t low, uint64_t high) {
  return InRange(low, high, "a whole number");
}

}  // namespace kernelcast
