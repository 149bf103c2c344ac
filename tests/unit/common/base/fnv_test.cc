#include "common/base/fnv.h"

#include <catch2/catch.hpp>

namespace kernelcast {
namespace {

TEST_CASE("The hash has the published values of FNV-1a") {
  CHECK(FnvHash("") == 0xcbf29ce484222325);
  CHECK(FnvHash("a") == 0xaf63dc4c8601ec8c);
  CHECK(FnvHash("foobar") == 0x85944171f73967e8);
}

TEST_CASE("A hash can be continued") {
  CHECK(FnvHash("bar", FnvHash("foo")) == FnvHash("foobar"));
  CHECK(FnvStep(kFnvBasis, 'a') == FnvHash("a"));
}

}  // namespace
}  // namespace kernelcast
