#include "common/base/version.h"

#include <catch2/catch.hpp>

#include <algorithm>

namespace kernelcast {

TEST_CASE("The version has three parts and the revision is not empty", "[version]") {
  CHECK(std::count(Version().begin(), Version().end(), '.') == 2);
  CHECK_FALSE(Revision().empty());
}

}  // namespace kernelcast
