#include "common/base/host_and_port.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace kernelcast {

absl::StatusOr<HostAndPort> ParseHostAndPort(const std::string& address) {
  const size_t colon = address.rfind(':');
  HostAndPort parsed;
  parsed.host = address.substr(0, colon);
  const bool host_is_fine =
      !parsed.host.empty() && std::all_of(parsed.host.begin(), parsed.host.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
               std::string_view(".-:[]").find(c) != std::string_view::npos;
      });
  if (colon == std::string::npos || !host_is_fine ||
      !absl::SimpleAtoi(address.substr(colon + 1), &parsed.port) || parsed.port < 0 ||
      parsed.port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("'", address, "' is not of the form host:port"));
  }
  return parsed;
}

}  // namespace kernelcast
