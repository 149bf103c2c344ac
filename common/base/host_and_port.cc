#include "common/base/host_and_port.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/strings.h"

namespace kernelcast {

std::optional<HostAndPort> SplitHostAndPort(std::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  HostAndPort split{.host = std::string(address.substr(0, colon))};
  if (!absl::SimpleAtoi(AbslView(address.substr(colon + 1)), &split.port) || split.port < 0 ||
      split.port > 65535) {
    return std::nullopt;
  }
  return split;
}

absl::StatusOr<HostAndPort> ParseHostAndPort(const std::string& address) {
  std::optional<HostAndPort> split = SplitHostAndPort(address);
  const auto is_fine = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view(".-:[]").find(c) != std::string_view::npos;
  };
  if (split.has_value() && std::ranges::all_of(split->host, is_fine)) return *std::move(split);
  return absl::InvalidArgumentError(absl::StrCat("'", address, "' is not of the form host:port"));
}

}  // namespace kernelcast
