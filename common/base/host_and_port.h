#ifndef KERNELCAST_COMMON_BASE_HOST_AND_PORT_H_
#define KERNELCAST_COMMON_BASE_HOST_AND_PORT_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kernelcast {

struct HostAndPort {
  std::string host;
  int port = 0;
};

// Splits "host:port" at the last colon. Returns nullopt without a host or a port from 0 to 65535.
[[nodiscard]] std::optional<HostAndPort> SplitHostAndPort(std::string_view address);

// As SplitHostAndPort. INVALID_ARGUMENT: another form, or invalid characters in the host.
[[nodiscard]] absl::StatusOr<HostAndPort> ParseHostAndPort(const std::string& address);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_HOST_AND_PORT_H_
