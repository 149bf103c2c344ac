#include "common/rpc/protocol_version.h"

#include <catch2/catch.hpp>

namespace kernelcast {
namespace {

TEST_CASE("Adjacent protocol versions are compatible, and other pairs name the older side") {
  CHECK(CheckProtocolVersion(7, 7).ok());
  CHECK(CheckProtocolVersion(6, 7).ok());
  CHECK(CheckProtocolVersion(8, 7).ok());
  const absl::Status old = CheckProtocolVersion(5, 7);
  CHECK(absl::IsFailedPrecondition(old));
  CHECK(std::string(old.message()) ==
        "speaks version 5 of the protocol, and this process version 7; they may be one apart: "
        "upgrade that one");
  const absl::Status young = CheckProtocolVersion(9, 7);
  CHECK(absl::IsFailedPrecondition(young));
  CHECK(std::string(young.message()) ==
        "speaks version 9 of the protocol, and this process version 7; they may be one apart: "
        "upgrade this one");
}

TEST_CASE("A peer that reports no version is incompatible") {
  const absl::Status none = CheckProtocolVersion(0, 1);
  CHECK(absl::IsFailedPrecondition(none));
  CHECK(std::string(none.message()) == "reports no version of the protocol");
}

}  // namespace
}  // namespace kernelcast
