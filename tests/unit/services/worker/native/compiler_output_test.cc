#include "services/worker/native/compiler_output.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace kernelcast::worker {
namespace {

TEST_CASE("Dependencies lie under the allowed folders") {
  const std::vector<std::string> folders = {"/usr/include", "/usr/lib/gcc/12/include"};
  const auto check = [&](const std::string& depfile) {
    return CheckDependencies(depfile, "kernel.cc", folders);
  };
  CHECK_FALSE(
      check("kernel.s: kernel.cc /usr/include/math.h \\\n /usr/lib/gcc/12/include/stddef.h\n")
          .has_value());
  CHECK_FALSE(check("").has_value());
  CHECK_FALSE(check("kernel.s: kernel.cc /usr/include/stdc-predef.h\n").has_value());
  CHECK(check("kernel.s: kernel.cc /etc/passwd\n").has_value());
  CHECK(check("kernel.s: kernel.cc /usr/include/../../etc/passwd\n").has_value());
  CHECK(check("kernel.s: kernel.cc /usr/includes/math.h\n").has_value());
  CHECK(check("kernel.s: kernel.cc other.h\n").has_value());
}

}  // namespace
}  // namespace kernelcast::worker
