#include "common/rpc/local_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <string>

namespace kernelcast {
namespace {

bool StripPrefix(std::string_view& text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) {
    return false;
  }
  text.remove_prefix(prefix.size());
  return true;
}

bool IsLoopbackHost(std::string_view host) {
  const std::string text(host);
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) {
    return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  in6_addr v6{};
  return text == "localhost" ||
         (inet_pton(AF_INET6, text.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6));
}

}  // namespace

bool IsLocalAddress(std::string_view address) {
  if (StripPrefix(address, "unix:") || StripPrefix(address, "unix-abstract:")) {
    return true;
  }
  // "dns://server/name" asks a specific DNS server and counts as remote.
  if (!StripPrefix(address, "dns:///") && !StripPrefix(address, "dns:") &&
      !StripPrefix(address, "ipv4:")) {
    StripPrefix(address, "ipv6:");
  }
  if (StripPrefix(address, "[")) {
    return IsLoopbackHost(address.substr(0, address.find(']')));
  }
  const bool has_port = std::ranges::count(address, ':') == 1;
  return IsLoopbackHost(has_port ? address.substr(0, address.find(':')) : address);
}

}  // namespace kernelcast
