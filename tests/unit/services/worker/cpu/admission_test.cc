#include "services/worker/cpu/admission.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace kernelcast::worker {
namespace {

TEST_CASE("Only listed flags are accepted") {
  CHECK_FALSE(CheckFlags({}).has_value());
  CHECK_FALSE(CheckFlags({"-O2", "-ffast-math", "-mprefer-vector-width=512"}).has_value());
  const auto problem = CheckFlags({"-O2", "-fplugin=x.so"});
  REQUIRE(problem.has_value());
  CHECK(problem->find("-fplugin=x.so") != std::string::npos);
  CHECK(problem->find("-ffast-math") != std::string::npos);
}

}  // namespace
}  // namespace kernelcast::worker
