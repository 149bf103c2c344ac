#include "common/rpc/local_address.h"

#include <catch2/catch.hpp>

namespace kernelcast {

TEST_CASE("Addresses of this machine are distinguished from all others", "[local_address]") {
  for (const char* local :
       {"127.0.0.1:80", "127.1.2.3:80", "127.0.0.1", "localhost:80", "localhost", "[::1]:80", "::1",
        "unix:/run/x", "unix:x", "unix:///run/x", "unix-abstract:x", "dns:///localhost:80",
        "dns:localhost:80", "ipv4:127.0.0.1:80", "ipv6:[::1]:80"}) {
    INFO(local);
    CHECK(IsLocalAddress(local));
  }
  for (const char* elsewhere :
       {"", "0.0.0.0:80", "[::]:80", "10.0.0.1:80", "128.0.0.1:80", "worker:80",
        "127.0.0.1.example:80", "localhost.example:80", "[2001:db8::1]:80", "dns:///worker:80",
        "dns://127.0.0.1/worker:80", "dns://127.0.0.1:53/localhost:80", "ipv4:10.0.0.1:80",
        "xds:///localhost", "ipv4:127.0.0.1:80,10.0.0.1:80"}) {
    INFO(elsewhere);
    CHECK_FALSE(IsLocalAddress(elsewhere));
  }
}

}  // namespace kernelcast
