#include "common/base/host_and_port.h"

#include <catch2/catch.hpp>

namespace kernelcast {
namespace {

TEST_CASE("An address is split into host and port", "[base][address]") {
  const auto name = ParseHostAndPort("localhost:8080");
  REQUIRE(name.ok());
  CHECK(name->host == "localhost");
  CHECK(name->port == 8080);
  const auto six = ParseHostAndPort("[::1]:0");
  REQUIRE(six.ok());
  CHECK(six->host == "[::1]");
  CHECK(six->port == 0);
}

TEST_CASE("An address of another form is refused", "[base][address]") {
  for (const char* address :
       {"", "localhost", ":80", "a:", "a:-1", "a:65536", "a:80s", "a,b:80", "a b:80"}) {
    INFO(address);
    CHECK(absl::IsInvalidArgument(ParseHostAndPort(address).status()));
  }
}

TEST_CASE("An address is split at its last colon, whatever the host is", "[base][address]") {
  const auto split = SplitHostAndPort("ipv6:[::1]:50051");
  REQUIRE(split.has_value());
  CHECK(split->host == "ipv6:[::1]");
  CHECK(split->port == 50051);
  CHECK(SplitHostAndPort("*:0")->host == "*");
  for (const char* address : {"", "localhost", ":80", "a:", "a:65536", "a:-1"}) {
    INFO(address);
    CHECK_FALSE(SplitHostAndPort(address).has_value());
  }
}

}  // namespace
}  // namespace kernelcast
