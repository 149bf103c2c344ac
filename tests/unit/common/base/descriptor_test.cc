#include "common/base/descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>

namespace kernelcast {
namespace {

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

TEST_CASE("A descriptor is closed once, when it is replaced or goes out of scope") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  {
    Descriptor none;
    CHECK(none.get() < 0);
    Descriptor descriptor(ends[0]);
    CHECK(descriptor.get() == ends[0]);
    descriptor.reset(ends[1]);
    CHECK_FALSE(IsOpen(ends[0]));
    CHECK(IsOpen(ends[1]));
  }
  CHECK_FALSE(IsOpen(ends[1]));
}

}  // namespace
}  // namespace kernelcast
