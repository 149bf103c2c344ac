#ifndef KERNELCAST_COMMON_BASE_HOST_AND_PORT_H_
#define KERNELCAST_COMMON_BASE_HOST_AND_PORT_H_

#include <string>

#include "absl/status/statusor.h"

namespace kernelcast {

struct HostAndPort {
  std::string host;
  int port = 0;
};

// Parses "host:port". INVALID_ARGUMENT: another form, or characters that no host has.
[[nodiscard]] absl::StatusOr<HostAndPort> ParseHostAndPort(const std::string& address);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_HOST_AND_PORT_H_
