#include "services/cli/core/protection_checks.h"

#include <catch2/catch.hpp>
#include <string>

namespace kernelcast::cli::protection_checks_test {
namespace {

using Catch::Contains;

const TriedTarget kCpu{"cpu", true, true};
const TriedTarget kNoCompiler{"cpu", false, false};
const TriedTarget kNoGpu{"cuda", true, false};

std::string Details(const std::vector<Check>& checks) {
  std::string text;
  for (const Check& check : checks) text += check.name + ": " + check.detail + "\n";
  return text;
}

TEST_CASE("All protections are granted only where all targets were tried") {
  const auto all = ProtectionChecks({kCpu, {"cuda", true, true}}, {});
  REQUIRE(all.size() == 1);
  CHECK(all[0].verdict == Verdict::kGood);
  CHECK(all[0].detail == "all protections granted");
  const auto some = ProtectionChecks({kCpu, kNoGpu}, {});
  REQUIRE(some.size() == 1);
  CHECK(some[0].verdict == Verdict::kGood);
  CHECK(some[0].detail ==
        "all protections granted to target cpu; not tried for target cuda, which cannot measure");
}

TEST_CASE("Without a target that compiles and measures, protections are not known") {
  for (const std::vector<TriedTarget>& targets :
       {std::vector<TriedTarget>{}, {kNoCompiler}, {kNoCompiler, kNoGpu}}) {
    const auto checks = ProtectionChecks(targets, {});
    REQUIRE(checks.size() == 1);
    CHECK(checks[0].verdict == Verdict::kNote);
    CHECK_THAT(checks[0].detail, Contains("not known"));
    CHECK_THAT(checks[0].detail, !Contains("granted to"));
  }
}

TEST_CASE("Each missing protection has its meaning, and the conclusion follows from them") {
  for (const char* second_barrier : {"landlock", "namespaces", "parent_death_signal"}) {
    const auto checks = ProtectionChecks({kCpu}, {second_barrier});
    REQUIRE(checks.size() == 2);
    CHECK(checks[0].name == std::string("runner ") + second_barrier);
    CHECK(checks[0].verdict == Verdict::kNote);
    CHECK(checks[1].name == "runner");
    CHECK_THAT(checks[1].detail, Contains("still contain a candidate"));
  }
  for (const char* needed : {"no_new_privileges", "resource_limits", "seccomp", "unprivileged_user",
                             "of a later version"}) {
    const auto checks = ProtectionChecks({kCpu}, {needed});
    INFO(Details(checks));
    REQUIRE(checks.size() == 2);
    CHECK_THAT(checks[1].detail, Contains("do not run candidates that you do not trust"));
  }
}

TEST_CASE("Without both Landlock and namespaces, nothing replaces them") {
  const auto checks = ProtectionChecks({kCpu, kNoGpu}, {"landlock", "namespaces"});
  const std::string text = Details(checks);
  INFO(text);
  CHECK(checks.size() == 4);
  CHECK_THAT(text, Contains("runner files: without both landlock and namespaces"));
  CHECK_THAT(checks.back().detail, Contains("do not run candidates that you do not trust"));
  CHECK_THAT(checks.back().detail, Contains("not tried for target cuda"));
}

}  // namespace
}  // namespace kernelcast::cli::protection_checks_test
