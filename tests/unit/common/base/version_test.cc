#include "common/base/version.h"

#include <algorithm>
#include <catch2/catch.hpp>

namespace kernelcast {

TEST_CASE("The version has three parts and the revision is not empty", "[version]") {
  CHECK(std::count(Version().begin(), Version().end(), '.') == 2);
  CHECK_FALSE(Revision().empty());
}

}  // namespace kernelcast
